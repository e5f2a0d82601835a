"""Refusals: why a filter refused some nodes, as few statuses and one index per node."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.framework.status import Status
from scheduler.snapshot.columns import Codes


@dataclass(frozen=True, slots=True)
class Refusals:
    """Why some nodes were refused: `statuses[which[i]]` is the status of the i-th refused node."""

    statuses: tuple[Status, ...]
    which: Codes
