"""ResourceClaims as this scheduler knows them: what informers show, what it has just written, what it is about to.

    informer ──► stored ──► (replaced by) assumed: an answer of the API server that the informer has not shown yet
    Reserve ───► in flight: allocated in memory, written by PreBind or dropped by Unreserve

Read as one state, so that no device is given twice: per claim the allocation in flight, else the newest known one.

Owner: the manager. Changed on the event loop only.
"""

from __future__ import annotations

from dataclasses import dataclass

from kube.api.resource import DeviceRequestAllocationResult, ResourceClaim
from plugins.dynamic_resources.allocated import AllocatedDevices
from plugins.dynamic_resources.devices import PoolId
from plugins.dynamic_resources.pod_claims import claim_id
from scheduler.framework.handle import Lister

_Results = tuple[DeviceRequestAllocationResult, ...]


@dataclass(slots=True)
class _InFlight:
    claim: ResourceClaim
    #: pods of one group may share a claim that is in flight
    users: int = 1


class ClaimTracker:
    """The claims and the devices they hold."""

    def __init__(self, lister: Lister, allocated: AllocatedDevices) -> None:
        self._lister = lister
        self.allocated = allocated
        self._assumed: dict[str, ResourceClaim] = {}
        self._in_flight: dict[str, _InFlight] = {}
        #: key -> uid of the claim that was last seen under it
        self._uids: dict[str, str] = {}
        #: uid -> results that are counted
        self._counted: dict[str, _Results] = {}

    def get(self, namespace: str, name: str) -> ResourceClaim | None:
        """The newest version that is known."""
        stored: ResourceClaim | None = self._lister.get(name, namespace)
        if not self._assumed or stored is None:
            return stored
        assumed = self._assumed.get(stored.key)
        return assumed if assumed is not None and _is_newer(assumed, stored) else stored

    def is_in_flight(self, claim: ResourceClaim) -> bool:
        """Whether an allocation of it is decided but not written."""
        return claim_id(claim) in self._in_flight

    # --- changes; each returns the pools whose devices may have changed hands ------------------------------------

    def refresh(self, namespace: str, name: str) -> set[PoolId]:
        """The informer has news about this claim."""
        key = f"{namespace}/{name}"
        stored: ResourceClaim | None = self._lister.get(name, namespace)
        assumed = self._assumed.get(key)
        if assumed is not None and (stored is None or not _is_newer(assumed, stored)):
            del self._assumed[key]
        return self._recount(key, self.get(namespace, name))

    def assume(self, claim: ResourceClaim) -> set[PoolId]:
        """The API server answered a write with this; the informer will show it later."""
        if self._lister.get(claim.metadata.name, claim.metadata.namespace) is None:
            return set()
        self._assumed[claim.key] = claim
        return self._recount(claim.key, self.get(claim.metadata.namespace, claim.metadata.name))

    def restore(self, claim: ResourceClaim) -> set[PoolId]:
        """Believe the informer again."""
        self._assumed.pop(claim.key, None)
        return self._recount(claim.key, self.get(claim.metadata.namespace, claim.metadata.name))

    def reserve(self, claim: ResourceClaim) -> set[PoolId]:
        """An allocation is decided: `claim` has it in its status."""
        uid = claim_id(claim)
        entry = self._in_flight.get(uid)
        if entry is not None:
            entry.users += 1
            return set()
        self._in_flight[uid] = _InFlight(claim)
        return self._count(uid, _results(claim))

    def release(self, decided: ResourceClaim) -> tuple[ResourceClaim | None, set[PoolId]]:
        """The allocation in flight is written or dropped; the claim with it, if it was in flight."""
        uid = claim_id(decided)
        entry = self._in_flight.get(uid)
        if entry is None:
            return None, set()
        entry.users -= 1
        if entry.users:
            return None, set()
        del self._in_flight[uid]
        claim = entry.claim
        known = self.get(claim.metadata.namespace, claim.metadata.name)
        same = known is not None and claim_id(known) == uid
        return claim, self._count(uid, _results(known) if known is not None and same else ())

    def _recount(self, key: str, claim: ResourceClaim | None) -> set[PoolId]:
        touched: set[PoolId] = set()
        uid = claim_id(claim) if claim is not None else None
        before = self._uids.get(key)
        if before is not None and before != uid:
            del self._uids[key]
            if before not in self._in_flight:
                touched |= self._count(before, ())
        if claim is not None and uid is not None:
            self._uids[key] = uid
            if uid not in self._in_flight:
                touched |= self._count(uid, _results(claim))
        return touched

    def _count(self, uid: str, results: _Results) -> set[PoolId]:
        before = self._counted.get(uid, ())
        if before == results:
            return set()
        touched = self.allocated.remove(before) | self.allocated.add(results)
        if results:
            self._counted[uid] = results
        else:
            self._counted.pop(uid, None)
        return touched


def _results(claim: ResourceClaim) -> _Results:
    allocation = claim.status.allocation
    return allocation.devices.results if allocation is not None else ()


def _is_newer(claim: ResourceClaim, other: ResourceClaim) -> bool:
    """By resourceVersion, which is a growing number in every API server there is; otherwise the informer is right."""
    mine, theirs = claim.metadata.resource_version, other.metadata.resource_version
    return (
        claim.metadata.uid == other.metadata.uid and mine.isdecimal() and theirs.isdecimal() and int(mine) > int(theirs)
    )
