"""kubectl against the real API server prints what the transcripts say, but for the differences known; and older
kubectls get along with the embedded server.

The transcripts are those that `tests/kubectl` holds against the embedded server, so the two servers are compared.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from simulator.apiserver import ApiServer
from tests.conformance.find import Binaries
from tests.conformance.start import ADMIN, ControlPlane
from tests.kubectl.clients import Client, clients
from tests.kubectl.known import DIFFERENCES, known, known_of_client
from tests.kubectl.transcript import Shell, Transcript, transcripts

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def empty_control_plane(binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """One that no other test has filled: the transcripts list all there is."""
    async with ControlPlane(binaries) as plane:
        yield plane


@pytest.mark.parametrize("path", transcripts(), ids=lambda path: path.stem)
async def test_the_real_server_says_the_same(path: Path, empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    plane = empty_control_plane
    shell = Shell(clients()[0], plane.kubeconfig(ADMIN), tmp_path)
    for step in Transcript.read(path).steps:
        output = await shell.run(step.command)
        if known(step.command, plane.version) is None:
            assert (step.command, output) == (step.command, step.output)


@pytest.mark.parametrize("path", transcripts(), ids=lambda path: path.stem)
@pytest.mark.parametrize("client", clients()[1:], ids=str)
async def test_older_clients_fare_as_the_newest(client: Client, path: Path, tmp_path: Path) -> None:
    async with ApiServer() as server:
        shell = Shell(client, server.write_kubeconfig(tmp_path / "kubeconfig"), tmp_path)
        for step in Transcript.read(path).steps:
            if client.version < step.since:
                continue
            output = await shell.run(step.command)
            if known_of_client(step.command, client.version) is None:
                assert (step.command, _failed(output)) == (step.command, _failed(step.output)), output


def test_each_known_difference_covers_a_command() -> None:
    commands = [step.command for path in transcripts() for step in Transcript.read(path).steps]
    for difference in DIFFERENCES:
        assert any(re.search(difference.command, command) for command in commands), difference


def _failed(output: str) -> bool:
    return re.search(r"^exit \d+$", output, re.MULTILINE) is not None
