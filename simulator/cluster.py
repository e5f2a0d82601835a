"""A cluster in one object: the embedded API server, its controllers, and a hollow kubelet for its nodes.

    async with Cluster() as cluster:
        cluster.add_nodes(make_node_template(cpu="16"), 100)
        print(cluster.kubeconfig())

`podium demo` and `podium cluster` build on it. It owns all parts and starts and stops them together.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from simulator.apiserver.errors import Object
from simulator.apiserver.server import ApiServer
from simulator.apiserver.verbs import utc_now
from simulator.controllers.manager import ControllerManager, Settings
from simulator.kubelet.hollow import HollowKubelet

HOSTNAME = "kubernetes.io/hostname"
#: where extension servers look for the CA of client certificates: there are none here
_AUTHENTICATION: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
    "data": {"requestheader-allowed-names": "[]"},
}
_NODE_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID"),
    ("Ready", "True", "KubeletReady"),
)


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """How the nodes behave, in seconds: how long pods take to start and stop, and how often a node is heard of."""

    start_delay: float = 0.0
    stop_delay: float = 0.0
    jitter: float = 0.0
    heartbeat: float = 10.0
    status_interval: float = 300.0


def make_node_template(
    *, cpu: str = "8", memory: str = "32Gi", pods: str = "110", labels: dict[str, str] | None = None, **resources: str
) -> Object:
    """Give a Node to make others from; further keywords are further resources, `_` for `-` in their names."""
    extra = {name.replace("_", "-"): amount for name, amount in resources.items()}
    capacity = {"cpu": cpu, "memory": memory, "pods": pods, **extra}
    return {"metadata": {"labels": dict(labels or {})}, "status": {"capacity": capacity}}


class Cluster:
    """An API server with controllers, and with nodes that start what is bound to them."""

    def __init__(
        self,
        port: int = 0,
        *,
        token: str = "",
        seed: int = 0,
        clock: Callable[[], datetime] = utc_now,
        nodes: NodeSettings | None = None,
        controllers: Settings | None = None,
    ) -> None:
        self.server = ApiServer(port, token=token, seed=seed, clock=clock)
        chosen = nodes or NodeSettings()
        self.controllers = ControllerManager(self.server, controllers)
        driver = self.controllers.device_driver
        self.kubelet = HollowKubelet(
            self.server,
            start_delay=chosen.start_delay,
            stop_delay=chosen.stop_delay,
            jitter=chosen.jitter,
            seed=seed,
            heartbeat=chosen.heartbeat,
            status_interval=chosen.status_interval,
        )
        self.kubelet.drivers[driver.driver] = driver
        self._group: asyncio.TaskGroup | None = None
        self._nodes = 0

    def load(self, path: Path) -> int:
        """Take over a saved state, before `start`; gives the number of objects. Raises StateFileError or OSError."""
        count = self.server.load(path)
        self._nodes = max((_number_of(node["metadata"]["name"]) for node in self.server.list("nodes")), default=0)
        return count

    async def start(self, *, listen: bool = True) -> Self:
        """Start all parts; raises OSError when the port is taken. Without `listen` nobody can reach it from outside."""
        if listen:
            self.server.restore(_AUTHENTICATION)
            await self.server.start()
        self.controllers.start()
        self.kubelet.start()
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        self._group.create_task(self.controllers.run(), name="controllers")
        return self

    async def stop(self) -> None:
        """Stop all parts, in the task that started them."""
        self.kubelet.stop()
        self.controllers.stop()
        if self._group is not None:
            await self._group.__aexit__(None, None, None)
            self._group = None
        await self.server.stop()

    async def __aenter__(self) -> Self:
        """Start."""
        return await self.start()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop."""
        await self.stop()

    @property
    def url(self) -> str:
        """Where clients find the API server."""
        return self.server.url

    def kubeconfig(self) -> str:
        """Give the text of a kubeconfig for this cluster."""
        return self.server.kubeconfig()

    def add_nodes(self, template: Object, count: int, *, prefix: str = "node-") -> list[str]:
        """Create ready nodes after a template, numbered on from those made before; gives their names."""
        names = [f"{prefix}{self._nodes + i + 1:04d}" for i in range(count)]
        for name in names:
            self.add_node(template, name)
        return names

    def add_node(self, template: Object, name: str) -> None:
        """Create one ready node after a template."""
        self._nodes += 1
        self.server.create(self._node(template, name))

    def _node(self, template: Object, name: str) -> Object:
        now = self.server.verbs.now()
        metadata, status = template.get("metadata") or {}, template.get("status") or {}
        labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", HOSTNAME: name}
        number = self._nodes
        conditions = [
            {"type": kind, "status": value, "reason": reason, "lastHeartbeatTime": now, "lastTransitionTime": now}
            for kind, value, reason in _NODE_CONDITIONS
        ]
        addresses = [
            {"type": "InternalIP", "address": f"10.{number >> 16 & 63}.{number >> 8 & 255}.{number & 255}"},
            {"type": "Hostname", "address": name},
        ]
        node_info = {"kubeletVersion": "v1.36.0", "operatingSystem": "linux", "architecture": "amd64"}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {**metadata, "name": name, "labels": {**(metadata.get("labels") or {}), **labels}},
            "spec": dict(template.get("spec") or {}),
            "status": {"conditions": conditions, "addresses": addresses, "nodeInfo": node_info, **status},
        }


def _number_of(name: str) -> int:
    """The number at the end of a node's name, so that further nodes are numbered on from it; 0 for none."""
    digits = name[len(name.rstrip("0123456789")) :]
    return int(digits) if digits else 0
