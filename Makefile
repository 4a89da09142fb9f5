# Everything a newcomer types. Each target sets up what it needs first, once.
#
#   make demo    install, then crawl a synthetic web on loopback (no internet needed after the install)
#   make cluster-demo  three agents on a Redis server, one of them killed: is anything missing?
#   make test    checks, tests and the examples in the documentation
#   make quick   the checks and the quick tests, in under a minute: before each commit
#   make check   only the checks: lint, format, types, architecture
#   make torture everything that can damage a crawl or a cluster, in under 40 minutes: make mishaps, uproar and fuzz together
#   make mishaps kills, power cuts, damaged files and broken disks: what was tried, and what was lost
#   make fuzz    a million damaged values read from a coordinator: is each refused with an error?
#   make uproar  agents of a cluster killed, paused and drained, and their coordinator: is anything missing?
#   make soak    agents that come and go for half an hour: does the crawl ever hang?
#   make bench   the benchmarks, printed as tables (see benchmarks/)

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: all demo cluster-demo mishaps uproar soak fuzz test quick check bench torture replay lock clean
.DEFAULT_GOAL := all

all: $(INSTALLED)

# A new lock file or a new list of dependencies means a new installation; otherwise it is done once.
$(INSTALLED): requirements.lock pyproject.toml scripts/setup
	PYTHON="$(PYTHON)" sh scripts/setup
	@touch $@

demo: $(INSTALLED)
	$(BIN)/fieldmouse demo demo-crawl

cluster-demo: $(INSTALLED)
	sh scripts/cluster-demo

check: $(INSTALLED)
	sh scripts/check

quick: $(INSTALLED)
	sh scripts/quick

test: check
	@sh scripts/compiler
	@sh scripts/redis
	$(BIN)/python -m pytest -n $(or $(JOBS),4) --dist worksteal --ignore tests/test_architecture.py --doctest-modules src tests

# make uproar mostly waits for leases, so they run side by side.
torture: $(INSTALLED)
	$(MAKE) --keep-going --jobs 2 mishaps uproar fuzz

# CASES=5000 runs fewer; SEED=2 tries other values. A failing case is printed with its number.
fuzz: $(INSTALLED)
	cd tests && ../$(BIN)/python -m cluster.fuzz_decoding --cases $(or $(CASES),1000000) --seed $(or $(SEED),1)

# SEED=2 tries other moments; MINUTES=10 stops sooner.
mishaps: $(INSTALLED)
	sh scripts/torture --seed $(or $(SEED),1) --minutes $(or $(MINUTES),40)

# Kills, pauses, drains and cuts off agents of a cluster, and stops and kills their coordinator; SEED=2 tries other moments.
uproar: $(INSTALLED)
	@sh scripts/redis
	FIELDMOUSE_UPROAR=$(or $(SEED),1) $(BIN)/python -m pytest -s tests/network -k random_faults_for_long

# Agents join, are drained, terminated, killed and forgotten for MINUTES=10 under each of three balance policies.
soak: $(INSTALLED)
	@sh scripts/redis
	FIELDMOUSE_SOAK=$(or $(SEED),1) FIELDMOUSE_SOAK_MINUTES=$(or $(MINUTES),10) \
	    $(BIN)/python -m pytest -s tests/network -k come_and_go_for_long

bench: $(INSTALLED)
	sh scripts/bench

# Replays a crawled page out of its WARC with pywb, in an environment of its own.
replay: $(INSTALLED)
	sh scripts/replay

# Resolve the dependencies anew and pin them with their hashes.
lock: $(INSTALLED)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --all-extras --generate-hashes --python-version 3.11 -o requirements.lock

clean:
	rm -rf .venv .venv-pywb .mypy_cache .ruff_cache .hypothesis build dist demo-crawl
