"""SchedulingGates: a pod with scheduling gates stays out of the queue until the last gate is removed.

Called by the queue through the framework; it never looks at nodes.
"""

from __future__ import annotations

from kube.api.core import Pod
from plugins.helpers.hints import is_same_pod, queue_if
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.plugin import PreEnqueuePlugin
from scheduler.framework.status import Status, unresolvable


def own_gates_eliminated(pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
    """Only the pod's own update can have removed its gates."""
    return queue_if(is_same_pod(pod, new))


class SchedulingGates(PreEnqueuePlugin):
    """Gate pods by `spec.schedulingGates`."""

    name = "SchedulingGates"
    events = (on(EventResource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, hint=own_gates_eliminated),)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Names the gates that are left."""
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]")
