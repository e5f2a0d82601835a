"""How objects go: what a delete asks for, how long an object may take, and what holds it.

    DeleteOptions ─► preconditions ─► finalizers by propagation policy ─► grace (pods that a kubelet looks after)

Pure functions over objects; `verbs.py` carries out what they say.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulator.apiserver.errors import ApiError, Object, bad_request, conflict
from simulator.apiserver.resources import Resource
from simulator.apiserver.watch_cache import Revision

_NO_QUERY: Mapping[str, str] = {}
_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete: what must still be true, and how long the object may take."""

    grace_seconds: int | None = None
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False
    propagation: str = ""
    """Background, Foreground or Orphan; "" for what the object's finalizers say already."""

    @classmethod
    def parse(cls, body: Any, query: Mapping[str, str] = _NO_QUERY, dry_run: bool = False) -> "DeleteOptions":
        """Read a DeleteOptions object; what stands in the URL gives way to it."""
        options = body if isinstance(body, dict) else {}
        given = options.get("gracePeriodSeconds", _grace_seconds(query))
        if given is not None and (not isinstance(given, int) or given < 0):
            raise bad_request("gracePeriodSeconds: a whole number of seconds, 0 or more, is expected")
        wanted = options.get("preconditions") or {}
        dry = dry_run or "All" in (options.get("dryRun") or ())
        propagation = options.get("propagationPolicy") or query.get("propagationPolicy") or ""
        if options.get("orphanDependents") is not None:
            propagation = "Orphan" if options["orphanDependents"] else "Background"
        if propagation not in ("", "Background", "Foreground", "Orphan"):
            raise bad_request(f"propagationPolicy: {propagation!r} is not one of Background, Foreground, Orphan")
        return cls(given, wanted.get("uid") or "", wanted.get("resourceVersion") or "", dry, propagation)


def _grace_seconds(query: Mapping[str, str]) -> int | None:
    text = query.get("gracePeriodSeconds")
    if text is None:
        return None
    if not text.isdecimal():
        raise bad_request(f"gracePeriodSeconds: a whole number is expected, got {text!r}")
    return int(text)


def grace_of(resource: Resource, obj: Object, options: DeleteOptions) -> int:
    """Tell how many seconds an object may take to go: only pods that a kubelet looks after take any."""
    if resource.kind != "Pod":
        return 0
    spec = obj["spec"]
    if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in _FINISHED:
        return 0
    if options.grace_seconds is not None:
        return options.grace_seconds
    return int(spec.get("terminationGracePeriodSeconds", 30))


_PROPAGATION_FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


def with_finalizers(obj: Object, propagation: str) -> Object:
    """Give the object with the finalizer by which the garbage collector is told what to do with its dependents."""
    present = obj["metadata"].get("finalizers") or []
    kept = [one for one in present if one not in _PROPAGATION_FINALIZERS.values()] if propagation else list(present)
    wanted = _PROPAGATION_FINALIZERS.get(propagation)
    finalizers = [*kept, wanted] if wanted else kept
    if finalizers == present:
        return obj
    metadata = {key: value for key, value in obj["metadata"].items() if key != "finalizers"}
    return {**obj, "metadata": {**metadata, "finalizers": finalizers} if finalizers else metadata}


def still_held(metadata: Object) -> bool:
    """Tell whether an object that is being deleted has to wait: for a finalizer, or for its grace."""
    return bool(metadata.get("finalizers")) or bool(metadata.get("deletionGracePeriodSeconds"))


def check_preconditions(resource: Resource, old: Revision, options: DeleteOptions) -> None:
    """Refuse (409) when the object is not the one, or not in the state, that the client means."""
    metadata = old.obj["metadata"]
    if options.uid and options.uid != metadata["uid"]:
        raise _failed_precondition(resource, old, uid_mismatch(options.uid, metadata["uid"]))
    if options.resource_version and options.resource_version != metadata["resourceVersion"]:
        known = metadata["resourceVersion"]
        text = "ResourceVersion in precondition: {}, ResourceVersion in object meta: {}"
        why = f"Precondition failed: {text.format(options.resource_version, known)}"
        raise _failed_precondition(resource, old, why)


def uid_mismatch(given: str, known: str) -> str:
    """Say that an object of this name is another one than the client means."""
    return f"Precondition failed: UID in precondition: {given}, UID in object meta: {known}"


def _failed_precondition(resource: Resource, old: Revision, why: str) -> ApiError:
    path = "/".join(part for part in ("/registry", resource.plural, *old.key) if part)
    why = f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    return conflict(resource.group, resource.plural, old.key[1], why)
