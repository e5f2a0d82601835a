"""A release: everything in it, of one version, and the sums right."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from podium.cli import main

ROOT = Path(__file__).parents[2]


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", ROOT / "tools" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = load_tool()
VERSION: str = TOOL.version()


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "dist"
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "release.py", folder],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_it_holds_everything_under_one_version(released: Path) -> None:
    assert {file.name for file in released.iterdir()} == {
        "NOTES.md",
        "SHA256SUMS",
        f"podium-{VERSION}-py3-none-any.whl",
        f"podium-{VERSION}.tar.gz",
        f"podium-{VERSION}.tgz",
        f"podium-{VERSION}.yaml",
        f"podium-{VERSION}-laptop.yaml",
        f"podium-{VERSION}-high-availability.yaml",
        f"podium-{VERSION}-node-pool.yaml",
        f"podium-{VERSION}-kubernetes-1.20.yaml",
        f"podium-{VERSION}-image-context.tar.gz",
        f"podium-{VERSION}-sbom.cdx.json",
        f"podium-{VERSION}-bundle.tar.gz",
    }


def test_every_sum_is_right_and_the_bundle_holds_every_file(released: Path) -> None:
    lines = (released / "SHA256SUMS").read_text().splitlines()
    summed = {line.split("  ")[1]: line.split("  ")[0] for line in lines}
    assert summed.keys() == {file.name for file in released.iterdir()} - {"SHA256SUMS"}
    for name, digest in summed.items():
        assert hashlib.sha256((released / name).read_bytes()).hexdigest() == digest
    with tarfile.open(released / f"podium-{VERSION}-bundle.tar.gz") as bundle:
        held = {Path(name).name for name in bundle.getnames()}
    assert held == {file.name for file in released.iterdir()} - {f"podium-{VERSION}-bundle.tar.gz"}


def test_the_wheel_holds_the_rooms_and_no_tests(released: Path) -> None:
    with zipfile.ZipFile(released / f"podium-{VERSION}-py3-none-any.whl") as wheel:
        tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {"kube", "config", "scheduler", "plugins", "simulator", "podium", f"podium-{VERSION}.dist-info"}


def test_the_image_context_is_what_the_dockerfile_copies(released: Path) -> None:
    with tarfile.open(released / f"podium-{VERSION}-image-context.tar.gz") as context:
        names = context.getnames()
    tops = {name.split("/")[0] for name in names}
    assert tops >= {"Dockerfile", ".dockerignore", "pyproject.toml", "podium", "deploy"}
    assert "deploy/image/requirements.txt" in names
    assert not [name for name in names if "__pycache__" in name or name.startswith(("tests", "docs"))]


def test_the_chart_needs_nothing_outside_of_it(released: Path, tmp_path: Path) -> None:
    with tarfile.open(released / f"podium-{VERSION}.tgz") as chart:
        chart.extractall(tmp_path, filter="data")
    assert json.loads((tmp_path / "podium" / "files" / "podium.json").read_text())["title"] == "podium"
    assert yaml.safe_load((tmp_path / "podium" / "Chart.yaml").read_text())["version"] == VERSION


def test_the_list_of_parts_names_every_pinned_package(released: Path) -> None:
    listed = json.loads((released / f"podium-{VERSION}-sbom.cdx.json").read_text())
    assert listed["bomFormat"] == "CycloneDX"
    pins = re.findall(r"^(\S+)==(\S+)", (ROOT / "deploy" / "image" / "requirements.txt").read_text(), re.MULTILINE)
    assert {(part["name"], part["version"]) for part in listed["components"]} >= set(pins)


def test_the_notes_are_the_fragments(released: Path) -> None:
    notes = (released / "NOTES.md").read_text()
    assert notes.startswith(f"## {VERSION} (")
    for fragment in (ROOT / "changes").glob("*.*.md"):
        assert fragment.read_text().split()[0] in notes


@pytest.mark.parametrize(("name", "pattern"), TOOL.PLACES, ids=lambda value: value)
def test_the_version_stands_wherever_it_is_looked_for(name: str, pattern: str) -> None:
    assert re.findall(pattern.format("(.+)"), (ROOT / name).read_text(), re.MULTILINE) == [VERSION]


def test_a_new_version_is_written_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, _ in TOOL.PLACES:
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text((ROOT / name).read_text())
    monkeypatch.setattr(TOOL, "ROOT", tmp_path)
    TOOL.set_version("12.0.1rc1")
    for name, pattern in TOOL.PLACES:
        assert re.findall(pattern.format("(.+)"), (tmp_path / name).read_text(), re.MULTILINE) == ["12.0.1rc1"]
    with pytest.raises(SystemExit, match="expected a version"):
        TOOL.set_version("latest")


def test_the_program_tells_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert (left.value.code, capsys.readouterr().out) == (0, f"podium {VERSION}\n")
