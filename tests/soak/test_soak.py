"""Hours of churn with flat memory: the service over real HTTP in virtual time, and what it holds, sample by sample.

The short one belongs to every run of the tests. `make soak` lives through an hour of the cluster's time and a million
changes, and writes the curve to a file.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from types import ModuleType
from typing import Any

import pytest

from kube.client import event_recorder
from kube.client.informer import Listener
from plugins import taint_toleration
from plugins.helpers import label_rows
from plugins.inter_pod_affinity import plugin as inter_pod_affinity
from plugins.pod_topology_spread import defaults as spread_defaults
from plugins.pod_topology_spread import plugin as spread
from podium import sharing
from podium.wiring import Service
from scheduler.decision_log import DecisionLog
from scheduler.framework import shape_cache
from scheduler.framework.preemption import budgets
from scheduler.snapshot import pod_index
from simulator.apiserver import ApiServer
from tests.podium.harness import check, podium, until
from tests.soak.churn import Churn, Pace

#: how much may be kept of what pods and nodes are like, and how little that is in the short soak
BOUNDS: tuple[tuple[ModuleType, str, int], ...] = (
    (shape_cache, "MAX_BYTES", 1 << 18),
    (pod_index, "MAX_BYTES", 1 << 16),
    (pod_index, "MIN_KEPT", 8),
    (pod_index, "MAX_SAID", 32),
    (label_rows, "MAX_BYTES", 1 << 10),
    (taint_toleration, "MAX_TOLERATIONS", 16),
    (spread, "MAX_SHAPES", 16),
    (spread_defaults, "MAX_SHAPES", 16),
    (inter_pod_affinity, "MAX_SHAPES", 16),
    (budgets, "MAX_SHAPES", 16),
    (event_recorder, "SERIES_LIMIT", 32),
    (sharing, "MAX_PARTS", 512),
)
#: changes of pods and nodes in `make soak`
MILLION = 1_000_000
REPORT = "PODIUM_SOAK_REPORT"


def resident() -> float:
    """MiB of memory that the process has, the embedded API server's included."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass
class Sample:
    events: int
    seconds: float
    resident: float
    #: blocks of memory that Python has given out
    blocks: int
    live_pods: int
    sizes: dict[str, int]


