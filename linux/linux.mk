# Kernel targets, included by the Makefile at the top. `pagelab linux --help` has the details.

.PHONY: linux linux-tree linux-refresh linux-bisect linux-deb linux-test linux-bench linux-unit \
    linux-artefact linux-billion linux-choices linux-qemu linux-walks

linux: $(STAMPS)/module $(STAMPS)/system-linux ## build the patched kernel
	$(BIN)/pagelab linux build

linux-tree: $(STAMPS)/module $(STAMPS)/system-linux ## prepare the patched kernel source for editing
	$(BIN)/pagelab linux tree

linux-refresh: $(STAMPS)/module ## write edits of the kernel source back as patches
	$(BIN)/pagelab linux refresh

linux-bisect: linux-tree ## build and boot the kernel after every single patch
	$(BIN)/pagelab linux bisect

linux-deb: linux $(STAMPS)/system-linux-deb ## Debian packages of the patched kernel
	$(BIN)/pagelab linux deb

linux-artefact: linux ## an archive of the built kernel for `pagelab linux fetch`
	$(BIN)/pagelab linux artefact build/linux/pagelab-linux.tar.xz

linux-test: linux ## run the kernel tests in guests
	$(BIN)/pagelab linux test

linux-qemu: $(STAMPS)/venv $(STAMPS)/system-linux $(STAMPS)/system-qemu ## QEMU whose processor walks a distributed page table
	$(BIN)/python linux/qemu/emulator.py

linux-walks: linux linux-qemu ## check each translation of many programs by hash and by tree; build/linux/walks.md
	$(BIN)/pagelab linux test --walks-table build/linux/walks.md walks

linux-bench: linux ## run the kernel benchmarks in guests
	$(BIN)/pagelab linux bench

linux-unit: linux-tree ## run the tests of kernel code that need no kernel
	$(MAKE) -C build/linux/tree/tools/testing/foliomap check
	$(MAKE) -C build/linux/tree/tools/testing/foliomap/accounting check

linux-billion: linux-tree ## 10^9 changes of folios' mappings in sequence and 10^9 at once, each checked; minutes
	$(MAKE) -C build/linux/tree/tools/testing/foliomap/accounting billion

linux-choices: linux-tree ## time what FolioMap's paper leaves open, on this machine
	$(MAKE) -C build/linux/tree/tools/testing/foliomap choices
