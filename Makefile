# Everything that a person or CI does here, by name. `make` alone prints the list.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
# The tests start hundreds of processes; each would compile all of aiosd anew.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The folders too, so that a deleted .proto is noticed.
PROTO_TREE := $(shell find proto -mindepth 1 \( -name '*.proto' -o -type d \) 2>/dev/null)
SOURCES := aiosd gateway tests tools hatch_build.py $(wildcard bench examples)

# How many processes share the tests: one more than two cores, as much of a test is waiting for a
# process. A file stays in one, so its fixtures do as well.
WORKERS ?= 3
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile
# More words for the command that a target runs: make test ARGS='-k lease'
ARGS ?=
# Of make sim: how many schedules, or the one to run again.
SEEDS ?= 5000
SEED ?=

# --- use ---------------------------------------------------------------------------------------

.PHONY: help
help: ## print this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^# --- / { gsub(/^# --- | -+$$/, ""); printf "\n%s\n", $$0 } \
	  /^[a-z][a-z0-9-]*:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

.PHONY: setup
setup: $(STAMP) ## create .venv and install aiosd into it, with everything
	@:

$(STAMP): pyproject.toml hatch_build.py aiosd/__init__.py $(PROTO_TREE)
	@command -v $(PYTHON) >/dev/null || { \
	  echo "make setup: no $(PYTHON) here; on Debian: apt-get install python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make setup: $$($(PYTHON) --version) is too old, aiosd needs Python 3.11; name another one with make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "make setup: $(PYTHON) cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@echo "make setup: installing aiosd and its tools into $(VENV) ..." >&2
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install --quiet --editable '.[all,dev]'
	@touch $@

.PHONY: run
run: setup ## run the daemon, the gateway and the lab in the foreground
	@exec $(BIN)/aiosd up --lab $(ARGS)

.PHONY: test
test: setup ## run the tests, all but the slow ones and those of make check
	@$(PYTEST) -m 'not slow' --ignore tests/test_house.py $(ARGS)

# --- check -------------------------------------------------------------------------------------

.PHONY: check
check: lint ## lint, and test the structure of the code
	@$(BIN)/python -m pytest -q tests/test_house.py

.PHONY: lint
lint: setup ## ruff, mypy, the floors, and the contract in proto/
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/buf lint
	@$(BIN)/buf format --diff --exit-code
	@tag=$$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true); \
	  if test -n "$$tag"; then $(BIN)/buf breaking --against ".git#tag=$$tag"; fi

.PHONY: fmt
fmt: setup ## rewrite the code and the contract in the house format
	@$(BIN)/ruff check --fix $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)
	@$(BIN)/buf format --write

.PHONY: requirements
requirements: ## print the requirements that no test names
	@$(PYTHON) tools/requirements.py

# --- test harder -------------------------------------------------------------------------------

.PHONY: test-all
test-all: setup ## every test, the slow ones too
	@$(PYTEST) $(ARGS)

.PHONY: e2e
e2e: setup ## the tests that start real processes
	@$(PYTEST) -m e2e $(ARGS)

.PHONY: sim
sim: setup ## random schedules in virtual time: SEEDS=5000 of them, or one: SEED=7
	@AIOSD_SIM_SEED=$(SEED) AIOSD_SIM_SEEDS=$(SEEDS) \
	  $(BIN)/python -m pytest -n $(WORKERS) --dist load --timeout 600 -m sim $(if $(SEED),tests/simulation/test_seeds.py) $(ARGS)

.PHONY: crash
crash: setup ## kill -9 at every commit point, then compare with what was promised
	@$(PYTEST) -m crash $(ARGS)

.PHONY: fuzz
fuzz: setup ## hostile input on every wire
	@$(PYTEST) -m fuzz $(ARGS)

.PHONY: bench
bench: setup ## measure throughput and latency
	@$(BIN)/python -m bench $(ARGS)

# --- keep house --------------------------------------------------------------------------------

.PHONY: proto
proto: setup ## compile proto/ into aiosd/api again
	@$(BIN)/python -m pip install --quiet --no-deps --editable .

.PHONY: clean
clean: ## remove everything that can be made again
	rm -rf $(VENV) build dist aiosd/api aiosd/.api.incoming aiosd/.api.outgoing
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
