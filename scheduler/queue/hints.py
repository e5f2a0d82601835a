"""What the queue knows of a profile's plugins: who gates pods, and which events may wake the pods that one refused.

Made by `profile_hooks` once, at start-up; read by the SchedulingQueue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kube.api.core import Pod
from scheduler.framework.cluster_event import Action, ClusterEvent, ClusterEventWithHint
from scheduler.framework.status import Status


@dataclass(frozen=True, slots=True)
class Hint:
    """A plugin's registration for an event."""

    plugin: str
    registered: ClusterEventWithHint


@dataclass(frozen=True, slots=True)
class ProfileHooks:
    """What the queue needs of a profile."""

    pre_enqueue: Callable[[Pod], Status | None]
    hints: Sequence[Hint]
    #: plugins without `events`: every event wakes their pods
    any_event: frozenset[str] = frozenset()
    _matching: dict[tuple[str, Action], tuple[Hint, ...]] = field(default_factory=dict)
    _interested: dict[tuple[str, Action], frozenset[str]] = field(default_factory=dict)

    def hints_for(self, event: ClusterEvent) -> tuple[Hint, ...]:
        """The hints that are registered for an event, in plugin order."""
        kind = (event.resource, event.action)
        found = self._matching.get(kind)
        if found is None:
            found = self._matching[kind] = tuple(h for h in self.hints if event.matches(h.registered.event))
        return found

    def interested(self, event: ClusterEvent) -> frozenset[str]:
        """The plugins whose refused pods an event may wake."""
        kind = (event.resource, event.action)
        found = self._interested.get(kind)
        if found is None:
            found = self._interested[kind] = self.any_event.union(h.plugin for h in self.hints_for(event))
        return found
