"""Heartbeats: each node renews its Lease every ten seconds and its status every five minutes.

The nodes are spread evenly over the interval. A heartbeat is one small write, with no task and no timer of its own, so
that thousands of idle nodes cost next to nothing. Owner: `HollowKubelet`.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from simulator.apiserver.errors import ApiError, Object
from simulator.controllers.api import Api
from simulator.kubelet.timers import Timers

LEASES = "leases.coordination.k8s.io"
NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
#: an interval is cut into so many ticks; the step has no divisor in common with it
SLOTS = 100
_STEP = 37
_CONDITIONS = {
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}


class Rota:
    """Whose turn it is: each name once an interval, many in one tick, so that a thousand cost one timer.

    A tick in which it is nobody's turn is left out, so that a few names cost as little as they should.
    """

    def __init__(self, timers: Timers, interval: float, take: Callable[[str], None]) -> None:
        self._timers = timers
        self._tick = interval / SLOTS
        self._take = take
        self._slots: list[dict[str, None]] = [{} for _ in range(SLOTS)]
        self._slot_of: dict[str, int] = {}
        self._added = 0
        self._begun: float | None = None
        self._next: int | None = None

    def add(self, name: str) -> None:
        """From now on this one too."""
        if name not in self._slot_of:
            # Steps of this size meet every slot before they meet one again, and spread any number evenly.
            self._slot_of[name] = slot = (1 + self._added * _STEP) % SLOTS
            self._added += 1
            self._slots[slot][name] = None
        self._arm(self._position())

    def remove(self, name: str) -> None:
        """Not this one any more."""
        if (slot := self._slot_of.pop(name, None)) is not None:
            del self._slots[slot][name]

    def _position(self) -> int:
        """How many ticks have passed since the first name came."""
        now = asyncio.get_running_loop().time()
        if self._begun is None:
            self._begun = now
        return int((now - self._begun) / self._tick)

    def _arm(self, position: int) -> None:
        """Wait for the first tick behind a position in which it is somebody's turn, unless that is waited for."""
        found = next((n for n in range(position + 1, position + 1 + SLOTS) if self._slots[n % SLOTS]), None)
        if found is None or self._begun is None or (self._next is not None and self._next <= found):
            return
        self._next = found
        due = self._begun + found * self._tick - asyncio.get_running_loop().time()
        self._timers.after(max(0.0, due), self._work, found)

    def _work(self, position: int) -> None:
        if position != self._next:
            return  # a name that came later has its turn earlier
        self._next = None
        for name in tuple(self._slots[position % SLOTS]):
            self._take(name)
        self._arm(position)


class Heartbeats:
    """The heartbeats of all nodes."""

    def __init__(
        self, api: Api, timers: Timers, is_alive: Callable[[str], bool], *, lease: float = 10.0, status: float = 300.0
    ) -> None:
        self._api = api
        self._timers = timers
        self._is_alive = is_alive
        self._leases = Rota(timers, lease, self._renew)
        self._statuses = Rota(timers, status, self._post)

    def begin(self, node: str) -> None:
        """A node is up: its first heartbeat comes at once, the others in their time."""
        self._timers.after(0.0, self._renew, node)
        self._timers.after(0.0, self._post, node)
        self._leases.add(node)
        self._statuses.add(node)

    def end(self, node: str) -> None:
        """A node is gone."""
        self._leases.remove(node)
        self._statuses.remove(node)

    def _renew(self, node: str) -> None:
        if self._is_alive(node):
            self._write_lease(node)

    def _post(self, node: str) -> None:
        if self._is_alive(node):
            self._write_status(node)

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
