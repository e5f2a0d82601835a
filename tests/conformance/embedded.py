"""The embedded API server as a process of its own, with the surface of a real control plane as far as tests use it.

`python -m tests.conformance.embedded PORT KUBECONFIG STATE` is that process: the API server alone, without controllers
and nodes of its own, as the real one is. It keeps its state in a file, which it writes as it ends.
"""

import asyncio
import sys
from pathlib import Path
from signal import SIGINT, SIGTERM, Signals
from typing import Self

import aiohttp

from simulator.apiserver import ApiServer
from tests.conformance.api import Api
from tests.conformance.server import Server
from tests.conformance.start import LOOPBACK, free_ports


class EmbeddedServer(Server):
    """The process. It has nothing but memory, so that it is never killed, only ended: what it knew must outlive it."""

    async def stop(self, signal: Signals = SIGTERM, timeout: float = 60) -> int | None:
        return await super().stop(SIGTERM, timeout)


class EmbeddedPlane:
    """Used in place of a ControlPlane; `async with`."""

    def __init__(self, folder: Path) -> None:
        [self._port] = free_ports(1)
        self._kubeconfig = folder / "kubeconfig"
        self.url = f"http://{LOOPBACK}:{self._port}"
        command = (sys.executable, "-m", __name__, str(self._port), self._kubeconfig, folder / "state.jsonl")
        self.api_server = EmbeddedServer("embedded API server", command, folder / "server.log")

    async def __aenter__(self) -> Self:
        self.api_server.start()
        await self.wait_ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.api_server.kill_now()

    async def wait_ready(self, timeout: float = 60) -> None:
        async with asyncio.timeout(timeout), self.api(timeout=5) as api:
            while not await _ready(api):
                self.api_server.must_run()
                await asyncio.sleep(0.1)

    def api(self, timeout: float = 30) -> Api:
        return Api(self.url, None, None, timeout)

    def kubeconfig(self) -> Path:
        return self._kubeconfig


async def _ready(api: Api) -> bool:
    try:
        return (await api.request("GET", "/readyz")).status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


async def _serve(port: int, kubeconfig: Path, state: Path) -> None:
    server = ApiServer(port)
    if state.exists():
        server.load(state)
    stop = asyncio.Event()
    for signal in (SIGTERM, SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal, stop.set)
    async with server:
        server.write_kubeconfig(kubeconfig)
        await stop.wait()
    server.save(state)


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])))
