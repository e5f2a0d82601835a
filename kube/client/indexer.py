"""The objects of one resource as the API server last showed them, with indexes: client-go's Indexer.

Owner: the SharedInformer that fills it; everybody else only reads. Used on one event loop, so there are no locks: what
is read without an `await` in between belongs together. Never waits, never talks to the API server.

Keys are `namespace/name`, or `name` for cluster-scoped objects.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from kube.api.meta import ApiObject

T = TypeVar("T", bound=ApiObject)
IndexFunc = Callable[[T], Iterable[str]]


def object_key(namespace: str, name: str) -> str:
    """The key of the object with this namespace ("" for cluster-scoped ones) and name."""
    return f"{namespace}/{name}" if namespace else name


class Indexer(Generic[T]):
    """A dictionary of objects by key that also finds them by index values."""

    def __init__(self, index_funcs: dict[str, IndexFunc[T]] | None = None) -> None:
        #: counts changes; whoever derives something from all objects sees by it when to do so anew
        self.version = 0
        self._objects: dict[str, T] = {}
        self._index_funcs: dict[str, IndexFunc[T]] = {}
        # index name -> value -> key -> object; a dict as innermost set keeps the order of arrival.
        self._indices: dict[str, dict[str, dict[str, T]]] = {}
        for name, func in (index_funcs or {}).items():
            self.add_index(name, func)

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def add_index(self, name: str, func: IndexFunc[T]) -> None:
        """Index everything there is, and all that comes, by the values that `func` gives."""
        if name in self._index_funcs:
            raise ValueError(f"the index {name} exists already")
        self._index_funcs[name] = func
        self._indices[name] = {}
        for key, obj in self._objects.items():
            self._enter(name, key, obj, func(obj))

    def add(self, obj: T) -> T | None:
        """Store the object in place of the one with its key, which is returned."""
        key = obj.key
        if not self._index_funcs:
            old = self._objects.get(key)
            self._objects[key] = obj
            self.version += 1
            return old
        # An index function that raises must do so before anything changed.
        values = [(name, (*func(obj),)) for name, func in self._index_funcs.items()]
        old = self.delete(key)
        self._objects[key] = obj
        self.version += 1
        for name, found in values:
            self._enter(name, key, obj, found)
        return old

    update = add

    def delete(self, key: str) -> T | None:
        """Remove and return the object, if there is one."""
        old = self._objects.pop(key, None)
        if old is not None:
            self.version += 1
            for name in self._index_funcs:
                self._remove(name, key, old)
        return old

    def replace(self, objects: Iterable[T]) -> None:
        """Hold exactly these objects."""
        self._objects = {obj.key: obj for obj in objects}
        self.version += 1
        for name, func in self._index_funcs.items():
            self._indices[name] = {}
            for key, obj in self._objects.items():
                self._enter(name, key, obj, func(obj))

    def get(self, key: str) -> T | None:
        """The object with this key."""
        return self._objects.get(key)

    def get_by(self, namespace: str, name: str) -> T | None:
        """The object with this namespace ("" for cluster-scoped ones) and name."""
        return self._objects.get(object_key(namespace, name))

    def list(self) -> list[T]:
        """All objects, in the order they came."""
        return [*self._objects.values()]

    def keys(self) -> Iterable[str]:
        """All keys, in the order they came."""
        return self._objects.keys()

    def by_index(self, name: str, value: str) -> Iterable[T]:
        """The objects that the index files under the value."""
        return [*self._indices[name].get(value, {}).values()]

    def index_values(self, name: str) -> Iterable[str]:
        """All values that the index knows."""
        return self._indices[name].keys()

    def _enter(self, name: str, key: str, obj: T, values: Iterable[str]) -> None:
        index = self._indices[name]
        for value in values:
            index.setdefault(value, {})[key] = obj

    def _remove(self, name: str, key: str, obj: T) -> None:
        index = self._indices[name]
        for value in self._index_funcs[name](obj):
            bucket = index.get(value)
            if bucket is not None:
                bucket.pop(key, None)
                if not bucket:
                    del index[value]


class IndexerLister:
    """Reads an indexer, for those who must not change what is in it."""

    def __init__(self, indexer: Indexer[Any]) -> None:
        self.indexer = indexer
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

    @property
    def version(self) -> int:
        """Counts changes of the objects."""
        return self.indexer.version
