# make induction: when two layers learn to copy, the first block of the README.
# make demo: train, probe every checkpoint, find the stages, write the report.   make test: the tests.
# All set up .venv first, of which a demo needs less than the tests; a second call re-uses it.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
LIGHT := .venv/.light
READY := .venv/.ready
BIN4 := .venv-tl4/bin
READY4 := .venv-tl4/.ready
LOWEST := .venv-floors/bin
READY_LOWEST := .venv-floors/.ready
# Compiled files spare every process of the tests a second, whatever the shell asks for.
unexport PYTHONDONTWRITEBYTECODE
# CHECKED=1 checks every annotation of shape and type at run time too, at an eighth more time.
COMMA := ,
CHECKS := $(if $(CHECKED),--jaxtyping-packages=stagewise$(COMMA)beartype.beartype)
# Rooms of numbers and sentences, which touch no model: TransformerLens is nothing to them.
WITHOUT_MODELS := $(addprefix --ignore=, $(foreach room, plot statistics words, tests/$(room) stagewise/$(room)) \
	--ignore=tests/papers/theory --ignore=stagewise/papers/theory)

# What the numbers of a result come from.
NUMERICAL_TESTS := $(wildcard $(addprefix tests/, papers/theory models probes measurement detection statistics findings \
	test_attention.py test_init.py test_intervention.py test_loss.py test_training*.py \
	papers/incremental/test_flow.py)) \
	tests/golden/test_goldens.py::test_golden_findings_are_those_committed stagewise

.PHONY: induction demo test test-tl4 test-floors test-processors slow golden bench torture calibrate answers records series papers prose findings check format docs release
induction: $(LIGHT)
	OMP_NUM_THREADS=1 $(BIN)/python examples/induction_heads.py

demo: $(LIGHT)
	$(BIN)/stagewise run markov --workers 2

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile $(CHECKS)

# The suite under transformer-lens 4, in an environment of its own; runs are handed to and fro between both.
test-tl4: $(READY) $(READY4)
	STAGEWISE_OTHER_PYTHON=$(BIN)/python $(BIN4)/python -m pytest -n 2 --dist loadfile $(CHECKS) $(WITHOUT_MODELS)

# The suite under the lowest versions that pyproject.toml admits; ROOMS="tests/probes tests/models" runs some of it.
test-floors: $(READY_LOWEST)
	$(LOWEST)/python -m pytest -n 2 --dist loadfile $(CHECKS) $(ROOMS)

# The same numbers as processors with fewer instructions compute them, whose sums round otherwise.
test-processors: $(READY)
	$(BIN)/python .ci/processors.py -n 2 --dist loadfile $(NUMERICAL_TESTS)

slow: $(READY)
	$(BIN)/python -m pytest -n 2 -m slow $(CHECKS)

# The findings of golden tables, the readings of all probes: rewritten under a higher version, with what changed.
golden: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.golden

# Ratios of two ways timed in turn, on quiet cores; ROWS="training engine.memory" runs some. Writes runs/bench.
bench: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m evidence.bench $(ROWS)

# Hundreds of kills, refused writes, races and flipped bits, then a kill before each file operation of each command:
# docs/reliability.md, whose table it writes. An hour and more; the second program goes on where it was stopped.
torture: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m evidence.torture
	OMP_NUM_THREADS=1 $(BIN)/python -m evidence.torture.operations

# How often onsets, boundaries, laws and events are decided rightly on planted runs; docs/records/statistics.md has the tables.
calibrate: $(READY)
	$(BIN)/python -m evidence.calibration
	$(BIN)/python -m evidence.calibration.early_warning

# First sentences on runs and logs whose truth is known, judged by code: writes docs/answers.md. An hour at first; what
# was trained and measured stays in runs/answers.
answers: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m evidence.answers

# First sentences on what others published: `make records FOLDER=...`, with the truths of its records; writes docs/records.md.
records: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m evidence.records $(FOLDER)

# Small models saved in many ways by the tools themselves, and opened: writes docs/records/saved-series.md. Ten minutes
# at first; verdicts stay in runs/saved_series.
series: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m evidence.saved_series

# Published numbers beside ours with computed verdicts: writes PAPERS.md from papers/rows.toml and docs/numbers.
papers: $(READY)
	$(BIN)/python -m stagewise.papers

# Sentences that are hard to read, as warnings.
prose: $(READY)
	$(BIN)/python -m evidence.prose

# Surprises in other tools, run again one after another in environments of their own; ROWS="trl-token-counts" runs some.
findings:
	@for script in $(or $(addprefix findings/,$(addsuffix .sh,$(ROWS))),$(wildcard findings/*.sh)); do \
	echo "== $$script"; PYTHON=$(PYTHON) $$script || exit 1; done

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The documents as a site, into build/site, by an environment of its own without the library; a warning is an error.
# Then what they show is run.
docs: .venv-docs/.ready $(READY)
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet
	$(BIN)/python -m pytest -n 2 -m docs $(CHECKS) tests
	@echo build/site/index.html

# The sdist and the wheel, into dist, as a user meets them: in a bare environment outside the tree, by a small demo and
# the examples of all docstrings.
release:
	rm -rf dist
	bare=$$(mktemp -d) && trap 'rm -rf '$$bare EXIT && $(PYTHON) -m venv $$bare/venv \
	&& $$bare/venv/bin/python -m pip install --quiet build pytest \
	&& $$bare/venv/bin/python -m build --outdir dist > $$bare/build.log \
	&& $$bare/venv/bin/python -m pip install --quiet --constraint constraints.txt torch \
	&& $$bare/venv/bin/python -m pip install --quiet --constraint constraints.txt dist/*.whl \
	&& cd $$bare && venv/bin/python -m stagewise run markov --steps 20 --no-restricted \
	&& venv/bin/python -m pytest --quiet --import-mode=importlib --doctest-modules --pyargs stagewise

.venv-docs/.ready: constraints.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --constraint constraints.txt mkdocs-material 'mkdocstrings[python]' ruff
	touch .venv-docs/.ready

# What a demo needs: the library alone.
$(LIGHT): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $(LIGHT)

# With it, what the tests and the checks need.
$(READY): $(LIGHT)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $(READY)

$(READY4): pyproject.toml constraints.txt constraints-tl4.txt
	$(PYTHON) -m venv .venv-tl4
	awk -F== '!seen[$$1]++' constraints-tl4.txt constraints.txt > .venv-tl4/constraints.txt
	$(BIN4)/python -m pip install --quiet --constraint .venv-tl4/constraints.txt torch
	$(BIN4)/python -m pip install --quiet --constraint .venv-tl4/constraints.txt --editable '.[test]'
	touch $(READY4)

constraints-floors.txt: pyproject.toml
	$(PYTHON) -m venv .venv-floors
	$(LOWEST)/python -m pip install --quiet uv
	$(LOWEST)/uv pip compile --quiet --no-annotate --resolution lowest-direct --python-version 3.11 --extra test \
	--custom-compile-command 'make constraints-floors.txt' pyproject.toml --output-file constraints-floors.txt

$(READY_LOWEST): constraints-floors.txt
	$(PYTHON) -m venv .venv-floors
	$(LOWEST)/python -m pip install --quiet --constraint constraints-floors.txt --editable '.[test]'
	touch $(READY_LOWEST)
