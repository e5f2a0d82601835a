"""Queueing hints: which events may make a pod schedulable that lacked devices (facts A4, "Events").

Asked by the queue, between cycles. A pod whose claims cannot be used now is not woken: PreEnqueue would stop it.
"""

from __future__ import annotations

from kube.api.core import Pod
from kube.api.resource import ResourceClaim
from plugins.dynamic_resources.manager import Manager
from plugins.dynamic_resources.pod_claims import UnusableClaimError, claim_id, claims_of
from scheduler.framework.cluster_event import QueueingHint


class Hints:
    """Owner: the plugin."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    def claim_changed(self, pod: Pod, old: ResourceClaim | None, new: ResourceClaim | None) -> QueueingHint:
        """Any claim gave its devices back, or the pod's own one came or changed its status."""
        if new is None:
            return QueueingHint.SKIP
        try:
            own = claims_of(pod, self._manager.claims.get)
        except UnusableClaimError:
            return QueueingHint.SKIP
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            return QueueingHint.QUEUE
        if all(claim_id(claim) != claim_id(new) for claim in own):
            return QueueingHint.SKIP
        return QueueingHint.QUEUE if old is None or old.status != new.status else QueueingHint.SKIP

    def pod_changed(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """The claim controller noted the names of the pod's generated claims, and all of its claims can be used."""
        if new is None or new.metadata.uid != pod.metadata.uid:
            return QueueingHint.SKIP
        try:
            claims_of(new, self._manager.claims.get)
        except UnusableClaimError:
            return QueueingHint.SKIP
        return QueueingHint.QUEUE
