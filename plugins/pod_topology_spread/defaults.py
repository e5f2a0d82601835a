"""The selector of default constraints: what a pod's Services and its controller select by (facts 2.6).

Owner: the plugin of a profile. Reads Services, ReplicationControllers, ReplicaSets and StatefulSets, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kube.api.core import Pod, Service
from kube.api.labels import IN, Requirements, SelectorError, requirements_of
from scheduler.framework.handle import Lister
from scheduler.snapshot.pod_info import PodShape
from scheduler.snapshot.topology import Recent

#: the index of Services by namespace and one label pair that their selector demands
BY_PAIR = "podtopologyspread.selector-pair"
MAX_SHAPES = 1024
OWNERS = {("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")}


class DefaultSelectors:
    """Pod shape to selector; parsed again only when one of the objects behind it was replaced."""

    def __init__(self, listers: Callable[[str], Lister]) -> None:
        self._listers = listers
        listers("Service").add_index(BY_PAIR, _demanded_pair)
        self._known: Recent[bytes, tuple[list[Any], Requirements]] = Recent()

    def of(self, shape: PodShape) -> Requirements:
        """Empty where the pod belongs to nothing."""
        services = self._services(shape)
        owner = self._owner(shape.pod)
        sources = services if owner is None else [*services, owner]
        known = self._known.get(shape.key)
        if known is not None and len(known[0]) == len(sources) and all(map(_same, known[0], sources)):
            return known[1]
        selector = _selector(services, owner)
        self._known.put(shape.key, (sources, selector))
        if len(self._known) > MAX_SHAPES:
            self._known.pop_oldest()
        return selector

    def _services(self, shape: PodShape) -> list[Any]:
        lister, labels = self._listers("Service"), shape.labels
        return [
            service
            for pair in labels.items()
            for service in lister.by_index(BY_PAIR, _pair_key(shape.namespace, *pair))
            if service.spec.selector.items() <= labels.items()
        ]

    def _owner(self, pod: Pod) -> Any | None:
        owner = next((o for o in pod.metadata.owner_references if o.controller), None)
        if owner is None or (owner.api_version, owner.kind) not in OWNERS:
            return None
        return self._listers(owner.kind).get(owner.name, pod.metadata.namespace)


def _same(one: Any, other: Any) -> bool:
    return one is other


def _pair_key(namespace: str, key: str, value: str) -> str:
    return f"{namespace}/{key}={value}"


def _demanded_pair(service: Service) -> Iterable[str]:
    """A Service without a selector selects nothing."""
    selector = service.spec.selector
    if selector:
        key = min(selector)
        yield _pair_key(service.metadata.namespace, key, selector[key])


def _selector(services: Iterable[Service], owner: Any | None) -> Requirements:
    """All that the Services demand, and what the owner demands. A selector that cannot be read is left out."""
    pairs = {pair for service in services for pair in service.spec.selector.items()}
    demands = {(key, IN, (value,)) for key, value in pairs}
    selector = None if owner is None else owner.spec.selector
    if isinstance(selector, Mapping):
        return _with(demands, ((key, IN, (value,)) for key, value in selector.items()))
    try:
        return _with(demands, requirements_of(selector) or ())
    except SelectorError:
        return _with(demands, ())


def _with(demands: set[Any], more: Iterable[Any]) -> Requirements:
    return tuple(sorted({*demands, *more}))
