"""Deployments: one ReplicaSet a pod template, and pods moved from the old ones to the new one.

    claim ReplicaSets ─► paused, or another number of replicas? ─► only scale (in proportion)
                      └► Recreate: all old pods away, then the new ones
                      └► RollingUpdate: `rolling_update.py`
                      └► status, conditions, old revisions beyond the limit deleted

The pods are the ReplicaSets' business. Revisions are numbered in annotations, as `kubectl rollout` reads them.
"""

from simulator.apiserver.errors import Object
from simulator.apiserver.selectors import label_selector
from simulator.apiserver.watch_cache import Key
from simulator.controllers.api import copy_of, key_of, seconds_of
from simulator.controllers.controller import Context, Controller
from simulator.controllers.deployment_status import deployment_status, is_complete
from simulator.controllers.informer import by_controller, controller_of
from simulator.controllers.pods import FINISHED, claim, is_terminating, owner_reference, phase_of, template_hash
from simulator.controllers.replica_set import REPLICA_SETS
from simulator.controllers.rolling_update import Change, proportional, rolling_update, surge_and_unavailable

DEPLOYMENTS = "deployments.apps"
HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
# Annotations that speak of one object only, and are not handed on from a Deployment to its ReplicaSets.
_OWN_ANNOTATIONS = (REVISION, DESIRED, MAXIMUM, "kubectl.kubernetes.io/last-applied-configuration")


