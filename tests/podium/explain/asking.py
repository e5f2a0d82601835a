"""Ask explain about a cluster made of objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kube.api.core import Node, Pod
from podium.explain.documents import Explanation
from podium.explain.explain import explain
from podium.explain.sources import cluster_of
from simulator.load import ClusterObjects
from simulator.offline import Simulation
from tests.podium.harness import effective


def simulation_of(
    nodes: Iterable[Node], pods: Iterable[Pod] = (), others: Iterable[Any] = (), *, any_name: bool = True
) -> Simulation:
    """The default configuration on these objects."""
    by_kind: dict[str, tuple[Any, ...]] = {}
    for other in others:
        by_kind[other.KIND] = (*by_kind.get(other.KIND, ()), other)
    objects = ClusterObjects(nodes=tuple(nodes), pods=tuple(pods), others=by_kind)
    given = effective()
    return Simulation(objects, given.value, given.registry, given.gates, any_scheduler_name=any_name)


def explained(
    pod: Pod, nodes: Iterable[Node], pods: Iterable[Pod] = (), others: Iterable[Any] = (), *, any_name: bool = True
) -> Explanation:
    """Why this pod is where it is, among these others."""
    simulation = simulation_of(nodes, (*pods, pod), others, any_name=any_name)
    return explain(cluster_of(simulation), pod)
