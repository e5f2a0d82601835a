"""What the workload controllers share about pods: making them from a template, judging them, choosing whom to delete.

Functions over plain objects and `Api`; no state. The rules are those of the real controllers.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec.json

from simulator.apiserver.errors import ApiError, Object
from simulator.apiserver.selectors import LabelTest, labels_of
from simulator.apiserver.watch_cache import Key
from simulator.controllers.api import Api, key_of, seconds_of
from simulator.controllers.informer import Informer, controller_of

T = TypeVar("T")

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
FINISHED = ("Succeeded", "Failed")
_HASH_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_PHASE_ORDER = {"Pending": 0, "Unknown": 1, "Running": 2}


# --- judging -------------------------------------------------------------------------------------------------------


def phase_of(pod: Object) -> str:
    """A pod's phase."""
    return str((pod.get("status") or {}).get("phase", "Pending"))


def is_terminating(obj: Object) -> bool:
    """Whether an object is being deleted."""
    return "deletionTimestamp" in obj["metadata"]


def is_active(pod: Object) -> bool:
    """Whether a pod counts as a replica: neither finished nor on its way out."""
    return phase_of(pod) not in FINISHED and not is_terminating(pod)


def was_rejected(pod: Object) -> bool:
    """Whether its kubelet refused to start a pod: it is Failed, and not one of its containers was ever made."""
    status = pod.get("status") or {}
    return phase_of(pod) == "Failed" and "startTime" in status and not status.get("containerStatuses")


def condition_of(obj: Object, kind: str) -> Object:
    """A condition, {} where there is none."""
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            found: Object = condition
            return found
    return {}


def is_ready(pod: Object) -> bool:
    """Whether a pod is ready."""
    return condition_of(pod, "Ready").get("status") == "True"


def ready_since(pod: Object) -> float:
    """Since when a pod is ready, in seconds since the epoch; 0 if it is not."""
    condition = condition_of(pod, "Ready")
    return seconds_of(condition.get("lastTransitionTime") or "") if condition.get("status") == "True" else 0.0


def is_available(pod: Object, min_ready_seconds: int, now: float) -> bool:
    """Whether a pod has been ready for long enough."""
    return is_ready(pod) and (not min_ready_seconds or ready_since(pod) + min_ready_seconds <= now)


def disrupted(pod: Object, reason: str, message: str, now: str) -> Object:
    """The status of a pod about to be deleted through no fault of its own."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
    }
    status = pod.get("status") or {}
    others = [one for one in status.get("conditions") or () if one["type"] != "DisruptionTarget"]
    return {**status, "conditions": [*others, condition]}


# --- making --------------------------------------------------------------------------------------------------------


def owner_reference(owner: Object) -> Object:
    """The reference of a controller to what it manages."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_from_template(owner: Object, template: Object, **metadata: Any) -> Object:
    """A pod of one's own after a template; without a name it gets one after its owner's."""
    given = template.get("metadata") or {}
    labels = {**(given.get("labels") or {}), **metadata.pop("labels", {})}
    annotations = {**(given.get("annotations") or {}), **metadata.pop("annotations", {})}
    if "name" not in metadata:
        metadata["generateName"] = f"{owner['metadata']['name']}-"
    meta = {
        "namespace": owner["metadata"]["namespace"],
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [owner_reference(owner)],
        **metadata,
    }
    spec = msgspec.json.decode(msgspec.json.encode(template["spec"]))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def template_hash(template: Object) -> str:
    """A short name for a template: the same template gives the same (FNV-1a, 32 bits)."""
    value = 0x811C9DC5
    for byte in msgspec.json.encode(template, order="deterministic"):
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return "".join(_HASH_LETTERS[int(digit)] for digit in str(value))


