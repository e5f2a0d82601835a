"""What ResourceClaims have to do with a refusal: which request finds no devices on a node, and where they drop out.

The allocator itself is asked about each request alone, each claim alone and without its constraints, so that the part
that fails is known for sure; then the node's devices are followed through what the request demands of them, in the
allocator's order: class, selectors, node, use, capacity, taints, counters. Used by `causes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from kube.api.core import NodeSelector
from kube.api.node_affinity import match_node_selector
from kube.api.quantity import NANOS, nanos
from kube.api.resource import (
    DeviceClaim,
    DeviceConstraint,
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceToleration,
    ResourceClaim,
)
from plugins.dynamic_resources import capacity
from plugins.dynamic_resources.allocated import AllocatedDevices
from plugins.dynamic_resources.answers import CANNOT_ALLOCATE, INVALID_POOLS
from plugins.dynamic_resources.devices import DeviceId, DeviceView
from plugins.dynamic_resources.plan import AllocationError, ClaimPlan, Plan, RequestPlan
from plugins.dynamic_resources.pools import Pool
from plugins.dynamic_resources.search import Search
from plugins.dynamic_resources.state import CANNOT_FIT, NOT_AVAILABLE, DevicesState
from podium.explain.amounts import conjoined, listed, plural
from podium.explain.label_causes import term_text
from podium.explain.view import View
from scheduler.framework.runtime import Feasibility
from scheduler.snapshot.columns import Codes
from scheduler.snapshot.node_info import NodeInfo

Groups = Iterator[tuple[Codes, str, str]]
#: what is wrong, and the same in a few words
Words = tuple[str, str]

#: nodes whose devices are looked at one by one; what is beyond is told by the reason alone
MOST_NODES = 200
#: steps of one search; a claim may be as hard as it likes
MOST_STEPS = 5_000
_ANYTHING = (DeviceToleration(operator="Exists"),)


def devices(view: View, found: Feasibility, reason: str, rows: Codes) -> Groups:
    """Nodes by what their devices lack."""
    state: DevicesState | None = found.state.read("DynamicResources")
    if state is None:
        yield rows, reason, reason
        return
    groups: dict[Words, list[int]] = {}
    for row in rows[:MOST_NODES].tolist():
        info = view.snapshot.infos[row]
        words = _words(view, state, info, reason) if info is not None else (reason, reason)
        groups.setdefault(words, []).append(row)
    if len(rows) > MOST_NODES:
        groups.setdefault((reason, reason), []).extend(rows[MOST_NODES:].tolist())
    for (detail, brief), those in groups.items():
        yield np.array(those, np.intp), detail, brief


def _words(view: View, state: DevicesState, info: NodeInfo, reason: str) -> Words:
    if reason == NOT_AVAILABLE.message:
        return _out_of_reach(state, info) or (reason, reason)
    if reason == CANNOT_FIT.message and state.extended is not None:
        missing = sorted(state.extended.requested - info.allocatable.keys() - state.extended.resources)
        return f"neither the node nor a device class offers {conjoined(missing)}", f"without {conjoined(missing)}"
    if reason in (CANNOT_ALLOCATE.message, INVALID_POOLS.message):
        return _OneNode(view, state, info).words() or (reason, reason)
    return reason, reason


# --- claims that have their devices already ---------------------------------------------------------------------------


def _out_of_reach(state: DevicesState, info: NodeInfo) -> Words | None:
    for position, claim in enumerate(state.claims):
        allocation = claim.status.allocation
        if allocation is None:
            continue
        name, held = claim.metadata.name, listed([_name(each) for each in allocation.devices.results], 3)
        if position in state.failed:
            return f"the devices of claim {name} ({held}) did not become ready", f"with claim {name} not ready"
        selector = allocation.node_selector
        if selector is not None and not match_node_selector(selector, info.labels, info.name):
            where = _place(selector)
            return f"claim {name} has {held} already, to be used where {where}", f"out of reach of claim {name}"
    return None


def _name(result: DeviceRequestAllocationResult) -> str:
    return f"{result.driver}/{result.pool}/{result.device}"


def _place(selector: NodeSelector) -> str:
    return " or ".join(term_text(term) for term in selector.node_selector_terms)


# --- claims that find none --------------------------------------------------------------------------------------------


class _TooLongError(Exception):
    """A search that takes too many steps to be told of."""


@dataclass(slots=True)
class _Steps:
    left: int = MOST_STEPS

    def __call__(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _TooLongError


class _OneNode:
    """What the claims find on one node. Lives for one question."""

    def __init__(self, view: View, state: DevicesState, info: NodeInfo) -> None:
        self._view = view
        self._manager = state.manager
        self._info = info
        left = state.resources_left(info)
        variant = state.variant(left) if left is not None else None
        self._claims: Sequence[ResourceClaim] = variant.claims if variant is not None else ()
        self._plan = variant.answers.plan if variant is not None and variant.answers is not None else Plan(())
        self._pools: tuple[Pool, ...] = self._manager.pools(info)
        self._allocated: AllocatedDevices = self._manager.claims.allocated

    def words(self) -> Words | None:
        """The first part that fails by itself; None where that takes too long to find out."""
        try:
            for claim, planned in zip(self._claims, self._plan.claims, strict=True):
                words = self._claim_words(claim, planned)
                if words is not None:
                    return words
        except (_TooLongError, AllocationError):
            return None
        text = f"the claims {conjoined([claim.metadata.name for claim in self._claims])} together want more devices"
        return f"{text} than there are", "without devices for all claims together"

    def _claim_words(self, claim: ResourceClaim, planned: ClaimPlan) -> Words | None:
        free = msgspec.structs.replace(planned.devices, constraints=())
        for options in planned.requests:
            if not self._is_possible(free, (options,)):
                return self._request_words(claim, options)
        name = f"claim {claim.metadata.name}"
        if not self._is_possible(free, planned.requests):
            requests = plural(len(planned.requests), "request")
            return f"{name}: its {requests} together want more devices than there are", f"without all devices of {name}"
        for constraint in planned.devices.constraints:
            alone = msgspec.structs.replace(planned.devices, constraints=(constraint,))
            if not self._is_possible(alone, planned.requests):
                text = _constraint_text(constraint)
                return f"{name}: no choice of devices has {text}", f"without devices of {text}"
        if self._is_possible(planned.devices, planned.requests):
            return None
        return f"{name}: no choice of devices meets all of its constraints", f"without devices that suit {name}"

    def _is_possible(self, spec: DeviceClaim, requests: Sequence[Sequence[RequestPlan]]) -> bool:
        """The allocator's answer to a part of a claim."""
        parts = tuple(tuple(replace(option, claim=0) for option in options) for options in requests)
        plan = Plan((ClaimPlan(spec, parts),))
        manager, info = self._manager, self._info
        search = Search(plan, info.name, info.labels, self._pools, self._allocated, manager.features, _Steps())
        return search.run() is not None

    # --- one request --------------------------------------------------------------------------------------

    def _request_words(self, claim: ResourceClaim, options: Sequence[RequestPlan]) -> Words:
        detail, brief = self._option_words(options[0])
        if len(options) > 1:
            names = conjoined([option.name for option in options], "or")
            detail = f"none of the alternatives {names} is possible; {options[0].name}: {detail}"
        return f"claim {claim.metadata.name}, request {options[0].base_name}: {detail}", brief

    def _option_words(self, request: RequestPlan) -> Words:
        unusable = [pool for pool in self._pools if not pool.usable]
        there = [device for pool in self._pools if pool.usable for device in pool.devices]
        class_name = request.device_class.metadata.name if request.device_class is not None else "?"
        if not there and unusable:
            pool = unusable[0]
            state = "being updated by its driver" if pool.incomplete else "invalid"
            return f"resource pool {pool.id} is {state}", f"with resource pool {pool.id} {state}"
        if not there:
            return "no devices there", "without devices"
        return self._follow(request, there, class_name)

    def _follow(self, request: RequestPlan, there: list[DeviceView], class_name: str) -> Words:
        """Where so many devices drop out that too few are left."""
        wanted = 1 if request.all_devices else request.count
        few = f"of class {class_name}"
        left = there
        for selection in request.selections:
            kept = [device for device in left if device.matches(selection.expression)]
            if len(kept) < min(wanted, len(left)):
                some = "none" if not kept else f"only {len(kept)}"
                of_class = selection.claim is None
                what = f"is {few}" if of_class and not kept else f"are {few}" if of_class else "matches"
                rule = "" if of_class else f" the selector {selection.expression}"
                kinds = "" if of_class else f" {few}"
                number = f", {wanted} wanted" if wanted > 1 else ""
                brief = f"without device {few}" if of_class else f"without a matching device {few}"
                return f"{some} of {plural(len(left), 'device')}{kinds} {what}{rule}{number}", brief
            left = kept
        left = [device for device in left if device.is_for(self._info.name, self._info.labels)]
        if len(left) < wanted:
            return f"{wanted} wanted, {len(left)} devices {few} there", f"with too few devices {few}"
        return self._follow_use(request, left, wanted, few)

    def _follow_use(self, request: RequestPlan, left: list[DeviceView], wanted: int, few: str) -> Words:
        free = [device for device in left if request.admin_access or not self._allocated.in_use(device.id)]
        if len(free) < wanted:
            holders = sorted({who for d in left if (who := self._holders().get(d.id))})
            by = f" by {listed([f'claim {who}' for who in holders], 3)}" if holders else ""
            number = f"{wanted} wanted, " if wanted > 1 else ""
            text = f"{number}{len(left) - len(free)} of {plural(len(left), 'device')} {few} in use{by}"
            return text, f"with devices {few} in use"
        roomy = [device for device in free if self._has_capacity(request, device)]
        if len(roomy) < wanted:
            return self._capacity_words(request, free)
        calm = replace(request, tolerations=_ANYTHING)
        if self._is_possible(DeviceClaim(), ((calm,),)):
            taint = next(iter(_taints(roomy)), "a taint")
            return f"{plural(len(roomy), 'device')} {few} with device taint {taint}", f"with device taint {taint}"
        return self._counter_words(roomy) or (f"no choice of devices {few} is possible", f"without devices {few}")

    def _holders(self) -> dict[DeviceId, str]:
        """device -> the claim that has it."""
        holders = self._view.holders
        if holders is None:
            holders = self._view.holders = {}
            for claim in self._view.handle.listers("ResourceClaim").list():
                allocation = claim.status.allocation
                for result in allocation.devices.results if allocation is not None else ():
                    if not result.admin_access:
                        holders[DeviceId(result.driver, result.pool, result.device)] = claim.key
        return holders

    # --- amounts ------------------------------------------------------------------------------------------

    def _has_capacity(self, request: RequestPlan, device: DeviceView) -> bool:
        if not self._manager.features.consumable_capacity:
            return True
        return capacity.fits(device, request.capacity, self._allocated.consumed(device.id), {})

    def _capacity_words(self, request: RequestPlan, there: Sequence[DeviceView]) -> Words:
        """The first capacity that lacks, on the device that has most of it left."""
        for name, wanted in (request.capacity.requests if request.capacity is not None else {}).items():
            left = {d: d.capacity[name].value.nanos - self._taken(d, name) for d in there if name in d.capacity}
            if not left:
                return f"no device has the capacity {name}", f"without device capacity {name}"
            best = max(left, key=lambda device: left[device])
            if left[best] < nanos(wanted):
                total = best.body.capacity[name].value
                short = f"short of device capacity {name}"
                return f"{wanted} {name} wanted, {_number(left[best])} of {total} left at most on {best.id}", short
        return "no device has enough capacity left", "short of device capacity"

    def _taken(self, device: DeviceView, name: str) -> int:
        return self._allocated.consumed(device.id).get(name, 0)

    def _counter_words(self, there: Sequence[DeviceView]) -> Words | None:
        """The counter that lacks for the device that takes least of it."""
        pools = {pool.id: pool for pool in self._pools}
        for device in sorted(there, key=lambda device: sum(amount for _, amount in device.counters)):
            pool = pools[device.slice.pool]
            for key, amount in device.counters:
                left = pool.counters.get(key, 0) - sum(
                    used
                    for other in pool.consumers
                    if self._allocated.consumes(other.id)
                    for each, used in other.counters
                    if each == key
                )
                if left < amount:
                    where = f"counter {key[1]} of {key[0]} in pool {pool.id}"
                    return f"{where}: {_number(amount)} wanted at least, {_number(left)} left", f"short of {where}"
        return None


def _taints(there: Sequence[DeviceView]) -> Iterator[str]:
    for device in there:
        yield from (_taint_text(taint) for taint in device.taints)


def _taint_text(taint: DeviceTaint) -> str:
    return f"{taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect}"


def _constraint_text(constraint: DeviceConstraint) -> str:
    if constraint.match_attribute is not None:
        return f"one value of {constraint.match_attribute}"
    return f"different values of {constraint.distinct_attribute}"


def _number(amount: int) -> str:
    """Nanos as a plain number, binary where it is even so."""
    whole, rest = divmod(amount, NANOS)
    if rest:
        return f"{amount / NANOS:g}"
    for unit, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if whole and whole % size == 0:
            return f"{whole // size}{unit}"
    return str(whole)
