# make demo    watch a robot remember
# make test    the whole suite
# make lint    ruff, mypy --strict, import-linter
# Say which Python with PYTHON=python3.12, and CMAKE_ARGS=-DGGML_CUDA=on for a Jetson.

PYTHON ?= python3
BIN := .venv/bin
.DEFAULT_GOAL := demo

.PHONY: demo test lint fix env clean

demo:
	@$(PYTHON) .ci/setup_env.py demo
	@$(BIN)/edgemem models get --quiet
	@$(BIN)/edgemem demo

env:
	@$(PYTHON) .ci/setup_env.py dev
	@$(BIN)/edgemem models get --quiet

test: env
	@$(BIN)/python -m pytest

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
