"""What changed in a pod, as the narrow cluster events that hints are registered for (facts 1.2).

Shared by the queue (a pending pod's own update) and the event handlers (updates of assigned pods).
"""

from __future__ import annotations

from kube.api.core import Pod
from kube.api.pod_requests import pod_requests
from scheduler.framework.cluster_event import Action, ClusterEvent, EventResource

_LABELS = {
    Action.UPDATE_POD_LABEL: "PodLabelUpdate",
    Action.UPDATE_POD_SCALE_DOWN: "PodScaleDown",
    Action.UPDATE_POD_TOLERATION: "PodTolerationUpdate",
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "PodSchedulingGatesEliminated",
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "PodGeneratedResourceClaim",
    Action.UPDATE_OTHER: "PodUpdate",
}


def pod_update_events(
    old: Pod, new: Pod, resource: EventResource = EventResource.UNSCHEDULED_POD
) -> list[ClusterEvent]:
    """The narrow events of an update, or one generic update where none fits."""
    actions = [
        action
        for action, changed in (
            (Action.UPDATE_POD_LABEL, old.metadata.labels != new.metadata.labels),
            (Action.UPDATE_POD_SCALE_DOWN, _scaled_down(old, new)),
            (
                Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
                bool(old.spec.scheduling_gates) and not new.spec.scheduling_gates,
            ),
            (Action.UPDATE_POD_TOLERATION, old.spec.tolerations != new.spec.tolerations),
            (
                Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
                old.status.resource_claim_statuses != new.status.resource_claim_statuses,
            ),
        )
        if changed
    ]
    return [ClusterEvent(resource, action, _LABELS[action]) for action in actions or (Action.UPDATE_OTHER,)]


def _scaled_down(old: Pod, new: Pod) -> bool:
    """Whether some request shrank."""
    if old.spec.containers == new.spec.containers and old.status == new.status:
        return False
    assigned = bool(new.spec.node_name)
    before, after = pod_requests(old, assigned=assigned), pod_requests(new, assigned=assigned)
    return any(after.get(name, 0) < amount for name, amount in before.items())
