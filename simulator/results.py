"""What a simulation found out, as values for whoever prints them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kube.api.core import Pod
from scheduler.framework.status import Status


@dataclass(frozen=True, slots=True)
class PodResult:
    """What became of one pod. Scores are weighted, by node and plugin."""

    namespace: str
    name: str
    node: str | None = None
    nominated_node: str | None = None
    victims: tuple[str, ...] = ()
    feasible: tuple[str, ...] = ()
    scores: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    reasons: Mapping[str, Status] = field(default_factory=dict)
    #: node -> the claims that the pod would allocate there
    allocations: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    message: str = ""
    #: number of nodes that fit, and the total score of the chosen one (None: nothing was scored); kept without detail
    fits_on: int = 0
    score: int | None = None


@dataclass(frozen=True, slots=True)
class NodeResult:
    """A node at the end: amounts in milliCPU and base units."""

    name: str
    pods: int
    requested: Mapping[str, int]
    allocatable: Mapping[str, int]


def gated_result(pod: Pod, message: str) -> PodResult:
    """A pod that was not tried."""
    return PodResult(pod.metadata.namespace, pod.metadata.name, message=message)
