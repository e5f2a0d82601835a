"""What is taken: devices and shares of devices, counted over all allocated claims and those about to be.

Owner: the claim tracker, which alone changes it. The allocator reads it.
"""

from __future__ import annotations

from collections.abc import Iterable

from kube.api.quantity import nanos
from kube.api.resource import DeviceRequestAllocationResult
from plugins.dynamic_resources.devices import DeviceId, PoolId


class AllocatedDevices:
    """Which devices are taken whole, and how much of the shared ones is."""

    def __init__(self, consumable_capacity: bool) -> None:
        self._consumable_capacity = consumable_capacity
        self._whole: dict[DeviceId, int] = {}
        self._shares: dict[DeviceId, int] = {}
        self._consumed: dict[DeviceId, dict[str, int]] = {}

    def in_use(self, device: DeviceId) -> bool:
        """Taken whole."""
        return device in self._whole

    def is_shared(self, device: DeviceId) -> bool:
        """Somebody has a share of it, with or without a recorded amount."""
        return device in self._shares

    def consumes(self, device: DeviceId) -> bool:
        """Taken in any way, so that it takes from its pool's counters (once)."""
        return device in self._whole or device in self._shares

    def consumed(self, device: DeviceId) -> dict[str, int]:
        """capacity name -> amount in nanos that all shares take together."""
        return self._consumed.get(device, {})

    def add(self, results: Iterable[DeviceRequestAllocationResult]) -> set[PoolId]:
        """Count the results of a claim; the pools they are in."""
        return self._count(results, 1)

    def remove(self, results: Iterable[DeviceRequestAllocationResult]) -> set[PoolId]:
        """Take them back."""
        return self._count(results, -1)

    def _count(self, results: Iterable[DeviceRequestAllocationResult], sign: int) -> set[PoolId]:
        touched = set()
        for result in results:
            if result.admin_access:
                # Who only looks at a device does not occupy it.
                continue
            device = DeviceId(result.driver, result.pool, result.device)
            touched.add(PoolId(result.driver, result.pool))
            if self._consumable_capacity and result.share_id is not None:
                _tally(self._shares, device, sign)
                self._consume(device, result, sign)
            else:
                _tally(self._whole, device, sign)
        return touched

    def _consume(self, device: DeviceId, result: DeviceRequestAllocationResult, sign: int) -> None:
        amounts = self._consumed.setdefault(device, {})
        for name, amount in result.consumed_capacity.items():
            amounts[name] = amounts.get(name, 0) + sign * nanos(amount)
        if device not in self._shares:
            del self._consumed[device]


def _tally(counts: dict[DeviceId, int], device: DeviceId, sign: int) -> None:
    count = counts.get(device, 0) + sign
    if count:
        counts[device] = count
    else:
        del counts[device]
