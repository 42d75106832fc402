# Every target sets up what it needs: a new machine wants make and Python 3.11 to 3.14, nothing else.
VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check
# Wheels alone: building from source would fetch build tools that no hash covers. (Linux on aarch64 has to: there is no
# wheel of pytrec-eval-terrier for it.)
WHEELS := $(if $(filter aarch64,$(shell uname -m)),,--only-binary :all:)
INSTALL := $(PIP) --require-hashes $(WHEELS)
BENCH_LOCK := tests/benchmarks/constraints.txt
DEV := $(VENV)/.dev-installed
BENCH := $(VENV)/.bench-installed

# Tried by running, not by name: a version manager leaves names on the PATH that start nothing.
FITS := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 15))
PYTHON ?= $(shell for name in python3.13 python3.12 python3.11 python3.14 python3; do \
	if $$name -c '$(FITS)' 2>/dev/null; then echo $$name; break; fi; done)

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast check format bench bench-hostile lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEV) ## write a small dataset, evaluate it, show the result
	$(RUN) -m pipeline demo

test: $(DEV) ## all tests but those that need a cluster; flags by ARGS='-n 2 -k join'
	$(RUN) -m pytest -m 'not cluster' $(ARGS)

test-fast: $(DEV) ## the tests without the slow ones
	$(RUN) -m pytest -m 'not cluster and not slow' $(ARGS)

check: $(DEV) ## lint, format and types, changing nothing
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy

format: $(DEV) ## bring the code into the house format
	$(RUN) -m ruff check --fix
	$(RUN) -m ruff format

bench: $(BENCH) ## rankbeam against its peers; flags by ARGS='--rounds 3'
	$(RUN) tests/benchmarks/run.py $(ARGS)

bench-hostile: $(DEV) ## hostile volume: its cost, and whether every record is accounted for
	$(RUN) tests/benchmarks/hostile.py $(ARGS)

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

# ARGS=--upgrade takes newer versions, else only what pyproject.toml asks is changed. One list for every Python and
# system, with the hashes of all files of a version, and not a word of where they come from.
LOCK := $(VENV)/lock/bin/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-annotate \
	--no-emit-index-url --custom-compile-command 'make lock'

lock: $(DEV) ## pin versions and hashes anew from pyproject.toml; flags by ARGS=--upgrade
	$(RUN) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOCK) --extra dev $(ARGS) -o constraints.txt pyproject.toml
	$(LOCK) --group bench $(ARGS) -c constraints.txt -o $(BENCH_LOCK)

# The stamp comes last, so that an install cut short is done again. The build backend is pinned like the rest, hence
# installed first and used as it stands. Two steps, because pip cannot hold a folder against a hash.
$(DEV): pyproject.toml constraints.txt
	@test -n '$(PYTHON)' || { echo 'rankbeam needs Python 3.11 to 3.14 with its venv module; none found on the PATH.' \
		'Install one, or name it: make PYTHON=/path/to/python' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -r constraints.txt
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(BENCH): $(DEV) $(BENCH_LOCK)
	$(INSTALL) -r $(BENCH_LOCK)
	@touch $@
