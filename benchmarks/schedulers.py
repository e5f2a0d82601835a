"""Schedulers as processes: podium, the real kube-scheduler, or any command.

A `Contender` knows how one is started on a site; `Running` is one that runs. Its life begins with `start` and ends with
`stop`; its files lie in the site's folder.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import aiohttp
import yaml

from benchmarks.servers import Site

QPS = 5000
STOP_SECONDS = 30.0
#: one thread for linear algebra; and no cluster but the one that is named
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "KUBERNETES_SERVICE_HOST": ""}
_CONFIG_VERSIONS = (((1, 25), "v1"), ((1, 23), "v1beta3"), ((1, 22), "v1beta2"), ((1, 19), "v1beta1"))


@dataclass(frozen=True, slots=True)
class Contender:
    """A scheduler that can be started; `command` gives words and the URL of its endpoints."""

    name: str
    command: Callable[[Site, int], tuple[list[str], str]]

    async def start(self, site: Site) -> Running:
        """Start a process; it may not be ready yet."""
        port = free_port()
        words, url = self.command(site, port)
        log = (site.folder / f"{self.name}-{port}.log").open("ab")
        with log:
            started = perf_counter()
            process = await asyncio.create_subprocess_exec(
                *words, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **_ENVIRONMENT}
            )
        return Running(self.name, process, url, started, Path(log.name))


class Running:
    """A scheduler's process. Owner: the comparison."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, url: str, started: float, log: Path) -> None:
        self.name = name
        self.started = started
        self.pid = process.pid
        self.log = log
        self._process = process
        self._url = url
        self._session: aiohttp.ClientSession | None = None

    async def metrics(self) -> str:
        """Its /metrics; "" where it does not answer."""
        try:
            return await self._get("/metrics")
        except (aiohttp.ClientError, TimeoutError):
            return ""

    async def answers(self) -> float:
        """Seconds in which /healthz answers; infinity where it does not."""
        started = perf_counter()
        try:
            await self._get("/healthz")
        except (aiohttp.ClientError, TimeoutError):
            return float("inf")
        return perf_counter() - started

    def must_run(self) -> None:
        """RuntimeError with the log's end, unless it runs."""
        if self._process.returncode is not None:
            end = self.log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{self.name} ended with exit code {self._process.returncode}:\n{end}")

    async def stop(self) -> None:
        """SIGTERM, then the end."""
        if self._session is not None:
            await self._session.close()
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _get(self, path: str) -> str:
        if self._session is None:
            self._session = aiohttp.ClientSession(trust_env=False, timeout=aiohttp.ClientTimeout(total=30))
        async with self._session.get(self._url + path, ssl=_unverified()) as answer:
            answer.raise_for_status()
            return await answer.text()


def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def podium() -> Contender:
    """`podium run`, from this tree."""

    def command(site: Site, port: int) -> tuple[list[str], str]:
        config = _write_config(site, "podium", port, "v1", site.kubeconfig, {})
        words = [sys.executable, "-m", "podium", "run", f"--config={config}", "--bind-address=127.0.0.1"]
        return [*words, f"--port={port}"], f"http://127.0.0.1:{port}"

    return Contender("podium", command)


def kube_scheduler(binary: Path, version: tuple[int, int]) -> Contender:
    """The real one."""

    def command(site: Site, port: int) -> tuple[list[str], str]:
        api_version = next(name for since, name in _CONFIG_VERSIONS if version >= since)
        address = f"127.0.0.1:{port}"
        plain = version < (1, 23)
        extra = {"healthzBindAddress": address, "metricsBindAddress": address} if plain else {}
        kubeconfig = site.scheduler_kubeconfig or site.kubeconfig
        config = _write_config(site, "kube-scheduler", port, api_version, kubeconfig, extra)
        words = [str(binary), f"--config={config}", "--bind-address=127.0.0.1", f"--cert-dir={site.folder}", "-v=0"]
        words.append(f"--secure-port={0 if plain else port}")
        return words, f"{'http' if plain else 'https'}://{address}"

    return Contender("kube-scheduler", command)


def any_command(text: str) -> Contender:
    """A command line with {kubeconfig}, {config} (a KubeSchedulerConfiguration), {name} and {port} in it."""

    def command(site: Site, port: int) -> tuple[list[str], str]:
        config = _write_config(site, "peer", port, "v1", site.kubeconfig, {})
        words = shlex.split(text.format(kubeconfig=site.kubeconfig, config=config, name="peer", port=port))
        return words, f"http://127.0.0.1:{port}"

    return Contender("peer", command)


def _write_config(site: Site, name: str, port: int, version: str, kubeconfig: Path, extra: dict[str, Any]) -> Path:
    path = site.folder / f"{name}-{port}.yaml"
    document = {
        "apiVersion": f"kubescheduler.config.k8s.io/{version}",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": QPS, "burst": QPS},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": name}],
        **extra,
    }
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def free_port() -> int:
    """A port of the loopback that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