class DeploymentController(Controller):
    """Rolls Deployments out."""

    name = "deployment"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._deployments = self.informers(DEPLOYMENTS)
        self._sets = self.informers(REPLICA_SETS)
        self._sets.add_index("controller", by_controller)
        self._pods = self.informers("pods")
        self._pods.add_index("controller", by_controller)
        self._deployments.add_handler(self._on_deployment)
        self._sets.add_handler(self._on_set)
        self._pods.add_handler(self._on_pod)

    # --- what is news ----------------------------------------------------------------------------------------------

    def _on_deployment(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.enqueue(new)

    def _on_set(self, old: Object | None, new: Object | None) -> None:
        for one in (old, new):
            owner = None if one is None else controller_of(one)
            if one is not None and owner is not None and owner.get("kind") == "Deployment":
                self.queue.add((one["metadata"]["namespace"], owner["name"]))
        if new is not None and controller_of(new) is None:
            for deployment in self._deployments.all():
                if deployment["metadata"]["namespace"] == new["metadata"]["namespace"]:
                    self.enqueue(deployment)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        """Only Recreate waits for pods: the last old one is gone."""
        if new is not None or old is None:
            return
        owner = controller_of(old)
        replica_set = self._sets.get((old["metadata"]["namespace"], owner["name"])) if owner else None
        manager = None if replica_set is None else controller_of(replica_set)
        if manager is not None:
            deployment = self._deployments.get((old["metadata"]["namespace"], manager["name"]))
            if deployment is not None and deployment["spec"]["strategy"]["type"] == "Recreate":
                self.enqueue(deployment)

    # --- doing it --------------------------------------------------------------------------------------------------

    def sync(self, key: Key) -> None:
        """One step of the rollout; the ReplicaSets' answers bring the next."""
        deployment = self._deployments.get(key)
        if deployment is None:
            return
        matches = label_selector(deployment["spec"]["selector"])
        sets = sorted(claim(self.api, REPLICA_SETS, deployment, self._sets, matches), key=_by_age)
        if is_terminating(deployment):
            self._write_status(deployment, sets, _newest(deployment, sets))
            return
        new = _newest(deployment, sets)
        if deployment["spec"].get("paused") or _is_scaling(deployment, sets):
            changes = proportional(deployment, sets, new)
        else:
            new = self._new_set(deployment, sets, new)
            sets = sets if new is None else [*(one for one in sets if not _same(one, new)), new]
            changes = self._rollout(deployment, sets, new)
        sets = self._scale(deployment, sets, changes)
        new = _newest(deployment, sets)
        self._write_status(deployment, sets, new)
        if is_complete(deployment, sets, new):
            self._clean_up(deployment, [one for one in sets if one is not new])

    def _rollout(self, deployment: Object, sets: list[Object], new: Object | None) -> list[Change]:
        old = [one for one in sets if one is not new]
        if deployment["spec"]["strategy"]["type"] != "Recreate":
            return [] if new is None else rolling_update(deployment, new, old)
        active = [one for one in old if one["spec"]["replicas"]]
        if active:
            return [Change(one, 0) for one in active]
        return [] if new is None else [Change(new, deployment["spec"]["replicas"])]

    def _new_set(self, deployment: Object, sets: list[Object], new: Object | None) -> Object | None:
        """The ReplicaSet of the present template, made if there is none; with Recreate once no old pod is left."""
        revision = 1 + max((_revision(one) for one in sets if one is not new), default=0)
        if new is not None:
            revision = max(revision, _revision(new))
            return self._mark_revision(deployment, new, revision)
        if deployment["spec"]["strategy"]["type"] == "Recreate" and self._old_pods_run(sets):
            return None
        created = self._create_set(deployment, sets, revision)
        self._mark(DEPLOYMENTS, deployment, {REVISION: str(revision)})
        return created

    def _old_pods_run(self, sets: list[Object]) -> bool:
        pods = (pod for one in sets for pod in self._pods.by_index("controller", one["metadata"]["uid"]))
        return any(phase_of(pod) not in FINISHED for pod in pods)

    def _mark_revision(self, deployment: Object, new: Object, revision: int) -> Object:
        """An old template that is used again becomes the newest revision."""
        self._mark(DEPLOYMENTS, deployment, {REVISION: str(revision)})
        return self._mark(REPLICA_SETS, new, {REVISION: str(revision), **_limits(deployment)})

    def _mark(self, resource: str, obj: Object, annotations: dict[str, str]) -> Object:
        current = self.api.get(resource, key_of(obj)) or obj
        known = current["metadata"].get("annotations") or {}
        if annotations.items() <= known.items():
            return current
        return self.api.set_metadata(resource, obj, annotations={**known, **annotations})

    def _create_set(self, deployment: Object, sets: list[Object], revision: int) -> Object:
        metadata, spec = deployment["metadata"], deployment["spec"]
        mark = template_hash(spec["template"])
        template_meta = spec["template"].get("metadata") or {}
        labels = {**(template_meta.get("labels") or {}), HASH_LABEL: mark}
        selector = spec["selector"]
        handed_on = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in _OWN_ANNOTATIONS}
        body = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{metadata['name']}-{mark}",
                "namespace": metadata["namespace"],
                "labels": labels,
                "annotations": {**handed_on, REVISION: str(revision), **_limits(deployment)},
                "ownerReferences": [owner_reference(deployment)],
            },
            "spec": {
                "replicas": _first_replicas(deployment, sets),
                "minReadySeconds": spec.get("minReadySeconds", 0),
                "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: mark}},
                "template": {**spec["template"], "metadata": {**template_meta, "labels": labels}},
            },
        }
        # The server keeps what it is given: no part may be shared with the Deployment.
        created = self.api.create(REPLICA_SETS, metadata["namespace"], copy_of(body))
        text = f"Scaled up replica set {created['metadata']['name']} from 0 to {created['spec']['replicas']}"
        self.event(deployment, "Normal", "ScalingReplicaSet", text)
        return created

    def _scale(self, deployment: Object, sets: list[Object], changes: list[Change]) -> list[Object]:
        by_uid = {one["metadata"]["uid"]: one for one in sets}
        for one, replicas in changes:
            by_uid[one["metadata"]["uid"]] = self._scale_one(deployment, one, replicas)
        return [by_uid[one["metadata"]["uid"]] for one in sets]

    def _scale_one(self, deployment: Object, replica_set: Object, replicas: int) -> Object:
        before = replica_set["spec"]["replicas"]

        def change(body: Object) -> None:
            body["spec"]["replicas"] = replicas
            body["metadata"]["annotations"] = {**(body["metadata"].get("annotations") or {}), **_limits(deployment)}

        if before == replicas and _limits(deployment).items() <= _annotations(replica_set).items():
            return replica_set
        scaled = self.api.change(REPLICA_SETS, replica_set, change)
        if before != replicas:
            way = "up" if replicas > before else "down"
            name = replica_set["metadata"]["name"]
            text = f"Scaled {way} replica set {name} from {before} to {replicas}"
            self.event(deployment, "Normal", "ScalingReplicaSet", text)
        return scaled

    def _write_status(self, deployment: Object, sets: list[Object], new: Object | None) -> None:
        current = self.api.get(DEPLOYMENTS, key_of(deployment))
        if current is None or current["metadata"]["uid"] != deployment["metadata"]["uid"]:
            return
        known = current.get("status") or {}
        status = deployment_status(deployment, known, sets, new, self.api.now())
        if status != known:
            self.api.set_status(DEPLOYMENTS, deployment, status)
        progressing = next((c for c in status["conditions"] if c["type"] == "Progressing"), None)
        if progressing is not None and progressing["status"] == "True" and progressing["reason"] in _UNDER_WAY:
            deadline = deployment["spec"].get("progressDeadlineSeconds", 600)
            passed = self.api.seconds() - seconds_of(progressing["lastUpdateTime"])
            self.queue.add_after(key_of(deployment), max(1.0, deadline - passed + 1.0))

    def _clean_up(self, deployment: Object, old: list[Object]) -> None:
        """Revisions beyond the limit go, oldest first."""
        limit = deployment["spec"].get("revisionHistoryLimit", 10)
        unused = [one for one in old if not one["spec"]["replicas"] and not (one["status"] or {}).get("replicas")]
        for one in sorted(unused, key=_revision)[: max(0, len(old) - limit)]:
            if not is_terminating(one):
                self.api.delete(REPLICA_SETS, one)


