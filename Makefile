# What a newcomer needs. Everything is set up on first use; stamps under build/ make the second
# time quick.

VENV := .venv
BIN := $(VENV)/bin
STAMPS := build/stamps
# Empty it while working on dependencies: make LOCKED= setup
LOCKED := --locked
RUST_SOURCES := Cargo.toml Cargo.lock pyproject.toml \
    $(shell find crates -name '*.rs' -o -name '*.toml')
export VIRTUAL_ENV := $(CURDIR)/$(VENV)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-rust test-python bench bench-check bench-baseline bench-history lint format fuzz lock clean qemu qemu-wheel \
    wheel wheel-test man docs

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMPS)/module $(STAMPS)/probe $(STAMPS)/preload ## build everything into .venv; then .venv/bin/pagelab runs
	@echo "Ready: $(BIN)/pagelab"

demo: $(STAMPS)/system-demo $(STAMPS)/module $(STAMPS)/probe $(STAMPS)/preload $(STAMPS)/emulator ## would larger pages help sort? a program recorded and simulated
	@BIN=$(BIN) scripts/demo.sh

test: test-rust test-python ## run every test

# What the recorder's tests record with; another by `PAGELAB_TEST_QEMU=PATH make test-rust`.
test-rust: $(STAMPS)/system-test $(STAMPS)/emulator
	PAGELAB_TEST_QEMU=$${PAGELAB_TEST_QEMU:-$$(cat $(STAMPS)/emulator)} \
	    cargo test $(LOCKED) --workspace

test-python: $(STAMPS)/system-test $(STAMPS)/module $(STAMPS)/probe $(STAMPS)/preload $(STAMPS)/emulator
	$(BIN)/python -m pytest

bench: $(STAMPS)/system-bench $(STAMPS)/module $(STAMPS)/emulator ## accesses a second for fixed workloads, and instructions
	PAGELAB_TEST_QEMU=$${PAGELAB_TEST_QEMU:-$$(cat $(STAMPS)/emulator)} \
	    cargo bench $(LOCKED) --workspace --bench '*'
	scripts/instructions.py show

bench-check: ## fails when fixed work takes 3 % more instructions than scripts/instructions.json says
	scripts/instructions.py check

bench-baseline: $(STAMPS)/system-bench ## counts them anew, into that file
	scripts/instructions.py baseline

bench-history: ## what that file said before
	scripts/instructions.py history

# fuzz/ is a workspace of its own: its lock file has the crates' dependencies, too.
lint: $(STAMPS)/venv ## rustfmt, clippy, ruff, mypy, imports that go round, words
	cargo fmt --all --check
	cargo clippy $(LOCKED) --workspace --all-targets -- -D warnings
	cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
	scripts/import-cycles.py
	scripts/lint_style.py
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	PYTHONPATH=python $(BIN)/lint-imports --no-cache --no-logo

qemu: $(STAMPS)/qemu ## build the emulator of our own and put it into .venv

qemu-wheel: $(STAMPS)/qemu ## the same as a wheel, in build/wheels
	@ls $(CURDIR)/build/wheels/pagelab_qemu-*.whl

wheel: $(STAMPS)/module $(STAMPS)/probe $(STAMPS)/preload $(STAMPS)/qemu ## pagelab's and the emulator's, in build/wheels
	$(BIN)/python packaging/wheel.py build/wheels

wheel-test: $(STAMPS)/system-wheel-test wheel ## the wheels in clean roots of PAGELAB_ROOTS (trixie)
	$(BIN)/python -m pytest packaging/test_wheel.py

man: $(STAMPS)/module ## manual pages of every command, in build/man
	$(BIN)/python packaging/manpages.py build/man/man1

docs: $(STAMPS)/module ## the site, in build/site: open index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "Ready: $(CURDIR)/build/site/index.html"

fuzz: ## every parser on mutated files, FUZZ_SECONDS (60) each
	fuzz/run.sh $(FUZZ_SECONDS)

