"""ResourceClaims in an offline simulation: held by the pods that are placed, let go by those that are evicted.

What PreBind writes in a cluster, and what the claim controller does for a pod that comes or goes, happens here at once
and in memory. Called by the simulation, which owns the listers.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from kube.api.core import Pod, PodResourceClaimStatus
from kube.api.meta import ObjectMeta, OwnerReference
from kube.api.resource import ResourceClaim
from simulator.listers import ObjectLister, ObjectListers


class Devices(Protocol):
    """What a scheduling cycle leaves in its state (plugins.dynamic_resources)."""

    def claims_on(self, node_name: str) -> list[ResourceClaim]:
        """The pod's claims as they are once it runs on the node."""


def hold(claims: ObjectLister, devices: Devices, node_name: str) -> None:
    """The pod was placed on the node."""
    for claim in devices.claims_on(node_name):
        claims.indexer.update(claim)


def let_go(claims: ObjectLister, pod: Pod) -> list[tuple[ResourceClaim, ResourceClaim]]:
    """The pod is gone; before and after of the claims that it was the last to use."""
    freed = []
    meta = pod.metadata
    for claim in list(claims.list()):
        users = tuple(user for user in claim.status.reserved_for if (user.uid, user.name) != (meta.uid, meta.name))
        if len(users) == len(claim.status.reserved_for):
            continue
        allocation = claim.status.allocation if users else None
        status = msgspec.structs.replace(claim.status, reserved_for=users, allocation=allocation)
        after = msgspec.structs.replace(claim, status=status)
        claims.indexer.update(after)
        if not users:
            freed.append((claim, after))
    return freed


def with_claims(listers: ObjectListers, pod: Pod) -> Pod:
    """The pod with the claims that a controller would have made from templates, as far as the input has these."""
    meta = pod.metadata
    noted = {status.name for status in pod.status.resource_claim_statuses}
    made = []
    for use in pod.spec.resource_claims:
        wanted = use.resource_claim_template_name
        template = listers("ResourceClaimTemplate").get(wanted, meta.namespace) if wanted is not None else None
        if template is None or use.name in noted:
            continue
        owner = OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True)
        claim = ResourceClaim(
            metadata=ObjectMeta(name=f"{meta.name}-{use.name}", namespace=meta.namespace, owner_references=(owner,)),
            spec=template.spec.spec,
        )
        listers("ResourceClaim").indexer.update(claim)
        made.append(PodResourceClaimStatus(name=use.name, resource_claim_name=claim.metadata.name))
    if not made:
        return pod
    statuses = (*pod.status.resource_claim_statuses, *made)
    status = msgspec.structs.replace(pod.status, resource_claim_statuses=statuses)
    return msgspec.structs.replace(pod, status=status)
