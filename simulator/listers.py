"""Listers over objects from files: what plugins read offline in place of informers' caches.

Owner: the offline simulation, which alone adds and removes objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kube.api.meta import ApiObject
from kube.client.indexer import Indexer, object_key
from simulator.load import ClusterObjects


class ObjectLister:
    """A lister of one kind."""

    def __init__(self, objects: Iterable[Any] = ()) -> None:
        self.indexer: Indexer[Any] = Indexer()
        self.indexer.replace(objects)
        self._indexes: set[str] = set()

    def get(self, name: str, namespace: str = "") -> Any | None:
        """The object, or None."""
        return self.indexer.get(object_key(namespace, name))

    def list(self) -> Iterable[Any]:
        """All objects."""
        return self.indexer.list()

    def by_index(self, index: str, value: str) -> Iterable[Any]:
        """Objects for which the index function yields `value`."""
        return self.indexer.by_index(index, value)

    def add_index(self, index: str, function: Callable[[Any], Iterable[str]]) -> None:
        """Keep an index; adding the same name again changes nothing."""
        if index not in self._indexes:
            self._indexes.add(index)
            self.indexer.add_index(index, function)

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

    @property
    def version(self) -> int:
        """Counts changes of the objects."""
        return self.indexer.version


class ObjectListers:
    """kind -> lister; kinds that the input has none of are empty."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._listers = {kind: ObjectLister(items) for kind, items in objects.others.items()}
        self._listers["Node"] = ObjectLister(objects.nodes)
        self._listers["Pod"] = ObjectLister(objects.pods)

    def __call__(self, resource: str, type_: type[ApiObject] | None = None) -> ObjectLister:
        """The lister of a kind. Resources that podium has no types for are not read from files: theirs are empty."""
        return self._listers.setdefault(resource, ObjectLister())
