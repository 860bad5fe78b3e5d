# make demo    the bundled study from questions to report, then the paper (FRESH=1 asks the model anew)
# make test    what CI runs: format, lint, types, all tests
# make docs    the documentation site, into site/
# make bench   speed against named peers, side by side
# make format  put lines right
# make lock    write the locked requirements anew
PYTHON ?= python3
BIN := .venv/bin
DATA := $(abspath ../shared/data)
export GATEWISE_DATA ?= $(wildcard $(DATA))
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test docs bench lock format

demo: .venv/demo
	$(BIN)/gatewise demo -o report $(if $(FRESH),--fresh)
	$(BIN)/gatewise paper
	@echo && echo "The bundled study: open report/index.html"

test: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n auto

docs: .venv/dev
	$(BIN)/python docs/reference.py
	$(BIN)/zensical build --clean --strict

bench: .venv/dev
	$(BIN)/python benchmarks/replay.py
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/plans.py
	$(BIN)/python benchmarks/record.py
	$(BIN)/python benchmarks/kills.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/page.py

format: .venv/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock:
	bash requirements/lock.sh

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gatewise needs Python 3.11 or newer; found: $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	touch $@

.venv/core: requirements/core.txt pyproject.toml .venv/python
	$(BIN)/pip install --quiet --require-hashes --requirement requirements/core.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

.venv/demo: requirements/demo.txt .venv/core
	$(BIN)/pip install --quiet --require-hashes --requirement requirements/demo.txt
	touch $@

.venv/dev: requirements/dev.txt .venv/core
	$(BIN)/pip install --quiet --require-hashes --requirement requirements/dev.txt
	-$(BIN)/gatewise fetch model smollm2-135m  # what tests of the embedded model ask; they are skipped without it
	touch $@
