"""Which plugins run at which extension point, in which order and with which weight: kube-scheduler's merging rules.

Two steps, as upstream. `merge_defaults` puts what the operator wrote into the default list, set by set. `expand` then
spreads multiPoint over the points its plugins implement. Both are pure; faults in the lists are `validation`'s matter.
"""

import msgspec

from config.types import ExtensionPoint, KnownPlugins, Plugin, Plugins, PluginSet

PluginsByPoint = dict[ExtensionPoint, tuple[Plugin, ...]]


def merge_defaults(written: Plugins, default_multi_point: PluginSet) -> Plugins:
    """Merge the default plugins into a profile's multiPoint set; single points have no defaults of their own."""
    return msgspec.structs.replace(written, multi_point=_merge(written.multi_point, default_multi_point))


def _merge(written: PluginSet, default: PluginSet) -> PluginSet:
    """Keep the order of the defaults: a default listed again is replaced in place, everything else comes after."""
    rewritten = {plugin.name: plugin for plugin in written.enabled}
    kept = tuple(rewritten.get(plugin.name, plugin) for plugin in default.enabled if not written.disables(plugin.name))
    in_place = {plugin.name for plugin in kept}
    added = tuple(plugin for plugin in written.enabled if plugin.name not in in_place)
    return PluginSet(enabled=kept + added, disabled=written.disabled)


def expand(plugins: Plugins, points: KnownPlugins) -> PluginsByPoint:
    """Return the plugins of every extension point in run order; a weight other than 0 stands only where it counts."""
    return {point: _expand_point(plugins, point, points) for point in ExtensionPoint}


def _expand_point(plugins: Plugins, point: ExtensionPoint, points: KnownPlugins) -> tuple[Plugin, ...]:
    at_point = plugins.at(point)
    listed = {plugin.name: plugin for plugin in at_point.enabled}
    from_multi_point = {
        plugin.name: plugin
        for plugin in plugins.multi_point.enabled
        if point in points.get(plugin.name, frozenset()) and not at_point.disables(plugin.name)
    }
    overrides = [plugin for name, plugin in listed.items() if name in from_multi_point]
    expanded = [plugin for name, plugin in from_multi_point.items() if name not in listed]
    others = [plugin for name, plugin in listed.items() if name not in from_multi_point]
    ordered = [*overrides, *expanded, *others]
    return tuple(Plugin(name=plugin.name, weight=_weight(plugin, point)) for plugin in ordered)


def _weight(plugin: Plugin, point: ExtensionPoint) -> int:
    """A weight that was not given is 1, also for a default plugin listed anew: its default weight is gone then."""
    return (plugin.weight or 1) if point.weighted else 0


def as_written(by_point: PluginsByPoint) -> Plugins:
    """Spell an expansion as plugin sets that lead to the same expansion again."""
    sets = {point.name.lower(): PluginSet(enabled=plugins) for point, plugins in by_point.items() if plugins}
    return Plugins(**sets, multi_point=PluginSet(disabled=(Plugin(name="*"),)))
