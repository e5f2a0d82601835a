"""The eviction subresource: a delete that asks the pod's disruption budget first.

The budget is computed here from the pods themselves, so that it is right with no controller running; the outcome is
also written to the budget's status, as the real server counts down `disruptionsAllowed`.
"""

from fractions import Fraction
from math import ceil
from typing import Any

from simulator.apiserver import errors
from simulator.apiserver.deletion import DeleteOptions
from simulator.apiserver.errors import Object, bad_request
from simulator.apiserver.resources import Resource
from simulator.apiserver.selectors import label_selector, labels_of
from simulator.apiserver.verbs import PLAIN, Verbs, Write
from simulator.apiserver.watch_cache import Revision, View

BUDGETS = "poddisruptionbudgets.policy"
_VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


def evict(verbs: Verbs, pods: Resource, namespace: str, name: str, eviction: Any, write: Write = PLAIN) -> Object:
    """Delete a pod if its budget allows; a 429 if it does not."""
    if not isinstance(eviction, dict):
        raise bad_request("Eviction: a JSON object is expected")
    given = (eviction.get("metadata") or {}).get("name")
    if given not in (None, "", name):
        raise bad_request("name in URL does not match name in Eviction object")
    options = DeleteOptions.parse(eviction.get("deleteOptions"), dry_run=write.dry_run)
    pod = verbs.get(pods, namespace, name)
    if _needs_budget(pod.obj):
        _spend(verbs, namespace, pod, options.dry_run)
    verbs.delete(pods, namespace, name, options)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _needs_budget(pod: Object) -> bool:
    """Pods that are not running, or already going, cost no disruption."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in ("Pending", "Succeeded", "Failed") and "deletionTimestamp" not in pod["metadata"]


def _spend(verbs: Verbs, namespace: str, pod: Revision, dry_run: bool) -> None:
    budgets = [
        budget
        for budget in verbs.store.collection(BUDGETS).seen(View(namespace))
        if label_selector(budget.obj["spec"].get("selector"))(labels_of(pod.obj))
    ]
    if not budgets:
        return
    if len(budgets) > 1:
        raise errors.ApiError(500, "InternalError", _SEVERAL)
    budget = budgets[0]
    status = budget_status(verbs, budget)
    if status["disruptionsAllowed"] <= 0:
        raise _violated(budget.key[1], status)
    status["disruptionsAllowed"] -= 1
    status["currentHealthy"] -= 1
    resource = verbs.registry.by_kind("policy/v1", "PodDisruptionBudget")
    if resource is not None and not dry_run:
        known = budget.obj.get("status") or {}
        metadata = dict(budget.obj["metadata"])
        verbs.commit(resource, budget, {**budget.obj, "metadata": metadata, "status": {**known, **status}})


def _violated(name: str, status: Object) -> errors.ApiError:
    desired, healthy = status["desiredHealthy"], status["currentHealthy"]
    needs = f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    return errors.too_many_requests(_VIOLATED, None, [{"reason": "DisruptionBudget", "message": needs}])


def budget_status(verbs: Verbs, budget: Revision) -> Object:
    """Count the pods of a budget: how many there should be, how many are healthy, how many may go."""
    spec, namespace = budget.obj["spec"], budget.key[0]
    chosen = label_selector(spec.get("selector"))
    pods = [
        revision.obj
        for revision in verbs.store.collection("pods").seen(View(namespace, lambda obj: chosen(labels_of(obj))))
        if (revision.obj.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    ]
    expected, healthy = _expected(verbs, spec, pods), sum(1 for pod in pods if _healthy(pod))
    if spec.get("maxUnavailable") is not None:
        desired = max(0, expected - _share(spec["maxUnavailable"], expected))
    else:
        desired = _share(spec.get("minAvailable", 1), expected)
    return {
        "expectedPods": expected,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": max(0, healthy - desired),
        "observedGeneration": budget.obj["metadata"].get("generation", 0),
    }


def _expected(verbs: Verbs, spec: Object, pods: list[Object]) -> int:
    """How many pods there should be: for a share of them, as many as their controllers want, not as there are now."""
    if spec.get("maxUnavailable") is None and not isinstance(spec.get("minAvailable"), str):
        return len(pods)
    total, seen = 0, set()
    for pod in pods:
        controller, replicas = _scale_of_controller(verbs, pod)
        if replicas is None:
            total += 1
        elif controller not in seen:
            seen.add(controller)
            total += replicas
    return total


def _scale_of_controller(verbs: Verbs, pod: Object) -> tuple[str, int | None]:
    """The UID and replicas of what manages a pod in the end: a ReplicaSet's Deployment counts, not the ReplicaSet."""
    uid, replicas, obj = "", None, pod
    while (owner := _controller_of(obj)) is not None:
        resource = verbs.registry.by_kind(owner["apiVersion"], owner["kind"])
        key = (pod["metadata"]["namespace"], owner["name"])
        revision = verbs.collection(resource).get(key) if resource is not None else None
        if revision is None or revision.obj["metadata"]["uid"] != owner["uid"]:
            break
        obj = revision.obj
        scale = obj.get("spec", {}).get("replicas")
        if not isinstance(scale, int):
            break
        uid, replicas = owner["uid"], scale
    return uid, replicas


def _controller_of(obj: Object) -> Object | None:
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def _healthy(pod: Object) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _share(amount: int | str, whole: int) -> int:
    """Read a number or a percentage of the whole; percentages round up."""
    if isinstance(amount, int):
        return amount
    return ceil(Fraction(amount.rstrip("%")) * whole / 100)
