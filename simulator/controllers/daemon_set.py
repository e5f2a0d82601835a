"""DaemonSets: one pod on every node that should have one, pinned there by a field selector, placed by the scheduler.

A node should have one if the pod's node name, selector and affinity allow it and its taints are tolerated (daemons
tolerate not-ready, unreachable, pressure and cordoned nodes). A taint that only forbids scheduling does not drive a
running daemon away. How an update goes on is in `daemon_rollout.py`. Pods that fail are made anew, later each time.
"""

from typing import Any

from kube.api.codec import convert
from kube.api.core import Node, Pod, PodSpec
from kube.api.node_affinity import required_node_affinity_matches
from kube.api.tolerations import find_untolerated
from simulator.apiserver.errors import ApiError, Object
from simulator.apiserver.selectors import label_selector
from simulator.apiserver.watch_cache import Key
from simulator.controllers.backoff import Backoff
from simulator.controllers.controller import Context
from simulator.controllers.daemon_rollout import Rollout, hash_of, next_step
from simulator.controllers.informer import by_controller
from simulator.controllers.pod_owner import PodOwner
from simulator.controllers.pods import (
    FINISHED,
    claim,
    is_available,
    is_ready,
    is_terminating,
    phase_of,
    pod_from_template,
)
from simulator.controllers.revisions import CONTROLLER_REVISIONS, HASH_LABEL, current_revision, history, truncate

DAEMON_SETS = "daemonsets.apps"
BURST = 250
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_SCHEDULING_FIELDS = ("nodeName", "nodeSelector", "affinity", "tolerations")
_PREFIX = "node.kubernetes.io/"
_TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)


