# Every target sets up its own virtual environment: nothing to do by hand.
#   make test                          lint, build and the fast tests
#   make conformance PYTHON=python3.12 CPython's own test suite, on another Python
#   make test TORCH=2.15.0             the same tests with another torch
PYTHON ?= python3

# `make CC=clang` reaches the build; without it, the compiler that built Python is used.
ifneq ($(origin CC),default)
export CC
endif

# torch is the one that CI has; any other version goes into an environment of its own, beside the
# default one: make test TORCH=2.15.0. Another Python gets no torch unless one is named.
CI_TORCH := 2.13.0
ifeq ($(origin TORCH),undefined)
WITH_TORCH := $(if $(filter python3,$(PYTHON)),$(CI_TORCH))
else
WITH_TORCH := $(TORCH)
endif
# The default Python lives in .venv, any other one beside it, so that versions coexist.
VENV := .venv$(if $(filter-out python3,$(PYTHON)),-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' || echo none))$(if $(filter-out $(CI_TORCH),$(WITH_TORCH)),-torch-$(WITH_TORCH))
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
READY := $(if $(WITH_TORCH),$(VENV)/.torch,$(STAMP))
PYVER = $(shell $(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
NATIVE := $(wildcard src/stator/_native/*.c src/stator/_native/*.h)

ENGINE ?= stator.testing:evaluated
KNOWN = tests/conformance/known/evaluated-$(PYVER).txt
MIN_RATE = $(if $(filter 3.11,$(PYVER)),97,95)
# Modules to run and further options, e.g. make conformance ARGS="test_dict -k pop"
ARGS ?=

.PHONY: help package demo test lint conformance conformance-compiled stress fuzz asan bench clean
help:
	@echo "make demo          a small transformer: graph, guards, a recompile and why, times"
	@echo "make test          lint, build, fast tests"
	@echo "make lint          ruff and mypy"
	@echo "make conformance   CPython's own test suite through the evaluator (long)"
	@echo "make conformance-compiled   the same, compiled as full graphs (long)"
	@echo "make distributed   faults, four ranks, Inductor: programs of several processes (long)"
	@echo "make stress        leaks, all mutations, operators and C types, a minute of threads (long)"
	@echo "make fuzz          breaks anywhere in random programs, all tests of breaks (long)"
	@echo "make asan          tests of the native core under AddressSanitizer and UBSan"
	@echo "make bench         speed of the evaluator against CPython"
	@echo "make browser       tests of the report page in chromium"
	@echo "make zoo           graph capture on real models; make zoo-setup installs them"
	@echo "make dynamic       the same models on shapes that change: how often they are compiled"
	@echo "make programs      programs written for torch.compile, on stator: the same output?"
	@echo "make package       sdist and wheel, in build/dist, and a look at what is in them"
	@echo "make wheels        the sdist and a wheel for each Python here, installed and tried out"
	@echo "make docs          all pages, and one per reason, as a site with a search: build/site"
	@echo "make clean         remove environments and build products"
	@echo "PYTHON=python3.12 chooses another Python for any of them, TORCH=2.15.0 another torch."

# Needs torch.
demo: $(READY)
	$(BIN)/python examples/demo.py

# Lint does not depend on the versions: it runs in the default environment only. Where there is no
# torch, the evaluator and the native core are tested without it.
test: $(if $(filter .venv,$(VENV)),lint) $(READY)
	$(BIN)/python tools/test.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

conformance: $(STAMP)
	@mkdir -p build
	$(BIN)/python -m tests.conformance --engine $(ENGINE) --out build/conformance-$(PYVER).json \
	    $(if $(wildcard $(KNOWN)),--known $(KNOWN)) --min-rate $(MIN_RATE) $(ARGS)

# The same tests through stator.compile(fullgraph=True, backend="eager"); 3.11, with torch.
conformance-compiled: $(READY)
	@mkdir -p build
	$(BIN)/python -m tests.conformance --engine stator.testing:conformance \
	    --out build/conformance-compiled-$(PYVER).json --min-rate 82 $(ARGS)

stress: $(READY)
	STATOR_STRESS=100000 $(BIN)/python -m pytest tests/native -k "leak or stress"
	STATOR_STRESS=2000 PYTHONMALLOC=debug $(BIN)/python -X dev -m pytest tests/native
	$(if $(WITH_TORCH),STATOR_MUTATIONS=all STATOR_C_TYPES=all STATOR_THREAD_SECONDS=60 \
	    STATOR_OPERATORS=all $(BIN)/python -m pytest tests/capture/test_mutation.py \
	    tests/capture/test_54_grads.py tests/capture/test_c_types.py tests/api/test_threads.py \
	    tests/graph/test_layouts.py tests/dynamic/test_02_sizes.py \
	    tests/capture/test_numbers_of_tensors.py tests/capture/test_shared_inputs.py)
	$(if $(WITH_TORCH),STATOR_PROGRAMS=20000 $(BIN)/python -m pytest \
	    tests/unknown/test_generated.py)
	$(if $(WITH_TORCH),STATOR_HOSTILE=all $(BIN)/python -m pytest tests/hostile)

# A break at 20,000 places of random programs; every construct, kind of break and depth.
# More ranks, faults and the long checks of several processes (docs/distributed.md).
.PHONY: distributed
distributed: $(READY)
	STATOR_DISTRIBUTED=all $(BIN)/python -m pytest tests/distributed $(ARGS)

fuzz: $(READY)
	STATOR_FUZZ=20000 $(BIN)/python -m pytest tests/breaks $(ARGS)

# A copy of the package with an instrumented extension; leaks are the stress tests' business.
ASAN := build/asan-$(notdir $(VENV))
asan: $(STAMP)
	rm -rf $(ASAN) && mkdir -p $(ASAN) && cp -r src/stator $(ASAN)/
	gcc -shared -fPIC -O1 -g -fno-omit-frame-pointer -fno-strict-aliasing \
	    -fsanitize=address,undefined -fno-sanitize-recover=undefined \
	    $$($(BIN)/python -c 'import sysconfig; print("-I" + sysconfig.get_path("include"))') \
	    $(ASAN)/stator/_native/*.c \
	    -o $(ASAN)/stator/_native/_core$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	    ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc STATOR_STRESS=200 PYTHONPATH=$(ASAN):. \
	    $(BIN)/python -m pytest tests/native tests/evaluator -q -p no:cacheprovider

bench: $(STAMP)
	$(BIN)/python -m benchmarks.evaluator $(ARGS)

# Real models, default environment only. e.g. make zoo ARGS="--only Llama --eval-only"
ZOO_ENGINE ?= stator:compile
ZOO := $(VENV)/.zoo
.PHONY: zoo zoo-setup
zoo: $(ZOO)
	@mkdir -p build
	$(BIN)/python -m benchmarks.zoo --engine $(ZOO_ENGINE) --out build/zoo.json \
	    --compare benchmarks/zoo/baseline_torch_2.13.json $(ARGS)

zoo-setup: $(ZOO)

# Models of the zoo on batches and lengths that change. e.g. make dynamic ARGS="--only Bert"
.PHONY: dynamic
dynamic: $(ZOO)
	@mkdir -p build
	$(BIN)/python -m benchmarks.dynamic --out build/dynamic.json $(ARGS)

$(ZOO): benchmarks/zoo/requirements.txt $(READY)
	$(BIN)/python -m pip install --quiet --no-deps -r benchmarks/zoo/requirements.txt
	@touch $@

# Programs written for torch.compile, under it and under `stator run`. e.g. make programs ARGS=modes
.PHONY: programs
programs: $(ZOO)
	$(BIN)/python -m tests.cli.compare $(ARGS)

# The report page in Debian's chromium; with `make test` these tests are skipped where it is missing.
.PHONY: browser
browser: $(READY)
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { echo "error: no chromium: apt-get install chromium chromium-driver" >&2; exit 1; }
	$(BIN)/python -m pytest tests/report $(ARGS)

package: $(READY)
	STATOR_PACKAGE=all $(BIN)/python -m pytest tests/test_package.py $(ARGS)
	$(BIN)/python -c "from setuptools import build_meta as b; b.build_sdist('build/dist'); b.build_wheel('build/dist')"

# Each is installed and tried out. e.g. make wheels ARGS="--torch 2.15.0 python3.14"
.PHONY: wheels
wheels: $(BIN)/python
	$(BIN)/python tools/wheels.py $(ARGS)

# Static files, without a network. The messages on it come from running the examples.
.PHONY: docs
docs: $(READY)
	$(BIN)/python tools/site.py build/site

clean:
	rm -rf .venv .venv-* build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests benchmarks examples tools -name __pycache__ -prune -exec rm -rf {} +
	rm -f src/stator/_native/*.so

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "error: no '$(PYTHON)' on this machine; choose one with make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) tools/preflight.py
	$(PYTHON) -m venv $(VENV)

# The editable install compiles the extension, so it is repeated when a C file changes.
$(STAMP): pyproject.toml $(NATIVE) | $(BIN)/python
	$(BIN)/python -m pip install --quiet 'setuptools>=77'
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable '.[dev]'
	@touch $@

ifneq ($(READY),$(STAMP))
$(READY): $(STAMP)
	$(BIN)/python -m pip install --quiet torch==$(WITH_TORCH) numpy
	@touch $@
endif
