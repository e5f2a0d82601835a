"""Pods that came and went leave every column, count and index as before, and every decision.

And whatever else has changed, a scheduler that has seen it all decides as one that begins now.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from config.defaults import default_configuration
from kube.api.core import Pod
from plugins.dynamic_resources.manager import Manager
from plugins.helpers.amounts import Capacities
from plugins.image_locality import ImageIndex
from plugins.node_declared_features import FeatureIndex
from plugins.node_ports import HostPortIndex
from plugins.node_volume_limits import VolumeCount
from plugins.registry import Registry
from plugins.volume_restrictions import VolumeUsers
from scheduler.framework.preemption.room import LowerPods
from scheduler.framework.runtime import Framework
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_index import PodIndex
from scheduler.snapshot.snapshot import Snapshot
from simulator.load import ClusterObjects
from simulator.offline import Simulation
from tests.plugins.test_whole_profile import GATES, all_at_once, find, simulation
from tests.whole_clusters import OTHERS, PRIORITIES, ClusterMaker

#: what each index holds, as plain values
SHOWN: dict[type, Callable[[Any], Any]] = {
    HostPortIndex: lambda index: index._used,
    VolumeUsers: lambda index: (index._mounts, index._claims),
    VolumeCount: lambda index: index._counts.tolist(),
    LowerPods: lambda index: {
        priority: {resource: sums.tolist() for resource, sums in by_resource.items() if sums.any()}
        for priority, by_resource in index._below.items()
    },
    ImageIndex: lambda index: {name: (image.size, sorted(image._rows)) for name, image in index.images.items()},
    # By its own test, in tests/scheduler/snapshot/test_pod_index.py; here by what plugins make of it.
    PodIndex: lambda index: index.namespace_terms,
    # These hear of nodes only.
    Capacities: lambda index: None,
    FeatureIndex: lambda index: index._declared,
    Manager: lambda index: None,
}


def everything(snapshot: Snapshot) -> dict[str, Any]:
    """All that is known of nodes and the pods on them, as plain values. Names of resources may be more than before."""
    snapshot.refresh()
    assert snapshot.validate() == []
    plain = {
        name: column.tolist()
        for name, column in snapshot.trimmed.items()
        if name not in ("row_version", "allocatable", "requested", "free")
    }
    amounts = {
        (name, resource): snapshot.trimmed[name][i].tolist()
        for name in ("allocatable", "requested", "free")
        for resource, i in snapshot.resource_index.items()
        if snapshot.trimmed[name][i].any()
    }
    return {
        "nodes": {info.name: sums(info) for info in snapshot.node_infos()},
        "columns": plain | amounts,
        "indexes": {kind.__name__: deepcopy(SHOWN[kind](index)) for kind, index in snapshot._indexes.items()},
    }


def sums(info: NodeInfo) -> tuple[Any, ...]:
    return (
        {resource: amount for resource, amount in info.requested.items() if amount},
        (info.non_zero_cpu, info.non_zero_memory),
        deepcopy(info.used_ports),
        deepcopy(info.pvc_ref_counts),
        *(sorted(pods) for pods in (info.pods, info.pods_with_affinity, info.pods_with_required_anti_affinity)),
    )


def decision(framework: Framework, pod: Pod) -> tuple[Any, ...]:
    """Who refuses what, what could be done, and how good the others are."""
    framework.snapshot.refresh()
    found = find(framework, pod)
    diagnosis = framework.diagnose(found)
    if found.rejection is not None:
        return (found.rejection,)
    rows = found.rows()
    if not len(rows):
        _, status = framework.run_post_filter(found.state, pod, diagnosis)
        return diagnosis.node_statuses(), status.reasons
    return diagnosis.node_statuses(), all_at_once(framework, found) if len(rows) > 1 else rows.tolist()


@pytest.mark.parametrize("seed", range(60))
def test_pods_that_came_and_went_leave_everything_as_before(seed: int) -> None:
    maker = ClusterMaker(seed)
    simulated = simulation(maker)
    framework, cache = next(iter(simulated.frameworks.values())), simulated.cache
    pods = [maker.pending() for _ in range(8)]
    # Twice, so that all that is built when it is first asked for is there.
    for _ in range(2):
        decisions = [decision(framework, pod) for pod in pods]
    for priority in PRIORITIES:
        framework.snapshot.index(LowerPods).below(priority)
    before = everything(framework.snapshot)

    came = [maker.running() for _ in range(10)]
    for pod in came:
        cache.add_pod(pod)
    assumed = [framework.snapshot.shapes.pod_info(maker.pending()) for _ in range(4)]
    for info in assumed:
        cache.assume_pod(info, maker.rng.choice(maker.node_names))
    assert everything(framework.snapshot)["nodes"] != before["nodes"]
    for pod in pods:
        decision(framework, pod)

    maker.rng.shuffle(came)
    for pod in came:
        assert cache.remove_pod(pod.metadata.uid)
    for info in assumed:
        assert cache.forget_pod(info)
    after = everything(framework.snapshot)
    # Labels that nobody asked for before have a column now, and so have indexes.
    for part in ("columns", "indexes"):
        after[part] = {name: after[part][name] for name in before[part]}
    assert after == before
    assert [decision(framework, pod) for pod in pods] == decisions


@pytest.mark.parametrize("seed", range(80))
def test_a_scheduler_that_has_seen_it_all_decides_as_one_that_begins_now(seed: int) -> None:
    maker = ClusterMaker(seed)
    lived = simulation(maker)
    framework = next(iter(lived.frameworks.values()))
    pods = [maker.pending() for _ in range(5)]
    for _ in range(4):
        decisions = [decision(framework, pod) for pod in pods]
        begun = afresh(lived)
        assert decisions == [decision(begun, pod) for pod in pods]
        maker.change(lived.cache)
        maker.change_others(lived.listers)


def afresh(lived: Simulation) -> Framework:
    """The same cluster, seen for the first time."""
    infos = list(lived.snapshot.node_infos())
    nominated = [pod.pod for pods in lived.nominator.nominated_nodes().values() for pod in pods]
    objects = ClusterObjects(
        nodes=tuple(info.node for info in infos if info.node is not None),
        pods=(*(pod.pod for info in infos for pod in info.pods.values()), *nominated),
        others={kind: tuple(lived.listers(kind).list()) for kind in OTHERS},
    )
    begun = Simulation(objects, default_configuration(GATES), Registry(), GATES.as_dict())
    return next(iter(begun.frameworks.values()))
