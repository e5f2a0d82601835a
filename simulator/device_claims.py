"""ResourceClaims in an offline simulation: held by the pods that are placed, let go by those that are evicted.

What PreBind writes in a cluster, and what the claim controller does when a pod is gone, happens here at once and in
memory. Called by the simulation, which owns the listers.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from kube.api.core import Pod
from kube.api.resource import ResourceClaim
from simulator.listers import ObjectLister


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
    for claim in list(claims.list()):
        users = tuple(user for user in claim.status.reserved_for if user.uid != pod.metadata.uid)
        if len(users) == len(claim.status.reserved_for):
            continue
        allocation = claim.status.allocation if users else None
        status = msgspec.structs.replace(claim.status, reserved_for=users, allocation=allocation)
        after = msgspec.structs.replace(claim, status=status)
        claims.indexer.update(after)
        if not users:
            freed.append((claim, after))
    return freed