def slow_start(count: int, create: Callable[[], None]) -> tuple[int, ApiError | None]:
    """Create in batches of 1, 2, 4 … until a batch has a failure, so that a quota is not run against 500 times.

    Gives how many were created, and the first refusal.
    """
    created, batch = 0, 1
    while created < count:
        size = min(batch, count - created)
        refusal: ApiError | None = None
        for _ in range(size):
            try:
                create()
                created += 1
            except ApiError as error:
                refusal = refusal or error
        if refusal is not None:
            return created, refusal
        batch *= 2
    return created, None


# --- owning --------------------------------------------------------------------------------------------------------


def claim(api: Api, resource: str, owner: Object, informer: Informer, matches: LabelTest) -> Iterator[Object]:
    """The objects that belong to an owner, after adopting orphans that its selector matches, and releasing others.

    The informer has the index `controller`. Nothing is adopted by an owner that is being deleted.
    """
    uid, namespace = owner["metadata"]["uid"], owner["metadata"]["namespace"]
    for obj in informer.by_index("controller", uid):
        if matches(labels_of(obj)):
            yield obj
        elif not is_terminating(owner):
            _release(api, resource, obj, uid)
    if is_terminating(owner):
        return
    for obj in informer.by_index("controller", f"orphans {namespace}"):
        if matches(labels_of(obj)) and not is_terminating(obj):
            adopted = _adopt(api, resource, obj, owner)
            if adopted is not None:
                yield adopted


def _release(api: Api, resource: str, obj: Object, uid: str) -> None:
    current = api.get(resource, key_of(obj))
    if current is None or current["metadata"]["uid"] != obj["metadata"]["uid"]:
        return
    left = [owner for owner in current["metadata"].get("ownerReferences") or () if owner["uid"] != uid]
    api.set_metadata(resource, obj, ownerReferences=left or None)


def _adopt(api: Api, resource: str, obj: Object, owner: Object) -> Object | None:
    current = api.get(resource, key_of(obj))
    known = api.get(owner["kind"], key_of(owner))
    # What an informer shows may be old: only the server knows whether both are still what they were.
    if current is None or current["metadata"]["uid"] != obj["metadata"]["uid"] or controller_of(current) is not None:
        return None
    if known is None or known["metadata"]["uid"] != owner["metadata"]["uid"] or is_terminating(known):
        return None
    owners = [*(current["metadata"].get("ownerReferences") or ()), owner_reference(owner)]
    return api.set_metadata(resource, obj, ownerReferences=owners)


# --- deleting ------------------------------------------------------------------------------------------------------


def to_delete(pods: Sequence[Object], related: Iterable[Object], count: int, now: float) -> list[Object]:
    """The pods that go first when there are too many; `related` are all of the same application, on whatever node."""
    if count >= len(pods):
        return list(pods)
    on_node: dict[str, int] = {}
    for pod in related:
        if is_active(pod):
            node = pod["spec"].get("nodeName") or ""
            on_node[node] = on_node.get(node, 0) + 1
    return sorted(pods, key=lambda pod: _deletion_rank(pod, on_node, now))[:count]


def _deletion_rank(pod: Object, on_node: dict[str, int], now: float) -> tuple[Any, ...]:
    metadata = pod["metadata"]
    node = pod["spec"].get("nodeName") or ""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return (
        bool(node),
        _PHASE_ORDER.get(phase_of(pod), 1),
        is_ready(pod),
        _deletion_cost(metadata),
        -on_node.get(node, 0),
        _age_class(ready_since(pod), now),
        -max((status.get("restartCount", 0) for status in statuses), default=0),
        _age_class(seconds_of(metadata["creationTimestamp"]), now),
        metadata["uid"],
    )


def _deletion_cost(metadata: Object) -> int:
    try:
        return int((metadata.get("annotations") or {}).get(DELETION_COST, 0))
    except ValueError:
        return 0


def _age_class(since: float, now: float) -> int:
    """Ages on a logarithmic scale (of nanoseconds): among those of about the same age the UID decides, as by chance."""
    age = int((now - since) * 1e9)
    return math.floor(math.log2(age)) if age > 0 else -1


def keys_of(objects: Iterable[Object]) -> list[Key]:
    """The keys of objects."""
    return [key_of(obj) for obj in objects]
