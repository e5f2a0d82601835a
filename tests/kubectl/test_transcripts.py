"""The newest kubectl against the embedded server prints what the transcripts say; watching is tried by hand."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from simulator.apiserver import ApiServer
from tests.fixtures_apiserver import pod
from tests.kubectl.clients import clients
from tests.kubectl.transcript import Shell, Transcript, normal, transcripts


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as started:
        yield started


@pytest.fixture
def shell(server: ApiServer, tmp_path: Path) -> Shell:
    return Shell(clients()[0], server.write_kubeconfig(tmp_path / "kubeconfig"), tmp_path)


@pytest.mark.parametrize("path", transcripts(), ids=lambda path: path.stem)
async def test_kubectl_prints_what_its_transcript_says(path: Path, shell: Shell) -> None:
    for step in Transcript.read(path).steps:
        assert (step.command, await shell.run(step.command)) == (step.command, step.output)


async def test_a_watch_shows_rows_as_they_change(server: ApiServer, shell: Shell) -> None:
    server.create(pod("first"))
    watching = await shell.start("kubectl get pods -w --output-watch-events")
    lines = [await shell.line(watching) for _ in range(2)]
    server.create(pod("second"))
    server.bind("second", "n1")
    server.delete("pods", "first")
    lines += [await shell.line(watching) for _ in range(3)]
    watching.terminate()
    await watching.wait()
    assert [normal(line) for line in lines] == [
        "EVENT  NAME  READY  STATUS  RESTARTS  AGE",
        "ADDED  first  0/1  Pending  0  AGE",
        "ADDED  second  0/1  Pending  0  AGE",
        "MODIFIED  second  0/1  Pending  0  AGE",
        "DELETED  first  0/1  Pending  0  AGE",
    ]


async def test_waiting_for_a_deletion_ends_with_it(server: ApiServer, shell: Shell) -> None:
    server.create(pod("going"))
    waiting = asyncio.ensure_future(shell.run("kubectl wait pod/going --for=delete --timeout=20s"))
    watched = server.store.collection("pods").cache
    while not watched.watchers and not waiting.done():
        await asyncio.sleep(0.01)
    server.delete("pods", "going")
    assert await waiting == "pod/going condition met"
