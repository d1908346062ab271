# `make` alone lists the targets. Everything is installed into .venv, with the exact versions of constraints.txt
# and the hashes in requirements/.

PYTHON ?= $(shell for p in python3 python python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo "$$p" && break; done)
# Quiet about what setuptools says of strict editable installs: it is known, and `make` renews them.
INSTALL := --quiet --disable-pip-version-check --only-binary :all: --no-deps
PIP := PYTHONWARNINGS=ignore .venv/bin/python -m pip install $(INSTALL)
# Each set of packages is whole, so nothing is looked for beside it, and no file without a known hash is installed.
LOCKED := $(PIP) --require-hashes --requirement
EDITABLE := $(PIP) --no-build-isolation --editable . --config-settings editable_mode=strict
EXTRAS := a2a,agents,encryption,evals,folders,inspect,langfuse,langsmith,local,mcp,notebook,otel,phoenix,postgres,ray,retrieval,sandbox,serve,travel,writing

# The editable install is strict: it links file by file, which type checkers can follow. So it is renewed when a file
# comes or goes, or the checkout moves; a change inside a file needs nothing.
SOURCES := $(sort $(shell find api state models nodes graphs faces evals retrieval sandbox server travel folders -type f ! -name "*.py[co]" ! -path "*/.*" 2>/dev/null))
KEY := $(firstword $(shell echo "$(CURDIR) $(SOURCES)" | cksum))
DEMO := .venv/.demo-$(KEY)
DEV := .venv/.dev-$(KEY)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all debian versions lint types notebooks record docs bench crash supply release requirements clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | awk -F '\t' '{printf "make %-13s%s\n", $$1, $$2}'

demo: $(DEMO) ## Refine six bundled tasks on the embedded model; no key, no compiler
	@.venv/bin/redraft demo

# Compiled modules are kept, also where the environment says otherwise: each of the processes would compile them all.
# Before it has read the options of ours, pytest takes a room's name for the folder: `--room evals` must be one word.
TOLD = $(subst --room ,--room=,$(ARGS))
PYTEST := PYTHONDONTWRITEBYTECODE= .venv/bin/python -m pytest --numprocesses logical --dist worksteal

test: $(DEV) ## Run the tests on every core, one case of each class; ARGS="-k loop" passes arguments to pytest
	@$(PYTEST) $(TOLD)

test-all: $(DEV) ## Run every case; ARGS="--cases rest": those that `make test` leaves out
	@$(PYTEST) --cases all $(TOLD)

debian: ## Run the tests on a bare Debian 13 (Python 3.13; SUITE=forky: 3.14); needs to be root, and debootstrap
	@.ci/debian

RESOLUTION ?= lowest-direct
UV = .venv/supply/bin/uv
versions: .venv/supply/.done ## Run the tests with the lowest packages that pyproject.toml allows; RESOLUTION=highest: the newest
	@$(UV) venv --quiet --clear --seed --python .venv/bin/python .venv/versions
	@$(UV) pip install --quiet --python .venv/versions --only-binary :all: --resolution $(RESOLUTION) --config-setting editable_mode=strict --editable ".[$(EXTRAS)]" --group dev
	@# What packages that are not ours warn about is no failure here.
	@.venv/versions/bin/python -m pytest --override-ini filterwarnings=default --numprocesses logical --dist worksteal --cases all $(ARGS)

lint: $(DEV) ## Check style, formatting and who imports whom
	@.venv/bin/python -m ruff check .
	@.venv/bin/python -m ruff format --check .
	@.venv/bin/lint-imports --no-logo

types: $(DEV) ## Check the types of the whole package, strictly
	@.venv/bin/python -m mypy

notebooks: $(DEV) ## Execute the notebooks, and write them with what they show
	@.venv/bin/python notebooks/execute.py $(ARGS)

