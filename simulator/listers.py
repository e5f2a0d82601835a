"""Listers over objects from files: what plugins read offline in place of informers' caches.

Owner: the offline simulation, which alone adds and removes objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kube.api.meta import ApiObject
from kube.client.indexer import Indexer, IndexerLister
from simulator.load import ClusterObjects


class ObjectLister(IndexerLister):
    """A lister of one kind."""

    def __init__(self, objects: Iterable[Any] = ()) -> None:
        super().__init__(Indexer())
        self.indexer.replace(objects)

    def add_handler(
        self,
        *,
        add: Callable[[Any], None] | None = None,
        update: Callable[[Any, Any], None] | None = None,
        delete: Callable[[Any, bool], None] | None = None,
    ) -> None:
        """What is there is told, as adds; files do not change."""
        if add is not None:
            for obj in self.indexer.list():
                add(obj)


class ObjectListers:
    """kind -> lister; kinds that the input has none of are empty."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._listers = {kind: ObjectLister(items) for kind, items in objects.others.items()}
        self._listers["Node"] = ObjectLister(objects.nodes)
        self._listers["Pod"] = ObjectLister(objects.pods)

    def __call__(self, resource: str, type_: type[ApiObject] | None = None) -> ObjectLister:
        """The lister of a kind. Resources that podium has no types for are not read from files: theirs are empty."""
        lister = self._listers.get(resource)
        if lister is None:
            lister = self._listers[resource] = ObjectLister()
        return lister
