"""The registry: every plugin by name, built-in ones from here, others from installed packages.

A package adds plugins through the entry point group `podium.plugins`, each named like its plugin and pointing at the
class. Entry points are looked at when a name is asked for that is not built in, and only the asked one is imported.

Owner: the wiring of the service or of a simulation. It builds plugins, it never runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from plugins.coscheduling import Coscheduling
from plugins.default_binder import DefaultBinder
from plugins.default_preemption import DefaultPreemption
from plugins.dynamic_resources import DynamicResources
from plugins.gang_scheduling import GangScheduling
from plugins.image_locality import ImageLocality
from plugins.inter_pod_affinity import InterPodAffinity
from plugins.node_affinity import NodeAffinity
from plugins.node_declared_features import NodeDeclaredFeatures
from plugins.node_name import NodeName
from plugins.node_ports import NodePorts
from plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from plugins.node_resources_fit import NodeResourcesFit
from plugins.node_unschedulable import NodeUnschedulable
from plugins.node_volume_limits import NodeVolumeLimits
from plugins.pod_group_placements import PodGroupPodsCount, TopologyPlacementGenerator
from plugins.pod_topology_spread import PodTopologySpread
from plugins.priority_sort import PrioritySort
from plugins.scheduling_gates import SchedulingGates
from plugins.taint_toleration import TaintToleration
from plugins.volume_binding import VolumeBinding
from plugins.volume_restrictions import VolumeRestrictions
from plugins.volume_zone import VolumeZone
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import Plugin, points_of

GROUP = "podium.plugins"

_BUILT_IN: tuple[type[Plugin], ...] = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
    GangScheduling,
    TopologyPlacementGenerator,
    PodGroupPodsCount,
    Coscheduling,
)

#: name -> class
IN_TREE: dict[str, type[Plugin]] = {plugin.name: plugin for plugin in _BUILT_IN}


class PluginError(ValueError):
    """A plugin that is unknown, cannot be loaded or cannot be set up; the message is one line."""


def _installed() -> Iterable[EntryPoint]:
    return entry_points(group=GROUP)


class Registry(Mapping[str, frozenset[str]]):
    """Plugin name to the extension points it takes part in, and the way to build one.

    As a mapping it is what the configuration is validated against. `found` yields the entry points of other packages.
    """

    def __init__(
        self, in_tree: Mapping[str, type[Plugin]] = IN_TREE, found: Callable[[], Iterable[EntryPoint]] = _installed
    ) -> None:
        self._classes: dict[str, type[Plugin]] = dict(in_tree)
        self._found = found
        self._entry_points: dict[str, EntryPoint] | None = None

    def __getitem__(self, name: str) -> frozenset[str]:
        try:
            return self.points(name)
        except UnknownPluginError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes.keys() | self._installed_plugins().keys())

    def __len__(self) -> int:
        return len(self._classes.keys() | self._installed_plugins().keys())

    def __contains__(self, name: object) -> bool:
        return name in self._classes or name in self._installed_plugins()

    def points(self, name: str) -> frozenset[str]:
        """The extension points of a plugin, named as in the configuration. Raises PluginError."""
        return points_of(self.get_class(name))

    def build(self, name: str, args: Any, handle: Handle) -> Plugin:
        """A plugin of a profile, set up with its arguments. Raises PluginError."""
        plugin = self.get_class(name)
        try:
            return plugin(args, handle)
        except Exception as error:
            # A plugin reads arguments that somebody wrote by hand; what it trips over is for that person.
            raise PluginError(f"plugin {name} cannot be set up: {_one_line(error)}") from error

    def get_class(self, name: str) -> type[Plugin]:
        """The class of a plugin; one from another package is imported now. Raises PluginError."""
        found = self._classes.get(name)
        if found is not None:
            return found
        entry_point = self._installed_plugins().get(name)
        if entry_point is None:
            raise UnknownPluginError(
                f"plugin {name} is neither built in nor installed (entry point group {GROUP}); "
                f"known: {', '.join(sorted(self))}"
            )
        loaded = self._classes[name] = _load(entry_point)
        return loaded

    def _installed_plugins(self) -> dict[str, EntryPoint]:
        """Raises PluginError where a name is taken twice: which of the two is meant would be a guess."""
        if self._entry_points is None:
            entry_points: dict[str, EntryPoint] = {}
            for entry_point in self._found():
                if entry_point.name in self._classes or entry_point.name in entry_points:
                    raise PluginError(f"{_whence(entry_point)}: there is a plugin of that name already")
                entry_points[entry_point.name] = entry_point
            self._entry_points = entry_points
        return self._entry_points


class UnknownPluginError(PluginError):
    """No plugin of that name."""


def _load(entry_point: EntryPoint) -> type[Plugin]:
    try:
        loaded = entry_point.load()
    except Exception as error:
        # Whatever a foreign module does at import, the reader needs its name and one line.
        raise PluginError(f"{_whence(entry_point)}: cannot be loaded: {_one_line(error)}") from error
    if not (isinstance(loaded, type) and issubclass(loaded, Plugin)):
        raise PluginError(f"{_whence(entry_point)}: expected a subclass of scheduler.framework.plugin.Plugin")
    if getattr(loaded, "name", None) != entry_point.name:
        raise PluginError(f"{_whence(entry_point)}: the class calls itself {getattr(loaded, 'name', None)!r}")
    return loaded


def _whence(entry_point: EntryPoint) -> str:
    package = f" of package {entry_point.dist.name}" if entry_point.dist else ""
    return f"plugin {entry_point.name} ({entry_point.value}{package})"


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