@dataclass
class Soak:
    """One service under churn, with samples of what it holds."""

    service: Service
    churn: Churn
    samples: list[Sample] = field(default_factory=list)

    async def live(self, events: int, samples: int) -> None:
        """As many more changes, sampled as often."""
        start = self.churn.events
        for i in range(1, samples + 1):
            await self.churn.until(start + events * i // samples)
            self.samples.append(self._sample())

    def _sample(self) -> Sample:
        _empty_the_caches_of_functions()
        gc.collect()
        now, pods = self.service.scheduler.queue.now(), len(self.service.cache.pods)
        return Sample(self.churn.events, now, resident(), sys.getallocatedblocks(), pods, self.sizes())

    def sizes(self) -> dict[str, int]:
        """What in podium remembers something of pods and nodes, and how much each does."""
        service, snapshot = self.service, self.service.snapshot
        return {
            "nodes": len(service.cache.nodes),
            "rows": snapshot.size,
            "pods left alone": len(service.scheduler.left_alone),
            "kept shapes": sum(len(f.shapes) for f in service.scheduler.frameworks.values()),
            "parsed shapes": len(snapshot.shapes),
            "label values": sum(len(label.values) for label in snapshot.label_values.values()),
            "taint sets": len(snapshot.taint_sets),
            "resources": len(snapshot.resource_index),
            "events kept for replay": service.scheduler.queue.in_flight_events(),
            "decisions": len(service.scheduler.decisions),
            "handlers to be told again": sum(not one.idle for one in _listeners(service)),
        }


def _listeners(service: Service) -> list[Listener[Any]]:
    return [listener for informer in service.factory.informers for listener in informer.listeners]


def _empty_the_caches_of_functions() -> None:
    """Each is bounded by a number of entries; how full it is tells nothing about growth."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").split(".")[0] in {"kube", "scheduler", "plugins", "podium"}:
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


async def came_to_rest(soak: Soak) -> None:
    """Everybody leaves, and nothing is left of them."""
    service = soak.service
    soak.churn.end()
    await until(lambda: service.scheduler.idle and not service.cache.pods, "nobody is left", 900.0)
    assert service.scheduler.queue.pending_pods() == []
    assert service.scheduler.queue.in_flight_events() == 0
    assert service.scheduler.left_alone == set()
    assert service.debugger.mended == 0
    check(service)


def assert_bounded(sample: Sample, waiting: int = 0) -> None:
    """What is remembered goes with what it is about."""
    sizes = sample.sizes
    assert sizes["parsed shapes"] <= sample.live_pods + waiting + sizes["kept shapes"] + 20
    assert sizes["rows"] <= sizes["nodes"] + 1
    assert sizes["label values"] <= 4 * (4 * sizes["rows"] + 1024)
    assert sizes["taint sets"] <= 2 * sizes["nodes"] + 64
    assert sizes["resources"] == 4
    assert sizes["pods left alone"] == sizes["handlers to be told again"] == 0


@pytest.mark.timeout(300)
@pytest.mark.looptime
async def test_memory_stays_where_it_is_while_pods_and_nodes_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds of what is kept are made small, so that seconds show what else would take days."""
    for module, name, small in BOUNDS:
        monkeypatch.setattr(module, name, small)
    async with ApiServer(window=200) as server:
        churn = Churn(server, Pace(nodes=30, heartbeat=5.0, pods=5.0, life=6.0, replace=3.0))
        churn.furnish()
        async with podium(server) as service:
            service.scheduler.decisions = DecisionLog(64)
            soak = Soak(service, churn)
            await soak.live(2_000, 2)
            await soak.live(4_000, 8)
            for sample in soak.samples:
                assert_bounded(sample, waiting=60)
            first, second = soak.samples[2:6], soak.samples[6:]
            grown = min(sample.blocks for sample in second) - min(sample.blocks for sample in first)
            pods = churn.pods // 3
            # A pod that is never let go is some sixty blocks.
            assert grown < 20 * pods, f"{grown} more blocks of memory after {pods} more pods"
            await came_to_rest(soak)


@pytest.mark.soak
@pytest.mark.timeout(2 * 3600)
@pytest.mark.looptime(noop_cycles=1)
async def test_an_hour_of_churn_and_a_million_changes() -> None:
    """Nothing is made small here. What is kept grows to its bounds in the first part of the hour, and no further."""
    started = time.monotonic()
    async with ApiServer() as server:
        churn = Churn(server, Pace(nodes=1000, heartbeat=5.0, pods=17.0, life=120.0, replace=15.0))
        churn.furnish()
        async with podium(server) as service:
            soak = Soak(service, churn)
            await soak.live(MILLION, 40)
            for sample in soak.samples:
                assert_bounded(sample, waiting=200)
            report = describe(soak, time.monotonic() - started)
            print(report)
            if os.environ.get(REPORT):
                Path(os.environ[REPORT]).write_text(report)
            middle, last = soak.samples[16:28], soak.samples[28:]
            # Blocks tell what is kept; what the process has grows a little with the holes between them.
            assert mean(s.blocks for s in last) < 1.05 * mean(s.blocks for s in middle)
            assert mean(s.resident for s in last) < 1.05 * mean(s.resident for s in middle)
            await came_to_rest(soak)


def describe(soak: Soak, seconds: float) -> str:
    """The curve, for people."""
    churn, samples = soak.churn, soak.samples
    highest = max(sample.resident for sample in samples)
    hours, minutes = samples[-1].seconds / 3600, seconds / 60
    lines = [
        "# Soak",
        "",
        f"{churn.events:,} changes of pods and nodes in {hours:.2f} h of the cluster's time ({minutes:.0f} minutes of"
        f" ours): {churn.pods:,} pods came and went on 1,000 nodes, {churn.replaced} nodes were replaced. Memory is"
        " that of the whole process, the embedded API server's included. Made by `make soak`.",
        "",
        "| changes | hours | live pods | MiB resident | blocks | kept shapes | label values | |",
        "|---:|---:|---:|---:|---:|---:|---:|:---|",
    ]
    lines += [
        f"| {sample.events:,} | {sample.seconds / 3600:.2f} | {sample.live_pods:,} | {sample.resident:.0f}"
        f" | {sample.blocks:,} | {sample.sizes['kept shapes']} | {sample.sizes['label values']:,}"
        f" | {'█' * round(40 * sample.resident / highest)} |"
        for sample in samples[1::2]
    ]
    return "\n".join(lines) + "\n"
