"""Nodes that fall silent: Ready becomes Unknown, taints follow, and pods that do not tolerate them for longer go.

    Lease not renewed for `grace`  ─► conditions Unknown ─► taints unreachable (NoSchedule, NoExecute)
    Ready False                    ─► taints not-ready
    pressure, cordoned             ─► a NoSchedule taint each
    NoExecute taint                ─► each pod there is deleted at once, or after the time for which it tolerates it

All nodes are looked at every `period` seconds; the taints also follow each change of a node. A node without a Lease is
judged by nobody: it may not be a kubelet's. The real controller's limits on evictions in large outages are left out.
"""

import asyncio
import math
from collections.abc import Iterable

from simulator.apiserver.errors import Object
from simulator.apiserver.watch_cache import Key
from simulator.controllers.controller import Context, Controller
from simulator.controllers.informer import by_node
from simulator.controllers.pods import condition_of, disrupted, is_ready, is_terminating

LEASES = "leases.coordination.k8s.io"
LEASE_NAMESPACE = "kube-node-lease"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
_REASON = "NodeStatusUnknown"
_MESSAGE = "Kubelet stopped posting node status."
_PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_OURS = frozenset({NOT_READY, UNREACHABLE, _UNSCHEDULABLE, *_PRESSURES.values()})
Taint = tuple[str, str]
"""Key and effect."""


class NodeLifecycleController(Controller):
    """Judges nodes. Keys are nodes ("", name)."""

    name = "node"

    def __init__(self, context: Context, *, grace: float = 50.0, period: float = 5.0) -> None:
        super().__init__(context)
        self._grace = grace
        self._period = period
        self._renewed: dict[str, float] = {}
        self._nodes = self.informers("nodes")
        self._pods = self.informers("pods")
        self._pods.add_index("node", by_node)
        self._nodes.add_handler(self._on_node)
        self.informers(LEASES).add_handler(self._on_lease)
        self._timer: asyncio.TimerHandle | None = None

    # --- what is news ----------------------------------------------------------------------------------------------

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._renewed.pop(old["metadata"]["name"], None)
        elif _wanted(new) != _present(new):
            self.enqueue(new)

    def _on_lease(self, old: Object | None, new: Object | None) -> None:
        """The time of the observation counts, not the kubelet's clock."""
        if new is not None and new["metadata"]["namespace"] == LEASE_NAMESPACE:
            loop = asyncio.get_running_loop()
            self._renewed[new["metadata"]["name"]] = loop.time()
            if self._timer is None:
                self._timer = loop.call_later(self._period, self._look_at_all)

    def _look_at_all(self) -> None:
        loop = asyncio.get_running_loop()
        silent_since = loop.time() - self._grace
        for name, renewed in self._renewed.items():
            if renewed < silent_since and self._seems_ready(name):
                self.queue.add(("", name))
        self._timer = loop.call_later(self._period, self._look_at_all) if self._renewed else None

    def _seems_ready(self, name: str) -> bool:
        node = self._nodes.get(("", name))
        return node is not None and condition_of(node, "Ready").get("status") != "Unknown"

    def stop(self) -> None:
        """Look no more."""
        super().stop()
        if self._timer is not None:
            self._timer.cancel()

    # --- doing it --------------------------------------------------------------------------------------------------

    def sync(self, key: Key) -> None:
        """Judge one node: its conditions if it is silent, then its taints."""
        node = self.api.get("nodes", key)
        if node is None:
            return
        renewed = self._renewed.get(key[1])
        silent = renewed is not None and renewed < asyncio.get_running_loop().time() - self._grace
        if silent and condition_of(node, "Ready").get("status") != "Unknown":
            node = self._set_unknown(node)
        if _wanted(node) != _present(node):
            self._set_taints(node)

    def _set_unknown(self, node: Object) -> Object:
        now = self.api.now()
        unknown = {"status": "Unknown", "reason": _REASON, "message": _MESSAGE, "lastTransitionTime": now}
        status = node.get("status") or {}
        conditions = [
            {**condition, **unknown} if condition["type"] in ("Ready", *_PRESSURES) else condition
            for condition in status.get("conditions") or ()
        ]
        self.event(node, "Normal", "NodeNotReady", f"Node {node['metadata']['name']} status is now: NodeNotReady")
        self._mark_pods(node["metadata"]["name"], now)
        return self.api.set_status("nodes", node, {**status, "conditions": conditions})

    def _mark_pods(self, node: str, now: str) -> None:
        """The pods there are not ready any more, so that nothing counts on them."""
        for pod in self._pods.by_index("node", node):
            if is_ready(pod):
                conditions = [
                    {**condition, "status": "False", "reason": "NodeNotReady", "lastTransitionTime": now}
                    if condition["type"] == "Ready"
                    else condition
                    for condition in pod["status"]["conditions"]
                ]
                self.api.set_status("pods", pod, {**pod["status"], "conditions": conditions})

    def _set_taints(self, node: Object) -> None:
        wanted = _wanted(node)
        now = self.api.now()

        def change(body: Object) -> None:
            kept = [taint for taint in _taints(body) if taint["key"] not in _OURS or _pair(taint) in wanted]
            known = {_pair(taint) for taint in kept}
            added = [_taint(key, effect, now) for key, effect in sorted(wanted - known)]
            body["spec"]["taints"] = kept + added

        self.api.change("nodes", node, change)


