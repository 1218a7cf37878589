# What a newcomer needs. Everything is set up on first use; stamps under build/ make the second
# time quick.

VENV := .venv
BIN := $(VENV)/bin
STAMPS := build/stamps
# Empty it while working on dependencies: make LOCKED= setup
LOCKED := --locked
RUST_SOURCES := Cargo.toml Cargo.lock pyproject.toml \
    $(shell find crates -name '*.rs' -o -name Cargo.toml -o -name '*.toml' | grep -v /fuzz/)
export VIRTUAL_ENV := $(CURDIR)/$(VENV)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-rust test-python bench lint format fuzz lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMPS)/module $(STAMPS)/probe ## build everything into .venv; then .venv/bin/pagelab runs
	@echo "Ready: $(BIN)/pagelab"

demo: $(STAMPS)/system-demo $(STAMPS)/module ## compare page tables on sqlite3 building an index
	@BIN=$(BIN) scripts/demo.sh

test: test-rust test-python ## run every test

test-rust: $(STAMPS)/system-test
	cargo test $(LOCKED) --workspace

test-python: $(STAMPS)/system-test $(STAMPS)/module $(STAMPS)/probe
	$(BIN)/python -m pytest

bench: $(STAMPS)/system-demo $(STAMPS)/module ## accesses a second for fixed workloads
	cargo bench $(LOCKED) --workspace --bench '*'

lint: $(STAMPS)/venv ## rustfmt, clippy, ruff, mypy
	cargo fmt --all --check
	cargo clippy $(LOCKED) --workspace --all-targets -- -D warnings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

fuzz: ## every parser on mutated files, FUZZ_SECONDS (60) each
	fuzz/run.sh $(FUZZ_SECONDS)

format: $(STAMPS)/venv ## rewrite the sources the way lint wants them
	cargo fmt --all
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: ## resolve requirements.lock anew (needs uv)
	uv pip compile pyproject.toml --extra dev --generate-hashes --universal \
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

include linux/linux.mk
