"""Informers over the store of the same process: the objects of one resource, indexed, and who is told of changes.

    informers = Informers(server)
    pods = informers("pods")
    pods.add_index("node", lambda pod: [pod["spec"].get("nodeName", "")])
    pods.add_handler(lambda old, new: …)        # old is None for a new object, new is None for one that is gone
    informers.start()

There is no reflector: the store calls. With a `lag` the informers learn of everything that much later, in order, as
over a network; controllers must be right all the same, by their expectations. A handler only enqueues, it never writes.
Owner: the manager of the controllers, or the kubelets. Never awaits.
"""

import asyncio
from collections.abc import Callable, Iterable

from simulator.apiserver.errors import Object
from simulator.apiserver.server import ApiServer
from simulator.apiserver.watch_cache import Event, Key, View

IndexFunction = Callable[[Object], Iterable[str]]
Handler = Callable[[Object | None, Object | None], None]


class Informer:
    """The objects of one resource, as told by the store."""

    def __init__(self, server: ApiServer, resource: str, lag: float = 0.0) -> None:
        self._server = server
        self._collection = server.resource(resource).collection
        self._lag = lag
        self._objects: dict[Key, Object] = {}
        self._functions: dict[str, IndexFunction] = {}
        self._indexes: dict[str, dict[str, dict[Key, Object]]] = {}
        self._handlers: list[Handler] = []
        self._unfollow: Callable[[], None] | None = None

    def add_index(self, name: str, function: IndexFunction) -> None:
        """File objects under the values of a function; the same name twice is one index."""
        if name in self._functions:
            return
        self._functions[name] = function
        self._indexes[name] = {}
        for key, obj in self._objects.items():
            self._file(name, key, obj)

    def add_handler(self, handler: Handler) -> None:
        """Tell of each change from now on; what is there already is told at `start`."""
        self._handlers.append(handler)

    def start(self) -> None:
        """Take in what there is and follow the store."""
        for revision in self._server.store.collection(self._collection).seen(View()):
            self._take(revision.key, revision.obj)
        self._unfollow = self._server.store.listen(self._collection, self._on_event)

    def stop(self) -> None:
        """Follow no longer."""
        if self._unfollow is not None:
            self._unfollow()
            self._unfollow = None

    def get(self, key: Key) -> Object | None:
        """An object by namespace and name."""
        return self._objects.get(key)

    def all(self) -> list[Object]:
        """All objects."""
        return [*self._objects.values()]

    def __len__(self) -> int:
        """Count the objects."""
        return len(self._objects)

    def by_index(self, name: str, value: str) -> list[Object]:
        """The objects filed under a value."""
        return [*self._indexes[name].get(value, {}).values()]

    def count(self, name: str, value: str) -> int:
        """How many objects are filed under a value."""
        return len(self._indexes[name].get(value, ()))

    def _on_event(self, event: Event) -> None:
        new = None if event.type == "DELETED" else event.revision.obj
        if self._lag:
            asyncio.get_running_loop().call_later(self._lag, self._take, event.revision.key, new)
        else:
            self._take(event.revision.key, new)

    def _take(self, key: Key, new: Object | None) -> None:
        old = self._objects.pop(key, None)
        if old is not None:
            self._unfile(key, old)
        if new is not None:
            self._objects[key] = new
            for name in self._functions:
                self._file(name, key, new)
        for handler in self._handlers:
            handler(old, new)

    def _file(self, name: str, key: Key, obj: Object) -> None:
        index = self._indexes[name]
        for value in self._functions[name](obj):
            index.setdefault(value, {})[key] = obj

    def _unfile(self, key: Key, obj: Object) -> None:
        for name, function in self._functions.items():
            index = self._indexes[name]
            for value in function(obj):
                bucket = index[value]
                del bucket[key]
                if not bucket:
                    del index[value]


class Informers:
    """One informer a resource, shared by all controllers. Owner: their manager."""

    def __init__(self, server: ApiServer, lag: float = 0.0) -> None:
        self._server = server
        self._lag = lag
        self._informers: dict[str, Informer] = {}

    def __call__(self, resource: str) -> Informer:
        """The informer of a resource."""
        found = self._informers.get(resource)
        if found is None:
            found = self._informers[resource] = Informer(self._server, resource, self._lag)
        return found

    def start(self) -> None:
        """Start all; to be called once all handlers are added."""
        for informer in self._informers.values():
            informer.start()

    def stop(self) -> None:
        """Stop all."""
        for informer in self._informers.values():
            informer.stop()


# --- indexes that several controllers use --------------------------------------------------------------------------


def controller_of(obj: Object) -> Object | None:
    """The owner reference of the controller that manages an object."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            found: Object = owner
            return found
    return None


def by_controller(obj: Object) -> list[str]:
    """The UID of an object's controller; `orphans NAMESPACE` for an object that has none."""
    owner = controller_of(obj)
    return [owner["uid"]] if owner else [f"orphans {obj['metadata'].get('namespace', '')}"]


def by_namespace(obj: Object) -> list[str]:
    """An object's namespace."""
    return [obj["metadata"].get("namespace", "")]


def by_node(pod: Object) -> list[str]:
    """The node of a pod that has one."""
    node = pod["spec"].get("nodeName")
    return [node] if node else []
