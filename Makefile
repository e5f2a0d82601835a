# podium: two commands do everything on a machine with Python and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check control-plane conformance soak bench bench-report clean

demo: $(STAMP)
	$(BIN)/podium demo

test: $(STAMP)
	$(BIN)/pytest -n 2 -m "not conformance and not soak"

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

control-plane: $(STAMP)
	$(BIN)/python -m tests.conformance.control_plane

conformance: control-plane
	$(BIN)/pytest tests/conformance -m conformance

soak: $(STAMP)
	PODIUM_SOAK_REPORT=docs/soak.md $(BIN)/pytest -s tests/soak -m soak

bench: $(STAMP)
	$(BIN)/python -m benchmarks

bench-report: $(STAMP)
	$(BIN)/python -m benchmarks report

# One install serves every target; it is redone only when the dependencies change.
$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[fast,dra]" --group dev
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
