"""The dry run of a preemption on one node: which pods must go so that the pod fits (facts 2.8, step 4).

All pods of lower priority are taken off a clone of the node, then as many as possible are put back, the most important
first, those protected by a PodDisruptionBudget before the others. This is the definition; `room` computes the same by
arithmetic where it can. Never touches the snapshot or the cycle's own state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import DryRun
from scheduler.framework.plugin import FilterPlugin
from scheduler.framework.preemption.budgets import Budgets
from scheduler.framework.status import Status, error, unresolvable
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node where the pod fits once the victims are gone; the most important victim first."""

    node_name: str
    victims: tuple[PodInfo, ...]
    #: victims whose eviction their budget does not allow
    violations: int


def start_time(pod: PodInfo) -> float:
    """When the pod started, seconds; one that has not started yet counts as starting now, after all others."""
    return _seconds(pod.pod.status.start_time)


@lru_cache(maxsize=65536)
def _seconds(text: str) -> float:
    if not text:
        return math.inf
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return math.inf
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def by_importance(pods: Iterable[PodInfo]) -> list[PodInfo]:
    """The most important pod first: by priority, then by age.

    Among pods that have not started the one counted last comes first: upstream asks for the time anew at each
    comparison, so its sort takes every one of them for older than those before it.
    """

    def key(numbered: tuple[int, PodInfo]) -> tuple[int, float, int]:
        number, pod = numbered
        started = start_time(pod)
        return -pod.priority, started, -number if started == math.inf else number

    return [pod for _, pod in sorted(enumerate(pods), key=key)]


def select_victims(
    dry_run: DryRun, state: CycleState, node: NodeInfo, filters: Sequence[FilterPlugin] | None, budgets: Budgets
) -> Candidate | Status:
    """The victims on this node, or why evicting pods does not help there. `filters`: those to ask, None for all."""
    pod_info = state.pod_info
    lower = by_importance(p for p in node.pods.values() if p.priority < pod_info.priority)
    if not lower:
        return NO_VICTIMS
    if filters is not None and not filters:
        return _nobody_has_to_go(node)
    state, node = state.clone(), node.clone()
    for pod in lower:
        dry_run.remove_pod(state, pod_info, pod, node)
    refused = dry_run.filter_with_nominated_pods(state, pod_info, node, filters)
    if refused is not None:
        return refused

    def must_go(pod: PodInfo) -> bool:
        dry_run.add_pod(state, pod_info, pod, node)
        if dry_run.filter_with_nominated_pods(state, pod_info, node, filters) is None:
            return False
        dry_run.remove_pod(state, pod_info, pod, node)
        return True

    violating, others = budgets.split(lower)
    violated = [pod for pod in violating if must_go(pod)]
    victims = violated + [pod for pod in others if must_go(pod)]
    if not victims:
        return _nobody_has_to_go(node)
    return candidate(node.name, victims, len(violated))


def _nobody_has_to_go(node: NodeInfo) -> Status:
    """All filters pass as it is: then who refused the node (an extender) will do so again."""
    return error(f'expected at least one victim pod on node "{node.name}"')


def candidate(node_name: str, victims: list[PodInfo], violations: int) -> Candidate:
    """Victims of both groups are one list again, by importance: the choice between nodes reads the first one."""
    return Candidate(node_name, tuple(by_importance(victims)), violations)