class TaintEvictionController(Controller):
    """Deletes pods from nodes with NoExecute taints. Keys are pods."""

    name = "taint-eviction"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._nodes = self.informers("nodes")
        self._pods = self.informers("pods")
        self._pods.add_index("node", by_node)
        self._nodes.add_handler(self._on_node)
        self._pods.add_handler(self._on_pod)
        self._tainted_since: dict[str, float] = {}

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        before = _no_execute(old)
        now = _no_execute(new)
        node = new or old
        if node is None or before == now:
            return
        name = node["metadata"]["name"]
        if not now:
            self._tainted_since.pop(name, None)
            return
        self._tainted_since[name] = asyncio.get_running_loop().time()
        for pod in self._pods.by_index("node", name):
            self.enqueue(pod)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        if new is None or not new["spec"].get("nodeName") or (old is not None and old["spec"].get("nodeName")):
            return
        if new["spec"]["nodeName"] in self._tainted_since:
            self.enqueue(new)

    def sync(self, key: Key) -> None:
        """Delete a pod whose time is over, or come again when it is."""
        pod = self._pods.get(key)
        if pod is None or is_terminating(pod):
            return
        node = self._nodes.get(("", pod["spec"].get("nodeName", "")))
        since = self._tainted_since.get(pod["spec"].get("nodeName", ""))
        taints = _no_execute(node)
        if since is None or not taints:
            return
        left = since + _tolerated_seconds(pod, taints) - asyncio.get_running_loop().time()
        if left > 0:
            if math.isfinite(left):
                self.queue.add_after(key, left)
            return
        self._evict(pod)

    def _evict(self, pod: Object) -> None:
        why = "Taint manager: deleting due to NoExecute taint"
        self.api.set_status("pods", pod, disrupted(pod, "DeletionByTaintManager", why, self.api.now()))
        name = "/".join((pod["metadata"]["namespace"], pod["metadata"]["name"]))
        self.event(pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {name}")
        self.api.delete("pods", pod)


def _taints(node: Object | None) -> list[Object]:
    return ((node or {}).get("spec") or {}).get("taints") or []


def _pair(taint: Object) -> Taint:
    return taint["key"], taint["effect"]


def _taint(key: str, effect: str, now: str) -> Object:
    taint = {"key": key, "effect": effect}
    return {**taint, "timeAdded": now} if effect == "NoExecute" else taint


def _no_execute(node: Object | None) -> list[tuple[str, str]]:
    return [(taint["key"], taint.get("value", "")) for taint in _taints(node) if taint["effect"] == "NoExecute"]


def _present(node: Object) -> set[Taint]:
    return {_pair(taint) for taint in _taints(node) if taint["key"] in _OURS}


def _wanted(node: Object) -> set[Taint]:
    """The taints that a node's conditions call for."""
    wanted: set[Taint] = set()
    for condition in (node.get("status") or {}).get("conditions") or ():
        kind, status = condition.get("type"), condition.get("status")
        if kind == "Ready" and status != "True":
            key = UNREACHABLE if status == "Unknown" else NOT_READY
            wanted |= {(key, "NoSchedule"), (key, "NoExecute")}
        elif kind in _PRESSURES and status == "True":
            wanted.add((_PRESSURES[kind], "NoSchedule"))
    if node["spec"].get("unschedulable"):
        wanted.add((_UNSCHEDULABLE, "NoSchedule"))
    return wanted


def _tolerated_seconds(pod: Object, taints: Iterable[tuple[str, str]]) -> float:
    """For how long a pod stays: for ever if it tolerates all without limit, not at all if one is not tolerated."""
    limits = [math.inf]
    for key, value in taints:
        used = [one for one in pod["spec"].get("tolerations") or () if _tolerates(one, key, value)]
        if not used:
            return 0.0
        seconds = [one["tolerationSeconds"] for one in used if one.get("tolerationSeconds") is not None]
        limits += [max(0.0, float(one)) for one in seconds]
    return min(limits)


def _tolerates(toleration: Object, key: str, value: str) -> bool:
    if toleration.get("effect") not in (None, "", "NoExecute"):
        return False
    if toleration.get("key") not in (None, "", key):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == value
