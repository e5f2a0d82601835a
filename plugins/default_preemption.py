"""DefaultPreemption: a pod that fits nowhere may take the place of pods of lower priority (facts 2.8).

The search, the choice and the eviction live in the framework's preemption package; here is what makes them a plugin:
PostFilter starts them, PreEnqueue holds the pod back until its victims' deletions were sent.
"""

from __future__ import annotations

from config.types import DefaultPreemptionArgs
from kube.api.core import Pod
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import PostFilterPlugin, PostFilterResult, PreEnqueuePlugin
from scheduler.framework.preemption.evaluator import Answer, Evaluator
from scheduler.framework.status import Status, unresolvable

WAITING = "waiting for the preemption for this pod to be finished"


def some_pod_is_gone(pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
    """No reason to try again by itself: whoever refused the pod knows whether the room helps."""
    return QueueingHint.SKIP


class DefaultPreemption(PostFilterPlugin, PreEnqueuePlugin):
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
        uid = pod.metadata.uid or pod.key
        return unresolvable(WAITING) if uid in self.evaluator.executor.preempting else None

    def post_filter(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status]:
        """Success: a node is nominated and its victims are leaving. Otherwise why nothing can be done."""
        self.handle.preemption_attempted()
        return _named(self.evaluator.preempt(state, diagnosis))

    async def post_filter_with_extenders(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """The same, with the extenders asked."""
        self.handle.preemption_attempted()
        return _named(await self.evaluator.preempt_with_extenders(state, diagnosis))


def _named(answer: Answer) -> Answer:
    """The message says where it comes from: it is appended to the reasons of the filters."""
    result, status = answer
    if not status.reasons:
        return answer
    return result, Status(status.code, (f"preemption: {status.message}",), status.plugin)
