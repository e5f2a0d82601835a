"""The selector of default constraints: what a pod's Services and its controller select by (facts 2.6).

Owner: the plugin of a profile. Reads Services, ReplicationControllers, ReplicaSets and StatefulSets, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kube.api.core import Pod, Service
from kube.api.labels import IN, Requirements, SelectorError, requirements_of
from kube.api.meta import OwnerReference
from scheduler.framework.handle import Lister
from scheduler.snapshot.pod_info import PodShape
from scheduler.snapshot.topology import Recent

#: the index of Services by namespace and one label pair that their selector demands
BY_PAIR = "podtopologyspread.selector-pair"
MAX_SHAPES = 1024
OWNERS = {("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")}


class DefaultSelectors:
    """Pod shape to selector; looked for again when Services or owners changed, parsed when one of them is another."""

    def __init__(self, listers: Callable[[str], Lister]) -> None:
        self._listers = listers
        listers("Service").add_index(BY_PAIR, _demanded_pair)
        self._known: Recent[bytes, _Known] = Recent()

    def of(self, shape: PodShape) -> Requirements:
        """Empty where the pod belongs to nothing."""
        known = self._known.get(shape.family_key)
        if known is not None and all(lister.version == version for lister, version in known.seen):
            return known.selector
        services, reference = self._services(shape), _controller(shape.pod)
        seen = [(lister, lister.version) for lister in self._asked(reference)]
        owner = None if reference is None else seen[-1][0].get(reference.name, shape.namespace)
        sources = services if owner is None else [*services, owner]
        if known is not None and len(known.sources) == len(sources) and all(map(_same, known.sources, sources)):
            known.seen = seen
            return known.selector
        selector = _selector(services, owner) if sources else ()
        self._known.put(shape.family_key, _Known(sources, selector, seen))
        if len(self._known) > MAX_SHAPES:
            self._known.pop_oldest()
        return selector

    def asked_for(self, shape: PodShape) -> tuple[Lister, ...]:
        """Whose objects the selector of a shape is made of."""
        return tuple(self._asked(_controller(shape.pod)))

    def _asked(self, reference: OwnerReference | None) -> list[Lister]:
        services = self._listers("Service")
        return [services] if reference is None else [services, self._listers(reference.kind)]

    def _services(self, shape: PodShape) -> list[Any]:
        lister, labels = self._listers("Service"), shape.labels
        return [
            service
            for pair in labels.items()
            for service in lister.by_index(BY_PAIR, _pair_key(shape.namespace, *pair))
            if service.spec.selector.items() <= labels.items()
        ]


@dataclass(slots=True)
class _Known:
    """The selector of a shape. Owner: DefaultSelectors."""

    #: the objects it was made of
    sources: list[Any]
    selector: Requirements
    #: who was asked, and what state of theirs answered
    seen: list[tuple[Lister, int]]


def _controller(pod: Pod) -> OwnerReference | None:
    """The controller, if it is of a kind that default constraints look at."""
    owner = next((o for o in pod.metadata.owner_references if o.controller), None)
    return owner if owner is not None and (owner.api_version, owner.kind) in OWNERS else None


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
