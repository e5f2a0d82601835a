"""From a profile of the configuration and a registry of plugins to a Framework that can run.

Called by the wiring of the service and of a simulation. The engine is handed a registry and never looks for one.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from config.merge import expand
from config.types import ExtensionPoint, KnownPlugins, Profile
from scheduler.framework.handle import Handle
from scheduler.framework.meter import Meter
from scheduler.framework.plugin import Plugin
from scheduler.framework.profile_nodes import ProfileNodeSelector
from scheduler.framework.runtime import EnabledPlugins, Framework, Observer, unobserved


class PluginRegistry(Protocol):
    """name -> extension points, and the way to build one."""

    def get(self, name: str, default: frozenset[str], /) -> frozenset[str]:
        """The extension points of a plugin, `default` for an unknown one."""

    def build(self, name: str, args: Any, handle: Handle) -> Plugin:
        """Set up a plugin."""


def build_framework(
    profile: Profile,
    registry: PluginRegistry,
    handle: Handle,
    observe: Observer = unobserved,
    meter: Meter | None = None,
) -> Framework:
    """The runtime of a profile; each plugin is built once, with its arguments."""
    by_point = expand(profile.plugins, cast("KnownPlugins", registry))
    built: dict[str, Plugin] = {}
    points: dict[str, tuple[Plugin, ...]] = {}
    weights: dict[str, int] = {}
    placement_weights: dict[str, int] = {}
    for point, entries in by_point.items():
        for entry in entries:
            if entry.name not in built:
                built[entry.name] = registry.build(entry.name, profile.args(entry.name), handle)
            if point is ExtensionPoint.SCORE:
                weights[entry.name] = entry.weight
            elif point is ExtensionPoint.PLACEMENT_SCORE:
                placement_weights[entry.name] = entry.weight
        points[point.value] = tuple(built[entry.name] for entry in entries)
    if profile.node_selector:
        own = ProfileNodeSelector(profile.node_selector, handle)
        points["filter"] = (own, *points.get("filter", ()))
    return Framework(profile.scheduler_name, EnabledPlugins(points, weights, placement_weights), handle, observe, meter)
