# phasetop from a clone: `make run` shows it, `make test` checks it. `make help` lists the rest.

PROMPT = In three sentences: what does a language model wait for while it writes?
ARGS   =
JOBS  ?= 2
export SERVERS ?= $(HOME)/.cache/phasetop-servers

# The first Python that is new enough, else whatever there is: setup says what it lacks.
ifndef PYTHON
PYTHON := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null && { echo "$$p"; exit; }; done; echo python3)
endif
BIN   := .venv/bin
READY := .venv/.ready

export PROMPT
.PHONY: help setup run test check servers wheel clean
.DEFAULT_GOAL := help

help: ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s  %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## .venv with phasetop, its embedded engine and a small model (once; quick after that)
	@:

$(READY): pyproject.toml scripts/setup.py
	@command -v "$(PYTHON)" > /dev/null || { \
	    echo "setup: there is no Python here. Install 3.11 or later with venv (Debian: apt-get install python3 python3-venv)."; exit 1; }
	@"$(PYTHON)" scripts/setup.py
	@touch $(READY)

run: setup ## the live view on the embedded model; PROMPT='…', ARGS='--plain …'
	@$(BIN)/phasetop run --backend embedded -p "$$PROMPT" $(ARGS)

check: setup ## style, types and the arrows between the packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check ## check, then all tests; ARGS='-k words', JOBS=2
	$(BIN)/pytest -n $(JOBS) -r fEs $(ARGS)

servers: setup ## the real servers for the tests (llama-server, Ollama, sshd), into $SERVERS
	@PYTHON=$(BIN)/python scripts/servers.sh "$(SERVERS)"

wheel: setup ## a wheel and an sdist in dist/
	$(BIN)/python -m build --outdir dist .

clean: ## remove .venv, dist/ and what tools left; the servers' folder stays
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find phasetop backends tui tests benchmarks scripts -name __pycache__ -type d -prune -exec rm -rf {} +
