"""ReplicaSets: as many pods as asked for, no more and no fewer.

The real controller's structure: expectations so that an informer that lags does no harm, creation in slow-start
batches, at most 500 pods a sync, adoption and release by selector, deletion in the order of `pods.to_delete`. Unlike
the real one it waits longer each time before it replaces pods that their kubelets refuse. A ReplicationController is
the same with a simpler selector.
"""

from typing import Any, ClassVar

from simulator.apiserver.errors import ApiError, Object
from simulator.apiserver.selectors import LabelTest, label_selector, labels_of
from simulator.apiserver.watch_cache import Key
from simulator.controllers.api import key_of
from simulator.controllers.backoff import Backoff
from simulator.controllers.controller import Context
from simulator.controllers.informer import by_controller, controller_of
from simulator.controllers.pod_owner import PodOwner
from simulator.controllers.pods import (
    claim,
    is_active,
    is_available,
    is_ready,
    is_terminating,
    pod_from_template,
    to_delete,
    was_rejected,
)

REPLICA_SETS = "replicasets.apps"
BURST = 500
_TERMINATING_NAMESPACE = "NamespaceTerminating"


class ReplicaSetController(PodOwner):
    """Keeps the number of pods of each ReplicaSet."""

    name = "replicaset"
    owner_kind = "ReplicaSet"
    resource: ClassVar[str] = REPLICA_SETS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._backoff = Backoff()
        self._sets = self.informers(self.resource)
        self._sets.add_index("controller", by_controller)
        self._sets.add_index("namespace", lambda obj: [obj["metadata"]["namespace"]])
        self._sets.add_handler(self._on_set)

    def selector_of(self, owner: Object) -> LabelTest:
        """What tells an owner's pods."""
        return label_selector(owner["spec"]["selector"])

    # --- what is news ----------------------------------------------------------------------------------------------

    def _on_set(self, old: Object | None, new: Object | None) -> None:
        changed = new or old
        if old is not None and new is not None and old["metadata"]["uid"] != new["metadata"]["uid"]:
            self.expectations.forget(key_of(old))
        if changed is not None:
            self.enqueue(changed)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._gone(old)
        elif old is None:
            self._added(new)
        else:
            self._updated(old, new)

    def _added(self, pod: Object) -> None:
        if is_terminating(pod):
            self._gone(pod)
            return
        key = self.owner_key(pod)
        if key is not None:
            self.expectations.creation_observed(key)
            self.queue.add(key)
        elif controller_of(pod) is None:
            self._enqueue_matching(pod)

    def _updated(self, old: Object, new: Object) -> None:
        if is_terminating(new):
            self._gone(new)
            return
        before, now = self.owner_key(old), self.owner_key(new)
        if now is not None and was_rejected(new) and not was_rejected(old):
            self._backoff.failed(*now)
        if before is not None and before != now:
            self.queue.add(before)
        if now is not None:
            self.queue.add(now)
            self._look_again_when_available(old, new, now)
        elif controller_of(new) is None and (controller_of(old) is not None or labels_of(old) != labels_of(new)):
            self._enqueue_matching(new)

    def _look_again_when_available(self, old: Object, new: Object, key: Key) -> None:
        owner = self._sets.get(key)
        seconds = (owner or {"spec": {}})["spec"].get("minReadySeconds", 0)
        if seconds and is_ready(new) and not is_ready(old):
            # A second more: timestamps are cut to whole seconds.
            self.queue.add_after(key, seconds + 1)

    def _gone(self, pod: Object | None) -> None:
        key = None if pod is None else self.owner_key(pod)
        if pod is not None and key is not None:
            self.expectations.deletion_observed(key, key_of(pod))
            self.queue.add(key)

    def _enqueue_matching(self, pod: Object) -> None:
        for owner in self._sets.by_index("namespace", pod["metadata"]["namespace"]):
            if self.selector_of(owner)(labels_of(pod)):
                self.enqueue(owner)

    # --- doing it --------------------------------------------------------------------------------------------------

    def sync(self, key: Key) -> None:
        """Create or delete what is missing or too many, and write the status."""
        owner = self._sets.get(key)
        if owner is None:
            self.expectations.forget(key)
            return
        may_manage = self.expectations.satisfied(key)
        matches = self.selector_of(owner)
        pods = [pod for pod in claim(self.api, "pods", owner, self._pods, matches) if is_active(pod)]
        refusal: ApiError | None = None
        if may_manage and not is_terminating(owner):
            refusal = self._manage(key, owner, pods)
        self._write_status(key, owner, pods, refusal)
        if refusal is not None:
            raise refusal

    def _manage(self, key: Key, owner: Object, pods: list[Object]) -> ApiError | None:
        missing = int(owner["spec"]["replicas"]) - len(pods)
        if missing > 0 and (wait := self._backoff.left(*key)):
            self.queue.add_after(key, wait)
        elif missing > 0:
            return self._create(key, owner, min(missing, BURST))
        elif missing < 0:
            return self._delete(key, owner, pods, min(-missing, BURST))
        return None

    def _create(self, key: Key, owner: Object, count: int) -> ApiError | None:
        refusal = self.create_many(key, count, lambda: self._create_one(owner))
        if refusal is not None:
            self.event(owner, "Warning", "FailedCreate", f"Error creating: {refusal}")
            if any(cause["reason"] == _TERMINATING_NAMESPACE for cause in refusal.details.get("causes") or ()):
                return None  # nothing more can be made there, now or later
        return refusal

    def _create_one(self, owner: Object) -> None:
        body = pod_from_template(owner, owner["spec"]["template"])
        pod = self.api.create("pods", owner["metadata"]["namespace"], body)
        self.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")

    def _delete(self, key: Key, owner: Object, pods: list[Object], count: int) -> ApiError | None:
        doomed = to_delete(pods, self._related(owner, pods), count, self.api.seconds())

        def tell(pod: Object) -> None:
            self.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")

        return self.delete_many(key, doomed, tell)

    def _related(self, owner: Object, pods: list[Object]) -> list[Object]:
        """The pods of all ReplicaSets of the same Deployment: two of them on one node, and one may go."""
        manager = controller_of(owner)
        if manager is None:
            return pods
        siblings = self._sets.by_index("controller", manager["uid"])
        return [pod for one in siblings for pod in self._pods.by_index("controller", one["metadata"]["uid"])]

    # --- status ----------------------------------------------------------------------------------------------------

    def _write_status(self, key: Key, owner: Object, pods: list[Object], refusal: ApiError | None) -> None:
        status = self._status(owner, pods, refusal)
        known = owner.get("status") or {}
        if status != known:
            try:
                self.api.set_status(self.resource, owner, status)
            except ApiError as error:
                if error.code != 404:
                    raise
        seconds = owner["spec"].get("minReadySeconds", 0)
        if seconds and status["readyReplicas"] == owner["spec"]["replicas"] != status["availableReplicas"]:
            self.queue.add_after(key, seconds)

    def _status(self, owner: Object, pods: list[Object], refusal: ApiError | None) -> Object:
        spec, now = owner["spec"], self.api.seconds()
        template_labels = ((spec["template"].get("metadata") or {}).get("labels") or {}).items()
        ready = [pod for pod in pods if is_ready(pod)]
        available = sum(is_available(pod, spec.get("minReadySeconds", 0), now) for pod in ready)
        status: dict[str, Any] = {
            "replicas": len(pods),
            "fullyLabeledReplicas": sum(template_labels <= labels_of(pod).items() for pod in pods),
            "readyReplicas": len(ready),
            "availableReplicas": available,
            "observedGeneration": owner["metadata"].get("generation", 0),
        }
        conditions = self._conditions(owner, len(pods), refusal)
        return {**status, "conditions": conditions} if conditions else status

    def _conditions(self, owner: Object, count: int, refusal: ApiError | None) -> list[Object]:
        known = list((owner.get("status") or {}).get("conditions") or ())
        failed = any(condition["type"] == "ReplicaFailure" for condition in known)
        if refusal is None:
            return [condition for condition in known if condition["type"] != "ReplicaFailure"]
        if failed:
            return known
        reason = "FailedCreate" if count < owner["spec"]["replicas"] else "FailedDelete"
        failure = {"type": "ReplicaFailure", "status": "True", "reason": reason, "message": str(refusal)}
        return [*known, {**failure, "lastTransitionTime": self.api.now()}]
