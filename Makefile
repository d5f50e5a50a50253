# Everything works on a fresh clone with Python 3.11, a C++ compiler and make: the environment in
# .venv is set up on first use and kept up to date.

PYTHON ?= $(firstword $(foreach p,python3 python3.14 python3.13 python3.12 python3.11,\
	$(shell $(p) -c 'import sys; sys.version_info >= (3, 11) and print("$(p)")' 2>/dev/null)) python3)
JOBS ?= 2
PYTEST_ARGS ?=
BIN := .venv/bin
# The golden files are what the generator writes, in the form it has.
CPP_FILES = $(shell find benchmarks csrc examples tests tools \
	\( -name '*.hpp' -o -name '*.cpp' -o -name '*.h' -o -name '*.c' \) -not -path 'tests/golden/*')

# What compiles for AMD GPUs: a ROCm, or the stand-in that `make amd-toolchain` installs.
ifeq ($(origin ROCM_PATH),undefined)
ifneq ($(wildcard .amd-toolchain/bin/hipcc),)
export ROCM_PATH := $(CURDIR)/.amd-toolchain
endif
endif

.PHONY: help demo test test-gpu lint format bench golden fuzz check-amd stress-cache amd-toolchain amd-emulator clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## build a small kernel set, run the layers of a real model and an attention block
	@$(PYTHON) tools/venv.py
	@$(BIN)/ckdisp demo

test: ## run every test; PYTEST_ARGS='-k name' narrows it, JOBS=n sets the workers
	@$(PYTHON) tools/venv.py --torch
	@$(BIN)/pytest -n $(JOBS) $(PYTEST_ARGS)

test-gpu: ## run the tests of values on a GPU: the one that is here, else the emulated one
	@$(PYTHON) tools/venv.py --torch
	@CKDISP_TEST_GPU=found $(BIN)/pytest -n $(JOBS) -m gpu $(PYTEST_ARGS)

lint: ## check style and types
	@$(PYTHON) tools/venv.py --lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@$(BIN)/python tools/typecheck.py
	@echo "clang-format --dry-run -Werror ..."
	@$(BIN)/clang-format --dry-run -Werror $(CPP_FILES)

format: ## rewrite the sources in the project's style
	@$(PYTHON) tools/venv.py --lint
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	@$(BIN)/clang-format -i $(CPP_FILES)

bench: ## run the benchmarks; they report ratios against NumPy and PyTorch
	@$(PYTHON) tools/venv.py --torch
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

golden: ## write the golden files and the numbers of kernels again, after a change that is wanted
	@$(PYTHON) tools/venv.py
	@CKDISP_UPDATE_GOLDEN=1 $(BIN)/pytest -n 0 -q tests/unit/test_golden.py tests/unit/test_counts.py

fuzz: ## compare many small convolutions with an exact reference: N=100000 SEED=1 LEVELS=x86-64-v3 DTYPES=fp32
	@$(PYTHON) tools/venv.py
	@$(BIN)/python tools/fuzz_conv.py --cases $(or $(N),20000) --seed $(or $(SEED),0) \
		--levels $(or $(LEVELS),native) --dtypes $(or $(DTYPES),fp32)

check-amd: ## compile random AMD kernels: N=200 SEED=1 OP=conv ARCHS=gfx942 CURATED=1; SAME_CODE=1: CK's own
	@$(PYTHON) tools/venv.py
ifdef SAME_CODE
	@$(BIN)/python tools/compare_ck.py $(if $(OP),--op $(OP)) $(if $(ARCHS),--archs $(ARCHS))
else
	@$(BIN)/python tools/check_amd.py -n $(or $(N),50) --seed $(or $(SEED),0) --jobs $(JOBS) \
		$(if $(OP),--op $(OP)) $(if $(ARCHS),--archs $(ARCHS)) $(if $(CURATED),--curated) $(if $(LOG),--log $(LOG))
endif

stress-cache: ## hours of mishaps for the kernel cache: MINUTES=60 BUILDERS=8 SEED=0 REPORT=file
	@$(PYTHON) tools/venv.py
	@$(BIN)/python tools/stress_cache.py --minutes $(or $(MINUTES),60) --seed $(or $(SEED),0) \
		--builders $(or $(BUILDERS),8) $(if $(REPORT),--report $(REPORT))

amd-toolchain: ## install a compiler for AMD GPUs (Debian, root), which `make test` then uses
	@$(PYTHON) tools/amd_toolchain/install.py .amd-toolchain

amd-emulator: ## install an emulated AMD GPU, on which `make test` then runs kernels
	@$(PYTHON) tools/amd_emulator/install.py .amd-emulator

clean: ## remove the environment and everything built
	rm -rf .venv .venv.lock build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
