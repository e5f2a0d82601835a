"""The kubelet's part in dynamic resources: a pod starts once its claims are its own, and prepared by their drivers.

    every claim known ─► allocated, and reserved for this pod ─► prepared by each driver of its devices ─► start

A claim is prepared once a node and given back once no pod there uses it. Owner: `HollowKubelet`.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from simulator.apiserver.errors import Object
from simulator.apiserver.watch_cache import Key
from simulator.controllers.api import Api
from simulator.controllers.resource_claims import CLAIMS, claim_names

#: a claim that is not there yet is looked for again after so many seconds
RETRY = 1.0


class Driver(Protocol):
    """What a driver's plugin on a node does."""

    def prepare(self, node: str, claim: Object) -> float:
        """Prepare a claim; gives the seconds until it is ready, 0 once it is."""

    def unprepare(self, node: str, claim_uid: str) -> None:
        """Give a claim's devices back."""


class ClaimManager:
    """The claims in use on all nodes."""

    def __init__(self, api: Api, drivers: Mapping[str, Driver]) -> None:
        self._api = api
        self._drivers = drivers
        self._users: dict[tuple[str, str], set[str]] = {}
        self._held: dict[str, list[tuple[str, str]]] = {}

    def seconds_to_wait(self, pod: Object) -> float:
        """How long until the pod may start, as far as its claims go; 0: now."""
        uses = pod["spec"].get("resourceClaims") or ()
        # The scheduler tells of extended resources in the status before it binds.
        if not uses and not (pod.get("status") or {}).get("extendedResourceClaimStatus"):
            return 0.0
        namespace = pod["metadata"]["namespace"]
        current = self._api.get("pods", (namespace, pod["metadata"]["name"])) or pod
        names = claim_names(current)
        if len(names) < len(uses) - len(_unneeded(current)):
            return RETRY
        waits = [self._wait_for(current, (namespace, name)) for name in names]
        return max(waits, default=0.0)

    def _wait_for(self, pod: Object, key: Key) -> float:
        claim = self._api.get(CLAIMS, key)
        status = (claim or {}).get("status") or {}
        users = {user.get("uid") for user in status.get("reservedFor") or ()}
        if claim is None or not status.get("allocation") or pod["metadata"]["uid"] not in users:
            return RETRY
        self._hold(pod, claim)
        names = {result["driver"] for result in status["allocation"]["devices"].get("results") or ()}
        if not names <= self._drivers.keys():
            return RETRY  # as in a cluster where nobody has installed the driver
        return max((self._drivers[name].prepare(pod["spec"]["nodeName"], claim) for name in sorted(names)), default=0.0)

    def _hold(self, pod: Object, claim: Object) -> None:
        place = (pod["spec"]["nodeName"], claim["metadata"]["uid"])
        users = self._users.setdefault(place, set())
        if pod["metadata"]["uid"] not in users:
            users.add(pod["metadata"]["uid"])
            self._held.setdefault(pod["metadata"]["uid"], []).append(place)

    def release(self, pod_uid: str) -> None:
        """A pod has ended, or gone: what only it used is given back."""
        for place in self._held.pop(pod_uid, ()):
            users = self._users[place]
            users.discard(pod_uid)
            if not users:
                del self._users[place]
                self._unprepare(place, self._drivers.values())

    @staticmethod
    def _unprepare(place: tuple[str, str], drivers: Iterable[Driver]) -> None:
        for driver in drivers:
            driver.unprepare(*place)


def _unneeded(pod: Object) -> list[str]:
    """Entries whose status names no claim on purpose: there is none to wait for."""
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return [one["name"] for one in statuses if not one.get("resourceClaimName")]
