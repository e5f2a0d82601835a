"""Chaos for the embedded cluster: faults on the wire and nodes that fail, all of it from one seed.

    chaos = Chaos(cluster, seed=7, line="errors=2%,nodes=30s")
    group.create_task(chaos.run())          # until cancelled; the faults on the wire begin with `unleash`

What goes wrong is what goes wrong with real clusters; the line is explained in `apiserver/chaos.py`. Nothing that was
accepted is ever lost. Owner: `podium cluster --chaos`, or a test.
"""

import asyncio
import logging
import random

from simulator.apiserver.chaos import unleash
from simulator.cluster import Cluster

log = logging.getLogger(__name__)


class Chaos:
    """Lets things go wrong."""

    def __init__(self, cluster: Cluster, seed: int, line: str = "", *, node_outage: float = 120.0) -> None:
        """A node that fails is back after about `node_outage` seconds."""
        self._cluster = cluster
        self._random = random.Random(seed)
        self._line = line
        self._outage = node_outage
        self._intervals: dict[str, float] = {}
        self.failed: list[str] = []

    def unleash(self) -> None:
        """Begin with the faults on the wire, which last until `faults.clear()`; raises a ChaosError."""
        self._intervals = unleash(self._cluster.server.faults, self._line)

    async def run(self) -> None:
        """Let nodes fail and come back, and the server forget, until cancelled."""
        async with asyncio.TaskGroup() as group:
            if interval := self._intervals.get("nodes"):
                group.create_task(self._fail_nodes(group, interval))
            if interval := self._intervals.get("relists"):
                group.create_task(self._force_relists(interval))

    async def _fail_nodes(self, group: asyncio.TaskGroup, interval: float) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(1 / interval))
            group.create_task(self._fail_one())

    async def _force_relists(self, interval: float) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(1 / interval))
            log.info("chaos: all watches break, and the past is forgotten")
            self._cluster.server.store.force_relists()

    async def _fail_one(self) -> None:
        names = sorted(node["metadata"]["name"] for node in self._cluster.server.list("nodes"))
        alive = [name for name in names if self._cluster.kubelet.is_alive(name)]
        if len(alive) <= len(names) // 2:
            return  # half of a cluster is outage enough
        node = self._random.choice(alive)
        self.failed.append(node)
        log.info("chaos: node %s fails", node)
        self._cluster.kubelet.fail(node)
        await asyncio.sleep(self._random.uniform(0.5, 1.5) * self._outage)
        log.info("chaos: node %s is back", node)
        self._cluster.kubelet.recover(node)
