"""The sync loop of one node's kubelet: what happens, by where the news comes from.

    config        a pod was added, changed, is to be deleted, is gone
    lifecycle     the runtime: a container started or died
    housekeeping  what the runtime still has of pods that are gone

The real loop selects over channels and tickers; here whoever has the news calls. A node that has failed hears nothing
and does nothing until it recovers, when it is told of all its pods anew. Owner: `HollowKubelet`, one a node.
"""

from collections.abc import Iterable

from simulator.apiserver.errors import Object
from simulator.controllers.api import Api
from simulator.kubelet.admission import Account, admit, needs_of
from simulator.kubelet.pod_status import FINISHED, rejected
from simulator.kubelet.pod_workers import PodWorkers
from simulator.kubelet.runtime import FakeRuntime


class SyncLoop:
    """One node's kubelet."""

    __slots__ = ("_api", "_runtime", "_workers", "account", "alive", "missed", "name")

    def __init__(self, name: str, api: Api, workers: PodWorkers, runtime: FakeRuntime) -> None:
        self.name = name
        self.alive = True
        self.account = Account()
        self.missed: list[str] = []
        self._api = api
        self._workers = workers
        self._runtime = runtime

    # --- config ----------------------------------------------------------------------------------------------------

    def pod_added(self, pod: Object) -> None:
        """A pod was bound to this node, or was here before the kubelet was."""
        status = pod.get("status") or {}
        phase, uid = status.get("phase", "Pending"), pod["metadata"]["uid"]
        if phase in FINISHED:
            return
        if not self._admitted(pod, running=phase == "Running"):
            return
        if phase == "Running" and self._runtime.get(uid) is None:
            self._runtime.adopt(pod)
            self._workers.keep_address(status.get("podIP") or "")
            if "deletionTimestamp" not in pod["metadata"]:
                return
        self._workers.update(pod)

    def pod_updated(self, old: Object, new: Object) -> None:
        """A pod changed. Most changes are the kubelet's own reports coming back, and need no work."""
        uid = new["metadata"]["uid"]
        known = uid in self.account.admitted
        if not known:
            if "deletionTimestamp" in new["metadata"] and self._workers.knows(uid):
                self._workers.update(new)
            return
        if old["spec"] is not new["spec"] or _deletion(old) != _deletion(new) or _gates(old) != _gates(new):
            self._workers.update(new)

    def pod_removed(self, pod: Object) -> None:
        """A pod is gone from the API."""
        uid = pod["metadata"]["uid"]
        self.account.give_back(uid)
        self._workers.forget(uid)

    def _admitted(self, pod: Object, *, running: bool) -> bool:
        """Admit a pod once; one that runs already is not asked again."""
        uid = pod["metadata"]["uid"]
        if uid in self.account.admitted:
            return True
        node = self._api.get("nodes", ("", self.name))
        typed, needs = needs_of(pod)
        refusal = None if running or node is None else admit(typed, needs, node, self.account)
        if refusal is not None and "deletionTimestamp" not in pod["metadata"]:
            status = rejected(pod, refusal.reason, refusal.message, self._api.now())
            # The store is telling us of this pod just now; it may only be written to afterwards.
            self._workers.reject(pod, status)
            return False
        self.account.take(uid, needs)
        return True

    # --- lifecycle and housekeeping --------------------------------------------------------------------------------

    def lifecycle(self, uid: str) -> None:
        """The runtime has news of a pod."""
        if self.alive:
            self._workers.wake(uid)
        else:
            self.missed.append(uid)

    def pod_ended(self, uid: str) -> None:
        """All containers of a pod have ended: what it took is free again."""
        self.account.give_back(uid)

    def housekeeping(self, pods: Iterable[Object]) -> None:
        """After a failure: all pods of the node as they are now; what the runtime has beyond them is cleared away."""
        here = {pod["metadata"]["uid"]: pod for pod in pods}
        for uid in [uid for uid in self.account.admitted if uid not in here]:
            self.account.give_back(uid)
            self._workers.forget(uid)
        for pod in here.values():
            self.pod_added(pod)
        for uid in self.missed:
            self._workers.wake(uid)
        self.missed.clear()


def _deletion(pod: Object) -> tuple[str, int]:
    metadata = pod["metadata"]
    return metadata.get("deletionTimestamp", ""), metadata.get("deletionGracePeriodSeconds", 0)


def _gates(pod: Object) -> list[tuple[str, str]]:
    """The conditions that the pod's own readiness waits for."""
    gates = {gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()}
    if not gates:
        return []
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return [(condition["type"], condition["status"]) for condition in conditions if condition["type"] in gates]
