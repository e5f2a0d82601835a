"""The pod group cycle: all members of a group are decided on one snapshot, together (facts B3, B4).

    order ─► for each placement: place member after member, tentatively ─► enough of them? ─► keep, or undo everything

Tentative placements are assumptions in the live cache. That is safe because the whole cycle is one synchronous call:
nobody sees the cache in between, and what is not kept is taken back before the call returns.

Called by the Scheduler's group part and by offline simulation. Never writes to the API server, never queues a pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from scheduler.cache import PodState, SchedulerCache
from scheduler.failure import Failure, failure_of
from scheduler.framework.group_run import GroupRun
from scheduler.framework.plugin import Placement
from scheduler.framework.pod_groups import Group, PodGroups, group_key, is_newest
from scheduler.framework.runtime import Framework
from scheduler.framework.status import Status, unschedulable
from scheduler.pod_group_trial import GroupAttempt, Member, Outcome, Trial, Watch
from scheduler.snapshot.columns import Mask
from scheduler.snapshot.pod_info import PodInfo

UNSCHEDULABLE = "pod group is unschedulable"
WAITING = "pod group is waiting for preemption to complete"
OTHER_FAILED = "failed to schedule other pod from a pod group"
TOPOLOGY_BARS = "not eligible due to placement-based pod group scheduling limitation"
GROUP_PREEMPTS = "not eligible due to workload aware preemption enabled"
NO_TOPOLOGY = "workload aware preemption is not supported for pod groups with scheduling constraints"


@dataclass(slots=True)
class _Tried:
    """A placement, the undone try on it, and how good it is."""

    trial: Trial
    scores: list[float] = field(default_factory=list)


class PodGroupCycle:
    """Owner: whoever schedules groups."""

    def __init__(self, cache: SchedulerCache, watch: Watch | None = None) -> None:
        self._cache = cache
        self._snapshot = cache.snapshot
        self._watch = watch

    def decide(
        self, framework: Framework, infos: Sequence[PodInfo], group: Group | None, percentage: int = 0
    ) -> GroupAttempt:
        """Decide on these members, in this order. Evictions that the decision needs have begun when it returns."""
        handle = framework.handle
        run = GroupRun(group_key(infos[0].pod), _no_single_preemption(framework, group))
        for info in infos:
            handle.nominator.delete(info.uid)
        handle.group = run
        try:
            attempt, evictions = self._decide(framework, infos, group, percentage, run)
        finally:
            handle.group = None
        for evict in evictions:
            evict()
        return attempt

    def rehearse(
        self, framework: Framework, infos: Sequence[PodInfo], group: Group | None, percentage: int = 0
    ) -> GroupAttempt:
        """Whether the members fit together as things are, without consequences: nobody is evicted, placed or noted."""
        handle = framework.handle
        run = GroupRun(group_key(infos[0].pod))
        handle.group = run
        try:
            with framework.without_post_filter():
                attempt, _ = self._decide(framework, infos, group, percentage, run)
            for member in reversed(attempt.placed):
                if attempt.outcome is Outcome.SCHEDULED and member.assumed is not None and member.attempt is not None:
                    framework.run_unreserve(member.attempt.state, member.assumed.pod, member.node_name)
                    self._cache.forget_pod(member.assumed)
        finally:
            handle.group = None
        self._snapshot.refresh()
        return attempt

    def _decide(
        self, framework: Framework, infos: Sequence[PodInfo], group: Group | None, percentage: int, run: GroupRun
    ) -> tuple[GroupAttempt, list[Callable[[], None]]]:
        self._snapshot.refresh()
        if group is not None and framework.placement_generate:
            placements = self._placements(framework, group)
            if isinstance(placements, Status):
                return _refused_as_a_whole(infos, placements), []
            tried = self._try_placements(framework, infos, placements, percentage, run, group)
            prefix = f"0/{len(placements)} placements are available, first placement status: "
        else:
            tried, prefix = self._try_orders(framework, infos, percentage, run), ""
        shortfall = ""
        if group is not None and tried.outcome is Outcome.UNSCHEDULABLE and is_newest(framework.handle):
            running = len(self._snapshot.index(PodGroups).of(group.key).scheduled)
            shortfall = _shortfall(group.min_count or 1, running, tried.members)
        attempt = _conclude(tried, prefix, shortfall)
        if attempt.outcome is Outcome.SCHEDULED:
            return attempt, []
        if attempt.outcome is Outcome.UNSCHEDULABLE and group is not None:
            return attempt, run.evictions if self._preempt(framework, attempt, group, percentage, run) else []
        return attempt, tried.evictions if attempt.outcome is Outcome.WAITING_ON_PREEMPTION else []

    # --- placements ---------------------------------------------------------------------------------------

    def _placements(self, framework: Framework, group: Group) -> list[Placement] | Status:
        found: list[Placement] = []
        for plugin in framework.placement_generate:
            answer = plugin.generate_placements(group, self._snapshot.nodes)
            if isinstance(answer, Status):
                return answer.by(plugin.name)
            found += answer
        return found

    def _try_placements(
        self,
        framework: Framework,
        infos: Sequence[PodInfo],
        placements: Sequence[Placement],
        percentage: int,
        run: GroupRun,
        group: Group,
    ) -> Trial:
        """The best of those that hold the group, in place; else the first, undone."""
        if len(placements) == 1:
            with framework.only_on(placements[0].rows):
                return self._try_orders(framework, infos, percentage, run)
        tried: list[_Tried] = []
        for placement in placements:
            with framework.only_on(placement.rows):
                trial = self._try_orders(framework, infos, percentage, run)
            if trial.outcome is Outcome.ERROR:
                return trial
            tried.append(_Tried(trial))
            if trial.outcome is Outcome.SCHEDULED:
                try:
                    tried[-1].scores = self._raw_scores(framework, group, placement.rows)
                finally:
                    trial.undo()
        holding = [each for each in tried if each.trial.outcome is Outcome.SCHEDULED]
        if not holding:
            return tried[0].trial
        best = _best(framework, holding).trial
        best.redo()
        return best

    def _raw_scores(self, framework: Framework, group: Group, rows: Mask | None) -> list[float]:
        """What each plugin says of a placement with the members in it."""
        self._snapshot.refresh()
        nodes = self._snapshot.nodes if rows is None else self._snapshot.select(rows.nonzero()[0])
        return [plugin.score_placement(group, nodes) for plugin, _ in framework.placement_score]

    # --- orders -------------------------------------------------------------------------------------------

    def _try_orders(self, framework: Framework, infos: Sequence[PodInfo], percentage: int, run: GroupRun) -> Trial:
        """In place where the whole group fits now; undone otherwise. What is told of a failure is the first order's."""
        first = Trial(self._cache, framework, percentage, run, self._watch).place(infos)
        if first.outcome is Outcome.SCHEDULED:
            return first
        first.undo()
        if first.outcome is not Outcome.UNSCHEDULABLE:
            return first
        for order in self._other_orders(framework, first.members):
            trial = Trial(self._cache, framework, percentage, run, self._watch).place(order)
            if trial.outcome is Outcome.SCHEDULED:
                return trial
            trial.undo()
        return first

    def _other_orders(self, framework: Framework, members: Sequence[Member]) -> Iterator[list[PodInfo]]:
        """Large members first, then choosy ones, then small ones; none where all members are alike."""
        more = max((plugin.group_orders for plugin in framework.permit), default=1) - 1
        if more <= 0 or len({member.info.shape.key for member in members}) < 2:
            return
        shares = {member.info.uid: self._share(member.info) for member in members}
        choices = {m.info.uid: m.attempt.feasible_count if m.attempt is not None else 0 for m in members}
        orders: tuple[Callable[[PodInfo], float], ...] = (
            lambda info: -shares[info.uid],
            lambda info: choices[info.uid],
            lambda info: shares[info.uid],
        )
        for order in orders[:more]:
            yield sorted((member.info for member in members), key=order)

    def _share(self, info: PodInfo) -> float:
        """The largest part of the cluster's amount of some resource that the pod asks for."""
        totals = ((n, float(np.sum(self._snapshot.nodes.allocatable(name)))) for name, n in info.requests.items())
        return max((n / total for n, total in totals if total), default=0.0)

    # --- preemption ---------------------------------------------------------------------------------------

    def _preempt(
        self, framework: Framework, attempt: GroupAttempt, group: Group, percentage: int, run: GroupRun
    ) -> bool:
        """Whether the group as a whole takes the place of others (facts B5)."""
        if not framework.handle.gate("WorkloadAwarePreemption") or not framework.pod_group_post_filter:
            return False
        if group.topology_key:
            attempt.message += f", {NO_TOPOLOGY}"
            return False
        infos = [member.info for member in attempt.members]
        run.evictions = []
        ground = _Ground(self._cache, framework, percentage, run, infos)
        try:
            with framework.without_post_filter():
                answer = framework.pod_group_post_filter[0].pod_group_post_filter(group, infos, ground)
        finally:
            ground.restore()
        if isinstance(answer, Status):
            attempt.message += f", {answer.message}"
            return False
        for member in attempt.members:
            member.node_name = answer.nodes.get(member.info.uid, "")
            member.needs_eviction = bool(member.node_name)
        if attempt.members:
            attempt.members[0].victims = answer.victims
        attempt.outcome, attempt.message = Outcome.WAITING_ON_PREEMPTION, WAITING
        _tell_waiting(attempt)
        return True


