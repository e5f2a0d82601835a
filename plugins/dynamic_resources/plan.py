"""What is to be allocated, node by node the same: the requests of a pod's claims with their classes looked up.

A plan depends only on the specs of the claims and on the classes, never on their names: pods of one template share it
(`Plan.key`). What is wrong with a claim is kept in the plan and told when a node is asked, because only then, and in
the order of requests, kube-scheduler finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kube.api.codec import encode
from kube.api.resource import (
    ALL,
    EXACT_COUNT,
    CapacityRequirements,
    DeviceClaim,
    DeviceClass,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from plugins.dynamic_resources.features import Features

#: most devices that a claim can get
MAX_RESULTS = 32
_MAX_COUNT = 2**63 - 1

ClassLookup = Callable[[str], DeviceClass | None]


class AllocationError(Exception):
    """The attempt ends: something is wrong with a claim, a class or a pool.

    `claim` is the position of the claim that the text is about, None where it names none: the same plan serves claims
    of many names.
    """

    def __init__(self, text: str, claim: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.claim = claim

    def message(self, claims: Sequence[ResourceClaim]) -> str:
        """The text with the claim's name."""
        return self.text if self.claim is None else f"claim {claims[self.claim].key}{self.text}"


@dataclass(frozen=True, slots=True)
class Selection:
    """A selector and how an error in it begins: `class C: selector #0` or, after the claim's name, `: selector #0`."""

    expression: str
    prefix: str
    claim: int | None


@dataclass(slots=True)
class RequestPlan:
    """One request, or one alternative of a request."""

    claim: int
    #: the request's own name; of an alternative that of the alternative
    name: str
    #: the request an alternative belongs to, else ""
    parent: str
    device_class: DeviceClass | None
    selections: tuple[Selection, ...]
    all_devices: bool
    count: int
    admin_access: bool
    tolerations: tuple[DeviceToleration, ...]
    capacity: CapacityRequirements | None
    error: AllocationError | None = None

    @property
    def full_name(self) -> str:
        """As results name it."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def base_name(self) -> str:
        """As constraints name it."""
        return self.parent or self.name

    @property
    def sub_name(self) -> str:
        """The alternative's name, else ""."""
        return self.name if self.parent else ""


@dataclass(slots=True)
class ClaimPlan:
    """One claim: per request its alternatives in order of preference, one where there is no choice."""

    devices: DeviceClaim
    requests: tuple[tuple[RequestPlan, ...], ...]

    @property
    def has_choice(self) -> bool:
        """Whether some request has alternatives."""
        return any(alternatives[0].parent for alternatives in self.requests)


@dataclass(slots=True)
class Plan:
    """All claims of a pod that need an allocation."""

    claims: tuple[ClaimPlan, ...]

    def requests(self) -> Iterator[RequestPlan]:
        """Every request and alternative, in order."""
        return (plan for claim in self.claims for alternatives in claim.requests for plan in alternatives)


def plan_key(claims: Sequence[ResourceClaim]) -> bytes:
    """Equal for claims that ask for the same."""
    return b"\n".join([encode(claim.spec.devices) for claim in claims])


def make_plan(claims: Sequence[ResourceClaim], classes: ClassLookup, features: Features) -> Plan:
    """Look everything up."""
    return Plan(tuple(_claim_plan(i, claim.spec.devices, classes, features) for i, claim in enumerate(claims)))


def _claim_plan(i: int, devices: DeviceClaim, classes: ClassLookup, features: Features) -> ClaimPlan:
    plans = []
    for request in devices.requests:
        if request.first_available:
            plans.append(
                tuple(
                    _request_plan(i, each.name, request.name, each, classes, features)
                    for each in request.first_available
                )
            )
        else:
            exact = request.exact or ExactDeviceRequest()
            plans.append((_request_plan(i, request.name, "", exact, classes, features),))
    return ClaimPlan(devices, tuple(plans))


def _request_plan(
    claim: int,
    name: str,
    parent: str,
    wanted: ExactDeviceRequest | DeviceSubRequest,
    classes: ClassLookup,
    features: Features,
) -> RequestPlan:
    device_class = classes(wanted.device_class_name)
    admin = wanted.admin_access if isinstance(wanted, ExactDeviceRequest) else None
    plan = RequestPlan(
        claim=claim,
        name=name,
        parent=parent,
        device_class=device_class,
        selections=(
            *_selections(
                device_class.spec.selectors if device_class else (), f"class {wanted.device_class_name}", None
            ),
            *_selections(wanted.selectors, "", claim),
        ),
        all_devices=wanted.allocation_mode == ALL,
        # What the API server would have filled in.
        count=wanted.count or (1 if wanted.allocation_mode in (EXACT_COUNT, "") else 0),
        admin_access=bool(admin),
        tolerations=wanted.tolerations,
        capacity=wanted.capacity,
    )
    problem = _problem(plan, wanted, admin, features)
    plan.error = AllocationError(problem, claim) if problem else None
    return plan


def _selections(selectors: Sequence[DeviceSelector], owner: str, claim: int | None) -> Iterator[Selection]:
    for i, selector in enumerate(selectors):
        yield Selection(selector.cel.expression if selector.cel else "", f"{owner}: selector #{i}: ", claim)


def _problem(
    plan: RequestPlan, wanted: ExactDeviceRequest | DeviceSubRequest, admin: bool | None, features: Features
) -> str:
    """The first thing wrong with a request, as it goes on after the claim's name; "" for nothing."""
    where = f", request {plan.name}"
    if plan.parent and not features.prioritized_list:
        return f", request {plan.parent}: has subrequests, but the DRAPrioritizedList feature is disabled"
    if plan.capacity is not None and not features.consumable_capacity:
        kind = "subrequest" if plan.parent else "request"
        return f", {kind} {plan.name}: has capacity requests, but the DRAConsumableCapacity feature is disabled"
    unknown = next((i for i, selector in enumerate(wanted.selectors) if selector.cel is None), None)
    if unknown is not None:
        return f"{where}, selector #{unknown}: CEL expression empty (unsupported selector type?)"
    if admin is not None and not features.admin_access:
        return f"{where}: admin access is requested, but the feature is disabled"
    if not wanted.device_class_name:
        return f"{where}: missing device class name (unsupported request type?)"
    if plan.device_class is None:
        name = wanted.device_class_name
        return f'{where}: could not retrieve device class {name}: deviceclass "{name}" not found'
    if wanted.allocation_mode not in (EXACT_COUNT, ALL, ""):
        return f"{where}: unsupported count mode {wanted.allocation_mode}"
    return ""
