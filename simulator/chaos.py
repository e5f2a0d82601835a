"""Chaos for the embedded cluster: faults on the wire and nodes that fail, all of it from one seed.

    chaos = Chaos(cluster, seed=7)
    group.create_task(chaos.run())          # until cancelled; the faults on the wire begin with `unleash`

What goes wrong is what goes wrong with real clusters: slow answers, 429 with Retry-After, 500, a proxy's HTML, cut
connections, watches that end, break or expire, news that arrives late. Nothing that was accepted is ever lost.
Owner: `podium cluster --chaos`, or a test.
"""

import asyncio
import logging
import random
from typing import NamedTuple

from simulator.apiserver.faults import (
    Answer,
    Cut,
    Effect,
    Latency,
    WatchCut,
    WatchDelay,
    WatchEnd,
    WatchExpired,
)
from simulator.cluster import Cluster

log = logging.getLogger(__name__)


class Hazard(NamedTuple):
    """One kind of fault, and how often a request meets it."""

    effect: Effect
    verb: str
    probability: float


WRITES = ("create", "update", "patch", "delete")
HAZARDS: tuple[Hazard, ...] = (
    Hazard(Latency(0.02, jitter=0.2), "", 0.10),
    *(Hazard(Answer(429, retry_after=1), verb, 0.01) for verb in (*WRITES, "list")),
    *(Hazard(Answer(500), verb, 0.01) for verb in (*WRITES, "list", "watch")),
    *(Hazard(Answer(503, html=True), verb, 0.005) for verb in (*WRITES, "list", "watch")),
    *(Hazard(Cut(), verb, 0.01) for verb in WRITES),
    *(Hazard(Cut(applied=True), verb, 0.01) for verb in WRITES),
    Hazard(WatchDelay(0.3), "watch", 0.2),
    Hazard(WatchEnd(after_lines=200), "watch", 0.2),
    Hazard(WatchCut(after_lines=100, mid_line=True), "watch", 0.2),
    Hazard(WatchExpired(after_lines=300), "watch", 0.1),
)


class Chaos:
    """Lets things go wrong."""

    def __init__(self, cluster: Cluster, seed: int, *, node_interval: float = 30.0, node_outage: float = 120.0) -> None:
        """A node fails about every `node_interval` seconds and is back after about `node_outage`."""
        self._cluster = cluster
        self._random = random.Random(seed)
        self._interval = node_interval
        self._outage = node_outage
        self.failed: list[str] = []

    def unleash(self) -> None:
        """Begin with the faults on the wire; they last until `faults.clear()`."""
        for effect, verb, probability in HAZARDS:
            self._cluster.server.faults.add(effect, verb=verb, count=None, probability=probability)

    async def run(self) -> None:
        """Let nodes fail and come back, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self._random.expovariate(1 / self._interval))
                group.create_task(self._fail_one())

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