class _Ground:
    """The cluster as group preemption changes it (`scheduler.framework.plugin.PreemptionGround`)."""

    def __init__(
        self, cache: SchedulerCache, framework: Framework, percentage: int, run: GroupRun, infos: Sequence[PodInfo]
    ) -> None:
        self._cache = cache
        self._framework = framework
        self._percentage = percentage
        self._run = run
        self._infos = infos
        self._lifted: dict[str, PodState] = {}

    def lift(self, pods: Sequence[PodInfo]) -> None:
        """Take these pods off their nodes."""
        for pod in pods:
            state = self._cache.lift_pod(pod.uid)
            if state is not None:
                self._lifted[pod.uid] = state

    def put_back(self, pods: Sequence[PodInfo]) -> None:
        """And back on."""
        for pod in pods:
            state = self._lifted.pop(pod.uid, None)
            if state is not None:
                self._cache.put_back(state)

    def restore(self) -> None:
        """Everything is where it was."""
        for state in self._lifted.values():
            self._cache.put_back(state)
        self._lifted.clear()

    def place(self) -> dict[str, str] | Status:
        """uid -> node of the members that then have a place; why not, where the group does not fit."""
        evictions = self._run.evictions
        trial = Trial(self._cache, self._framework, self._percentage, self._run).place(self._infos)
        trial.undo()
        self._run.evictions = evictions
        if trial.outcome is Outcome.SCHEDULED:
            return {member.info.uid: member.node_name for member in trial.members if member.node_name}
        return trial.error or unschedulable(UNSCHEDULABLE)


