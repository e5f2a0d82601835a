"""Heartbeats: each node renews its Lease every ten seconds and its status every five minutes.

The nodes are spread evenly over the interval. A heartbeat is one small write and no task of its own, so that thousands
of idle nodes cost next to nothing. Owner: `HollowKubelet`.
"""

from collections.abc import Callable
from typing import Any

from simulator.apiserver.errors import ApiError, Object
from simulator.controllers.api import Api
from simulator.kubelet.timers import Timers

LEASES = "leases.coordination.k8s.io"
NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
_CONDITIONS = {
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}


class Heartbeats:
    """The heartbeats of all nodes."""

    def __init__(
        self, api: Api, timers: Timers, is_alive: Callable[[str], bool], *, lease: float = 10.0, status: float = 300.0
    ) -> None:
        self._api = api
        self._timers = timers
        self._is_alive = is_alive
        self._lease_interval = lease
        self._status_interval = status
        self._epochs: dict[str, int] = {}
        self._count = 0

    def begin(self, node: str) -> None:
        """A node is up: its first heartbeat comes at once, the others in their time."""
        epoch = self._epochs[node] = self._epochs.get(node, 0) + 1
        self._count += 1
        # The golden ratio spreads any number of nodes evenly.
        spread = self._count * 0.6180339887 % 1.0
        self._timers.after(0.0, self._first, node)
        self._timers.after(self._lease_interval * spread, self._renew, node, epoch)
        self._timers.after(self._status_interval * spread, self._post, node, epoch)

    def end(self, node: str) -> None:
        """A node is gone."""
        self._epochs.pop(node, None)

    def _first(self, node: str) -> None:
        self._write_lease(node)
        self._write_status(node)

    def _renew(self, node: str, epoch: int) -> None:
        if self._epochs.get(node) != epoch or not self._is_alive(node):
            return
        self._write_lease(node)
        self._timers.after(self._lease_interval, self._renew, node, epoch)

    def _post(self, node: str, epoch: int) -> None:
        if self._epochs.get(node) != epoch or not self._is_alive(node):
            return
        self._write_status(node)
        self._timers.after(self._status_interval, self._post, node, epoch)

    def _write_lease(self, node: str) -> None:
        now = self._api.now().removesuffix("Z") + ".000000Z"
        lease = self._api.get(LEASES, (NAMESPACE, node))
        if lease is None:
            self._create_lease(node, now)
            return
        self._api.replace(LEASES, lease, spec={**lease["spec"], "renewTime": now})

    def _create_lease(self, node: str, now: str) -> None:
        owner = self._api.get("nodes", ("", node))
        if owner is None:
            return
        reference = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": owner["metadata"]["uid"]}
        body = {
            "metadata": {"name": node, "namespace": NAMESPACE, "ownerReferences": [reference]},
            "spec": {"holderIdentity": node, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now},
        }
        self._api.create(LEASES, NAMESPACE, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **body})

    def _write_status(self, node: str) -> None:
        """Post the conditions; a node that was Unknown is Ready again from its first heartbeat on."""
        known = self._api.get("nodes", ("", node))
        if known is None:
            return
        now = self._api.now()
        status: dict[str, Any] = known.get("status") or {}
        before = {condition["type"]: condition for condition in status.get("conditions") or ()}
        conditions = [_condition(kind, before.get(kind), now) for kind in _CONDITIONS]
        others = [condition for kind, condition in before.items() if kind not in _CONDITIONS]
        try:
            self._api.set_status("nodes", known, {**status, "conditions": [*others, *conditions]})
        except ApiError as error:
            if error.code != 404:
                raise


def _condition(kind: str, before: Object | None, now: str) -> Object:
    """A condition as of now; one that somebody set by hand (a pressure) stays, one that went Unknown is renewed."""
    status, reason, message = _CONDITIONS[kind]
    if before is not None and before["status"] != "Unknown":
        return {**before, "lastHeartbeatTime": now}
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
