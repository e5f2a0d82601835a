"""One try of a pod group: its members are placed one after the other, tentatively, and all of it can be undone.

Tentative placements are assumptions in the live cache, made and taken back (or kept) within one group cycle. A member
that needs evictions counts as placed where it will be, and the following members see the node without the victims.

Used by `pod_group_cycle` only.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.cache import PodState, SchedulerCache
from scheduler.failure import Failure, failure_of
from scheduler.framework.diagnosis import refused_where_chosen
from scheduler.framework.group_run import GroupRun
from scheduler.framework.preemption.evaluator import TERMINATING
from scheduler.framework.preemption.execution import is_terminating_by_preemption
from scheduler.framework.runtime import Framework
from scheduler.framework.status import SUCCESS, Status, failed
from scheduler.scheduling_cycle import Attempt, schedule_pod
from scheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)


class Outcome(enum.StrEnum):
    """What became of a group; the values are those of the metric."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING_ON_PREEMPTION = "waiting_on_preemption"
    ERROR = "error"


@dataclass(slots=True)
class Member:
    """One member's part in a try."""

    info: PodInfo
    attempt: Attempt | None = None
    #: where it was placed, "" for nowhere
    node_name: str = ""
    assumed: PodInfo | None = None
    #: what Permit said of the placed pod, and the plugins that asked to wait
    permit: Status = SUCCESS
    waits_for: frozenset[str] = frozenset()
    #: the place is still taken: by pods that would be evicted, or by such as are leaving already
    needs_eviction: bool = False
    victims: tuple[PodInfo, ...] = ()
    #: why it has no place, or none any more
    failure: Failure | None = None
    #: what a watcher kept of the attempt
    note: Any = None


@dataclass(slots=True)
class GroupAttempt:
    """What became of a group and of each member. Placed members of a scheduled group are still assumed and reserved."""

    outcome: Outcome
    members: list[Member]
    #: what the group's condition says; empty for a scheduled group
    message: str = ""

    @property
    def placed(self) -> list[Member]:
        """The members that have a place."""
        return [member for member in self.members if member.node_name]

    @property
    def victims(self) -> list[PodInfo]:
        """Whom the group needs gone, each once."""
        return list({victim.uid: victim for member in self.members for victim in member.victims}.values())


#: told of each attempt before the next one changes what it refers to; what it returns is kept with the member
Watch = Callable[[Framework, Attempt], Any]


class Trial:
    """One try to place all members. Owner: the cycle, which keeps it or undoes it."""

    def __init__(
        self,
        cache: SchedulerCache,
        framework: Framework,
        percentage: int,
        run: GroupRun,
        watch: Watch | None = None,
    ) -> None:
        self._cache = cache
        self._framework = framework
        self._percentage = percentage
        self._run = run
        self._watch = watch
        self.members: list[Member] = []
        self.complete = False
        self.error: Status | None = None
        self.evictions: list[Callable[[], None]] = []
        self._lifted: list[PodState] = []

    def place(self, infos: Sequence[PodInfo]) -> Trial:
        """Member after member; one that fits nowhere is passed over, an error ends the try."""
        self._run.evictions, self._run.shared = [], {}
        for info in infos:
            member = Member(info)
            self.members.append(member)
            try:
                self._place(member)
            except Exception as bug:  # a plugin's bug costs its group a retry, never the loop
                log.exception("scheduling pod %s failed", info.key)
                self._fail(member, failed(bug))
            if self.error is not None:
                break
        self.evictions = self._run.evictions
        return self

    def _place(self, member: Member) -> None:
        attempt = member.attempt = schedule_pod(self._framework, member.info, self._percentage)
        if self._watch is not None:
            member.note = self._watch(self._framework, attempt)
        node_name = attempt.node_name
        if not node_name:
            if attempt.error is not None:
                self._fail(member, attempt.error)
                return
            node_name = self._after_evictions(member, attempt)
            if not node_name:
                member.failure = failure_of(attempt)
                return
        self._assume(member, attempt, node_name)

    def _after_evictions(self, member: Member, attempt: Attempt) -> str:
        """The node that will be the member's once pods have left it: the following members see it without them."""
        post = attempt.post_filter
        if post is not None and post.nominated_node_name:
            member.victims, node_name = post.victims, post.nominated_node_name
        elif attempt.diagnosis is not None and attempt.diagnosis.post_filter_message.endswith(TERMINATING):
            node_name = member.info.pod.status.nominated_node_name
        else:
            return ""
        member.needs_eviction = True
        self._lift([*member.victims, *self._leaving(node_name, member.info.priority)])
        return node_name

    def _leaving(self, node_name: str, priority: int) -> list[PodInfo]:
        node = self._cache.nodes.get(node_name)
        pods = node.pods.values() if node is not None else ()
        return [pod for pod in pods if pod.priority < priority and is_terminating_by_preemption(pod.pod)]

    def _lift(self, pods: Sequence[PodInfo]) -> None:
        for pod in pods:
            state = self._cache.lift_pod(pod.uid)
            if state is not None:
                self._lifted.append(state)

    def _assume(self, member: Member, attempt: Attempt, node_name: str) -> None:
        assumed = member.info.on_node(node_name)
        self._cache.assume_pod(assumed, node_name)
        framework = self._framework
        refused = framework.run_reserve(attempt.state, assumed.pod, node_name)
        if refused is None:
            member.permit, timeouts = framework.ask_permit(attempt.state, assumed, node_name)
            member.waits_for = frozenset(timeouts)
            if not member.permit.ok and not timeouts:
                refused = member.permit
        if refused is not None:
            framework.run_unreserve(attempt.state, assumed.pod, node_name)
            self._cache.forget_pod(assumed)
            self._fail(member, refused)
            return
        member.assumed, member.node_name = assumed, node_name
        self.complete = self.complete or not member.waits_for

    def _fail(self, member: Member, status: Status) -> None:
        plugins = frozenset({status.plugin} if status.rejected and status.plugin else ())
        message = refused_where_chosen(status) if status.rejected else status.message
        member.failure = Failure(message, status.rejected, plugins, nominated_node="")
        if not status.rejected:
            self.error = status

    @property
    def outcome(self) -> Outcome:
        """What the try came to."""
        if self.error is not None:
            return Outcome.ERROR
        if not self.complete:
            return Outcome.UNSCHEDULABLE
        waits = any(member.needs_eviction for member in self.members if member.node_name)
        return Outcome.WAITING_ON_PREEMPTION if waits else Outcome.SCHEDULED

    def undo(self) -> None:
        """Nothing of the try is left in cache and plugins; the members remember what it was."""
        for member in reversed(self.members):
            if member.assumed is not None and member.attempt is not None:
                self._framework.run_unreserve(member.attempt.state, member.assumed.pod, member.node_name)
                self._cache.forget_pod(member.assumed)
        for state in reversed(self._lifted):
            self._cache.put_back(state)
        self._lifted.clear()

    def redo(self) -> None:
        """Place the members once more where they were placed."""
        for member in self.members:
            if member.assumed is not None and member.attempt is not None:
                self._lift(member.victims)
                self._cache.assume_pod(member.assumed, member.node_name)
                self._framework.run_reserve(member.attempt.state, member.assumed.pod, member.node_name)
