"""The feature gates of Dynamic Resource Allocation that change how devices are chosen.

Read once from the handle when the plugin is built; a value from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Features:
    """What is switched on. Everything is since 1.36, where the plugin's own choices come from."""

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    consumable_capacity: bool = True
    device_taints: bool = True
    binding_conditions: bool = True
    extended_resources: bool = True


def read_features(gate: Callable[[str], bool]) -> Features:
    """The features as the gates have them; binding conditions also need the device status they are reported in."""
    return Features(
        admin_access=gate("DRAAdminAccess"),
        prioritized_list=gate("DRAPrioritizedList"),
        partitionable_devices=gate("DRAPartitionableDevices"),
        consumable_capacity=gate("DRAConsumableCapacity"),
        device_taints=gate("DRADeviceTaints"),
        binding_conditions=gate("DRADeviceBindingConditions") and gate("DRAResourceClaimDeviceStatus"),
        extended_resources=gate("DRAExtendedResource"),
    )
