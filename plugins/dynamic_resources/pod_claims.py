"""Which claims a pod uses, and whether it can use them now (facts A4, PreEnqueue and PreFilter).

Pure functions over the claims that the tracker knows; the texts are kube-scheduler's.
"""

from __future__ import annotations

from collections.abc import Callable

from kube.api.core import Pod, PodResourceClaim
from kube.api.meta import Condition, condition_is_true, controller_of, parse_time
from kube.api.resource import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim

ClaimLookup = Callable[[str, str], ResourceClaim | None]


class UnusableClaimError(Exception):
    """A claim of the pod is missing, going away or somebody else's; the text says which."""


def claims_of(pod: Pod, lookup: ClaimLookup) -> list[ResourceClaim]:
    """The pod's claims in the order of its spec. Raises UnusableClaimError."""
    return [claim for use in pod.spec.resource_claims if (claim := _claim(pod, use, lookup)) is not None]


def _claim(pod: Pod, use: PodResourceClaim, lookup: ClaimLookup) -> ResourceClaim | None:
    namespace, pod_name = pod.metadata.namespace, pod.metadata.name
    name = use.resource_claim_name
    generated = name is None
    if generated:
        name = _generated_name(pod, use)
        if name is None:
            return None
    assert name is not None
    claim = lookup(namespace, name)
    if claim is None:
        raise UnusableClaimError(f'could not find ResourceClaim "{namespace}/{name}"')
    if claim.metadata.deletion_timestamp is not None:
        raise UnusableClaimError(f'resourceclaim "{name}" is being deleted')
    if generated and not _is_owned_by(claim, pod):
        text = f"was not created for Pod {namespace}/{pod_name} (Pod is not owner)"
        raise UnusableClaimError(f"ResourceClaim {namespace}/{name} {text}")
    return claim


def _generated_name(pod: Pod, use: PodResourceClaim) -> str | None:
    """The name that the claim controller noted; None where it noted that none is needed."""
    who = f'pod "{pod.metadata.namespace}/{pod.metadata.name}"'
    if use.resource_claim_template_name is None:
        raise UnusableClaimError(f'{who}, spec.resourceClaim "{use.name}": none of the supported fields are set')
    for status in pod.status.resource_claim_statuses:
        if status.name == use.name:
            return status.resource_claim_name
    raise UnusableClaimError(f"{who}: ResourceClaim not created yet")


def _is_owned_by(claim: ResourceClaim, pod: Pod) -> bool:
    owner = controller_of(claim.metadata)
    return owner is not None and _is_pod(owner.uid, owner.name, pod)


def _is_pod(uid: str, name: str, pod: Pod) -> bool:
    """By UID; objects in files may have none, their names must do."""
    return uid == pod.metadata.uid and (bool(uid) or name == pod.metadata.name)


def claim_id(claim: ResourceClaim) -> str:
    """What a claim is told from others by, also from a later one of its name; in files the name must do."""
    return claim.metadata.uid or claim.key


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the pod may run with the claim already."""
    return any(_is_pod(consumer.uid, consumer.name, pod) for consumer in claim.status.reserved_for)


def is_free_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether nobody but this pod would miss the allocation."""
    consumers = claim.status.reserved_for
    return not consumers or (len(consumers) == 1 and is_reserved_for(claim, pod))


# --- binding conditions ------------------------------------------------------------------------------------------


def binding_failure(claim: ResourceClaim) -> str:
    """What keeps an allocated device from being bound for good, as its driver reports it; "" for nothing."""
    for result in _with_conditions(claim):
        for condition in _conditions(claim, result):
            if condition.type in result.binding_failure_conditions and condition.status == "True":
                why = f"reason={condition.reason}, message={condition.message}"
                return f"claim {claim.metadata.name} binding failed: {why}"
    return ""


def is_ready_for_binding(claim: ResourceClaim) -> bool:
    """Whether every binding condition of every allocated device is true."""
    return all(
        condition_is_true(_conditions(claim, result), name)
        for result in _with_conditions(claim)
        for name in result.binding_conditions
    )


def binding_timed_out(claim: ResourceClaim, now: float, timeout: float) -> bool:
    """Whether the claim was allocated longer ago than binding may take."""
    allocation = claim.status.allocation
    if allocation is None or not allocation.allocation_timestamp:
        return False
    return parse_time(allocation.allocation_timestamp) + timeout < now


def _with_conditions(claim: ResourceClaim) -> list[DeviceRequestAllocationResult]:
    allocation = claim.status.allocation
    return [result for result in allocation.devices.results if result.binding_conditions] if allocation else []


def _conditions(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> tuple[Condition, ...]:
    return next((status.conditions for status in claim.status.devices if _is_about(status, result)), ())


def _is_about(status: AllocatedDeviceStatus, result: DeviceRequestAllocationResult) -> bool:
    return (status.driver, status.pool, status.device) == (result.driver, result.pool, result.device) and (
        status.share_id == result.share_id
    )


def drivers_with_conditions(claim: ResourceClaim) -> set[str]:
    """The drivers that have to make allocated devices ready."""
    return {result.driver for result in _with_conditions(claim)}


def has_binding_conditions(claim: ResourceClaim) -> bool:
    """Whether some allocated device has to be made ready for the node first."""
    return bool(_with_conditions(claim))
