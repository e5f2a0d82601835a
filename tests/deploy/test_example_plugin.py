"""The example package: installed as its readers would, found by podium, and doing what its own tests say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "podium-plugin-racks"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the package is installed, in a folder of its own."""
    source = tmp_path_factory.mktemp("source") / "racks"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("*.egg-info", "build", "__pycache__"))
    target = tmp_path_factory.mktemp("plugins")
    # Built with the setuptools that is here, so that nothing is fetched.
    words = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        str(target),
        str(source),
    ]
    subprocess.run([sys.executable, *words], check=True, capture_output=True, timeout=110)
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(target), str(ROOT)))}


def run(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], env=environment, cwd=EXAMPLE, capture_output=True, text=True, check=False, timeout=110
    )


def test_the_packages_own_tests_pass(installed: dict[str, str]) -> None:
    done = run(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("....")


def test_podium_knows_the_plugins_and_where_they_take_part(installed: dict[str, str]) -> None:
    done = run(installed, "-m", "podium", "config", "--config", "config.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("name: GreenPower") == 2
    assert done.stdout.count("name: RackRoom") == 3


def test_podium_simulates_with_them(installed: dict[str, str]) -> None:
    done = run(
        installed, "-m", "podium", "simulate", "-f", "tests/cluster.yaml", "--config", "config.yaml", "-o", "json"
    )
    assert done.returncode == 0, done.stderr


def test_without_the_package_the_configuration_names_what_is_missing() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = run(environment, "-m", "podium", "config", "--config", "config.yaml")
    assert done.returncode == 2
    assert "GreenPower" in done.stderr
    assert "Traceback" not in done.stderr
