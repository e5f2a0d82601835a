"""Garbage collection: what is owned goes when all its owners are gone.

    owner deleted         ─► its dependents, unless another owner is left: then only the reference goes
    foregroundDeletion    ─► the owner waits, held by this finalizer, for the dependents that block it
    orphan                ─► the dependents lose the reference, then the owner goes
    owner never existed   ─► as if it had been deleted

An owner of a kind that the server does not serve is left alone: nobody can tell whether it is there.
The dependents of all resources are kept by the UIDs of their owners.
"""

from collections.abc import Callable

from simulator.apiserver.errors import Object
from simulator.apiserver.resources import Resource
from simulator.apiserver.watch_cache import Event, Key, View
from simulator.controllers.api import key_of
from simulator.controllers.controller import Context, Controller
from simulator.controllers.pods import is_terminating

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
Node = tuple[str, Key]
"""A collection's resource, and the key of an object in it."""


class GarbageCollector(Controller):
    """Follows all resources; its keys are (resource, `namespace/name`)."""

    name = "garbage-collector"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._dependents: dict[str, set[Node]] = {}
        self._unfollow: list[Callable[[], None]] = []

    def start(self) -> None:
        """Take in all objects that there are, and follow all resources that are served now."""
        store, seen = self.api.server.store, set()
        for resource in self.api.server.registry:
            if "delete" not in resource.verbs or resource.collection in seen or resource.kind == "Event":
                continue
            seen.add(resource.collection)
            for revision in store.collection(resource.collection).seen(View()):
                self._added(resource, revision.key, revision.obj)
            self._unfollow.append(store.listen(resource.collection, self._listener(resource)))

    def stop(self) -> None:
        """Follow nothing any more."""
        super().stop()
        for unfollow in self._unfollow:
            unfollow()
        self._unfollow = []

    def _listener(self, resource: Resource) -> Callable[[Event], None]:
        def on_event(event: Event) -> None:
            key, new = event.revision.key, event.revision.obj
            before = event.before.obj if event.before is not None else None
            if event.type == "DELETED":
                self._gone(resource, key, before or new)
                return
            if before is None or before["metadata"].get("ownerReferences") != new["metadata"].get("ownerReferences"):
                if before is not None:
                    self._forget(resource, key, before)
                self._added(resource, key, new)
            if is_terminating(new):
                self._look_at_terminating(resource, key, new)

        return on_event

    def _added(self, resource: Resource, key: Key, obj: Object) -> None:
        for owner in obj["metadata"].get("ownerReferences") or ():
            self._dependents.setdefault(owner["uid"], set()).add((resource.qualified, key))
            if self._owner(owner, key[0]) is None:
                self._enqueue(resource.qualified, key)

    def _forget(self, resource: Resource, key: Key, obj: Object) -> None:
        for owner in obj["metadata"].get("ownerReferences") or ():
            dependents = self._dependents.get(owner["uid"])
            if dependents is not None:
                dependents.discard((resource.qualified, key))
                if not dependents:
                    del self._dependents[owner["uid"]]

    def _gone(self, resource: Resource, key: Key, obj: Object) -> None:
        self._forget(resource, key, obj)
        for name, dependent in self._dependents.get(obj["metadata"]["uid"], ()):
            self._enqueue(name, dependent)
        for owner in obj["metadata"].get("ownerReferences") or ():
            found = self._owner(owner, key[0])
            if found is not None and FOREGROUND in (found["metadata"].get("finalizers") or ()):
                self._enqueue(self._qualified(owner), key_of(found))

    def _look_at_terminating(self, resource: Resource, key: Key, obj: Object) -> None:
        if {FOREGROUND, ORPHAN} & set(obj["metadata"].get("finalizers") or ()):
            self._enqueue(resource.qualified, key)

    def _enqueue(self, resource: str, key: Key) -> None:
        self.queue.add((resource, "/".join(key)))

    # --- doing it --------------------------------------------------------------------------------------------------

    def sync(self, key: Key) -> None:
        """Look at one object: is it waiting for its dependents, or has it lost its owners?"""
        resource, (namespace, _, name) = key[0], key[1].partition("/")
        obj = self.api.get(resource, (namespace, name))
        if obj is None:
            return
        finalizers = obj["metadata"].get("finalizers") or []
        if is_terminating(obj) and ORPHAN in finalizers:
            self._orphan(obj)
            self._remove_finalizer(resource, obj, ORPHAN)
        elif is_terminating(obj) and FOREGROUND in finalizers:
            if not self._delete_blocking(obj):
                self._remove_finalizer(resource, obj, FOREGROUND)
        elif obj["metadata"].get("ownerReferences"):
            self._judge(resource, obj)

    def _judge(self, resource: str, obj: Object) -> None:
        owners = obj["metadata"]["ownerReferences"]
        known = [owner for owner in owners if self._exists(owner, obj["metadata"].get("namespace", ""))]
        if len(known) == len(owners):
            return
        if known:
            self.api.set_metadata(resource, obj, ownerReferences=known)
        elif not is_terminating(obj):
            self.api.delete(resource, obj)

    def _delete_blocking(self, owner: Object) -> bool:
        """Delete the dependents; tells whether some that block the owner are still there."""
        blocked = False
        uid = owner["metadata"]["uid"]
        for resource, key in sorted(self._dependents.get(uid, ())):
            dependent = self.api.get(resource, key)
            if dependent is None:
                continue
            references = [one for one in dependent["metadata"]["ownerReferences"] if one["uid"] == uid]
            if not is_terminating(dependent):
                self.api.delete(resource, dependent)
            blocked = blocked or (
                any(one.get("blockOwnerDeletion") for one in references) and self.api.get(resource, key) is not None
            )
        return blocked

    def _orphan(self, owner: Object) -> None:
        uid = owner["metadata"]["uid"]
        for resource, key in sorted(self._dependents.get(uid, ())):
            dependent = self.api.get(resource, key)
            if dependent is not None:
                left = [one for one in dependent["metadata"]["ownerReferences"] if one["uid"] != uid]
                self.api.set_metadata(resource, dependent, ownerReferences=left or None)

    def _remove_finalizer(self, resource: str, obj: Object, finalizer: str) -> None:
        current = self.api.get(resource, key_of(obj))
        if current is not None:
            left = [one for one in current["metadata"].get("finalizers") or () if one != finalizer]
            self.api.set_metadata(resource, obj, finalizers=left or None)

    # --- owners ----------------------------------------------------------------------------------------------------

    def _exists(self, owner: Object, namespace: str) -> bool:
        if self.api.server.registry.by_kind(owner["apiVersion"], owner["kind"]) is None:
            return True
        return self._owner(owner, namespace) is not None

    def _owner(self, owner: Object, namespace: str) -> Object | None:
        resource = self.api.server.registry.by_kind(owner["apiVersion"], owner["kind"])
        if resource is None:
            return None
        found = self.api.server.store.collection(resource.collection)
        revision = found.get((namespace if resource.namespaced else "", owner["name"]))
        return revision.obj if revision is not None and revision.obj["metadata"]["uid"] == owner["uid"] else None

    def _qualified(self, owner: Object) -> str:
        resource = self.api.server.registry.by_kind(owner["apiVersion"], owner["kind"])
        return resource.qualified if resource is not None else ""
