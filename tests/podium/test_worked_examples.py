"""docs/devices.md: what the page tells one to type prints what it prints. docs/gangs.md: its YAML is what it says.

The commands of docs/gangs.md are tried by tests/podium/what_if/test_docs.py.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from podium.cli import main
from podium.commands.demo import serving
from simulator.cluster import Cluster, make_node_template
from tests.kubectl.clients import clients
from tests.podium.harness import effective

ROOT = Path(__file__).parents[2]
GANGS, DEVICES = ROOT / "docs" / "gangs.md", ROOT / "docs" / "devices.md"


def blocks(page: Path, language: str = "") -> list[str]:
    """The code blocks of a page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def typed(page: Path) -> Iterator[tuple[str, str]]:
    """(command, what the page prints below it)."""
    for block in blocks(page):
        yield from re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)


def words(text: str) -> str:
    """Without the line breaks that a terminal's width makes."""
    return " ".join(text.split())


def test_the_objects_on_the_page_of_gangs_start_together(tmp_path: Path) -> None:
    (objects,) = [block for block in blocks(GANGS, "yaml") if "kind: PodGroup" in block]
    nodes = (ROOT / "docs" / "examples" / "gang.yaml").read_text().partition("---\napiVersion: v1\nkind: Pod")[0]
    (tmp_path / "cluster.yaml").write_text(f"{nodes}---\n{objects}")
    program = [sys.executable, "-m", "podium", "simulate", "-f", str(tmp_path / "cluster.yaml")]
    program += ["--feature-gates", "GenericWorkload=true,GangScheduling=true"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout.rstrip().endswith("2 of 2 pods placed on 2 nodes"), done.stderr


def test_the_configuration_on_the_page_of_gangs_is_the_example_and_valid(capsys: pytest.CaptureFixture[str]) -> None:
    example = ROOT / "docs" / "examples" / "coscheduling-config.yaml"
    assert example.read_text() in blocks(GANGS, "yaml")
    assert main(["config", "--config", str(example)]) == 0, capsys.readouterr().err


# --- docs/devices.md, in an embedded cluster ------------------------------------------------------------------------


#: kind -> the columns of its table before what changes from run to run: ages, and where equally good pods go
COLUMNS = {"resourceslices": 4, "pods": 4, "resourceclaims": 2}


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    """`podium cluster --nodes 2` and `podium run`, in this process."""
    async with Cluster(seed=0) as cluster:
        cluster.add_nodes(make_node_template(), 2)
        (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())
        async with serving(cluster, effective(), 0, 0):
            yield tmp_path / "kubeconfig"


async def run(command: str, kubeconfig: Path) -> str:
    """What a command prints, `podium explain` asked of the cluster itself."""
    program, *rest = shlex.split(command)
    told = [sys.executable, "-m", "podium", *rest, "--from-cluster", "--kubeconfig", str(kubeconfig)]
    if program == "kubectl":
        told = [str(clients()[0].program), "--kubeconfig", str(kubeconfig), *rest]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*told, cwd=ROOT, stdout=pipe, stderr=pipe)
    out, error = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, error.decode()
    return out.decode()


def first_columns(text: str, count: int) -> list[list[str]]:
    """A table without what is random in names, and with the first columns only."""
    rows = [line for line in text.splitlines() if line.strip() and "…" not in line.split()[:1]]
    return sorted([re.sub(r"(?<=-)[a-z0-9]{5,10}\b", "*", cell) for cell in row.split()[:count]] for row in rows)


async def settled(kubeconfig: Path, command: str, expected: list[list[str]], columns: int) -> None:
    """It prints that, within some seconds."""
    found: list[list[str]] = []
    for _ in range(40):
        found = first_columns(await run(command, kubeconfig), columns)
        if found == expected:
            return
        await asyncio.sleep(0.25)
    assert found == expected


async def test_the_examples_of_devices_print_what_the_page_says(kubeconfig: Path) -> None:
    page = dict(typed(DEVICES))
    for command, printed in page.items():
        table = next((name for name in COLUMNS if command.startswith(f"kubectl get {name}")), None)
        if table is not None:
            await settled(kubeconfig, command, first_columns(printed, COLUMNS[table]), COLUMNS[table])
        elif command.startswith("kubectl"):
            await run(command, kubeconfig)
    (pending,) = [
        row.split()[0]
        for row in (await run("kubectl get pods --field-selector=spec.nodeName=", kubeconfig)).splitlines()[1:]
    ] or [""]
    told = words(await run(f"podium explain {pending}", kubeconfig))
    verdict = "It fits on none of 2 nodes: 2 with devices of class big-gpu in use"
    assert verdict in told
    assert verdict in words(page[next(command for command in page if command.startswith("podium explain"))])
    assert "in use by claim default/shared" in told
    await run("kubectl delete pod notebook-a notebook-b --wait=true", kubeconfig)
    claims = [["NAME", "STATE"], ["shared", "pending"]]
    found: list[list[str]] = []
    pods: list[list[str]] = []
    for _ in range(40):
        found = first_columns(await run("kubectl get resourceclaims", kubeconfig), 2)
        pods = first_columns(await run("kubectl get pods", kubeconfig), 3)
        if claims[1] in found and all(row[2] in ("STATUS", "Running") for row in pods):
            break
        await asyncio.sleep(0.25)
    assert claims[1] in found
    assert [row[2] for row in pods].count("Running") == 3