class DaemonSetController(PodOwner):
    """Keeps the pods of each DaemonSet."""

    name = "daemonset"
    owner_kind = "DaemonSet"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._backoff = Backoff()
        self._typed: dict[str, tuple[Any, Node]] = {}
        self._sets = self.informers(DAEMON_SETS)
        self._nodes = self.informers("nodes")
        self._revisions = self.informers(CONTROLLER_REVISIONS)
        self._revisions.add_index("controller", by_controller)
        self._sets.add_handler(self._on_set)
        self._nodes.add_handler(self._on_node)

    # --- what is news ----------------------------------------------------------------------------------------------

    def _on_set(self, old: Object | None, new: Object | None) -> None:
        changed = new or old
        if changed is not None:
            self.enqueue(changed)

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        """Only what decides who may run there is news; heartbeats are not."""
        if old is None or new is None or _deciding(old) != _deciding(new):
            if new is None and old is not None:
                self._typed.pop(old["metadata"]["name"], None)
            for one in self._sets.all():
                self.enqueue(one)

    # --- doing it --------------------------------------------------------------------------------------------------

    def sync(self, key: Key) -> None:
        """Create what is missing, delete what should not be, replace what is old."""
        owner = self._sets.get(key)
        if owner is None:
            self.expectations.forget(key)
            return
        if is_terminating(owner):
            return
        pods = list(claim(self.api, "pods", owner, self._pods, label_selector(owner["spec"]["selector"])))
        revision = current_revision(self.api, owner, history(self._revisions, owner))
        on_node: dict[str, list[Object]] = {}
        for pod in pods:
            on_node.setdefault(_target(pod), []).append(pod)
        wanted, allowed = self._where(owner)
        refusal = None
        if self.expectations.satisfied(key):
            rollout = self._rollout(owner, revision)
            missing, doomed = sorted(wanted - on_node.keys()), self._surplus(key, rollout, on_node, allowed)
            if not missing and not doomed:
                missing, doomed = next_step(rollout, on_node, wanted)
            refusal = self._manage(key, owner, revision, missing[:BURST], doomed[:BURST])
        self._write_status(owner, revision, on_node, wanted)
        used = {f"{owner['metadata']['name']}-{hash_of(pod)}" for pod in pods} | {revision["metadata"]["name"]}
        truncate(self.api, owner, history(self._revisions, owner), used)
        if refusal is not None:
            raise refusal

    def _manage(
        self, key: Key, owner: Object, revision: Object, missing: list[str], doomed: list[Object]
    ) -> ApiError | None:
        if doomed:
            return self.delete_many(key, doomed)
        if not missing:
            return None
        left = iter(missing)
        return self.create_many(key, len(missing), lambda: self._create(owner, revision, next(left)))

    def _rollout(self, owner: Object, revision: Object) -> Rollout:
        mark, seconds = revision["metadata"]["labels"][HASH_LABEL], int(owner["spec"].get("minReadySeconds") or 0)
        return Rollout(owner["spec"]["updateStrategy"], mark, seconds, self.api.seconds())

    def _create(self, owner: Object, revision: Object, node: str) -> None:
        labels = {HASH_LABEL: revision["metadata"]["labels"][HASH_LABEL], "pod-template-generation": "1"}
        pod = pod_from_template(owner, owner["spec"]["template"], labels=labels)
        spec = pod["spec"]
        spec["tolerations"] = _with_daemon_tolerations(spec)
        spec["affinity"] = _pinned(spec, node)
        created = self.api.create("pods", owner["metadata"]["namespace"], pod)
        self.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {created['metadata']['name']}")

    def _where(self, owner: Object) -> tuple[set[str], set[str]]:
        """The nodes that should have a pod, and those that may keep one."""
        spec = owner["spec"]["template"]["spec"]
        given = {name: spec[name] for name in _SCHEDULING_FIELDS if name in spec}
        probe = Pod(spec=convert({**given, "tolerations": _with_daemon_tolerations(spec)}, PodSpec))
        wanted, allowed = set(), set()
        for node in self._nodes.all():
            typed = self._typed_node(node)
            name = typed.metadata.name
            if probe.spec.node_name not in ("", name):
                continue
            if not required_node_affinity_matches(probe, typed.metadata.labels, name):
                continue
            untolerated = find_untolerated(typed.spec.taints, probe.spec.tolerations)
            if untolerated is None:
                wanted.add(name)
            if (
                untolerated is None
                or find_untolerated(
                    [taint for taint in typed.spec.taints if taint.effect == "NoExecute"], probe.spec.tolerations
                )
                is None
            ):
                allowed.add(name)
        return wanted, allowed

    def _typed_node(self, node: Object) -> Node:
        deciding, name = _deciding(node), node["metadata"]["name"]
        known = self._typed.get(name)
        if known is None or known[0] != deciding:
            small = {"metadata": {"name": name, "labels": deciding[0]}, "spec": {"taints": deciding[1] or []}}
            known = self._typed[name] = (deciding, convert(small, Node))
        return known[1]

    def _surplus(self, key: Key, rollout: Rollout, on_node: dict[str, list[Object]], allowed: set[str]) -> list[Object]:
        """Pods on nodes that should have none, second pods of a node, and finished ones, which are made anew."""
        doomed: list[Object] = []
        for node, pods in on_node.items():
            staying = [pod for pod in pods if not is_terminating(pod)]
            finished = [pod for pod in staying if phase_of(pod) in FINISHED]
            doomed += [pod for pod in finished if self._may_be_replaced(key, node, pod)]
            running = [pod for pod in staying if pod not in finished]
            running.sort(key=lambda pod: not pod["spec"].get("nodeName"))
            doomed += _beyond_one(rollout, running) if node in allowed else running
        return doomed

    def _may_be_replaced(self, key: Key, node: str, pod: Object) -> bool:
        """A pod that failed goes at once the first time, and later each time after that."""
        if phase_of(pod) != "Failed":
            return True
        if wait := self._backoff.left(*key, node):
            self.queue.add_after(key, wait)
            return False
        self._backoff.failed(*key, node)
        return True

    def _write_status(
        self, owner: Object, revision: Object, on_node: dict[str, list[Object]], wanted: set[str]
    ) -> None:
        mark, seconds = revision["metadata"]["labels"][HASH_LABEL], int(owner["spec"].get("minReadySeconds") or 0)
        right = [pods[0] for node, pods in on_node.items() if node in wanted]
        ready = [pod for pod in right if is_ready(pod) and not is_terminating(pod)]
        available = sum(is_available(pod, seconds, self.api.seconds()) for pod in ready)
        status = {
            "currentNumberScheduled": len(right),
            "desiredNumberScheduled": len(wanted),
            "numberMisscheduled": sum(node not in wanted for node in on_node),
            "numberReady": len(ready),
            "numberAvailable": available,
            "numberUnavailable": len(wanted) - available,
            "updatedNumberScheduled": sum(hash_of(pod) == mark for pod in right),
            "observedGeneration": owner["metadata"].get("generation", 0),
        }
        if status != owner.get("status"):
            self.api.set_status(DAEMON_SETS, owner, status)


def _deciding(node: Object) -> tuple[Any, Any]:
    return node["metadata"].get("labels") or {}, (node.get("spec") or {}).get("taints")


def _beyond_one(rollout: Rollout, running: list[Object]) -> list[Object]:
    """All but one pod of a node; while an update surges, all but one old and one new."""
    if not rollout.surging:
        return running[1:]
    new = [pod for pod in running if rollout.is_new(pod)]
    old = [pod for pod in running if not rollout.is_new(pod)]
    return new[1:] + old[1:]


def _target(pod: Object) -> str:
    """The node that a pod is on, or pinned to."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            return str(field["values"][0])
    return ""


def _with_daemon_tolerations(spec: Object) -> list[Object]:
    own = spec.get("tolerations") or []
    tolerated = _TOLERATED + ((("network-unavailable", "NoSchedule"),) if spec.get("hostNetwork") else ())
    added = [{"key": _PREFIX + key, "operator": "Exists", "effect": effect} for key, effect in tolerated]
    return [*own, *(toleration for toleration in added if toleration not in own)]


def _pinned(spec: Object, node: str) -> Object:
    affinity = spec.get("affinity") or {}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    node_affinity = {**(affinity.get("nodeAffinity") or {}), _REQUIRED: {"nodeSelectorTerms": [term]}}
    return {**affinity, "nodeAffinity": node_affinity}
