# One line a target: `make help` prints them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help install dev torch demo serve test test-unit test-full check format bench bench-diagnose lock clean

help: ## This list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(VENV)/.runtime: requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --require-hashes -r requirements.lock
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	$(PIP) install --quiet --require-hashes -r requirements-dev.lock
	touch $@

# PyTorch is no part of the lock: its builds for CPUs and for GPUs differ in what they need, and which one comes is for
# your pip's settings to say.
$(VENV)/.torch: $(VENV)/.dev
	$(PIP) install --quiet torch==2.13.0
	touch $@

install: $(VENV)/.runtime ## Trilith and what its OCR example needs, into .venv.
dev: $(VENV)/.dev ## The same, and what tests and checks need.
torch: $(VENV)/.torch ## The same, and PyTorch (0.2 GB for CPUs, some GB for GPUs); without it its tests are skipped.

demo: install ## Serve real OCR models, read a page, show what it read and where the time went.
	$(BIN)/python examples/ocr/demo.py
	@echo 'To go on: `. $(BIN)/activate` for the command trilith, `make serve` for this example on port 8000.'

serve: install ## The OCR example on http://127.0.0.1:8000 until Ctrl-C; ARGS="--http-port 9000" for other ports.
	$(BIN)/trilith serve examples/ocr/app.py:Ocr $(ARGS)

test: dev ## Checks, unit and integration tests: what CI runs.
	$(MAKE) --no-print-directory check
	$(BIN)/python scripts/unit_tests.py
	$(BIN)/python -m pytest tests/integration -n 3 --dist worksteal -q -m "not full"

test-unit: dev ## The unit tests alone (half a minute on two cores).
	$(BIN)/python scripts/unit_tests.py

test-full: torch ## Everything, long and many-process tests included.
	$(MAKE) --no-print-directory check
	TRILITH_EXAMPLES=thorough $(BIN)/python -m pytest tests/unit tests/integration -n 2 -q

check: dev ## Lint, format, types, import contracts and what else is seen in the sources alone.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest tests/architecture -q

format: dev ## Rewrite the files in the project's format.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-diagnose: dev ## Services with a known bottleneck: does `trilith diagnose` find it, and does its advice help?
	$(BIN)/python -m benchmarks.diagnose $(ARGS)

bench: dev ## The benchmarks, side by side with peers (long; see benchmarks/README.md).
	$(BIN)/python -m benchmarks

lock: dev ## Pin exact versions with hashes; the files name no index.
	$(BIN)/python scripts/lock.py

clean: ## Remove what the targets above made.
	rm -rf $(VENV) out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
