"""Counters that the devices of a pool share (partitionable devices, facts A3).

Available is what the pool's counter sets have minus what every allocated device of the pool takes, on slices for other
nodes as well; a device with several shares counts once. Books are kept by driver and pool: pools of two drivers may
have the same name.
"""

from __future__ import annotations

from collections.abc import Sequence

from plugins.dynamic_resources.allocated import AllocatedDevices
from plugins.dynamic_resources.devices import CounterKey, DeviceView, PoolId
from plugins.dynamic_resources.pools import Pool


class CounterBooks:
    """What is left of each pool's counters in one search. Owner: the search."""

    def __init__(self, pools: Sequence[Pool], allocated: AllocatedDevices) -> None:
        self._pools = {pool.id: pool for pool in pools if pool.counters}
        self._allocated = allocated
        self._left: dict[PoolId, dict[CounterKey, int]] = {}

    def charge(self, device: DeviceView) -> bool:
        """Take what the device takes; if any counter of the pool would be overdrawn, take nothing and say so."""
        left = self._left_of(device.slice.pool)
        for key, amount in device.counters:
            left[key] = left.get(key, 0) - amount
        if any(amount < 0 for amount in left.values()):
            self.release(device)
            return False
        return True

    def release(self, device: DeviceView) -> None:
        """Give back what `charge` took."""
        left = self._left_of(device.slice.pool)
        for key, amount in device.counters:
            left[key] += amount

    def _left_of(self, pool_id: PoolId) -> dict[CounterKey, int]:
        left = self._left.get(pool_id)
        if left is None:
            pool = self._pools[pool_id]
            left = self._left[pool_id] = dict(pool.counters)
            for device in pool.consumers:
                if self._allocated.consumes(device.id):
                    for key, amount in device.counters:
                        left[key] = left.get(key, 0) - amount
        return left
