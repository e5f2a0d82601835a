"""Hours of churn with flat memory: the service over real HTTP in virtual time, and what it holds, sample by sample.

The short one belongs to every run of the tests. `make soak` lives through an hour of the cluster's time and a million
changes, and writes the curve to a file. Memory is flat where nothing is left behind by a pod that came and went: what
is held is explained by the pods that live and by how full the bounded tables are, and not by the number of pods so far.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import time
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from statistics import mean
from types import ModuleType
from typing import Any

import numpy as np
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
from scheduler.snapshot import pod_index, row_writer
from simulator.apiserver import ApiServer
from tests.podium.harness import check, podium, until
from tests.soak.churn import Churn, Pace
from tests.soak.memory import held, resident

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
    (row_writer, "MAX_LABELS", 16),
    (row_writer, "SPARE_RESOURCES", 2),
)
#: changes of pods and nodes in `make soak`, at least, and its length in the cluster's time
MILLION = 1_000_000
HOUR = 3600.0
REPORT = "PODIUM_SOAK_REPORT"
#: what one pod that is gone may have left behind, at most: not one object of a few words
BLOCKS_PER_POD = 1.0
BYTES_PER_POD = 300.0
#: the sizes that go up and down within their bounds, and take memory with them
TABLES = ("kept shapes", "shared parts", "counted selectors")


@dataclass
class Sample:
    events: int
    #: pods that came so far
    pods: int
    seconds: float
    #: MiB that the process has, the embedded API server's included, and what of it is in use
    resident: float
    held: float
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
        churn, start = self.churn, self.churn.events
        for i in range(1, samples + 1):
            await churn.until(lambda: churn.events >= start + events * i // samples)  # noqa: B023 - not kept
            self.sample()

    async def live_for(self, seconds: float, samples: int) -> None:
        """As long, sampled as often."""
        now = self.service.scheduler.queue.now
        start = now()
        for i in range(1, samples + 1):
            await self.churn.until(lambda: now() >= start + seconds * i / samples)  # noqa: B023 - not kept
            self.sample()

    def sample(self) -> None:
        """Look at what there is."""
        _empty_the_caches_of_functions()
        gc.collect()
        churn, now, pods = self.churn, self.service.scheduler.queue.now(), len(self.service.cache.pods)
        blocks = sys.getallocatedblocks()
        self.samples.append(Sample(churn.events, churn.pods, now, resident(), held(), blocks, pods, self.sizes()))

    def sizes(self) -> dict[str, int]:
        """What in podium remembers something of pods and nodes, and how much each does."""
        service, snapshot = self.service, self.service.snapshot
        return {
            "nodes": len(service.cache.nodes),
            "rows": snapshot.size,
            "pods left alone": len(service.scheduler.left_alone),
            "kept shapes": sum(len(f.kept.shapes) for f in service.scheduler.frameworks.values()),
            "kept families": sum(len(f.kept.families) for f in service.scheduler.frameworks.values()),
            "parsed shapes": len(snapshot.shapes),
            "shared parts": sum(len(each._parts) for each in _shared(service)),
            "counted selectors": len(snapshot.index(pod_index.PodIndex)._counted),
            "label keys": len(snapshot.label_values),
            "label values": sum(len(label.values) for label in snapshot.label_values.values()),
            "taint sets": len(snapshot.taint_sets),
            "resources": len(snapshot.resource_index),
            "resources of nodes": len({name for info in service.cache.nodes.values() for name in info.allocatable}),
            "events kept for replay": service.scheduler.queue.in_flight_events(),
            "decisions": len(service.scheduler.decisions),
            "handlers to be told again": sum(not one.idle for one in _listeners(service)),
        }


def _shared(service: Service) -> list[sharing.Sharing]:
    transforms = [getattr(informer.transform, "__self__", None) for informer in service.factory.informers]
    return [each for each in transforms if isinstance(each, sharing.Sharing)]


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
    assert sizes["label keys"] <= row_writer.MAX_LABELS + 8
    assert sizes["label values"] <= 4 * (4 * sizes["rows"] + 1024)
    assert sizes["taint sets"] <= 2 * sizes["nodes"] + 64
    assert 0 < sizes["shared parts"] <= sharing.MAX_PARTS + 1
    assert sizes["resources"] <= 2 * (sizes["resources of nodes"] + 4) + row_writer.SPARE_RESOURCES
    assert sizes["pods left alone"] == sizes["handlers to be told again"] == 0


@pytest.mark.timeout(300)
@pytest.mark.looptime
async def test_memory_stays_where_it_is_while_pods_and_nodes_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds of what is kept are made small, so that seconds show what else would take days."""
    for module, name, small in BOUNDS:
        monkeypatch.setattr(module, name, small)
    async with ApiServer(window=200) as server:
        churn = Churn(server, Pace(nodes=30, heartbeat=5.0, pods=5.0, life=6.0, replace=3.0, devices=5))
        churn.furnish()
        async with podium(server) as service:
            service.scheduler.decisions = DecisionLog(64)
            soak = Soak(service, churn)
            await soak.live(2_000, 2)
            await soak.live(4_000, 32)
            for sample in soak.samples:
                assert_bounded(sample, waiting=60)
            left = left_behind(soak.samples[8:], "blocks")
            # A pod that is never let go is some sixty blocks.
            assert left < 15, f"each pod leaves {left:.1f} blocks behind"
            await came_to_rest(soak)


