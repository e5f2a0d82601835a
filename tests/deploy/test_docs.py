"""The documentation: it builds as a site, its generated pages are up to date, and what it names exists."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from podium.cli import COMMANDS
from podium.flags import FLAGS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: written for operators; the others are held by their own tests
NAMES = ("index", "install", "beside-default", "options", "metrics", "security", "tune", "troubleshoot", "upgrade")
PAGES = [DOCS / f"{name}.md" for name in (*NAMES, "compatibility", "plugins")]


def test_the_page_of_metrics_is_made_from_the_series() -> None:
    spec = importlib.util.spec_from_file_location("metrics_page", ROOT / "tools" / "metrics_page.py")
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    assert (DOCS / "metrics.md").read_text() == page.render()


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("no mkdocs: install it from the development dependencies")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(ROOT / "mkdocs.yml"), "-d", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "install.html").exists()


def test_nothing_on_the_site_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("no mkdocs: install it from the development dependencies")
    words = [sys.executable, "-m", "mkdocs", "build", "-q", "-f", str(ROOT / "mkdocs.yml"), "-d", str(tmp_path)]
    subprocess.run(words, capture_output=True, check=True, timeout=110)
    for page in tmp_path.glob("*.html"):
        loaded = re.findall(r'<(?:script|img)[^>]*src="([^"]+)"|<link[^>]*href="([^"]+)"', page.read_text())
        assert not [each for pair in loaded for each in pair if each.startswith(("http", "//"))], page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_that_is_named_exists(page: Path) -> None:
    named = re.findall(r"(?<![\w/.])((?:deploy|docs|examples|tools|changes|tests)/[\w./-]*\w)", page.read_text())
    missing = sorted({name for name in named if not (ROOT / name).exists()})
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_and_option_of_podium_that_is_named_exists(page: Path) -> None:
    assert set(re.findall(r"`podium ([a-z]+)", page.read_text())) <= set(COMMANDS)
    options = {f"--{flag.name}" for flag in FLAGS}
    for option in re.findall(r"`(--[a-z][a-z-]+)(?:=[^`]*)?`", page.read_text()):
        assert option in options | {"--version", "--config", "--no-leader-elect"}, option


def test_the_pages_that_only_viewers_may_read_are_those_of_the_role() -> None:
    """docs/troubleshoot.md and the role podium-viewer name the same pages, /debug left out."""
    role = (ROOT / "deploy" / "base" / "clusterrole.yaml").read_text()
    allowed = {path for line in re.findall(r"nonResourceURLs: \[(.*)\]", role) for path in line.split(", ")}
    named = {f"/{name}" for name in re.findall(r"`/(queue|nodes|decisions|configz|flagz|statusz|metrics)`", _all())}
    assert named <= allowed
    assert not [path for path in allowed if path.startswith("/debug")]


def _all() -> str:
    return "".join(page.read_text() for page in PAGES)
