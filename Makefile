VENV := .venv
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.ready

.PHONY: setup
setup: $(STAMP)

$(STAMP): pyproject.toml
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $(STAMP)
