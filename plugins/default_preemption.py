"""DefaultPreemption: a pod that fits nowhere may take the place of pods of lower priority (facts 2.8).

The search, the choice and the eviction live in the framework's preemption package; here is what makes them a plugin:
PostFilter starts them, PreEnqueue holds the pod back until its victims' deletions were sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from config.types import DefaultPreemptionArgs
from kube.api.core import Pod
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import (
    GroupPreemption,
    PodGroupPostFilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreemptionGround,
    PreEnqueuePlugin,
)
from scheduler.framework.pod_groups import Group, group_key
from scheduler.framework.preemption.evaluator import Answer, Evaluator
from scheduler.framework.status import Status, unresolvable, unschedulable
from scheduler.snapshot.pod_info import PodInfo

WAITING = "waiting for the preemption for this pod to be finished"


def some_pod_is_gone(pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
    """No reason to try again by itself: whoever refused the pod knows whether the room helps."""
    return QueueingHint.SKIP


class DefaultPreemption(PostFilterPlugin, PodGroupPostFilterPlugin, PreEnqueuePlugin):
    """Make room by evicting pods of lower priority from one node."""

    name = "DefaultPreemption"
    events = (on(EventResource.POD, Action.DELETE, hint=some_pod_is_gone),)

    def __init__(self, args: DefaultPreemptionArgs | None, handle: Handle) -> None:
        super().__init__(args, handle)
        args = args or DefaultPreemptionArgs()
        self.evaluator = Evaluator(
            self.name, handle, args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
        )

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """A pod whose victims are being evicted is not tried again before that is done."""
        preempting = self.evaluator.executor.preempting
        if not preempting:
            return None
        held = (pod.metadata.uid or pod.key) in preempting or group_key(pod) in preempting
        return unresolvable(WAITING) if held else None

    def post_filter(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status]:
        """Success: a node is nominated and its victims are leaving. Otherwise why nothing can be done."""
        self.handle.preemption_attempted()
        if self.handle.group is not None and self.handle.group.no_preemption:
            return _named((None, unschedulable(self.handle.group.no_preemption)))
        return _named(self.evaluator.preempt(state, diagnosis))

    async def post_filter_with_extenders(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """The same, with the extenders asked."""
        self.handle.preemption_attempted()
        return _named(await self.evaluator.preempt_with_extenders(state, diagnosis))

    def pod_group_post_filter(
        self, group: Group, members: Sequence[PodInfo], ground: PreemptionGround
    ) -> GroupPreemption | Status:
        """A whole group may take the place of pods and groups of lower priority than its own."""
        self.handle.preemption_attempted()
        return self.evaluator.preempt_for_group(group, members, ground)


def _named(answer: Answer) -> Answer:
    """The message says where it comes from: it is appended to the reasons of the filters."""
    result, status = answer
    if not status.reasons:
        return answer
    return result, Status(status.code, (f"preemption: {status.message}",), status.plugin)
