"""The rules that need to know other objects, and that change pods on their way in: built-in admission.

    namespace exists and is not going away · service account · priority · default tolerations · matchLabelKeys ·
    SchedulingGated · addresses of services · selectors of jobs · default storage class · finalizers of volumes ·
    admin access to devices

Reads the store, never writes it. `admit_new` changes the object in place: the caller owns it. Called once per creation,
after defaulting and before validation, as in the real server.
"""

from typing import Any

from kube.api.volumes import CLASS_ANNOTATION, default_class
from simulator.apiserver.device_rules import ADMIN_LABEL, wants_admin_access
from simulator.apiserver.errors import Cause, Object, forbidden, forbidden_field, invalid, not_found
from simulator.apiserver.resources import Resource
from simulator.apiserver.service_addresses import allocate
from simulator.apiserver.store import Store
from simulator.apiserver.watch_cache import View

SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_EVICTING_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_EVICTION_DELAY = 300
PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"
STORAGE_CLASSES = "storageclasses.storage.k8s.io"
_EVERYTHING = View()
#: what may be in use is held until a controller finds that it is not
_PROTECTED = {
    ("", "PersistentVolumeClaim"): "kubernetes.io/pvc-protection",
    ("", "PersistentVolume"): "kubernetes.io/pv-protection",
}


def admit_new(store: Store, resource: Resource, obj: Object, now: str) -> None:
    """Apply all rules to an object about to be created."""
    if resource.namespaced:
        _check_namespace(store, resource, obj["metadata"])
    kind = (resource.group, resource.kind)
    if kind == ("", "Pod"):
        _admit_pod(store, obj, now)
    elif kind == ("", "Service"):
        allocate(store, obj)
    elif kind == ("batch", "Job"):
        _select_by_uid(obj)
    elif kind in _PROTECTED:
        if resource.kind == "PersistentVolumeClaim":
            _set_default_class(store, obj)
        finalizers = obj["metadata"].get("finalizers") or []
        obj["metadata"]["finalizers"] = [*(one for one in finalizers if one != _PROTECTED[kind]), _PROTECTED[kind]]
    elif kind == ("scheduling.k8s.io", "PodGroup"):
        _set_group_priority(store, obj)
    elif kind == ("resource.k8s.io", "ResourceClaim"):
        _check_admin_access(store, resource, obj, obj["spec"])
    elif kind == ("resource.k8s.io", "ResourceClaimTemplate"):
        _check_admin_access(store, resource, obj, obj["spec"]["spec"])


def _check_namespace(store: Store, resource: Resource, metadata: Object) -> None:
    name = metadata["namespace"]
    namespace = store.collection("namespaces").get(("", name))
    if namespace is None:
        raise not_found("", "namespaces", name)
    if "deletionTimestamp" in namespace.obj["metadata"]:
        why = f"unable to create new content in namespace {name} because it is being terminated"
        cause = Cause("NamespaceTerminating", f"namespace {name} is being terminated", "metadata.namespace")
        raise forbidden(resource.group, resource.plural, metadata.get("name", ""), why, (cause,))


def _admit_pod(store: Store, pod: Object, now: str) -> None:
    spec = pod["spec"]
    if not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"] = "default"
    _set_priority(store, pod)
    _set_default_tolerations(spec)
    labels = pod["metadata"].get("labels") or {}
    _merge_match_label_keys(spec, labels)
    if spec.get("schedulingGates"):
        _set_scheduling_gated(pod["status"], now)


def _check_admin_access(store: Store, resource: Resource, obj: Object, spec: Object) -> None:
    if not wants_admin_access(spec):
        return
    namespace = store.collection("namespaces").get(("", obj["metadata"]["namespace"]))
    labels = (namespace.obj["metadata"].get("labels") or {}) if namespace is not None else {}
    if labels.get(ADMIN_LABEL) != "true":
        why = f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
        cause = forbidden_field("spec.devices.requests", why)
        raise invalid(resource.group, resource.kind, obj["metadata"].get("name", ""), [cause])


