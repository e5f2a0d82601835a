"""Group preemption: whom a whole group needs gone, anywhere in the cluster (facts B5).

All that the group may evict is taken away at once; if the group then fits, as much as possible is put back, the most
important first, what a PodDisruptionBudget protects before the rest. What may only be disrupted whole goes and comes
back whole.

Used by the evaluator, inside a group cycle, on the ground that the cycle gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.framework.handle import Handle
from scheduler.framework.plugin import GroupPreemption, PreemptionGround
from scheduler.framework.pod_groups import Group, Groups, group_key
from scheduler.framework.preemption.budgets import Budgets
from scheduler.framework.preemption.dry_run import start_time
from scheduler.framework.status import Status, unresolvable
from scheduler.snapshot.pod_info import PodInfo

NO_VICTIMS = unresolvable("No preemption victims found for incoming preemptor")
#: tries of the whole group in one search, fewer for large groups: a search must not hold the scheduler for seconds.
#: Then those that are not in its way are put back, and nobody else.
MAX_TRIES = 200
MIN_TRIES = 8
#: members placed in all tries together
MAX_PLACEMENTS = 5_000


@dataclass(frozen=True, slots=True)
class Unit:
    """Pods that are evicted together: one pod, or a group that is only disrupted whole."""

    pods: tuple[PodInfo, ...]
    priority: int
    is_group: bool = False

    @property
    def leaving(self) -> bool:
        """Its room becomes free whatever is decided here."""
        return all(pod.terminating for pod in self.pods)

    def importance(self) -> tuple[int, bool, int, float]:
        """The more important, the smaller: priority, group before pod, size of groups, age."""
        started = min((start_time(pod) for pod in self.pods), default=math.inf)
        return -self.priority, not self.is_group, -len(self.pods) if self.is_group else 0, started


class GroupSearch:
    """One search for one group. Owner: the evaluator; lives within a group cycle."""

    def __init__(self, handle: Handle, group: Group, budgets: Budgets, ground: PreemptionGround) -> None:
        self._handle = handle
        self._group = group
        self._budgets = budgets
        self._ground = ground
        self._groups = Groups(handle)
        self._nodes: dict[str, str] = {}
        self._tries_left = MAX_TRIES

    def run(self, members: Sequence[PodInfo]) -> GroupPreemption | Status:
        """The victims, and where the members then go; or why preemption does not help."""
        self._tries_left = min(MAX_TRIES, max(MIN_TRIES, MAX_PLACEMENTS // max(len(members), 1)))
        units = sorted(self._units(), key=Unit.importance)
        if not units:
            return NO_VICTIMS
        for unit in units:
            self._ground.lift(unit.pods)
        answer = self._ground.place()
        if isinstance(answer, Status):
            return answer
        self._nodes = answer
        staying = [unit for unit in units if not unit.leaving]
        violating = self._violating(staying)
        kept = self._put_back([unit for unit in staying if unit in violating])
        kept |= self._put_back([unit for unit in staying if unit not in violating])
        gone = [unit for unit in staying if unit not in kept]
        victims = tuple(pod for unit in gone for pod in unit.pods if not pod.terminating)
        return GroupPreemption(victims, self._nodes)

    def _units(self) -> Iterable[Unit]:
        """Everything of lower priority than the group's; a group that is a victim counts by its own priority."""
        whole: dict[str, tuple[Group, list[PodInfo]]] = {}
        for info in self._handle.snapshot.node_infos():
            for pod in info.pods.values():
                group = self._groups.of(pod.pod) if group_key(pod.pod) else None
                if group is not None and group.disrupted_whole:
                    whole.setdefault(group.key, (group, []))[1].append(pod)
                    continue
                priority = group.priority if group is not None and group.has_priority else pod.priority
                if priority < self._group.priority:
                    yield Unit((pod,), priority)
        for group, pods in whole.values():
            priority = group.priority if group.has_priority else max(pod.priority for pod in pods)
            if priority < self._group.priority:
                yield Unit(tuple(pods), priority, is_group=True)

    def _violating(self, units: Sequence[Unit]) -> set[Unit]:
        """Units with a pod whose eviction its budget does not allow, if all were evicted in this order."""
        violating, _ = self._budgets.split([pod for unit in units for pod in unit.pods])
        uids = {pod.uid for pod in violating}
        return {unit for unit in units if any(pod.uid in uids for pod in unit.pods)}

    def _put_back(self, units: Sequence[Unit]) -> set[Unit]:
        """Those that need not go. Whom the group does not fit beside is found by halving, not one after the other:
        the more pods are there, the less fits.
        """
        kept: set[Unit] = set()
        at = 0
        while at < len(units):
            fits = self._longest(units, at)
            kept |= set(units[at : at + fits])
            # The one after those that fit is in the way.
            at += fits + 1
        return kept

    def _longest(self, units: Sequence[Unit], start: int) -> int:
        """How many units from `start` on can all be put back; they are back then."""
        low, high, size = 0, len(units) - start, 1
        while low < high:
            part = units[start + low : start + min(low + size, high)]
            if self._fits_with(part):
                low += len(part)
                size *= 2
            elif len(part) == 1:
                return low
            else:
                high = low + len(part) - 1
                size = max(len(part) // 2, 1)
        return low

    def _fits_with(self, part: Sequence[Unit]) -> bool:
        """Put these back and try the group; they are taken away again where it does not fit."""
        pods = [pod for unit in part for pod in unit.pods]
        in_the_way = set(self._nodes.values())
        self._ground.put_back(pods)
        self._tries_left -= 1
        if self._tries_left < 0:
            fits = not any(pod.pod.spec.node_name in in_the_way for pod in pods)
        else:
            answer = self._ground.place()
            fits = not isinstance(answer, Status)
            if not isinstance(answer, Status):
                self._nodes = answer
        if not fits:
            self._ground.lift(pods)
        return fits
