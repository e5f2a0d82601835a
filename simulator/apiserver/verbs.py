"""The verbs of the API: get, list, create, update, patch, delete, each with the rules the real server applies.

    create    shape ► defaults ► admission ► validation ► store
    update    shape ► preconditions ► keep what only the server may change ► defaults ► validation ► store
    delete    preconditions ► grace and finalizers ► store

One code path for HTTP and for callers in process. Every verb is a plain function that never awaits, so each is atomic.
Objects handed in belong to the verb from then on; objects in the store are replaced, never changed.
Owner of the store's contents. Subresources with verbs of their own (binding, eviction, scale) are in `subresources.py`.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec.json

from simulator.apiserver import errors
from simulator.apiserver.admission import SYSTEM_NAMESPACES, admit_new
from simulator.apiserver.apply import APPLY, UPDATE, Applied, Owner, track_update
from simulator.apiserver.defaults import apply_defaults
from simulator.apiserver.deletion import (
    DeleteOptions,
    check_preconditions,
    grace_of,
    still_held,
    uid_mismatch,
    with_finalizers,
)
from simulator.apiserver.errors import Object, bad_request, conflict
from simulator.apiserver.field_validation import FieldCheck
from simulator.apiserver.patch import apply_patch
from simulator.apiserver.resources import Registry, Resource
from simulator.apiserver.service_addresses import keep
from simulator.apiserver.shape import check_shape
from simulator.apiserver.store import Collection, Store
from simulator.apiserver.update_validation import validate_status, validate_update
from simulator.apiserver.validation import validate
from simulator.apiserver.watch_cache import Key, Revision, View

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, so that no suffix is a word
_NAME_ATTEMPTS = 8
_MAX_BASE = 58  # of a generated name
# Writes without a resourceVersion are refused for these.
_CONDITIONAL_ONLY = frozenset({"Lease", "PodDisruptionBudget"})
# Set at creation or by deletion, and never by a client's update.
_SERVER_METADATA = (
    "name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation",
    "generateName",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Write:
    """How a write is carried out: for good or not, on whose behalf, and what is said about unknown fields."""

    dry_run: bool = False
    manager: str = ""
    fields: FieldCheck | None = None
    force: bool = False
    subresource: str = ""
    owned: bool = False
    """Whether managedFields are as they should be already."""


PLAIN = Write()


def utc_now() -> datetime:
    """Tell the time of a real server."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """Spell a time as Kubernetes does, in whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class Verbs:
    """All that can be done to the objects of one server. Owner: `ApiServer`."""

    def __init__(
        self, store: Store, registry: Registry, clock: Callable[[], datetime] = utc_now, seed: int | None = None
    ) -> None:
        self.store = store
        self.registry = registry
        self.clock = clock
        self._random = random.Random(seed)
        self._second = datetime.min.replace(tzinfo=UTC)
        self._spelled = ""

    def now(self) -> str:
        """Tell the time as objects carry it."""
        moment = self.clock().replace(microsecond=0)
        if moment != self._second:
            self._second, self._spelled = moment, rfc3339(moment)
        return self._spelled

    def collection(self, resource: Resource) -> Collection:
        """Give the collection behind a resource."""
        return self.store.collection(resource.collection)

    # --- reading -------------------------------------------------------------------------------------------------

    def get(self, resource: Resource, namespace: str, name: str) -> Revision:
        """Give one object; raises a 404."""
        revision = self.collection(resource).get((namespace, name))
        if revision is None:
            raise errors.not_found(resource.group, resource.plural, name)
        return revision

    # --- creating ------------------------------------------------------------------------------------------------

    def create(self, resource: Resource, namespace: str, body: Any, write: Write = PLAIN) -> Revision:
        """Create an object."""
        obj = self._incoming(resource, namespace, body, write)
        metadata = obj["metadata"]
        if metadata.pop("resourceVersion", ""):
            raise bad_request("resourceVersion should not be set on objects to be created")
        if not resource.status_at_creation and resource.has_status:
            obj.pop("status", None)
        now = self.now()
        self._name(resource, namespace, metadata)
        for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(key, None)
        metadata |= {"uid": str(uuid4()), "creationTimestamp": now}
        if resource.counts_generations:
            metadata["generation"] = 1
        apply_defaults(resource, obj)
        admit_new(self.store, resource, obj, now)
        self._refuse_invalid(resource, obj, None)
        place = (namespace, str(metadata["name"]))
        if self.collection(resource).get(place) is not None:
            raise errors.already_exists(resource.group, resource.plural, metadata["name"])
        revision = self._put(resource, place, obj, write.dry_run)
        if resource.kind == "Namespace" and not write.dry_run:
            self._furnish(revision.key[1])
        return revision

    def _furnish(self, namespace: str) -> None:
        """Give a new namespace the account that its pods run under."""
        accounts = self.registry.by_kind("v1", "ServiceAccount")
        if accounts is not None and self.collection(accounts).get((namespace, "default")) is None:
            self.create(accounts, namespace, {"metadata": {"name": "default"}})

    def restore(self, resource: Resource, namespace: str, obj: Object) -> Revision:
        """Store an object as it is (status, uid and times included), as a dump of a cluster has it; no rule applies."""
        metadata = {"uid": str(uuid4()), "creationTimestamp": self.now(), **obj["metadata"]}
        if resource.namespaced:
            metadata["namespace"] = namespace
        stored = {**resource.typed(obj), "metadata": metadata}
        if resource.conversion:
            stored = resource.conversion.to_storage(stored)
        return self.store.put(self.collection(resource), (namespace, metadata["name"]), stored)

    def _incoming(self, resource: Resource, namespace: str, body: Any, write: Write) -> Object:
        """Check an object that came from outside and bring it into the form the store keeps."""
        obj = resource.typed(check_shape(resource, body, write.fields))
        if resource.conversion:
            obj = resource.conversion.to_storage(obj)
        metadata = obj["metadata"] = {k: v for k, v in obj["metadata"].items() if v is not None}
        if not resource.namespaced:
            metadata.pop("namespace", None)
        elif metadata.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        return obj

    def _name(self, resource: Resource, namespace: str, metadata: Object) -> None:
        base = metadata.get("generateName")
        if metadata.get("name") or not isinstance(base, str) or not base:
            return
        taken = self.collection(resource)
        for _ in range(_NAME_ATTEMPTS):
            name = base[:_MAX_BASE] + "".join(self._random.choices(_SUFFIX_LETTERS, k=5))
            metadata["name"] = name
            if taken.get((namespace, name)) is None:
                return

    def _refuse_invalid(self, resource: Resource, obj: Object, old: Object | None) -> None:
        causes = validate(resource, obj)
        if old is not None:
            causes += validate_update(resource, obj, old)
        if causes:
            raise errors.invalid(resource.group, resource.kind, obj["metadata"].get("name", ""), causes)

    # --- changing ------------------------------------------------------------------------------------------------

    def update(
        self, resource: Resource, namespace: str, name: str, body: Any, *, status: bool = False, write: Write = PLAIN
    ) -> Revision:
        """Replace an object, or only its status."""
        obj = self._incoming(resource, namespace, body, write)
        if obj["metadata"].setdefault("name", name) != name:
            given = obj["metadata"]["name"]
            raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")
        old = self.get(resource, namespace, name)
        if not obj["metadata"].get("resourceVersion") and resource.kind in _CONDITIONAL_ONLY and not status:
            cause = errors.invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise errors.invalid(resource.group, resource.kind, name, [cause])
        return self._replace(resource, old, obj, status, write)

    def patch(
        self,
        resource: Resource,
        key: Key,
        patch: Any,
        content_type: str,
        *,
        status: bool = False,
        write: Write = PLAIN,
    ) -> Revision:
        """Change an object, or only its status, by a patch."""
        old = self.get(resource, *key)
        shown = resource.conversion.from_storage(old.obj) if resource.conversion else old.obj
        patched = apply_patch(shown, patch, content_type)
        if not status:
            # The patched object shares its parts with the stored one; defaulting needs one of its own.
            patched = msgspec.json.decode(msgspec.json.encode(patched))
        if patched["metadata"].get("name") != key[1]:
            raise bad_request("the name of the object cannot be changed by a patch")
        obj = self._incoming(resource, key[0], patched, write)
        return self._replace(resource, old, obj, status, write)

    def apply(
        self, resource: Resource, key: Key, body: Any, *, status: bool = False, write: Write = PLAIN
    ) -> tuple[Revision, bool]:
        """Apply what a manager wants of an object, which is created if need be; tells whether it was."""
        owner = self._owner(resource, write, APPLY)
        wanted = Applied.read(resource, key[1], body, owner, write)
        old = self.collection(resource).get(key)
        owned = replace(write, owned=True)
        if old is None and not status:
            return self.create(resource, key[0], wanted.alone(), owned), True
        old = old or self.get(resource, *key)
        live = self.shown(resource, old)
        obj = self._incoming(resource, key[0], wanted.onto(live), write)
        return self._replace(resource, old, obj, status, owned), False

    def shown(self, resource: Resource, revision: Revision) -> Object:
        """Give a copy of an object in the form of a resource, to be changed."""
        decoded: Object = msgspec.json.decode(revision.encoded(resource))
        return decoded

    def _owner(self, resource: Resource, write: Write, operation: str) -> Owner:
        manager = write.manager or "unknown"
        return Owner(manager, operation, resource.api_version, frozenset(), self.now(), write.subresource)

    def _replace(self, resource: Resource, old: Revision, obj: Object, status: bool, write: Write) -> Revision:
        self._check_write(resource, old, obj["metadata"])
        metadata = self._kept_metadata(obj["metadata"], old.obj["metadata"])
        if status:
            obj = {**old.obj, "metadata": metadata, "status": obj.get("status") or {}}
            if causes := validate_status(resource, obj, old.obj):
                raise errors.invalid(resource.group, resource.kind, old.key[1], causes)
        else:
            obj["metadata"] = metadata
            if resource.has_status and "status" in old.obj:
                obj["status"] = old.obj["status"]
            apply_defaults(resource, obj)
            if resource.kind == "Service":
                keep(obj, old.obj)
            self._refuse_invalid(resource, obj, old.obj)
            if resource.counts_generations and obj.get("spec") != old.obj.get("spec"):
                metadata["generation"] = metadata.get("generation", 0) + 1
        if "managedFields" in old.obj["metadata"] and not write.owned:
            obj = track_update(resource, old.obj, obj, self._owner(resource, write, UPDATE))
        return self.commit(resource, old, obj, write.dry_run)

    def commit(self, resource: Resource, old: Revision, obj: Object, dry_run: bool = False) -> Revision:
        """Store a new state of an object that has passed all rules; nothing happens when nothing has changed."""
        metadata = obj["metadata"]
        metadata["resourceVersion"] = old.obj["metadata"]["resourceVersion"]
        if "deletionTimestamp" in metadata and not still_held(metadata):
            return self._drop(resource, old, obj, dry_run)
        if obj == old.obj:
            return old
        return self._put(resource, old.key, obj, dry_run)

    def _check_write(self, resource: Resource, old: Revision, metadata: Object) -> None:
        name, known = old.key[1], old.obj["metadata"]
        if metadata.get("uid") not in (None, "", known["uid"]):
            raise conflict(resource.group, resource.plural, name, uid_mismatch(metadata["uid"], known["uid"]))
        if metadata.get("resourceVersion") not in (None, "", "0", known["resourceVersion"]):
            raise conflict(resource.group, resource.plural, name)

    @staticmethod
    def _kept_metadata(metadata: Object, known: Object) -> Object:
        kept = {key: value for key, value in metadata.items() if key not in _SERVER_METADATA and value is not None}
        if "managedFields" in known:
            kept.setdefault("managedFields", known["managedFields"])
        return {**{key: known[key] for key in _SERVER_METADATA if key in known}, **kept}

    def _put(self, resource: Resource, key: Key, obj: Object, dry_run: bool) -> Revision:
        if dry_run:
            return Revision(key, obj, self.store.version)
        return self.store.put(self.collection(resource), key, obj)

    # --- deleting ------------------------------------------------------------------------------------------------

    def delete(self, resource: Resource, namespace: str, name: str, options: DeleteOptions) -> tuple[Revision, bool]:
        """Delete an object at once, or mark it where grace or finalizers hold it; tells which (True: it is gone)."""
        old = self.get(resource, namespace, name)
        check_preconditions(resource, old, options)
        if resource.kind == "Namespace":
            return self._delete_namespace(resource, old, options)
        obj = with_finalizers(old.obj, options.propagation)
        metadata = obj["metadata"]
        grace = grace_of(resource, obj, options)
        if "deletionTimestamp" in metadata:
            grace = min(grace, metadata.get("deletionGracePeriodSeconds") or 0)
        if grace == 0 and not metadata.get("finalizers"):
            return self._drop(resource, old, obj, options.dry_run), True
        return self.commit(resource, old, self._marked(resource, obj, grace), options.dry_run), False

    def _marked(self, resource: Resource, obj: Object, grace: int) -> Object:
        """Give the object as it looks while it is being deleted."""
        metadata = dict(obj["metadata"])
        if metadata.get("deletionGracePeriodSeconds") == grace and "deletionTimestamp" in metadata:
            return {**obj, "metadata": metadata}
        metadata["deletionTimestamp"] = rfc3339(self.clock() + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace
        if resource.counts_generations:
            metadata["generation"] = metadata.get("generation", 0) + 1
        return {**obj, "metadata": metadata}

    def delete_collection(self, resource: Resource, view: View, options: DeleteOptions) -> list[Revision]:
        """Delete everything a view holds."""
        found = list(self.collection(resource).seen(view))
        return [self.delete(resource, *revision.key, options)[0] for revision in found]

    def _drop(self, resource: Resource, old: Revision, obj: Object, dry_run: bool) -> Revision:
        if dry_run:
            return Revision(old.key, obj, self.store.version)
        gone = self.store.drop(self.collection(resource), old.key, obj)
        if resource.namespaced:
            self._finish_namespace(old.key[0])
        return gone

    def _delete_namespace(self, resource: Resource, old: Revision, options: DeleteOptions) -> tuple[Revision, bool]:
        name = old.key[1]
        if name in SYSTEM_NAMESPACES:
            raise errors.forbidden("", "namespaces", name, "this namespace may not be deleted")
        if "deletionTimestamp" in old.obj["metadata"]:
            return old, False
        status = {**(old.obj.get("status") or {}), "phase": "Terminating"}
        marked = {**self._marked(resource, old.obj, 0), "status": status}
        revision = self._put(resource, old.key, marked, options.dry_run)
        if not options.dry_run:
            for content in self.registry:
                if content.namespaced and "delete" in content.verbs:
                    self.delete_collection(content, View(name), DeleteOptions())
            self._finish_namespace(name)
        return revision, False

    def _finish_namespace(self, name: str) -> None:
        """Let a namespace go that is being deleted once nothing is left in it."""
        namespaces = self.store.collection("namespaces")
        namespace = namespaces.get(("", name))
        if namespace is None or "deletionTimestamp" not in namespace.obj["metadata"]:
            return
        held = namespace.obj["metadata"].get("finalizers")
        view = View(name)
        if not held and not any(next(collection.seen(view), None) for _, collection in self.store.collections()):
            self.store.drop(namespaces, namespace.key, namespace.obj)
