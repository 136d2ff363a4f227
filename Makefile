# What a person does with this checkout; `make help` lists it. Needs Python 3.12 or later, make, and packages by name.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run test check lint types architecture coverage conformance bench bench-chart soak lock clean

VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 3
COVERAGE ?= 100
PYTEST := $(BIN)/python -m pytest
UV := uv==0.13.9

# The first Python that is new enough; PYTHON=/path/to/python names one.
define find_python
for candidate in $(if $(PYTHON),"$(PYTHON)",python3.13 python3.12 python3 python "$$HOME"/.pyenv/versions/3.1[23]*/bin/python3); do
  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; then python="$$candidate"; break; fi
done
if [ -z "$${python:-}" ]; then
  echo "grantproxy needs Python 3.12 or later, and none was found$(if $(PYTHON), at $(PYTHON))." >&2
  echo "Get one with any of: 'apt install python3 python3-venv' (Debian 13, Ubuntu 24.04), 'dnf install python3.13'," >&2
  echo "'brew install python@3.13', 'pyenv install 3.13', 'uv python install 3.13'." >&2
  echo "Or name one: make PYTHON=/path/to/python3.13 setup" >&2
  exit 1
fi
endef

.ONESHELL:

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)$$/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: $(VENV)/.ready  ## make .venv with everything; again only when the lock or the project file changes
	@$(if $(filter setup,$(MAKECMDGOALS)),echo 'the program is $(BIN)/grantproxy: export PATH="$(abspath $(BIN)):$$PATH"',:)

$(VENV)/.ready: requirements/dev.txt pyproject.toml
	@$(find_python)
	if ! $(BIN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; then
	  echo "making $(VENV) with $$("$$python" -V)"
	  "$$python" -m venv --clear $(VENV)
	fi
	echo "installing the locked packages (a minute or two the first time)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

run: setup  ## the demo on its embedded API; CONFIG=grantproxy.yaml serves yours
	@exec $(BIN)/grantproxy $(if $(CONFIG),serve -c "$(CONFIG)",demo $(ARGS))

test: setup  ## every test but the soak runs; ARGS="-k name" chooses
	@$(PYTEST) -n $(WORKERS) --dist loadgroup -q $(ARGS)

check: setup lint types architecture coverage  ## lint, format, types, architecture, coverage

lint: setup  ## ruff: rules and format
	@$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup  ## mypy, strict, on the three packages
	@$(BIN)/mypy

architecture: setup  ## who may import what, module sizes, banned names
	@$(PYTEST) -q -n 0 tests/architecture

coverage: setup  ## branch coverage of grants and addons, at least COVERAGE percent
	@$(PYTEST) -q -n $(WORKERS) --dist loadgroup tests/unit tests/property tests/conformance \
	  --cov=grants --cov=addons --cov-branch --cov-report=term-missing:skip-covered --cov-fail-under=$(COVERAGE)

conformance: setup  ## the broker protocol's checks; BROKER_URL=https://... asks a broker that runs already
	@BROKER_URL="$(BROKER_URL)" $(PYTEST) -q -n 0 tests/conformance/broker/test_broker.py $(ARGS)

bench: setup  ## measure the core, then each front beside mitmdump and nginx; ARGS=--quick takes about a minute
	@$(PYTEST) -q -n 0 --benchmark-enable --benchmark-only -m "" tests/bench
	PYTHONPATH=.:tests $(BIN)/python -m bench $(ARGS)

bench-chart: setup  ## chart and table of docs/performance.md, from the FILE of `make bench ARGS="--json FILE"`
	@$(BIN)/python -c 'import matplotlib' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.txt
	PYTHONPATH=.:tests $(BIN)/python -m bench.chart "$(or $(FILE),docs/performance.json)" docs/performance.png
	PYTHONPATH=.:tests $(BIN)/python -m bench.report "$(or $(FILE),docs/performance.json)" >docs/performance.txt

soak: setup  ## long runs that look for leaks of memory and descriptors
	@$(PYTEST) -q -n 0 -m soak --timeout 3600 tests $(ARGS)

lock: setup  ## resolve the lock files again, with hashes
	@mkdir -p .cache
	$(BIN)/python -m venv .cache/lock
	.cache/lock/bin/python -m pip install --quiet --disable-pip-version-check $(UV)
	compile=".cache/lock/bin/uv pip compile --quiet --universal --python-version 3.12 --generate-hashes --no-annotate --no-header --no-emit-index-url $(if $(UPGRADE),--upgrade)"
	$$compile pyproject.toml -o requirements/runtime.txt
	$$compile pyproject.toml --group dev -c requirements/runtime.txt -o requirements/dev.txt
	$$compile pyproject.toml --extra bench -c requirements/dev.txt -o requirements/bench.txt

clean:  ## remove what the targets made
	@rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.* build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