_UNDER_WAY = ("NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetUpdated", "DeploymentResumed")


def _by_age(replica_set: Object) -> tuple[str, str]:
    return replica_set["metadata"]["creationTimestamp"], replica_set["metadata"]["name"]


def _annotations(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def _revision(replica_set: Object) -> int:
    text = _annotations(replica_set).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def _limits(deployment: Object) -> dict[str, str]:
    replicas = deployment["spec"]["replicas"]
    surge = surge_and_unavailable(deployment)[0]
    return {DESIRED: str(replicas), MAXIMUM: str(replicas + surge)}


def _newest(deployment: Object, sets: list[Object]) -> Object | None:
    """The ReplicaSet whose template is the Deployment's, but for the hash label."""
    wanted = deployment["spec"]["template"]
    for one in sets:
        template = one["spec"]["template"]
        meta = template.get("metadata") or {}
        labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != HASH_LABEL}
        given = wanted.get("metadata") or {}
        if (
            labels == (given.get("labels") or {})
            and (meta.get("annotations") or {}) == (given.get("annotations") or {})
            and template["spec"] == wanted["spec"]
        ):
            return one
    return None


def _is_scaling(deployment: Object, sets: list[Object]) -> bool:
    """Whether the number of replicas has changed since the active ReplicaSets were last scaled."""
    desired = str(deployment["spec"]["replicas"])
    active = [one for one in sets if one["spec"]["replicas"]]
    return any(_annotations(one).get(DESIRED, desired) != desired for one in active)


def _first_replicas(deployment: Object, sets: list[Object]) -> int:
    """How many pods a new ReplicaSet may start with: as many as are missing, the surge included."""
    replicas = int(deployment["spec"]["replicas"])
    if deployment["spec"]["strategy"]["type"] == "Recreate":
        return replicas
    room = replicas + surge_and_unavailable(deployment)[0] - sum(one["spec"]["replicas"] for one in sets)
    return int(max(0, min(replicas, room)))


def _same(one: Object, other: Object) -> bool:
    return bool(one["metadata"]["uid"] == other["metadata"]["uid"])
