"""From a profile's plugins to what the queue needs of them: PreEnqueue and queueing hints (facts 1.2)."""

from __future__ import annotations

from scheduler.framework.cluster_event import Action, ClusterEventWithHint, EventResource, on
from scheduler.framework.plugin import (
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
)
from scheduler.framework.runtime import Framework
from scheduler.queue.hints import Hint, ProfileHooks

#: only these can refuse a pod, so only their events matter
_REFUSING = (PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, ReservePlugin, PermitPlugin)


def hooks_of(framework: Framework) -> ProfileHooks:
    """Evaluated once at start-up. A refusing plugin that registers nothing is woken by every event."""
    refusing = [p for p in framework.plugins() if isinstance(p, _REFUSING)]
    hints = [Hint(p.name, registered) for p in refusing for registered in _events(p)]
    any_event = {p.name for p in refusing if p.events is None}
    return ProfileHooks(framework.run_pre_enqueue, hints, frozenset(any_event | {"Extender"}))


def _events(plugin: Plugin) -> tuple[ClusterEventWithHint, ...]:
    """A plugin that listens to new nodes hears of taint changes too: a node is often added tainted (facts 1.2)."""
    events = plugin.events or ()
    actions = Action(0)
    for registered in events:
        if registered.event.resource == EventResource.NODE:
            actions |= registered.event.action
    if actions & Action.ADD and not actions & Action.UPDATE_NODE_TAINT:
        return (*events, on(EventResource.NODE, Action.UPDATE_NODE_TAINT))
    return events
