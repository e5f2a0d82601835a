"""API servers to measure against: the embedded one in its own process, the real one, or whatever a kubeconfig names.

Each is an async context manager that yields a `Site`; what it started it ends.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from kube.client.auth import load_credentials
from kube.client.rest import Client

START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Site:
    """An API server, and where its files may lie."""

    name: str
    kubeconfig: Path
    folder: Path
    version: tuple[int, int]
    #: its processes, for their share of the CPU
    pids: tuple[int, ...] = ()
    #: a kube-scheduler that came with it
    kube_scheduler: Path | None = None
    #: a kubeconfig with a kube-scheduler's rights
    scheduler_kubeconfig: Path | None = field(default=None)


@asynccontextmanager
async def embedded() -> AsyncIterator[Site]:
    """podium's own API server, alone in a process."""
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as name:
        folder = Path(name)
        kubeconfig = folder / "embedded.kubeconfig"
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "benchmarks.servers", kubeconfig)
        try:
            async with asyncio.timeout(START_SECONDS):
                while not kubeconfig.exists():
                    if process.returncode is not None:
                        raise RuntimeError(f"the embedded API server ended with {process.returncode}")
                    await asyncio.sleep(0.05)
            yield Site("embedded", kubeconfig, folder, await _version(kubeconfig), (process.pid,))
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


@asynccontextmanager
async def real() -> AsyncIterator[Site]:
    """etcd and kube-apiserver, as the conformance tests start them."""
    from tests.conformance.find import require
    from tests.conformance.start import KUBE_SCHEDULER, ControlPlane

    async with ControlPlane(require()) as plane:
        yield Site(
            f"kube-apiserver {plane.version[0]}.{plane.version[1]}",
            plane.kubeconfig(),
            plane.folder,
            plane.version,
            (plane.api_server.pid, plane.etcd.pid),
            plane.binaries.kube_scheduler,
            plane.kubeconfig(KUBE_SCHEDULER),
        )


@asynccontextmanager
async def given(kubeconfig: Path) -> AsyncIterator[Site]:
    """A cluster that is there already. Everything is created in it: use one that may be thrown away."""
    with tempfile.TemporaryDirectory(prefix="podium-bench-") as name:
        yield Site(str(kubeconfig), kubeconfig, Path(name), await _version(kubeconfig))


async def _version(kubeconfig: Path) -> tuple[int, int]:
    async with Client(await load_credentials(str(kubeconfig)), qps=-1, burst=0) as client:
        said = json.loads(await client.get_raw("/version"))
    return int(said["major"]), int(str(said["minor"]).rstrip("+"))


async def _serve(kubeconfig: Path) -> None:
    from simulator.apiserver import ApiServer

    async with ApiServer() as server:
        gc.freeze()
        partial = kubeconfig.with_suffix(".partial")
        server.write_kubeconfig(partial).rename(kubeconfig)
        await asyncio.Event().wait()


def main() -> None:
    """The embedded server's process."""
    from podium.running import run_loop

    async def serve() -> int:
        await _serve(Path(sys.argv[1]))
        return 0

    sys.exit(run_loop(serve()))


if __name__ == "__main__":
    main()