def _set_priority(store: Store, pod: Object) -> None:
    spec, name = pod["spec"], pod["metadata"].get("name", "")
    chosen = spec.get("priorityClassName") or ""
    found = _priority_class(store, chosen)
    if chosen and found is None:
        raise forbidden("", "pods", name, f"no PriorityClass with name {chosen} was found")
    value = found["value"] if found else 0
    if found and not chosen:
        spec["priorityClassName"] = found["metadata"]["name"]
    if spec.get("priority") not in (None, value):
        why = f"the integer value of priority ({spec['priority']}) must not be provided in pod spec"
        raise forbidden(
            "", "pods", name, f"{why}; priority admission controller computed {value} from the given PriorityClass name"
        )
    policy = (found or {}).get("preemptionPolicy", "PreemptLowerPriority")
    if spec.get("preemptionPolicy") not in (None, policy):
        why = f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec"
        raise forbidden(
            "",
            "pods",
            name,
            f"{why}; priority admission controller computed {policy} from the given PriorityClass name",
        )
    spec["priority"], spec["preemptionPolicy"] = value, policy


def _set_group_priority(store: Store, group: Object) -> None:
    spec = group.setdefault("spec", {})
    chosen = spec.get("priorityClassName") or ""
    found = _priority_class(store, chosen)
    if chosen and found is None:
        why = f"no PriorityClass with name {chosen} was found"
        raise forbidden("scheduling.k8s.io", "podgroups", group["metadata"].get("name", ""), why)
    if found is not None:
        spec.setdefault("priority", found["value"])


def _priority_class(store: Store, name: str) -> Object | None:
    """Find the class by name or, without a name, the global default (the lowest one, should there be several)."""
    classes = store.collection(PRIORITY_CLASSES)
    if name:
        found = classes.get(("", name))
        return found.obj if found else None
    everything = classes.page(_EVERYTHING, 0, None, None).revisions
    defaults = [revision.obj for revision in everything if revision.obj.get("globalDefault")]
    return min(defaults, key=lambda obj: int(obj["value"])) if defaults else None


def _set_default_class(store: Store, claim: Object) -> None:
    """A claim that names no class gets the default; one that names "" wants none."""
    if claim["spec"].get("storageClassName") is not None or CLASS_ANNOTATION in (
        claim["metadata"].get("annotations") or {}
    ):
        return
    everything = store.collection(STORAGE_CLASSES).page(_EVERYTHING, 0, None, None).revisions
    metas = (revision.obj["metadata"] for revision in everything)
    name = default_class((m["name"], m.get("annotations") or {}, m.get("creationTimestamp") or "") for m in metas)
    if name is not None:
        claim["spec"]["storageClassName"] = name


def _set_default_tolerations(spec: Object) -> None:
    tolerations = spec.get("tolerations") or []
    missing = [taint for taint in _EVICTING_TAINTS if not any(_tolerates(known, taint) for known in tolerations)]
    added = [
        {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _EVICTION_DELAY}
        for taint in missing
    ]
    if added:
        spec["tolerations"] = [*tolerations, *added]


def _tolerates(toleration: Object, taint: str) -> bool:
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    return key in ("", taint) and effect in ("", "NoExecute")


def _merge_match_label_keys(spec: Object, labels: dict[str, str]) -> None:
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge_keys(constraint, constraint.get("matchLabelKeys"), "In", labels)
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        preferred = terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        for term in [
            *(terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ()),
            *(weighted.get("podAffinityTerm") or {} for weighted in preferred),
        ]:
            _merge_keys(term, term.get("matchLabelKeys"), "In", labels)
            _merge_keys(term, term.get("mismatchLabelKeys"), "NotIn", labels)


def _merge_keys(term: Object, keys: Any, operator: str, labels: dict[str, str]) -> None:
    """Turn the pod's own values of `keys` into requirements; without a selector the keys say nothing."""
    selector = term.get("labelSelector")
    if not keys or selector is None:
        return
    requirements = [{"key": key, "operator": operator, "values": [labels[key]]} for key in keys if key in labels]
    present = selector.get("matchExpressions") or []
    term["labelSelector"] = {**selector, "matchExpressions": present + [r for r in requirements if r not in present]}


def _select_by_uid(job: Object) -> None:
    """Let a job find its pods by its UID, unless it brings a selector of its own."""
    spec, uid, name = job["spec"], job["metadata"]["uid"], job["metadata"].get("name", "")
    if spec.get("manualSelector") or spec.get("selector"):
        return
    own = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name}
    metadata = spec["template"].get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), **own, "controller-uid": uid, "job-name": name}
    spec["template"]["metadata"] = {**metadata, "labels": labels}
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _set_scheduling_gated(status: Object, now: str) -> None:
    status["conditions"] = [
        *(condition for condition in status.get("conditions") or () if condition.get("type") != "PodScheduled"),
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": None,
            "lastTransitionTime": now,
        },
    ]