# --- what is told -------------------------------------------------------------------------------------------------


def _no_single_preemption(framework: Framework, group: Group | None) -> str:
    """Why members may not preempt for themselves."""
    if group is not None and framework.handle.gate("WorkloadAwarePreemption"):
        return GROUP_PREEMPTS
    if group is not None and group.topology_key and framework.placement_generate:
        return TOPOLOGY_BARS
    return ""


def _refused_as_a_whole(infos: Sequence[PodInfo], status: Status) -> GroupAttempt:
    plugins = frozenset({status.plugin}) if status.rejected else frozenset()
    failure = Failure(status.message, status.rejected, plugins, nominated_node="")
    outcome = Outcome.UNSCHEDULABLE if status.rejected else Outcome.ERROR
    return GroupAttempt(outcome, [Member(info, failure=failure) for info in infos], status.message)


def _shortfall(min_count: int, running: int, members: Sequence[Member]) -> str:
    """How 1.37 says it: what was so when it could be known first that the minimum is out of reach."""
    placed, remaining = running, len(members)
    for member in members:
        placed, remaining = placed + bool(member.node_name), remaining - 1
        if placed + remaining < min_count:
            return f"minCount ({min_count}) cannot be satisfied: {placed} scheduled, {remaining} remaining"
    return ""


def _conclude(trial: Trial, prefix: str, shortfall: str) -> GroupAttempt:
    """`shortfall`: the reason in the words of 1.37; "" for those of 1.36."""
    attempt = GroupAttempt(trial.outcome, trial.members)
    match trial.outcome:
        case Outcome.SCHEDULED:
            pass
        case Outcome.ERROR:
            assert trial.error is not None
            attempt.message = f"{OTHER_FAILED}: {trial.error.message}"
            _tell_error(attempt)
        case Outcome.UNSCHEDULABLE:
            attempt.message = prefix + (shortfall or UNSCHEDULABLE)
            _tell_unschedulable(attempt, shortfall)
        case Outcome.WAITING_ON_PREEMPTION:
            attempt.message = WAITING
            _tell_waiting(attempt)
    return attempt


def _tell_error(attempt: GroupAttempt) -> None:
    """The member that failed keeps its own words."""
    for member in attempt.members:
        if member.failure is None or member.failure.rejected:
            member.failure = Failure(attempt.message, rejected=False, nominated_node="")
        member.node_name = ""


def _tell_unschedulable(attempt: GroupAttempt, shortfall: str) -> None:
    """Members that fitted say so; nobody keeps a nomination."""
    for member in attempt.members:
        if member.node_name:
            text = ", ".join((UNSCHEDULABLE, *((shortfall,) if shortfall else member.permit.reasons)))
            member.failure = Failure(text, rejected=True, unschedulable_plugins=member.waits_for, nominated_node="")
        elif member.failure is not None:
            failure = member.failure
            member.failure = Failure(
                failure.message, failure.rejected, failure.unschedulable_plugins, failure.pending_plugins, ""
            )
        member.node_name, member.victims = "", ()


def _tell_waiting(attempt: GroupAttempt) -> None:
    """Members keep the places that they will have; what wakes those that wait for evictions wakes the others too."""
    said = {
        member.info.uid: failure_of(member.attempt)
        for member in attempt.members
        if member.attempt is not None and not member.attempt.node_name
    }
    plugins = frozenset(plugin for failure in said.values() for plugin in failure.unschedulable_plugins)
    for member in attempt.members:
        own = said.get(member.info.uid)
        text = own.message if own is not None else WAITING
        member.failure = Failure(text, rejected=True, unschedulable_plugins=plugins, nominated_node=member.node_name)


def _best(framework: Framework, tried: Sequence[_Tried]) -> _Tried:
    """The highest sum of weighted scores; among equals one at random."""
    totals = [0.0] * len(tried)
    for i, (plugin, weight) in enumerate(framework.placement_score):
        final = plugin.normalize_placements([each.scores[i] for each in tried])
        totals = [total + weight * score for total, score in zip(totals, final, strict=True)]
    best = [i for i, total in enumerate(totals) if total == max(totals)]
    return tried[framework.handle.random.choice(best)]
