# Every target first makes the virtual environment .venv, with the versions in constraints.txt.

PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable
# One thread a test process: two processes share what are often two cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal --benchmark-disable --durations 10

.PHONY: help demo test sweep lint bench docs clean
.DEFAULT_GOAL := help

help: ## Say what the targets are
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 8

demo: .venv/installed ## Run the demo
	$(BIN)/lowerfix demo

test: lint ## Run lint, then all tests but the slow ones
	$(PYTEST) -m "not slow"

sweep: .venv/installed ## Run the slow tests: half an hour
	$(PYTEST) -m slow

lint: .venv/installed ## Check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python docs/generate.py --check

bench: .venv/installed-bench ## Run every script in benchmarks/
	@set -e; for script in $(wildcard benchmarks/[a-z]*.py); do echo "== $$script"; $(BIN)/python "$$script"; done

docs: .venv/installed-docs ## Write the pages of the passes and build the documentation into site/
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --strict

clean: ## Remove what the other targets made, .venv too
	rm -rf .venv build dist site demo-output .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks src/*.egg-info

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) ".[arm,dev]"
	@touch $@

.venv/installed-%: .venv/installed
	$(INSTALL) ".[$*]"
	@touch $@