MODEL ?= http://127.0.0.1:8080/v1\#model
record: $(DEV) ## Ask MODEL=http://…/v1#NAME what README, docs, notebooks and examples ask, where it is not recorded yet
	@.venv/bin/python benchmarks/record_examples.py --model "$(MODEL)" $(ARGS)

docs: $(DEV) .venv/docs/.done ## Build the documentation site into dist/site; a dead link or a public name without words fails
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=$$(echo build/__editable__.*) .venv/docs/bin/python -m mkdocs build --quiet
	@echo "Wrote dist/site/index.html"

bench: $(DEV) ## Measure all that is promised, in one table; ARGS="--full" or "--only startup"
	@.venv/bin/python benchmarks/all.py $(ARGS)

crash: $(DEV) ## Kill bulk runs again and again, and count what was lost or paid twice
	@.venv/bin/python benchmarks/crash/killing.py $(ARGS)

supply: $(DEV) .venv/supply/.done ## Write an SBOM, and look for known vulnerabilities where their database can be reached
	@mkdir -p dist
	@.venv/supply/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o dist/sbom.cdx.json .venv/bin/python
	@echo "Wrote dist/sbom.cdx.json"
	@.venv/bin/python requirements/audit.py

release: $(DEV) .venv/release/.done ## Build wheel and sdist, check them with tag and changelog, and say what would be uploaded
	@.venv/bin/python requirements/release.py

requirements: .venv/supply/.done ## Write the versions of constraints.txt with their hashes to requirements/
	@.venv/bin/python requirements/renew.py

clean: ## Remove .venv, builds and caches; recorded runs stay
	rm -rf .venv build dist redraft.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@if [ -z "$(PYTHON)" ]; then echo "redraft needs Python 3.11 or newer with its venv module" \
		"(on Debian: apt-get install python3-venv), or make PYTHON=/path/to/python" >&2; exit 1; fi
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "redraft needs Python 3.11 or newer; \
	$(PYTHON) is " + sys.version.split()[0])'
	@echo "Creating .venv with $$("$(PYTHON)" --version)" && "$(PYTHON)" -m venv .venv

.venv/.pip: .venv/bin/python requirements/install.txt
	@$(LOCKED) requirements/install.txt && touch $@

$(DEMO): .venv/.pip pyproject.toml requirements/demo.txt
	@echo "Installing redraft[local] into .venv"
	@$(LOCKED) requirements/demo.txt
	@$(EDITABLE)
	@rm -f .venv/.demo-* && touch $@

$(DEV): .venv/.pip pyproject.toml requirements/dev.txt
	@echo "Installing redraft[$(EXTRAS)] and what the tests need into .venv"
	@$(LOCKED) requirements/dev.txt
	@$(EDITABLE)
	@rm -f .venv/.demo-* .venv/.dev-* && touch $(DEMO) $@

# The tools of the supply chain have an environment of their own, so that they are in no inventory of ours.
.venv/supply/.done: .venv/.pip requirements/supply.txt
	@.venv/bin/python -m venv --clear --without-pip .venv/supply
	@PYTHONWARNINGS=ignore .venv/bin/python -m pip --python .venv/supply install $(INSTALL) --require-hashes --requirement requirements/supply.txt
	@touch $@

.venv/release/.done: .venv/.pip requirements/release.txt
	@.venv/bin/python -m venv --clear --without-pip .venv/release
	@PYTHONWARNINGS=ignore .venv/bin/python -m pip --python .venv/release install $(INSTALL) --require-hashes --requirement requirements/release.txt
	@touch $@

# The site's tools, too, are no part of what users install.
.venv/docs/.done: .venv/.pip requirements/docs.txt
	@.venv/bin/python -m venv --clear --without-pip .venv/docs
	@PYTHONWARNINGS=ignore .venv/bin/python -m pip --python .venv/docs install $(INSTALL) --require-hashes --requirement requirements/docs.txt
	@touch $@

.PHONY: python
python:
	@echo "$(PYTHON)"
