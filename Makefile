# make demo: train, probe every checkpoint, find the stages, write the report.   make test: the tests.
# Both set up .venv first; a second call re-uses it.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test slow check
demo: $(READY)
	$(BIN)/stagewise run markov

test: $(READY)
	$(BIN)/python -m pytest -n 2

slow: $(READY)
	$(BIN)/python -m pytest -n 2 -m slow

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $(READY)
