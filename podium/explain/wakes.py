"""Which events wake a pod: what the plugins that refused it registered for, in words."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from podium.explain.documents import Wake
from scheduler.framework.cluster_event import Action, ClusterEvent, EventResource
from scheduler.framework.runtime import Framework
from scheduler.queue.profile_hooks import hooks_of

ANYTHING = "anything changes in the cluster"
#: (resource, action) -> what happens then
_POD = {
    Action.ADD: "a pod is added",
    Action.DELETE: "a pod is deleted",
    Action.UPDATE_POD_LABEL: "pod labels change",
    Action.UPDATE_POD_SCALE_DOWN: "pod requests shrink",
    Action.UPDATE_POD_TOLERATION: "its own tolerations change",
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "its scheduling gates are removed",
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "its resource claims are generated",
}
_NODE = {
    Action.ADD: "a node is added",
    Action.DELETE: "a node is deleted",
    Action.UPDATE_NODE_ALLOCATABLE: "node allocatable grows",
    Action.UPDATE_NODE_LABEL: "node labels change",
    Action.UPDATE_NODE_TAINT: "node taints change",
    Action.UPDATE_NODE_CONDITION: "node conditions change",
    Action.UPDATE_NODE_ANNOTATION: "node annotations change",
    Action.UPDATE_NODE_DECLARED_FEATURE: "node features change",
}
_OTHER = {Action.ADD: "is added", Action.DELETE: "is deleted", Action.UPDATE: "changes"}


def wakes_of(framework: Framework, plugins: Collection[str]) -> list[Wake]:
    """Per refusing plugin, the events that make the queue look at the pod again."""
    hooks = hooks_of(framework)
    found: dict[str, list[str]] = {name: [] for name in sorted(plugins)}
    for name, texts in found.items():
        if name in hooks.any_event:
            texts.append(ANYTHING)
    for hint in hooks.hints:
        if hint.plugin in found:
            found[hint.plugin] += _texts(hint.registered.event)
    return [Wake(plugin=name, events=tuple(dict.fromkeys(texts))) for name, texts in found.items() if texts]


def _texts(event: ClusterEvent) -> Iterator[str]:
    if event.resource == EventResource.WILDCARD:
        yield ANYTHING
        return
    resource = str(event.resource)
    if resource in (EventResource.POD, EventResource.ASSIGNED_POD, EventResource.UNSCHEDULED_POD):
        yield from (text for action, text in _POD.items() if event.action & action)
    elif resource == EventResource.NODE:
        yield from (text for action, text in _NODE.items() if event.action & action)
    else:
        yield from (f"a {resource} {text}" for action, text in _OTHER.items() if event.action & action)
