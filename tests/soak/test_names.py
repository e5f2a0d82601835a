"""Names that never come again: what the snapshot remembers of labels, keys, taints and resources goes with the objects.

Job names, pod hashes and StatefulSet pod names are labels of which each pod has one of its own. A table of them that
only grows would take a scheduler down in weeks, so a million values go through here (`make soak`; 50,000 in every run).
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from itertools import count

import pytest

from kube.api.core import Pod
from kube.api.labels import IN
from podium.sharing import Sharing
from scheduler.cache import SchedulerCache
from scheduler.framework.preemption.room import LowerPods
from scheduler.snapshot.pod_index import PodIndex, pods_in
from scheduler.snapshot.row_writer import MAX_LABELS, SPARE_RESOURCES, SPARE_TAINT_SETS
from scheduler.snapshot.snapshot import Snapshot
from tests.builders import HOSTNAME, affinity, make_node, make_pod, pod_term, taint
from tests.soak.test_soak import _empty_the_caches_of_functions

NODES = 20
LIVE = 400
#: labels of a pod, whose values no other pod ever has
LABELS = 10
#: so many pods come while one node is replaced
REPLACE_EVERY = 50


class Names:
    """A cluster in which nothing is called as anything before it. Owner: the test."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self.cache = SchedulerCache(self.snapshot)
        self.index = self.snapshot.index(PodIndex)
        self.lower = self.snapshot.index(LowerPods)
        self.sharing = Sharing()
        self.made = count(1)
        self.nodes: deque[str] = deque()
        self.pods: deque[str] = deque()
        for _ in range(NODES):
            self.add_node()

    def add_node(self) -> None:
        """With a hostname, a label, a taint and a device of its own."""
        name = f"node-{next(self.made)}"
        taints = [taint("ToBeDeleted", name)] if len(self.nodes) % 4 == 0 else []
        self.cache.add_node(
            make_node(name, labels={f"only/{name}": "1"}, taints=taints, extra={f"dev.example/{name}": "1"})
        )
        self.nodes.append(name)

    def live(self, pods: int) -> None:
        """So many come, and as many go."""
        for i in range(pods):
            if i % REPLACE_EVERY == 0:
                self.cache.remove_node(self.nodes.popleft())
                self.add_node()
            pod = self.pod(self.nodes[i % NODES])
            self.ask(pod)
            self.cache.add_pod(pod)
            self.pods.append(pod.metadata.uid)
            if len(self.pods) > LIVE:
                self.cache.remove_pod(self.pods.popleft())

    def pod(self, node: str) -> Pod:
        """With labels, a neighbour to keep away from and an image of its own."""
        name = f"pod-{next(self.made)}"
        labels = {"job-name": f"job-of-{name}", **{f"hash-{i}": f"{name}-{i}" for i in range(LABELS - 1)}}
        return self.sharing.pod(
            make_pod(name, uid=name, node_name=node, labels=labels, cpu="10m", requests={f"dev.example/{node}": "1"},
                     affinity=affinity(anti_required=[pod_term(HOSTNAME, {"job-name": labels["job-name"]})]))
        )  # fmt: skip

    def ask(self, pod: Pod) -> None:
        """What plugins ask for it."""
        name = pod.metadata.name
        self.snapshot.refresh()
        shape = self.snapshot.shapes.shape(pod)
        assert (
            not self.index.counted(pods_in("default", (("job-name", IN, (f"job-of-{name}",)),)))
            .by_row(self.snapshot.nodes)
            .any()
        )
        self.index.said_about(shape)
        self.snapshot.nodes.label_codes(HOSTNAME)
        self.snapshot.nodes.label_codes(f"only/{name}")
        self.lower.below(1)

    def blocks(self) -> int:
        """Blocks of memory that are held."""
        _empty_the_caches_of_functions()
        self.sharing._parts.clear()
        gc.collect()
        return sys.getallocatedblocks()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "pods",
    [
        pytest.param(5_000, id="50,000 values of labels"),
        pytest.param(100_000, id="a million values of labels", marks=pytest.mark.soak),
    ],
)
def test_what_is_remembered_of_names_goes_with_them(pods: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.snapshot.pod_index.MAX_BYTES", 1 << 18)
    monkeypatch.setattr("scheduler.snapshot.pod_index.MAX_SAID", 256)
    names = Names()
    names.live(pods // 2)
    middle = names.blocks()
    names.live(pods // 2)
    left = (names.blocks() - middle) / (pods // 2)
    assert left < 0.5, f"each pod leaves {left:.2f} blocks of memory behind"
    snapshot = names.snapshot
    assert len(snapshot.label_values) <= MAX_LABELS + 4
    assert len(snapshot.label(HOSTNAME).values) <= 4 * NODES + 1024 + 2
    assert len(snapshot.taint_sets) <= 2 * NODES + SPARE_TAINT_SETS + 2
    assert len(snapshot.resource_index) <= 2 * (4 + 3 * NODES) + SPARE_RESOURCES
    assert len(snapshot.shapes) <= LIVE + 2
    assert names.cache.validate() == []
