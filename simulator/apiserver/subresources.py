"""Subresources that are more than a part of their object: binding and scale (status is a flag of update and patch).

Functions over `Verbs`, each atomic as the verbs are. Eviction, which has rules of its own, is in `eviction.py`.
"""

from typing import Any

from simulator.apiserver import errors
from simulator.apiserver.deletion import DeleteOptions, check_preconditions
from simulator.apiserver.errors import Object, bad_request, conflict
from simulator.apiserver.patch import apply_patch
from simulator.apiserver.resources import Resource
from simulator.apiserver.verbs import PLAIN, Verbs, Write
from simulator.apiserver.watch_cache import Revision

SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


# --- binding -------------------------------------------------------------------------------------------------------


def bind(verbs: Verbs, pods: Resource, namespace: str, name: str, binding: Any, write: Write = PLAIN) -> Object:
    """Assign a pod to a node, once: the only way in which `spec.nodeName` is ever set after creation."""
    metadata, node = _read_binding(name, binding)
    old = verbs.get(pods, namespace, name)
    wanted = DeleteOptions(uid=metadata.get("uid") or "", resource_version=metadata.get("resourceVersion") or "")
    check_preconditions(pods, old, wanted)
    refusal = _why_not(old.obj, name)
    if refusal:
        raise conflict("", "pods/binding", name, refusal)
    verbs.commit(pods, old, _bound(old.obj, node, metadata, verbs.now()), write.dry_run)
    return SUCCESS


def _read_binding(name: str, binding: Any) -> tuple[Object, str]:
    if not isinstance(binding, dict) or not isinstance(binding.get("metadata") or {}, dict):
        raise bad_request('Binding in version "v1" cannot be handled as a Binding: a JSON object is expected')
    metadata, target = binding.get("metadata") or {}, binding.get("target") or {}
    if metadata.get("name") not in (None, "", name):
        raise bad_request("name in URL does not match name in Binding object")
    causes = []
    if target.get("kind") not in (None, "", "Node"):
        causes.append(errors.unsupported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        causes.append(errors.required("target.name"))
    if causes:
        raise errors.invalid("", "Binding", name, causes)
    return metadata, target["name"]


def _why_not(pod: Object, name: str) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if pod["spec"].get("nodeName"):
        return f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    if pod["spec"].get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _bound(pod: Object, node: str, binding_metadata: Object, now: str) -> Object:
    metadata = dict(pod["metadata"])
    for key in ("annotations", "labels"):
        if binding_metadata.get(key):
            metadata[key] = {**(metadata.get(key) or {}), **binding_metadata[key]}
    status = {key: value for key, value in (pod.get("status") or {}).items() if key != "nominatedNodeName"}
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    status["conditions"] = [
        *(condition for condition in status.get("conditions") or () if condition.get("type") != "PodScheduled"),
        scheduled,
    ]
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}, "status": status}


# --- scale ---------------------------------------------------------------------------------------------------------


def scale_of(revision: Revision) -> Object:
    """Give the Scale of a workload."""
    obj = revision.obj
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    selector = (obj["spec"].get("selector") or {}) if obj["kind"] != "ReplicationController" else {}
    labels = selector.get("matchLabels") or obj["spec"].get("selector") or {}
    words = ",".join(f"{key}={value}" for key, value in labels.items() if isinstance(value, str))
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: obj["metadata"][key] for key in kept if key in obj["metadata"]},
        "spec": {"replicas": obj["spec"].get("replicas", 1)},
        "status": {"replicas": (obj.get("status") or {}).get("replicas", 0), "selector": words},
    }


def update_scale(verbs: Verbs, resource: Resource, old: Revision, scale: Any, write: Write = PLAIN) -> Object:
    """Set a workload's replicas, under the preconditions that the Scale's metadata carries."""
    replicas = (scale.get("spec") or {}).get("replicas", 0) if isinstance(scale, dict) else None
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request("Scale: spec.replicas: a whole number is expected")
    given = scale.get("metadata") or {}
    metadata = dict(old.obj["metadata"]) | {key: given[key] for key in ("uid", "resourceVersion") if given.get(key)}
    changed = {**old.obj, "metadata": metadata, "spec": {**old.obj["spec"], "replicas": replicas}}
    return scale_of(verbs.update(resource, *old.key, changed, write=write))


def patch_scale(verbs: Verbs, resource: Resource, old: Revision, patch: Any, content_type: str, write: Write) -> Object:
    """Set a workload's replicas by a patch of its Scale."""
    return update_scale(verbs, resource, old, apply_patch(scale_of(old), patch, content_type), write)
