"""podium as a process of its own, as an operator starts it; and the questions tests ask a cluster about it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Self

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from tests.conformance.api import STRATEGIC_MERGE_PATCH, Api, Json
from tests.conformance.start import free_ports

START_SECONDS = 60


class PodiumProcess:
    """`podium run` on loopback; `async with` starts it, waits until it is ready and ends it with SIGTERM."""

    def __init__(self, kubeconfig: Path, log: Path, *arguments: str, secure: bool = False) -> None:
        self._kubeconfig = kubeconfig
        self._log = log
        self._arguments = arguments
        self.port, self.secure_port = free_ports(2)
        self._secure = secure
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process is not None and self._process.returncode is None:
            await self.stop()

    async def start(self, *, wait: bool = True) -> None:
        """Start and, unless told otherwise, wait for /readyz."""
        words = ["run", f"--kubeconfig={self._kubeconfig}", "--bind-address=127.0.0.1", f"--port={self.port}"]
        words += [f"--secure-port={self.secure_port}"] if self._secure else []
        environment = {**os.environ, "KUBERNETES_SERVICE_HOST": ""}
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "podium", *words, *self._arguments, stdout=log, stderr=log, env=environment
            )
        async with asyncio.timeout(START_SECONDS):
            while wait and not await self._ready():
                if self._process.returncode is not None:
                    raise AssertionError(f"podium ended with {self._process.returncode}: {self._log.read_text()}")
                await asyncio.sleep(0.1)

    async def _ready(self) -> bool:
        try:
            return (await self.page("/readyz"))[0] == 200
        except aiohttp.ClientError:
            return False

    async def page(self, path: str) -> tuple[int, str]:
        """What the plain port answers."""
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
            session.get(f"http://127.0.0.1:{self.port}{path}") as answer,
        ):
            return answer.status, await answer.text()

    async def secure_status(self, path: str, token: str = "") -> int:
        """What the secure port says to somebody with that token."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"https://127.0.0.1:{self.secure_port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=False) as answer:
            return answer.status

    @property
    def pid(self) -> int:
        """Of the process as it runs now."""
        assert self._process is not None
        return self._process.pid

    async def stop(self, sign: signal.Signals = signal.SIGTERM) -> int:
        """End it; the exit code."""
        assert self._process is not None
        self._process.send_signal(sign)
        return await asyncio.wait_for(self._process.wait(), 60)

    async def kill(self) -> None:
        """End it at once, whatever it does."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name with these labels."""
        _, text = await self.page("/metrics")
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    @property
    def log(self) -> str:
        """All it wrote."""
        return self._log.read_text()


async def create_nodes(api: Api, prefix: str, count: int, cpu: str = "16") -> list[str]:
    """Nodes with room, labelled with their prefix, so that tests keep to their own."""
    names = [f"{prefix}-{i}" for i in range(count)]
    size = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    for name in names:
        labels = {"kubernetes.io/hostname": name, "test": prefix}
        await api.post(
            "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        )
        status = {"allocatable": size, "capacity": size}
        await api.patch(f"/api/v1/nodes/{name}/status", {"status": status}, STRATEGIC_MERGE_PATCH)
    return names


def pod(name: str, prefix: str, cpu: str = "100m", **spec: object) -> Json:
    """A pod for podium that fits only the nodes of its test."""
    container = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "podium", "containers": [container], "nodeSelector": {"test": prefix}, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": prefix}, "spec": spec}


async def create_namespace(api: Api, name: str) -> str:
    """A namespace; the path of its pods."""
    await api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return f"/api/v1/namespaces/{name}/pods"


async def create_pods(api: Api, path: str, pods: list[Json], at_once: int = 20) -> None:
    """POST them, some at a time."""
    gate = asyncio.Semaphore(at_once)

    async def one(body: Json) -> None:
        async with gate:
            await api.post(path, body)

    async with asyncio.TaskGroup() as group:
        for body in pods:
            group.create_task(one(body))


def bound(pods: Json) -> Counter[str]:
    """node -> pods on it, of a PodList."""
    return Counter(p["spec"]["nodeName"] for p in pods["items"] if p["spec"].get("nodeName"))
