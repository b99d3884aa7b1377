# make demo    install into .venv (without torch) and run the main job
# make test    install torch and the test tools as well, then lint, type-check and run all tests
# make setup   the installation that `make demo` needs, on its own
# make lint    ruff and mypy alone
# make clean   remove .venv and every cache
#
# PYTHON=... chooses the interpreter that .venv is made with (3.11 or newer).

PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check

# A stamp lies inside .venv and is older than the files that decide what is installed, or it does not count.
INSTALLED := $(VENV)/.installed
INSTALLED_FOR_TESTS := $(VENV)/.installed-for-tests
REQUIREMENTS := pyproject.toml constraints.txt gradproof/__init__.py

.PHONY: demo setup test lint clean

demo: setup
	$(VENV)/bin/gradproof run

setup: $(INSTALLED)

test: lint
	$(VENV)/bin/python -m pytest -n auto --dist worksteal

lint: $(INSTALLED_FOR_TESTS)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check --quiet .
	$(VENV)/bin/mypy

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("gradproof needs Python 3.11 or newer, but $(PYTHON) is " + sys.version.split()[0] + "; choose one with make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

# The build backend is installed first and used as it stands, so that it is pinned like everything else.
$(INSTALLED): $(REQUIREMENTS) | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt setuptools
	$(PIP) install --quiet --constraint constraints.txt --no-build-isolation --editable ".[plot]"
	@touch $@

# constraints.txt pins torch; where pip knows a CPU build of that version, it is the one that is taken.
$(INSTALLED_FOR_TESTS): $(INSTALLED)
	$(PIP) install --quiet --constraint constraints.txt --no-build-isolation --editable ".[plot,torch,test]"
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
