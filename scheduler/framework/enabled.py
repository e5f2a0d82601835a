"""What a profile's runtime is built from: its plugins by extension point, and who measures them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

#: (extension point, status, seconds)
Observer = Callable[[str, str, float], None]


def unobserved(point: str, status: str, seconds: float) -> None:
    """Nobody measures."""


@dataclass(frozen=True, slots=True)
class EnabledPlugins:
    """The plugins of a profile, per extension point and in run order; scores with their weights."""

    points: dict[str, tuple[Any, ...]]
    weights: dict[str, int]
    placement_weights: dict[str, int] = field(default_factory=dict)
