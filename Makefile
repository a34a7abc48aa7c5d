# Set-up, tests, and the shortest game. Everything goes into .venv; `make PYTHON=python3.12 install` takes another one.
PYTHON ?= python3
BIN := .venv/bin
BENCHMARKS := noise_layer pairs_from_pool trainer_overhead generation quickstart_round app_filters
GSM8K_BENCHMARKS := gsm8k_grading scorer

PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

RUN ?= runs/demo

.DEFAULT_GOAL := help
.PHONY: help install demo app test test-all test-nightly quality style benchmarks docs pictures reference

help:  ## This list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

install: $(BIN)/.installed  ## Make .venv with everything the other targets need

$(BIN)/pvg: setup.py setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install -qq -c constraints.txt -e '.[app]'
	@touch $@

$(BIN)/.installed: $(BIN)/pvg
	$(BIN)/python -m pip install -qq -c constraints.txt -e '.[app,dev,docs,track,quant]'
	@touch $@

# One thread: models this small gain nothing from a second one, which would take as much processor time again.
demo: $(BIN)/pvg  ## Play recipes/demo.yaml: one round on a CPU, in under five minutes with the installation
	OMP_NUM_THREADS=1 $(BIN)/pvg play demo
	@echo 'The command pvg needs this environment: source .venv/bin/activate'

app: $(BIN)/pvg  ## Look at a run in the browser: make app RUN=runs/demo
	$(BIN)/pvg show $(RUN)

NEVER := nightly or gpu or hub_live
STARTS := game or hub or app or docs or experimental

test: install  ## What a contributor runs before a commit
	$(PYTEST) -m '(smoke or not ($(STARTS))) and not ($(NEVER))'

test-all: install  ## What CI runs: also games, the Hub, the app, the documentation, and what is experimental
	$(PYTEST) -m 'not ($(NEVER))'

test-nightly: install  ## What CI leaves out: every recipe's game, damage of every file, the app's looks, the GPU check on toys
	$(PYTEST) --hypothesis-profile=search -m '(nightly or hypothesis) and not gpu'

quality: install  ## Lint, formatting, types of the core, what the documentation says, and its pictures, changing nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python .ci/check_docs.py
	$(BIN)/python -m tools.write_reference --check
	$(BIN)/python -m tools.write_pictures --check
	$(BIN)/python -m mypy

style: install  ## Lint and formatting, mended where they can be
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: install  ## Build the site of the documentation, build/site/index.html; a link that leads nowhere fails
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(BIN)/mkdocs build --strict --quiet

pictures: install  ## Redraw the pictures of docs/images; the games that they show take minutes
	ACCELERATE_USE_CPU=true $(BIN)/python -m tools.write_pictures

reference: install  ## Write the generated part of docs/reference/recipes.md and the JSON Schema
	$(BIN)/python -m tools.write_reference

benchmarks: install  ## Ratios of two things timed in one run, as JSON; two of them with PVG_GSM8K_DIR only
	@mkdir -p build/benchmarks
	@for name in $(BENCHMARKS); do \
	  echo "== benchmarks/$$name.py"; $(BIN)/python benchmarks/$$name.py > build/benchmarks/$$name.json || exit 1; \
	  cat build/benchmarks/$$name.json; \
	done
	@for name in $(if $(PVG_GSM8K_DIR),$(GSM8K_BENCHMARKS)); do \
	  echo "== benchmarks/$$name.py"; \
	  $(BIN)/python benchmarks/$$name.py "$(PVG_GSM8K_DIR)" > build/benchmarks/$$name.json || exit 1; \
	  cat build/benchmarks/$$name.json; \
	done
