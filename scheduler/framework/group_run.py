"""GroupRun: what the members of a pod group share while one cycle decides on all of them.

Made by the pod group cycle, which sets `Handle.group` to it; plugins read and add to it, and it ends with the cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class GroupRun:
    """What the members of a group share while they are decided together (`Handle.group`)."""

    key: str
    #: why single members may not preempt, "" where they may
    no_preemption: str = ""
    #: evictions that members need; carried out only if the whole group then fits
    evictions: list[Callable[[], None]] = field(default_factory=list)
    #: what members decided for things that they share (claims), by its identity
    shared: dict[str, object] = field(default_factory=dict)
