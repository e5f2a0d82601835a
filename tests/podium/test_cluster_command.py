"""`podium cluster` as a person starts it: its state in a file, its line of chaos, and what is said of wrong words."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from podium.cli import main
from simulator.apiserver.state_file import StateFileError
from simulator.cluster import Cluster, make_node_template
from simulator.state_keeper import StateKeeper
from tests.fixtures_apiserver import pod
from tests.podium.harness import until


@asynccontextmanager
async def running(*words: str) -> AsyncIterator[tuple[aiohttp.ClientSession, list[str]]]:
    """The command in a process of its own, ended by SIGTERM; gives a session on it, and all lines it has said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "podium", "cluster", "--port", "0", *words, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    lines: list[str] = []
    try:
        while "export KUBECONFIG" not in (lines or [""])[-1]:
            line = (await process.stderr.readline()).decode()
            assert line, f"it ended: {lines}"
            lines.append(line.strip())
        url = next(line.split()[1] for line in lines if line.startswith("serving "))
        async with aiohttp.ClientSession(url, timeout=aiohttp.ClientTimeout(total=20)) as session:
            yield session, lines
    finally:
        process.send_signal(signal.SIGTERM)
        rest = (await process.stderr.read()).decode()
        assert await process.wait() == 0, rest
        lines.extend(rest.splitlines())


async def names(session: aiohttp.ClientSession, plural: str) -> list[str]:
    """The names of all objects of a core resource."""
    async with session.get(f"/api/v1/{plural}") as response:
        document: dict[str, Any] = await response.json()
    return [item["metadata"]["name"] for item in document["items"]]


async def create(session: aiohttp.ClientSession, name: str) -> dict[str, Any]:
    """Create a pod."""
    async with session.post("/api/v1/namespaces/default/pods", json=pod(name)) as response:
        made: dict[str, Any] = await response.json()
    return made


async def test_a_cluster_goes_on_from_its_file_with_its_nodes_and_pods(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state.gz"))
    async with running(*state, "--nodes", "2") as (session, said):
        version = int((await create(session, "kept"))["metadata"]["resourceVersion"])
    assert said[-1].startswith("saved ")
    assert said[-1].endswith(" objects to " + state[1])
    async with running(*state, "--nodes", "9") as (session, said):
        assert await names(session, "nodes") == ["node-0001", "node-0002"]
        assert await names(session, "pods") == ["kept"]
        assert int((await create(session, "new"))["metadata"]["resourceVersion"]) > version
    assert f"with 2 nodes, going on from {state[1]}" in said[0]


async def test_the_state_is_also_saved_every_so_often(tmp_path: Path) -> None:
    path = tmp_path / "state"
    async with Cluster() as cluster:
        keeper = StateKeeper(cluster, path, interval=0.02)
        keeper.load()
        async with asyncio.TaskGroup() as group:
            group.create_task(keeper.run())
            cluster.add_nodes(make_node_template(), 1)
            await until(lambda: b'"node-0001"' in path.read_bytes(), "the node in the file", timeout=20)
            keeper.stop()
    after = Cluster()
    StateKeeper(after, path).load()
    after.add_nodes(make_node_template(), 1)
    assert [node["metadata"]["name"] for node in after.server.list("nodes")] == ["node-0001", "node-0002"]


def test_a_file_that_cannot_be_written_is_told_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(StateFileError, match=r"nowhere/state: cannot be written: No such file or directory"):
        StateKeeper(Cluster(), tmp_path / "nowhere" / "state").load()


async def test_chaos_comes_from_the_line_of_the_command(tmp_path: Path) -> None:
    async with running("--chaos", "errors=100%:create:/pods:x2,throttles=100%:get:/nodes/") as (session, _):
        codes = []
        for i in range(3):
            async with session.post("/api/v1/namespaces/default/pods", json=pod(f"p{i}")) as response:
                codes.append(response.status)
        async with session.get("/api/v1/nodes/node-0001") as response:
            assert (response.status, response.headers["Retry-After"]) == (429, "1")
        assert codes == [500, 500, 201]
        assert len(await names(session, "nodes")) == 5


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(["--chaos", "floods=1%"], "chaos: 'floods' is not one of latency, errors", id="an unknown kind"),
        pytest.param(["--chaos=nodes=5%"], "chaos: nodes: an interval such as 30s is expected", id="a wrong measure"),
        pytest.param(["--nodes", "-1"], "--nodes: expected a number of 0 or more, got -1", id="fewer than no nodes"),
    ],
)
def test_wrong_words_are_told_in_one_line(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith(told)
    assert said.count("\n") == 1


def test_a_file_that_is_no_state_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "state"
    path.write_text("kind: Pod\n")
    assert main(["cluster", "--port", "0", "--state", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"{path}:")


def test_help_explains_each_word_of_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["cluster", "--help"])
    text = capsys.readouterr().out
    assert "watch-cuts=2%       a watch is cut in the middle of a line" in text
    assert "nodes=30s           a node falls silent, and comes back later" in text
