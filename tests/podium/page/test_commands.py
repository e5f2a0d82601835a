"""The commands that serve the page."""

from __future__ import annotations

import asyncio
import re
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import aiohttp
import pytest

from simulator.apiserver import ApiServer
from tests.fixtures_apiserver import node

pytestmark = pytest.mark.looptime(False)


async def page_of(process: Process) -> str:
    """The address that a command prints."""
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while line := (await process.stderr.readline()).decode():
            found = re.search(r"page: (http://\S+)", line)
            if found:
                return found[1]
    raise AssertionError("no address was printed")


async def answer(url: str) -> str:
    """What a browser would get."""
    async with aiohttp.ClientSession() as session, session.get(url) as got:
        assert got.status == 200
        return await got.text()


async def test_run_serves_the_page_on_a_port_of_its_own(api_server: ApiServer, tmp_path: Path) -> None:
    api_server.create(node("n1"))
    config = str(api_server.write_kubeconfig(tmp_path / "kubeconfig"))
    words = ("run", "--kubeconfig", config, "--page-port", "0", "--secure-port", "0", "--no-leader-elect")
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "podium", *words, stdout=PIPE, stderr=PIPE)
    try:
        url = await page_of(process)
        assert "<title>podium</title>" in await answer(url)
        assert "text/html" not in await answer(f"{url}assets/style.css")
    finally:
        process.terminate()
        await process.communicate()
    assert process.returncode == 0


async def test_the_demo_serves_the_page_and_keeps_it() -> None:
    words = ("demo", "--nodes", "3", "--pods", "10", "--keep")
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "podium", *words, stdout=PIPE, stderr=PIPE)
    assert process.stderr is not None
    try:
        url = await page_of(process)
        assert "<title>podium</title>" in await answer(url)
        async with asyncio.timeout(60):
            while b"KUBECONFIG" not in await process.stderr.readline():
                pass
        assert '"name":"needs-2ti"' in await answer(f"{url}queue")
    finally:
        process.terminate()
        await process.communicate()