@pytest.mark.soak
@pytest.mark.timeout(2 * 3600)
@pytest.mark.looptime(noop_cycles=1)
async def test_an_hour_of_churn_and_a_million_changes() -> None:
    """Nothing is made small here. What is kept grows to its bounds in the first half of the hour, and no further."""
    started = time.monotonic()
    async with ApiServer() as server:
        churn = Churn(server, Pace(nodes=1000, heartbeat=5.0, pods=17.0, life=120.0, replace=15.0))
        churn.furnish()
        async with podium(server) as service:
            soak = Soak(service, churn)
            await soak.live_for(HOUR, 40)
            assert churn.events >= MILLION
            for sample in soak.samples:
                assert_bounded(sample, waiting=200)
            report = describe(soak, time.monotonic() - started)
            print(report)
            if os.environ.get(REPORT):
                Path(os.environ[REPORT]).write_text(report)
            assert_flat(soak.samples[16:])
            await came_to_rest(soak)


def assert_flat(samples: list[Sample]) -> None:
    """Memory does not grow with the pods that came and went."""
    blocks, bytes_ = left_behind(samples, "blocks"), left_behind(samples, "held") * 2**20
    assert blocks < BLOCKS_PER_POD, f"each pod leaves {blocks:.2f} blocks behind"
    assert bytes_ < BYTES_PER_POD, f"each pod leaves {bytes_:.0f} bytes behind"
    # The process has the most that was ever held, and the holes in it: it grows less and less.
    half = len(samples) // 2
    assert mean(s.resident for s in samples[half:]) < 1.03 * mean(s.resident for s in samples[:half])


def left_behind(samples: list[Sample], what: str) -> float:
    """How much more is held for each pod that came and went, once live pods and full tables are accounted for."""
    explained = [[1, s.live_pods, *(s.sizes[table] for table in TABLES), s.pods] for s in samples]
    amounts = list(map(attrgetter(what), samples))
    columns = np.array(explained, np.float64)
    return float(np.linalg.lstsq(columns, np.array(amounts, np.float64), rcond=None)[0][-1])


@pytest.mark.parametrize("leak", [pytest.param(0, id="nothing"), pytest.param(2, id="two blocks of 100 bytes")])
def test_what_a_pod_leaves_behind_is_found_among_tables_that_fill_and_are_emptied(leak: int) -> None:
    rng = random.Random(1)
    samples = []
    for i in range(24):
        pods, live, parts = 1_700 * i, rng.randint(3900, 4200), (3_700 * i) % 16_384
        blocks = 1_500_000 + 60 * live + 12 * parts + leak * pods + rng.randint(-8_000, 8_000)
        sizes = {"kept shapes": rng.randint(0, 500), "shared parts": parts, "counted selectors": 900}
        held = blocks * 100 / 2**20
        samples.append(Sample(25_000 * i, pods, 90.0 * i, 320.0, held, blocks, live, sizes))
    if leak:
        with pytest.raises(AssertionError, match=r"each pod leaves [12]\."):
            assert_flat(samples)
    else:
        assert_flat(samples)


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
        "What the process has is the most that it ever held at once, and the holes between. Whether memory grows is"
        " seen in what is held: it goes up and down with the tables that fill to a bound and are emptied. After those"
        " have filled for the first time, each pod that came and went left"
        f" {left_behind(samples[16:], 'blocks'):.2f} blocks of memory behind, and"
        f" {left_behind(samples[16:], 'held') * 2**20:.0f} bytes (below 0: fewer were held than before). The test"
        f" fails from {BLOCKS_PER_POD:.0f} block or {BYTES_PER_POD:.0f} bytes on.",
        "",
        "| changes | hours | live pods | MiB resident | MiB held | blocks | kept shapes | counted selectors"
        " | label keys | |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|:---|",
    ]
    lines += [
        f"| {sample.events:,} | {sample.seconds / 3600:.2f} | {sample.live_pods:,} | {sample.resident:.0f}"
        f" | {sample.held:.0f} | {sample.blocks:,} | {sample.sizes['kept shapes']}"
        f" | {sample.sizes['counted selectors']} | {sample.sizes['label keys']}"
        f" | {'█' * round(40 * sample.resident / highest)} |"
        for sample in samples[1::2]
    ]
    return "\n".join(lines) + "\n"
