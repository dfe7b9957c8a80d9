# The two commands to know: `make demo` and `make test`.
# Each works on a bare machine with python3 (venv included) and make.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
BENCH  := .venv-bench
STAMP  := $(VENV)/.installed
BSTAMP := $(BENCH)/.installed
# the tests run side by side already: linear algebra with threads of its own only gets in their way
# (and what is compiled is kept, so that the programs which tests start need not compile it again)
ONE    := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

RACES  := $(BIN)/python -m pytest -q -m "(races or fresh) and not long"

.PHONY: docs notebooks tutorial help demo test test-long races mutants check format bench bench-growth bench-release bench-accuracy bench-service bench-ticks chaos hashes clean

help:            ## list the commands
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 18

$(STAMP): pyproject.toml requirements/dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@# the pages are tested in a browser: the system's chromium, or else one of playwright's own
	@command -v chromium google-chrome >/dev/null || $(BIN)/python -m playwright install chromium
	@touch $@

$(BSTAMP): pyproject.toml requirements/bench.txt
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.txt
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(STAMP)   ## see it all in ten seconds, on made-up data
	@$(BIN)/python -m discreet demo

test: $(STAMP)   ## everything but the soak runs; a skipped test is a failure
	$(ONE) $(BIN)/python -m pytest -n auto --dist worksteal -m "not long"

test-long: $(STAMP)  ## soak and high-power statistical runs
	DISCREET_FRESH=1 $(ONE) $(BIN)/python -m pytest -n auto --dist worksteal -m long

# comparisons of engines wait for servers but race with nobody: `make test` runs them
races: $(STAMP)  ## what depends on processes, threads, clocks or servers, 30 times in a row
	files=$$($(RACES) --collect-only | sed -n 's/::.*//p' | sort -u | grep -v -e ^tests/spark -e ^tests/conformance); \
	for i in $$(seq 30); do $(ONE) $(RACES) -n 3 --dist worksteal $$files || exit 1; done

mutants: $(STAMP)  ## plant small faults one at a time, count those that tests see (hours; ARGS="--count 50")
	$(ONE) $(BIN)/python -m mutants $(ARGS)

check: $(STAMP)  ## lint, format and strict types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(STAMP)   ## the site, in build/docs; warnings are errors
	$(BIN)/python docs/_generate.py
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/docs

notebooks: $(STAMP)  ## run the notebooks of examples/ and store what they show
	$(BIN)/python docs/_notebooks.py

tutorial: $(STAMP)   ## follow the tutorial in a fresh environment, and time the first answer
	$(BIN)/python docs/_tutorial.py

format: $(STAMP) ## rewrite the sources in house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(BSTAMP) $(STAMP) ## ratios against peers, in one run (PostgreSQL: DISCREET_BENCH_POSTGRES is the URL of a database)
	$(BENCH)/bin/python -m benchmarks
	$(BIN)/python -m benchmarks.bench_ledger
	$(BIN)/python -m benchmarks.bench_servers --spark

chaos: $(STAMP)  ## what a ledger survives, as one table (half an hour; COUNTS="--cuts 100 --lines 0")
	$(ONE) nice -n 12 $(BIN)/python -m chaos $(COUNTS)

bench-release: $(STAMP) ## publishing on DPBench beside peers' figures (many minutes; needs ../shared/data)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.bench_release

bench-growth: $(STAMP) ## time and memory by rows, groups and rows per person (minutes)
	$(BIN)/python -m benchmarks.bench_growth

bench-service: $(STAMP) ## the service beside the library: overhead and rates
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.bench_service

bench-ticks: $(STAMP) ## what runs cost beside the bounds that the service gives them (minutes)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.bench_ticks

bench-accuracy: $(BSTAMP) ## error and width beside peers and the best known bounds (ten minutes)
	$(ONE) $(BENCH)/bin/python -m benchmarks.bench_accuracy
	$(ONE) $(BENCH)/bin/python -m benchmarks.bench_statistics
	$(ONE) $(BENCH)/bin/python -m benchmarks.bench_quantiles
	$(ONE) $(BENCH)/bin/python -m benchmarks.bench_keys
	$(ONE) $(BENCH)/bin/python -m benchmarks.bench_ranks

hashes: $(STAMP) ## write the hashes of all pinned files, after a pin was changed
	$(BIN)/python requirements/hashes.py

clean:           ## remove environments and caches
	rm -rf $(VENV) $(BENCH) .pytest_cache .mypy_cache .ruff_cache .hypothesis
