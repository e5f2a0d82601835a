"""The Dockerfile says what the manifests and the package rely on."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

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
    assert copied() == packages | read


def test_the_build_context_holds_what_the_image_copies_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule.removeprefix("!") for rule in rules if rule.startswith("!")} == copied()


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
    ],
)
def test_the_environment_of_the_process(setting: str) -> None:
    assert re.search(rf"^(?:ENV| +).*{re.escape(setting)}", runtime_stage(), re.MULTILINE)


def test_the_base_image_is_the_builders_to_choose() -> None:
    assert re.search(r"^ARG BASE=\S+:\S+$", DOCKERFILE, re.MULTILINE)
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["${BASE}", "${BASE}"]


def test_the_manifests_name_the_version_of_the_package() -> None:
    (image,) = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["images"]
    assert image == {"name": "podium", "newTag": PROJECT["project"]["version"]}