format: $(STAMPS)/venv ## rewrite the sources the way lint wants them
	cargo fmt --all
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: ## resolve requirements.lock anew (needs uv)
	uv pip compile pyproject.toml --extra dev --no-emit-package pagelab --generate-hashes --universal \
	    --python-version 3.11 --no-emit-index-url --no-header --upgrade -o requirements.lock

clean: ## remove what was built, but not results
	rm -rf build target $(VENV) python/pagelab/_core.*.so python/pagelab/plugins

$(STAMPS)/system-%: scripts/system-packages.sh
	scripts/system-packages.sh $*
	@mkdir -p $(@D) && touch $@

$(STAMPS)/venv: requirements.lock | $(STAMPS)/system-demo
	test -x $(BIN)/python || python3 -m venv $(VENV)
	if command -v uv >/dev/null; then \
	    uv pip install --quiet --require-hashes -r requirements.lock; \
	else \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	        --require-hashes -r requirements.lock; \
	fi
	@mkdir -p $(@D) && touch $@

# The module, and the recorder's QEMU plugin where the package looks for it.
$(STAMPS)/module: $(STAMPS)/venv $(RUST_SOURCES)
	cargo build --quiet --release $(LOCKED) -p pagelab-recorder-plugin
	install -D -t python/pagelab/plugins $${CARGO_TARGET_DIR:-target}/release/libpagelab_plugin.so
	$(BIN)/maturin develop --quiet --release $(LOCKED) >/dev/null
	@mkdir -p $(@D) && touch $@

# The probe is static, so that it can be copied into a guest.
$(STAMPS)/probe: $(RUST_SOURCES) | $(STAMPS)/system-demo
	RUSTFLAGS="-C target-feature=+crt-static" cargo build --quiet --release $(LOCKED) \
	    -p pagelab-probe --target x86_64-unknown-linux-gnu
	install -D -t python/pagelab/plugins \
	    $${CARGO_TARGET_DIR:-target}/x86_64-unknown-linux-gnu/release/pagelab-probe
	@mkdir -p $(@D) && touch $@

# The library that programs are run with for allocation sites. Frame pointers: it marks its callers by its
# frames.
PRELOAD := $(wildcard crates/recorder/preload/*.[ch])
$(STAMPS)/preload: $(PRELOAD) | $(STAMPS)/system-demo
	@mkdir -p $(@D) python/pagelab/plugins
	$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden -fno-builtin \
	    -fno-omit-frame-pointer -fno-optimize-sibling-calls \
	    -o python/pagelab/plugins/libpagelab_preload.so $(filter %.c,$(PRELOAD))
	@touch $@

# QEMU's user mode with plugins. What it was built of, and where, stays under build/qemu.
QEMU := $(addprefix packaging/qemu/,build.py hatch_build.py pyproject.toml README.md sources.toml \
    pagelab_qemu/__init__.py) $(wildcard packaging/qemu/patches/*.patch)

# The emulator to record with: our own, whose addresses are a native run's. If that cannot be built,
# the distribution's is better than none. It is built again when its patches change.
$(STAMPS)/emulator: $(STAMPS)/module $(wildcard $(STAMPS)/qemu)
	@mkdir -p $(@D)
	@$(BIN)/python scripts/emulator.py $@ || { \
	    $(MAKE) --no-print-directory $(STAMPS)/qemu; \
	    $(BIN)/python scripts/emulator.py --any $@; }

$(STAMPS)/qemu: $(QEMU) | $(STAMPS)/venv $(STAMPS)/system-qemu
	$(BIN)/python packaging/qemu/build.py $(QEMU_BUILD)
	rm -f build/wheels/pagelab_qemu-*.whl
	cd packaging/qemu && $(CURDIR)/$(BIN)/hatchling build -t wheel -d $(CURDIR)/build/wheels
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-index \
	    --force-reinstall build/wheels/pagelab_qemu-*.whl
	@mkdir -p $(@D) && touch $@

include linux/linux.mk
