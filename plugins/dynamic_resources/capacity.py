"""Consumable capacity: how much of a device a request takes, and whether that much is left (facts A3).

Pure functions on amounts; the search keeps the sums.
"""

from __future__ import annotations

from collections.abc import Mapping

from kube.api.quantity import NANOS, Format, Quantity, parse, whole
from kube.api.resource import CapacityRequirements
from plugins.dynamic_resources.devices import Capacity, DeviceView, Policy


def fits(
    device: DeviceView,
    wanted: CapacityRequirements | None,
    committed: Mapping[str, int],
    searching: Mapping[str, int],
) -> bool:
    """Whether the device has every capacity that is asked for, and enough of each that it has.

    For a device that is not shared this is a plain comparison with its size.
    """
    requests = wanted.requests if wanted is not None else {}
    if any(name not in device.capacity for name in requests):
        return False
    for name, capacity in device.capacity.items():
        amount = consumption(capacity, requests.get(name))
        if _violates(amount, capacity.policy):
            return False
        if amount.nanos + committed.get(name, 0) + searching.get(name, 0) > capacity.value.nanos:
            return False
    return True


def consumptions(device: DeviceView, wanted: CapacityRequirements | None) -> dict[str, Quantity]:
    """What a share takes of each capacity of the device."""
    requests = wanted.requests if wanted is not None else {}
    return {name: consumption(capacity, requests.get(name)) for name, capacity in device.capacity.items()}


def consumption(capacity: Capacity, requested: str | float | None) -> Quantity:
    """The requested amount, raised to what the policy offers; without a request its default or everything."""
    policy = capacity.policy
    if requested is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    amount = parse(requested)
    if policy is None:
        return amount
    if policy.has_range and policy.minimum is not None:
        return _raised(amount, policy.minimum, policy.step)
    return next((value for value in policy.valid_values if amount.nanos <= value.nanos), amount)


def _raised(amount: Quantity, minimum: Quantity, step: Quantity | None) -> Quantity:
    """At least the minimum, and a whole number of steps above it; steps count in whole units."""
    if amount.nanos < minimum.nanos:
        return minimum
    if step is None:
        return amount
    start, width = whole(minimum.nanos), whole(step.nanos)
    steps = -((start - whole(amount.nanos)) // width)
    return Quantity((start + width * steps) * NANOS, Format.BINARY_SI)


def _violates(amount: Quantity, policy: Policy | None) -> bool:
    if policy is None or (policy.default is not None and amount.nanos == policy.default.nanos):
        return False
    if policy.has_range:
        if policy.maximum is not None and amount.nanos > policy.maximum.nanos:
            return True
        if policy.step is None or policy.minimum is None:
            return False
        return (whole(amount.nanos) - whole(policy.minimum.nanos)) % whole(policy.step.nanos) != 0
    return bool(policy.valid_values) and all(amount.nanos != value.nanos for value in policy.valid_values)
