"""StatefulSets: pods with an ordinal, a name that stays and claims of their own.

OrderedReady goes one by one: a pod is made only once all below it are up, and taken away only once all above it are
gone. Parallel does all at once. Updates go from the highest ordinal down to the partition, one at a time, and always
wait for a pod to be up again. A pod that failed is made anew, later each time. Claims stay when their pod or the set
goes, unless the set's policy says that they go too.
"""

from dataclasses import dataclass

from simulator.apiserver.errors import ApiError, Object
from simulator.apiserver.selectors import label_selector
from simulator.apiserver.watch_cache import Key
from simulator.controllers.api import copy_of, key_of
from simulator.controllers.backoff import Backoff
from simulator.controllers.controller import Context, Controller
from simulator.controllers.informer import by_controller, controller_of
from simulator.controllers.pods import (
    FINISHED,
    claim,
    is_available,
    is_ready,
    is_terminating,
    phase_of,
    pod_from_template,
)
from simulator.controllers.revisions import (
    CONTROLLER_REVISIONS,
    HASH_LABEL,
    current_revision,
    history,
    template_of,
    truncate,
)

STATEFUL_SETS = "statefulsets.apps"
_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
_INDEX_LABEL = "apps.kubernetes.io/pod-index"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sync works with: the set, its pods by ordinal, and the templates before and after an update."""

    owner: Object
    pods: dict[int, Object]
    current: Object
    update: Object

    @property
    def ordinals(self) -> range:
        """The ordinals that there should be."""
        start = int((self.owner["spec"].get("ordinals") or {}).get("start", 0))
        return range(start, start + int(self.owner["spec"]["replicas"]))

    @property
    def partition(self) -> int:
        """Pods from this ordinal on get the new template."""
        rolling = self.owner["spec"]["updateStrategy"].get("rollingUpdate") or {}
        return int(rolling.get("partition") or 0)

    def revision_for(self, ordinal: int) -> Object:
        """The template that a pod made now gets."""
        if self.owner["spec"]["updateStrategy"]["type"] == "OnDelete" or ordinal >= self.partition:
            return self.update
        return self.current


class StatefulSetController(Controller):
    """Keeps the pods of each StatefulSet."""

    name = "statefulset"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._backoff = Backoff()
        self._sets = self.informers(STATEFUL_SETS)
        self._pods = self.informers("pods")
        self._pods.add_index("controller", by_controller)
        self._revisions = self.informers(CONTROLLER_REVISIONS)
        self._revisions.add_index("controller", by_controller)
        self._sets.add_handler(lambda old, new: self.enqueue(new) if new is not None else None)
        self._pods.add_handler(self._on_pod)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        owner = None if pod is None else controller_of(pod)
        if pod is not None and owner is not None and owner.get("kind") == "StatefulSet":
            self.queue.add((pod["metadata"]["namespace"], owner["name"]))

    def sync(self, key: Key) -> None:
        """One step towards the pods that there should be."""
        owner = self._sets.get(key)
        if owner is None:
            return
        matches = label_selector(owner["spec"]["selector"])
        prefix = owner["metadata"]["name"] + "-"
        pods = {
            int(pod["metadata"]["name"].removeprefix(prefix)): pod
            for pod in claim(self.api, "pods", owner, self._pods, matches)
            if pod["metadata"]["name"].startswith(prefix) and pod["metadata"]["name"].removeprefix(prefix).isdigit()
        }
        if is_terminating(owner):
            return
        revisions = history(self._revisions, owner)
        update = current_revision(self.api, owner, revisions)
        known = (owner.get("status") or {}).get("currentRevision")
        current = next((one for one in revisions if one["metadata"]["name"] == known), update)
        plan = Plan(owner, pods, current, update)
        self._retain(plan)
        if self._replace_and_create(plan) and self._scale_down(plan):
            self._update(plan)
        self._write_status(plan)
        used = {current["metadata"]["name"], update["metadata"]["name"]}
        used |= {f"{prefix}{_revision_of(pod)}" for pod in pods.values()}
        truncate(self.api, owner, history(self._revisions, owner), used)

    # --- the three parts of a sync; each tells whether the next may begin ------------------------------------------

    def _replace_and_create(self, plan: Plan) -> bool:
        for ordinal in plan.ordinals:
            pod = plan.pods.get(ordinal)
            if pod is not None and phase_of(pod) in FINISHED and not is_terminating(pod):
                if not self._may_be_replaced(plan, pod):
                    if self._ordered(plan):
                        return False
                    continue
                self.api.delete("pods", pod)
                pod = None
                if self.api.get("pods", self._pod_key(plan, ordinal)) is not None:
                    return False
            if pod is None:
                plan.pods[ordinal] = pod = self._create(plan, ordinal)
                if self._ordered(plan):
                    return False
            if self._ordered(plan) and not self._is_up(plan, pod):
                return False
        return True

    def _may_be_replaced(self, plan: Plan, pod: Object) -> bool:
        """A pod that ended goes at once the first time, and later each time after that."""
        key = key_of(pod)
        if wait := self._backoff.left(*key):
            self.queue.add_after(key_of(plan.owner), wait)
            return False
        self._backoff.failed(*key)
        return True

    def _scale_down(self, plan: Plan) -> bool:
        condemned = sorted((ordinal for ordinal in plan.pods if ordinal not in plan.ordinals), reverse=True)
        for ordinal in condemned:
            pod = plan.pods[ordinal]
            if is_terminating(pod):
                if self._ordered(plan):
                    return False
                continue
            self.api.delete("pods", pod)
            self.event(plan.owner, "Normal", "SuccessfulDelete", f"delete Pod {pod['metadata']['name']} successful")
            if self._ordered(plan):
                return False
        return True

    def _update(self, plan: Plan) -> None:
        if plan.owner["spec"]["updateStrategy"]["type"] != "RollingUpdate":
            return
        wanted = plan.update["metadata"]["labels"][HASH_LABEL]
        for ordinal in sorted((n for n in plan.ordinals if n >= plan.partition), reverse=True):
            pod = plan.pods[ordinal]
            if _revision_of(pod) != wanted and not is_terminating(pod):
                self.api.delete("pods", pod)
                return
            if not self._is_up(plan, pod):
                return

    # --- their parts -----------------------------------------------------------------------------------------------

    def _ordered(self, plan: Plan) -> bool:
        return bool(plan.owner["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady")

    def _is_up(self, plan: Plan, pod: Object) -> bool:
        """Whether a pod is there and available; asks to be called again when it only needs more time."""
        seconds = int(plan.owner["spec"].get("minReadySeconds") or 0)
        if is_terminating(pod) or not is_ready(pod):
            return False
        if not is_available(pod, seconds, self.api.seconds()):
            self.queue.add_after(key_of(plan.owner), seconds)
            return False
        return True

    def _pod_key(self, plan: Plan, ordinal: int) -> Key:
        metadata = plan.owner["metadata"]
        return metadata["namespace"], f"{metadata['name']}-{ordinal}"

    def _create(self, plan: Plan, ordinal: int) -> Object:
        namespace, name = self._pod_key(plan, ordinal)
        self._create_claims(plan, ordinal)
        revision = plan.revision_for(ordinal)
        labels = {
            _NAME_LABEL: name,
            _INDEX_LABEL: str(ordinal),
            HASH_LABEL: revision["metadata"]["labels"][HASH_LABEL],
        }
        pod = pod_from_template(plan.owner, template_of(revision), name=name, labels=labels)
        spec = pod["spec"]
        spec["hostname"] = name
        spec["subdomain"] = plan.owner["spec"].get("serviceName") or ""
        if claims := {_claim_name(template): f"{_claim_name(template)}-{name}" for template in _templates(plan)}:
            kept = [volume for volume in spec.get("volumes") or () if volume["name"] not in claims]
            made = [{"name": n, "persistentVolumeClaim": {"claimName": claim}} for n, claim in claims.items()]
            spec["volumes"] = made + kept
        created = self.api.create("pods", namespace, pod)
        self.event(plan.owner, "Normal", "SuccessfulCreate", f"create Pod {name} successful")
        return created

    def _create_claims(self, plan: Plan, ordinal: int) -> None:
        namespace, pod_name = self._pod_key(plan, ordinal)
        for template in _templates(plan):
            name = f"{_claim_name(template)}-{pod_name}"
            if self.api.get("persistentvolumeclaims", (namespace, name)) is not None:
                continue
            labels = plan.owner["spec"]["selector"].get("matchLabels") or {}
            metadata = {**(template.get("metadata") or {}), "name": name, "namespace": namespace}
            metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
            body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]}
            self.api.create("persistentvolumeclaims", namespace, copy_of(body))

    def _retain(self, plan: Plan) -> None:
        """Let claims go with the set, or with a pod that is scaled away, where the set's policy says so."""
        policy = plan.owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
        with_set, with_pod = (policy.get(key) == "Delete" for key in ("whenDeleted", "whenScaled"))
        for ordinal, pod in plan.pods.items():
            gone = with_pod and ordinal not in plan.ordinals
            owners = [owner_of_claim(pod)] if gone else [owner_of_claim(plan.owner)] if with_set else []
            for template in _templates(plan):
                name = f"{_claim_name(template)}-{pod['metadata']['name']}"
                self._set_owners((pod["metadata"]["namespace"], name), plan, pod, owners)

    def _set_owners(self, key: Key, plan: Plan, pod: Object, owners: list[Object]) -> None:
        claim = self.api.get("persistentvolumeclaims", key)
        if claim is None:
            return
        known = claim["metadata"].get("ownerReferences") or []
        ours = {plan.owner["metadata"]["uid"], pod["metadata"]["uid"]}
        wanted = [owner for owner in known if owner["uid"] not in ours] + owners
        if wanted != known:
            self.api.set_metadata("persistentvolumeclaims", claim, ownerReferences=wanted or None)

    def _write_status(self, plan: Plan) -> None:
        owner = plan.owner
        known = self.api.get(STATEFUL_SETS, key_of(owner))
        if known is None:
            return
        status = self._status(plan)
        if status != known.get("status"):
            try:
                self.api.set_status(STATEFUL_SETS, owner, status)
            except ApiError as error:
                if error.code != 404:
                    raise

    def _status(self, plan: Plan) -> Object:
        seconds, now = int(plan.owner["spec"].get("minReadySeconds") or 0), self.api.seconds()
        alive = [pod for pod in plan.pods.values() if phase_of(pod) not in FINISHED]
        update_hash = plan.update["metadata"]["labels"][HASH_LABEL]
        current_hash = plan.current["metadata"]["labels"][HASH_LABEL]
        staying = [pod for pod in alive if not is_terminating(pod)]
        ready = [pod for pod in staying if is_ready(pod)]
        updated = sum(_revision_of(pod) == update_hash for pod in staying)
        done = updated == len(ready) == len(alive) == plan.owner["spec"]["replicas"]
        current = updated if done else sum(_revision_of(pod) == current_hash for pod in staying)
        return {
            "observedGeneration": plan.owner["metadata"].get("generation", 0),
            "replicas": len(alive),
            "readyReplicas": len(ready),
            "availableReplicas": sum(is_available(pod, seconds, now) for pod in ready),
            "currentReplicas": current,
            "updatedReplicas": updated,
            "currentRevision": (plan.update if done else plan.current)["metadata"]["name"],
            "updateRevision": plan.update["metadata"]["name"],
            "collisionCount": 0,
        }


def owner_of_claim(obj: Object) -> Object:
    """A reference to what takes a claim along, without managing it."""
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
    }


def _revision_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(HASH_LABEL, ""))


def _templates(plan: Plan) -> list[Object]:
    return plan.owner["spec"].get("volumeClaimTemplates") or []


def _claim_name(template: Object) -> str:
    return str(template["metadata"]["name"])
