"""Scores by storage: how much of the storage that a node offers the pod's claims would use, put through a shape.

Only with the gate StorageCapacityScoring. Pure functions of what the finder found; VolumeBinding calls them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Protocol

from kube.api import quantity
from kube.api.quantity import whole
from kube.api.volumes import capacity_of, claim_class, request_of, volume_class
from plugins.volume_binding.finder import Binding, PodVolumes, Provision

MAX_UTILIZATION = 100
#: shapes are written with scores 0..10
SCALE = 10


class ShapePoint(Protocol):
    """A point of a shape: utilization 0..100 to score 0..10."""

    @property
    def utilization(self) -> int:
        """Percent."""

    @property
    def score(self) -> int:
        """0..10."""


def score_table(shape: Sequence[ShapePoint]) -> tuple[int, ...]:
    """The score for each utilization 0..100: straight lines between the points, constant outside."""
    return tuple(_on_shape(shape, utilization) for utilization in range(MAX_UTILIZATION + 1))


def _on_shape(shape: Sequence[ShapePoint], utilization: int) -> int:
    before = shape[0]
    for point in shape:
        if utilization <= point.utilization:
            rise = SCALE * (point.score - before.score) * (utilization - before.utilization)
            width = point.utilization - before.utilization
            # Go's division: toward zero, also where the line falls.
            return SCALE * before.score + (int(math.copysign(abs(rise) // width, rise)) if width else 0)
        before = point
    return SCALE * shape[-1].score


def node_score(found: PodVolumes, table: Sequence[int]) -> int:
    """The mean over storage classes; existing volumes count alone where there are some."""
    used = _bound(found.bindings) if found.bindings else _provisioned(found.provisions)
    if not used:
        return 0
    scores = [table[_utilization(requested, capacity)] for requested, capacity in used.values()]
    return math.floor(sum(scores) / len(scores) + 0.5)


def _bound(bindings: Iterable[Binding]) -> dict[str, tuple[int, int]]:
    """class -> (requested, capacity), both summed."""
    used: dict[str, tuple[int, int]] = {}
    for binding in bindings:
        requested, capacity = used.get(volume_class(binding.volume), (0, 0))
        requested += whole(request_of(binding.claim))
        used[volume_class(binding.volume)] = requested, capacity + whole(capacity_of(binding.volume))
    return used


def _provisioned(provisions: Iterable[Provision]) -> dict[str, tuple[int, int]]:
    """class -> (requested, capacity); the claims of a class share its room, so that counts once."""
    used: dict[str, tuple[int, int]] = {}
    for provision in provisions:
        if provision.capacity is None:
            continue
        requested, _ = used.get(claim_class(provision.claim), (0, 0))
        requested += whole(request_of(provision.claim))
        used[claim_class(provision.claim)] = requested, quantity.value(provision.capacity.capacity or "0")
    return used


def _utilization(requested: int, capacity: int) -> int:
    if capacity == 0 or requested > capacity:
        return MAX_UTILIZATION
    return requested * MAX_UTILIZATION // capacity
