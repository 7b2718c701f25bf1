# make demo    watch a robot remember
# make test    the whole suite, or a part of it (ONE=tests/store/test_facts.py)
# make quick   the tests that need no model, no server and no other process (under two minutes)
# make test-all    test-long, test-boards (an emulated ARM board among them), and properties with examples that were never tried
# make test-long    the tests that try many random cases, with all of their cases
# make test-boards    the suite on every Python that is here, and on the oldest SQLite (ONLY=3.12,sqlite chooses)
# make test-arm       an emulated ARM board: install offline, embed, play the demo, test (as root; the first time takes long)
# make test-loops    the attachments to frameworks with their real packages, each in an environment of its own (ONE=langchain)
# make wheels  a folder to install from without a network (TO=folder)
# make lab     measure edgemem itself, or learn the weights that it ships: ARGS="judged --json", ARGS="compare --rows 100000"
#              (TREE=../older ARGS="judge --out /tmp/older.json": on a checkout of an older commit, with its own environment and models)
# make reference   docs/profile.md and docs/commands.md, written from the code
# make docs    the pages as a site, with what the docstrings say of Python: build/site/index.html
# make recording   docs/demo.svg, drawn from a run of the demo
# make lint    ruff, mypy --strict, import-linter, and the house's figures (.ci/house.py)
# Say which Python with PYTHON=python3.12, and CMAKE_ARGS=-DGGML_CUDA=on for a Jetson.

PYTHON ?= python3
BIN := .venv/bin
TO ?= dist/wheels
TREE ?= .
.DEFAULT_GOAL := demo

.PHONY: demo server test quick test-long test-boards test-arm test-loops test-all lab wheels docs reference recording lint fix env clean

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
	@$(BIN)/python -m pytest $(ONE)

quick: env
	@$(BIN)/python -m pytest -m quick $(ONE)

test-long: server
	@EDGEMEM_LONG=1 $(BIN)/python -m pytest -m long --timeout 7200

test-boards: env
	@ONLY="$(ONLY)" $(BIN)/nox -f .ci/noxfile.py

test-arm:
	@$(PYTHON) .ci/arm.py

test-loops:
	@$(PYTHON) .ci/loops.py $(ONE)

# One behind the other, each on the whole machine.
test-all:
	@$(MAKE) test-long
	@$(MAKE) test-boards
	@EDGEMEM_EXPLORE=1 $(BIN)/python -m pytest -m hypothesis

lab: env
	@cd "$(TREE)" && PYTHONPATH="$(CURDIR)/tests$${PYTHONPATH:+:$$PYTHONPATH}" $(BIN)/python -m lab $(ARGS)

wheels:
	@$(PYTHON) .ci/setup_env.py demo
	@$(BIN)/edgemem models get --quiet
	@$(PYTHON) .ci/wheels.py "$(TO)"

docs:
	@$(PYTHON) .ci/setup_env.py docs
	@$(BIN)/python .ci/site.py

reference:
	@$(PYTHON) .ci/setup_env.py dev
	@$(BIN)/python .ci/reference.py

recording: env
	@$(BIN)/python .ci/recording.py

lint:
	@$(PYTHON) .ci/setup_env.py dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python .ci/house.py

fix:
	@$(PYTHON) .ci/setup_env.py dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
