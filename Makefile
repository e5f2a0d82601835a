# podium: two commands do everything on a machine with Python and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check control-plane conformance soak bench bench-report release lock docs clean

demo: $(STAMP)
	$(BIN)/podium demo

test: $(STAMP)
	$(BIN)/pytest -n 2 -m "not conformance and not soak"

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy tools
	$(BIN)/lint-imports --no-logo

control-plane: $(STAMP)
	$(BIN)/python -m tests.conformance.control_plane

conformance: control-plane
	$(BIN)/pytest tests/conformance tests/operate -m conformance

soak: $(STAMP)
	PODIUM_SOAK_REPORT=docs/soak.md $(BIN)/pytest -s tests/soak -m soak

bench: $(STAMP)
	$(BIN)/python -m benchmarks

bench-report: $(STAMP)
	$(BIN)/python -m benchmarks report

# The wheel, the chart, the manifests and what else a release consists of, in dist/.
release: $(STAMP)
	$(BIN)/python tools/release.py

# deploy/image/requirements.txt with hashes; the pages made from the code, and the site.
lock: $(STAMP)
	$(BIN)/python tools/lock.py

docs: $(STAMP)
	$(BIN)/python tools/options_page.py && $(BIN)/python tools/metrics_page.py && $(BIN)/mkdocs build --strict

# One install serves every target; it is redone only when the dependencies change.
$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[fast,dra]" --group dev
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
