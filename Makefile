# make demo    watch a robot remember
# make test    the whole suite
# make test-long    the tests that try many random cases, with all of their cases
# make test-boards    the suite on every Python that is here, and on the oldest SQLite (ONLY=3.12,sqlite chooses)
# make test-arm       an emulated ARM board: install offline, embed, play the demo, test (as root; the first time takes long)
# make wheels  a folder to install from without a network (TO=folder)
# make lab     measure edgemem itself, or learn the weights that it ships: ARGS="judged --json", ARGS="compare --rows 100000"
# make lint    ruff, mypy --strict, import-linter
# Say which Python with PYTHON=python3.12, and CMAKE_ARGS=-DGGML_CUDA=on for a Jetson.

PYTHON ?= python3
BIN := .venv/bin
TO ?= dist/wheels
.DEFAULT_GOAL := demo

.PHONY: demo server test test-long test-boards test-arm lab wheels lint fix env clean

demo:
	@$(PYTHON) .ci/setup_env.py demo
	@$(BIN)/edgemem models get --quiet
	@$(BIN)/edgemem demo

env:
	@$(PYTHON) .ci/setup_env.py dev
	@"$(BIN)/edgemem" models get --quiet

server: env
	@$(PYTHON) .ci/setup_env.py server

test: server
	@$(BIN)/python -m pytest

test-long: server
	@EDGEMEM_LONG=1 $(BIN)/python -m pytest -m long --timeout 7200

test-boards: env
	@ONLY="$(ONLY)" $(BIN)/nox -f .ci/noxfile.py

test-arm:
	@$(PYTHON) .ci/arm.py

lab: env
	@PYTHONPATH="$(CURDIR)/tests$${PYTHONPATH:+:$$PYTHONPATH}" $(BIN)/python -m lab $(ARGS)

wheels:
	@$(PYTHON) .ci/setup_env.py demo
	@$(BIN)/edgemem models get --quiet
	@$(PYTHON) .ci/wheels.py "$(TO)"

lint:
	@$(PYTHON) .ci/setup_env.py dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

fix:
	@$(PYTHON) .ci/setup_env.py dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
