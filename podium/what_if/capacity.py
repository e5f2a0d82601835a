"""Capacity: how many copies of pods fit and what stops the next one; how many nodes a workload needs.

Each answer is the engine's: copies are scheduled one by one until one does not fit, nodes are added until all fit.
Nobody is preempted to make room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from kube.api.core import Pod
from podium.configuration import Effective
from podium.explain.documents import Explanation
from podium.explain.explain import explain
from podium.explain.sources import cluster_of
from podium.what_if.cluster_changes import Template, add
from simulator.load import ClusterObjects
from simulator.offline import Extenders, PodResult, Simulation

#: copies after which counting ends
MOST_COPIES = 1_000_000
#: nodes after which a search ends
MOST_NODES = 10_000

change = msgspec.structs.replace
#: told how many are done
Progress = Callable[[int], None]


def _quiet(done: int) -> None:
    """Nobody watches."""


def simulation_of(
    objects: ClusterObjects, effective: Effective, *, seed: int, any_name: bool, extenders: Extenders | None = None
) -> Simulation:
    """A simulation that says where pods go, and not what each node thinks of it."""
    return Simulation(
        objects,
        effective.value,
        effective.registry,
        effective.gates,
        seed=seed,
        any_scheduler_name=any_name,
        detail=False,
        extenders=extenders,
    )


# --- how many copies --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copies:
    """What fits of one set of pods (mostly a set of one)."""

    #: "namespace/name" of the pods of which copies were made
    templates: tuple[str, ...]
    #: whole sets that fit
    sets: int
    #: why the next pod does not, None where counting ended for its own sake
    stopped_by: Explanation | None
    #: node -> pods placed there
    nodes: Counter[str] = field(default_factory=Counter)


def templates_of(pods: Sequence[Pod]) -> list[Pod]:
    """One pod of each workload: replicas are copies already."""
    found: dict[tuple[str, str, str], Pod] = {}
    for pod in pods:
        owner = next((o for o in pod.metadata.owner_references if o.controller), None)
        name = f"{owner.kind}/{owner.name}" if owner is not None else pod.metadata.name
        found.setdefault((pod.metadata.namespace, "owner" if owner else "pod", name), pod)
    return list(found.values())


def how_many(simulation: Simulation, templates: Sequence[Pod], told: Progress = _quiet) -> Copies:
    """Place copies, one of each template in turn, until one does not fit."""
    nodes: Counter[str] = Counter()
    keys = tuple(pod.key for pod in templates)
    for number in range(1, MOST_COPIES // len(templates) + 1):
        for template in templates:
            copied = _copy(template, number)
            result = next(iter(simulation.schedule([copied])))
            if result.node is None:
                return Copies(keys, number - 1, explain(cluster_of(simulation), copied), nodes)
            nodes[result.node] += 1
        told(number)
    return Copies(keys, MOST_COPIES // len(templates), None, nodes)


def _copy(pod: Pod, number: int) -> Pod:
    meta = change(pod.metadata, name=f"{pod.metadata.name}-{number}", uid=f"copy-{number}-of-{pod.key}")
    spec = change(pod.spec, node_name="", preemption_policy="Never")
    return change(pod, metadata=meta, spec=spec)


# --- how many nodes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodesNeeded:
    """How many more nodes like a template let every pod be placed that they can help."""

    template: str
    nodes: int
    #: pods pending without any more nodes, and with that many
    pending_before: int
    pending_after: int
    #: with that many nodes
    results: tuple[PodResult, ...]

    @property
    def still_pending(self) -> list[PodResult]:
        """Pods that more nodes of this kind do not help."""
        return [result for result in self.results if result.node is None]


class NodeSearch:
    """Finds the smallest number of nodes. Owner: one question."""

    def __init__(
        self,
        objects: ClusterObjects,
        template: Template,
        effective: Effective,
        *,
        seed: int,
        any_name: bool,
        extenders: Extenders | None = None,
    ) -> None:
        self._objects = objects
        self._template = template
        self._effective = effective
        self._seed = seed
        self._any_name = any_name
        self._extenders = extenders
        self._known: dict[int, tuple[PodResult, ...]] = {}
        self._told: Progress = _quiet

    def run(self, told: Progress = _quiet) -> NodesNeeded:
        """The least number for which as many pods are placed as with a node for each pod."""
        self._told = told
        before = self._pending(0)
        most = min(before, MOST_NODES)
        goal = self._pending(most)
        low, high = 0, 1
        while high < most and self._pending(high) > goal:
            low, high = high + 1, 2 * high
        high = min(high, most) if before > goal else 0
        while low < high:
            middle = (low + high) // 2
            if self._pending(middle) <= goal:
                high = middle
            else:
                low = middle + 1
        return NodesNeeded(self._template.name, high, before, self._pending(high), self._known[high])

    def _pending(self, count: int) -> int:
        return sum(result.node is None for result in self._results(count))

    def _results(self, count: int) -> tuple[PodResult, ...]:
        if count not in self._known:
            objects = add(self._objects, self._template, count)
            simulation = simulation_of(
                objects, self._effective, seed=self._seed, any_name=self._any_name, extenders=self._extenders
            )
            self._known[count] = tuple(simulation.run())
            self._told(len(self._known))
        return self._known[count]


def with_pods(objects: ClusterObjects, pods: Sequence[Pod] | None) -> ClusterObjects:
    """The cluster with these pods pending instead of its own."""
    return objects if pods is None else replace(objects, pods=(*objects.running, *pods))


# --- documents --------------------------------------------------------------------------------------------------------


def copies_document(copies: Copies) -> dict[str, Any]:
    """As JSON."""
    stopped = copies.stopped_by
    return {
        "pods": list(copies.templates),
        "copies": copies.sets,
        "stoppedBy": stopped,
        "nodes": dict(copies.nodes.most_common()),
    }


def nodes_document(needed: NodesNeeded) -> dict[str, Any]:
    """As JSON."""
    return {
        "template": needed.template,
        "nodes": needed.nodes,
        "pendingBefore": needed.pending_before,
        "pendingAfter": needed.pending_after,
        "stillPending": [
            {"pod": f"{row.namespace}/{row.name}", "message": row.message} for row in needed.still_pending
        ],
    }
