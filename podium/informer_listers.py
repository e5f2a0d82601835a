"""Listers over informers: what plugins read of the cluster. One informer a kind, started on first demand.

Owner: the wiring.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Any

from kube.api.meta import ApiObject
from kube.api.resources import RESOURCES
from kube.client.indexer import Indexer, object_key
from kube.client.informer import InformerFactory

_TYPES: dict[str, type[ApiObject]] = {resource.listed_as: resource.type for resource in RESOURCES}


class InformerLister:
    """A lister of one kind. Empty for kinds that the API server does not have."""

    def __init__(self, indexer: Indexer[Any]) -> None:
        self._indexer = indexer
        self._indexes: set[str] = set()

    def get(self, name: str, namespace: str = "") -> Any | None:
        """The object, or None."""
        return self._indexer.get(object_key(namespace, name))

    def list(self) -> Iterable[Any]:
        """All objects."""
        return self._indexer.list()

    def by_index(self, index: str, value: str) -> Iterable[Any]:
        """Objects for which the index function yields `value`."""
        return self._indexer.by_index(index, value)

    def add_index(self, index: str, function: Callable[[Any], Iterable[str]]) -> None:
        """Keep an index; adding the same name again changes nothing."""
        if index not in self._indexes:
            self._indexes.add(index)
            self._indexer.add_index(index, function)

    @property
    def version(self) -> int:
        """Counts changes of the objects."""
        return self._indexer.version


class InformerListers:
    """kind -> lister."""

    def __init__(self, factory: InformerFactory, missing: Collection[type[ApiObject]]) -> None:
        self._factory = factory
        self._missing = missing
        self._listers: dict[str, InformerLister] = {}
        self._group: asyncio.TaskGroup | None = None

    def __call__(self, kind: str) -> InformerLister:
        """The lister of a kind. Raises KeyError for a kind podium has no type for."""
        lister = self._listers.get(kind)
        if lister is None:
            type_ = _TYPES[kind]
            if type_ in self._missing:
                lister = InformerLister(Indexer())
            else:
                lister = InformerLister(self._factory.informer(type_).indexer)
                if self._group is not None:
                    self._factory.start(self._group)
            self._listers[kind] = lister
        return lister

    def use(self, kind: str, indexer: Indexer[Any]) -> None:
        """Serve a kind from an informer made elsewhere (pods: with a field selector)."""
        self._listers[kind] = InformerLister(indexer)

    def started(self, group: asyncio.TaskGroup) -> None:
        """From now on a new kind's informer starts at once."""
        self._group = group
