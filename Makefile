# Everything a contributor types. Needs python3 (with its headers and venv), g++ and make; the rest
# comes from PyPI into .venv. Every target makes what it needs, and a second call only what changed.
#
#   make demo     trains something small, prints a gradient checked against finite differences
#   make test     builds weft and runs its tests
#   make parity   compares every operation with PyTorch
#   make bench    prints every figure as a ratio against PyTorch
#   make lint     style, types, layers, lines per folder
#   make format   rewrites the sources in the project's style
#   make asan     core tests and WEFT_FUZZ_CALLS fuzzed calls under the sanitizers
#   make portable builds without oneDNN and OpenBLAS and tests that
#   make stubs    regenerates the type stubs and the reference from the registry
#   make page     bundles the page of weft.graph from web/ (needs node and npm; the result is committed)
#   make docs     the pages of docs/ as a site, in build/site
#   make wheel    a wheel that carries its native libraries, in dist/
#   make clean    removes what was built (distclean: .venv too)
#
# TESTS="tests/ops -k matmul" picks tests for test, parity, asan and portable.

SHELL := /bin/bash
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:
# pip cannot share .venv with itself, and ninja brings its own parallelism.
.NOTPARALLEL:

PYTHON3 ?= python3
JOBS ?= $(shell nproc)
# A package index with a smaller build of torch, where there is one.
TORCH_INDEX ?=

VENV := .venv
STAMPS := $(VENV)/.stamps
PYTHON := $(VENV)/bin/python
PIP := $(PYTHON) -m pip install --quiet --disable-pip-version-check
PYTEST := $(PYTHON) -P -m pytest
CMAKE := $(VENV)/bin/cmake
CLANG_FORMAT := $(VENV)/bin/clang-format

CMAKE_INPUTS := CMakeLists.txt cmake/NativeLibraries.cmake cmake/find_native_libraries.py
CXX_FILES := $(shell find core bind bench -name '*.h' -o -name '*.cpp' 2>/dev/null)

.PHONY: build test parity bench demo lint lint-python lint-types lint-format lint-layers lint-stubs \
        lint-symbols format asan portable stubs page docs wheel clean distclean

# ---- the environment -----------------------------------------------------------------------------

# The .pth file makes `import weft` find the working tree.
$(STAMPS)/venv: tools/make_venv.py
	$(PYTHON3) tools/make_venv.py $(VENV)
	mkdir -p $(@D) && touch $@

$(STAMPS)/%: tools/requirements/%.txt $(STAMPS)/venv
	$(PIP) -r $<
	touch $@

$(STAMPS)/parity: tools/requirements/parity.txt $(STAMPS)/venv
	$(PIP) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) -r $<
	touch $@

# ---- building ------------------------------------------------------------------------------------

configure = $(CMAKE) -S . -B $(1) -G Ninja --log-level=STATUS \
	-DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(VENV)/bin/ninja \
	-DPython_EXECUTABLE=$(CURDIR)/$(PYTHON)

build/dev/build.ninja: $(CMAKE_INPUTS) $(STAMPS)/build
	$(call configure,build/dev)

build: build/dev/build.ninja
	$(CMAKE) --build build/dev --parallel $(JOBS)

# Other builds keep their extension in a package folder of their own, build/NAME/package/weft.
build/asan/build.ninja: $(CMAKE_INPUTS) $(STAMPS)/build
	$(call configure,build/asan) -DWEFT_SANITIZE=ON \
		-DWEFT_PACKAGE_DIR=$(CURDIR)/build/asan/package/weft

# ---- using it ------------------------------------------------------------------------------------

test: build $(STAMPS)/test
	$(PYTEST) $(or $(TESTS),tests --ignore=tests/parity)

parity: build $(STAMPS)/test $(STAMPS)/parity
	$(PYTEST) $(or $(TESTS),tests/parity)

bench: build $(STAMPS)/test $(STAMPS)/parity
	$(PYTHON) -m bench

demo: build
	$(PYTHON) -m weft demo --out build/demo

# detect_leaks: Python itself keeps much at exit. allocator_may_return_null: a request too large for
# the machine must reach weft's own error. libstdc++ comes along because Python does not load it, and
# the sanitizer must see its exceptions. --capture=sys: a report is written past Python.
ASAN_ENVIRONMENT = \
	PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/build/asan/package PYTHONMALLOC=malloc \
	LD_PRELOAD="$(shell g++ -print-file-name=libasan.so) $(shell g++ -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0:halt_on_error=1:allocator_may_return_null=1 \
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

asan: export WEFT_FUZZ_CALLS ?= 1000000
asan: build/asan/build.ninja $(STAMPS)/test
	$(CMAKE) --build build/asan --parallel $(JOBS)
	$(PYTHON) tools/overlay.py weft build/asan/package/weft
	$(ASAN_ENVIRONMENT) $(PYTEST) -p no:cacheprovider --capture=sys -m "not native_only" \
		$(or $(TESTS),tests --ignore=tests/parity --ignore=tests/tools)

portable: build $(STAMPS)/test
	$(CMAKE) --build build/dev --parallel $(JOBS) --target _core_portable
	$(PYTHON) tools/overlay.py weft build/portable/package/weft
	PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/build/portable/package $(PYTEST) -p no:cacheprovider \
		$(or $(TESTS),tests --ignore=tests/parity --ignore=tests/kernels --ignore=tests/tools \
			-k "matmul or linalg or product or conv")

stubs: build
	$(PYTHON) tools/make_stubs.py
	$(PYTHON) tools/make_reference.py

page:
	cd web && npm ci --ignore-scripts --no-audit --no-fund && npm run build

docs: $(STAMPS)/docs
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

wheel: $(STAMPS)/venv
	$(PYTHON) -m pip wheel --disable-pip-version-check --no-deps --wheel-dir dist .

# ---- style ---------------------------------------------------------------------------------------

# `make -k lint` shows the findings of all of them.
lint: lint-python lint-types lint-format lint-layers lint-stubs lint-symbols

lint-python: $(STAMPS)/lint
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

lint-types: $(STAMPS)/lint $(STAMPS)/test
	$(VENV)/bin/mypy

lint-stubs: build
	$(PYTHON) tools/make_stubs.py --check
	$(PYTHON) tools/make_reference.py --check

lint-symbols: build
	$(PYTHON) tools/check_isa_symbols.py build/dev

lint-format: $(STAMPS)/lint
	$(if $(CXX_FILES),$(CLANG_FORMAT) --dry-run -Werror $(CXX_FILES))

lint-layers: $(STAMPS)/venv
	$(PYTHON) tools/check_layers.py
	$(PYTHON) tools/line_counts.py

format: $(STAMPS)/lint
	$(VENV)/bin/ruff check --fix --exit-zero .
	$(VENV)/bin/ruff format .
	$(if $(CXX_FILES),$(CLANG_FORMAT) -i $(CXX_FILES))

clean:
	rm -rf build dist weft/_core*.so weft/lib

distclean: clean
	rm -rf $(VENV)
