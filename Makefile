# podium: two commands do everything on a machine with Python and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check control-plane conformance soak bench bench-report release lock docs clean

demo: $(STAMP)
	$(BIN)/podium demo

test: $(STAMP) $(VENV)/.debian
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

# Programs that some tests drive: a browser for the page, promtool for the alerts. Without them those tests say so and skip.
INSTALL := apt-get install -y -q --no-install-recommends
$(VENV)/.debian: $(STAMP)
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  for each in chromium:chromium promtool:prometheus; do \
	    command -v $${each%%:*} >/dev/null \
	      || timeout 300 sh -c "$(INSTALL) $${each##*:} || { apt-get update && $(INSTALL) $${each##*:}; }" >/dev/null 2>&1 \
	      || echo "cannot install $${each##*:}: tests that need $${each%%:*} are skipped"; \
	  done; \
	fi
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
