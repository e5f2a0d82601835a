"""How controllers and kubelets read and write the API server in its own process.

What is read is the store's own and shared by everybody: it is never changed in place. Writes go through the server's
verbs, by all their rules, except for statuses, which are stored as their controllers made them. Refusals are
`ApiError`. Nothing here awaits.
"""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec.json

from simulator.apiserver.deletion import DeleteOptions
from simulator.apiserver.errors import ApiError, Object
from simulator.apiserver.resources import Resource
from simulator.apiserver.server import ApiServer
from simulator.apiserver.watch_cache import Key, Revision

NOT_FOUND = 404


def key_of(obj: Object) -> Key:
    """Namespace ("" outside of namespaces) and name."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def copy_of(obj: Object) -> Any:
    """An object of one's own, to be changed."""
    return msgspec.json.decode(msgspec.json.encode(obj))


@lru_cache(maxsize=4096)
def seconds_of(timestamp: str) -> float:
    """A timestamp of an object in seconds since the epoch; 0 for none."""
    return datetime.fromisoformat(timestamp).timestamp() if timestamp else 0.0


class Api:
    """The API, in process. Holds no state of its own."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self._verbs = server.verbs
        self._resources: dict[str, Resource] = {}

    def now(self) -> str:
        """The server's time, as objects carry it."""
        return self._verbs.now()

    def seconds(self) -> float:
        """The server's time in seconds since the epoch."""
        return seconds_of(self._verbs.now())

    def resource(self, name: str) -> Resource:
        """A resource by plural, qualified plural or kind."""
        found = self._resources.get(name)
        if found is None:
            found = self._resources[name] = self.server.resource(name)
        return found

    def get(self, resource: str, key: Key) -> Object | None:
        """The object as it is now, past all informers."""
        revision = self._revision(self.resource(resource), key)
        return None if revision is None else revision.obj

    def create(self, resource: str, namespace: str, body: Object) -> Object:
        """Create an object; the body belongs to the server from then on."""
        return self._verbs.create(self.resource(resource), namespace, body).obj

    def change(self, resource: str, obj: Object, change: Callable[[Object], None]) -> Object:
        """Update the newest state of an object by a function over a copy of it; raises a 404 if it is another now."""
        found = self.resource(resource)
        changed = copy_of(self._same(found, obj).obj)
        change(changed)
        return self._verbs.update(found, *key_of(obj), changed).obj

    def set_status(self, resource: str, obj: Object, status: Object) -> Object:
        """Replace the status of the newest state of an object; nothing is written where it is equal."""
        return self.replace(resource, obj, status=status)

    def replace(self, resource: str, obj: Object, **parts: Any) -> Object:
        """Replace whole parts (status, spec) of the newest state of an object, past all rules."""
        found = self.resource(resource)
        revision = self._same(found, obj)
        changed = {**revision.obj, "metadata": dict(revision.obj["metadata"]), **parts}
        return self._verbs.commit(found, revision, changed).obj

    def set_metadata(self, resource: str, obj: Object, **metadata: Any) -> Object:
        """Replace fields of an object's metadata, None to remove one; an object held by its last finalizer goes."""
        found = self.resource(resource)
        revision = self._same(found, obj)
        merged = {key: value for key, value in {**revision.obj["metadata"], **metadata}.items() if value is not None}
        return self._verbs.commit(found, revision, {**revision.obj, "metadata": merged}).obj

    def delete(self, resource: str, obj: Object, grace_seconds: int | None = None) -> bool:
        """Delete this very object; one that is gone already is well. Tells whether there was something to delete."""
        options = DeleteOptions(grace_seconds=grace_seconds, uid=obj["metadata"]["uid"])
        try:
            self._verbs.delete(self.resource(resource), *key_of(obj), options)
        except ApiError as error:
            if error.code == NOT_FOUND or error.reason == "Conflict":
                return False
            raise
        return True

    def event(self, regarding: Object, kind: str, reason: str, message: str, component: str) -> None:
        """Tell users what was done to an object. Stored as it is: nothing in it comes from outside."""
        metadata = regarding["metadata"]
        namespace = metadata.get("namespace") or "default"
        version = self.server.store.version
        now = self.now()
        self._verbs.restore(
            self.resource("events"),
            namespace,
            {
                "metadata": {"name": f"{metadata['name']}.{version:016x}", "namespace": namespace},
                "involvedObject": {
                    "kind": regarding["kind"],
                    "namespace": metadata.get("namespace", ""),
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "apiVersion": regarding["apiVersion"],
                    "resourceVersion": metadata["resourceVersion"],
                },
                "type": kind,
                "reason": reason,
                "message": message,
                "source": {"component": component},
                "reportingComponent": component,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            },
        )

    def _revision(self, resource: Resource, key: Key) -> Revision | None:
        return self._verbs.collection(resource).get(key)

    def _same(self, resource: Resource, obj: Object) -> Revision:
        revision = self._verbs.get(resource, *key_of(obj))
        if revision.obj["metadata"]["uid"] != obj["metadata"]["uid"]:
            raise ApiError(NOT_FOUND, "NotFound", f"{resource.plural} {obj['metadata']['name']} is another one now")
        return revision
