# Kernel targets, included by the Makefile at the top. `pagelab linux --help` has the details.

.PHONY: linux linux-tree linux-refresh linux-test linux-bench linux-unit

linux: $(STAMPS)/module ## build the patched kernel
	$(BIN)/pagelab linux build

linux-tree: $(STAMPS)/module ## prepare the patched kernel source for editing
	$(BIN)/pagelab linux tree

linux-refresh: $(STAMPS)/module ## write edits of the kernel source back as patches
	$(BIN)/pagelab linux refresh

linux-test: linux ## run the kernel tests in guests
	$(BIN)/pagelab linux test

linux-bench: linux ## run the kernel benchmarks in guests
	$(BIN)/pagelab linux bench

linux-unit: linux-tree ## run the tests of kernel code that need no kernel
	$(MAKE) -C build/linux/tree/tools/testing/foliomap check
