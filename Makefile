# Set-up, tests, and the shortest game. Everything goes into .venv; `make PYTHON=python3.12 install` takes another one.
PYTHON ?= python3
BIN := .venv/bin
BENCHMARKS := noise_layer pairs_from_pool trainer_overhead generation quickstart_round app_filters
GSM8K_BENCHMARKS := gsm8k_grading scorer

PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

RUN ?= runs/quickstart

.DEFAULT_GOAL := help
.PHONY: help install demo app test test-slow test-nightly quality style benchmarks reference

help:  ## This list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

install: $(BIN)/.installed  ## Make .venv with everything the other targets need

$(BIN)/.installed: setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[app,dev,track,quant,sandbox]'
	@touch $@

demo: install  ## Play recipes/quickstart.yaml: two rounds on two CPU cores
	ACCELERATE_USE_CPU=true $(BIN)/python scripts/run_rounds.py recipes/quickstart.yaml

app: install  ## Look at a run in the browser: make app RUN=runs/quickstart
	$(BIN)/python -m pvg_hf.app $(RUN)

test: install  ## What a contributor runs before a commit
	$(PYTEST) -m 'not slow and not nightly and not gpu and not hub_live'

test-slow: install  ## The longer checks; CI runs these and `make test`
	$(PYTEST) -m 'slow and not nightly'

# Tests that sample or train must pass on any processor: they run again without vector units, where tokens and last digits differ.
SAMPLING_OR_TRAINING := tests/game/test_minting.py tests/game/phases/test_learning.py tests/game/phases/test_verifier.py \
	tests/sampling tests/scoring/test_discriminative_verifier.py tests/trainers/reward/test_trainer.py \
	tests/trainers/prover/test_trainer.py tests/trainers/ppo/test_trainer.py

test-nightly: install  ## What CI leaves out: every recipe's game, damage of every file, the app's looks, the GPU check on toys
	$(PYTEST) -m nightly
	ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=AVX2 $(PYTEST) -m 'not slow and not nightly and not gpu' $(SAMPLING_OR_TRAINING)

quality: install  ## Lint and formatting, changing nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tools.write_reference --check

style: install  ## Lint and formatting, mended where they can be
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

reference: install  ## Write the generated part of docs/recipes.md and the JSON Schema
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
