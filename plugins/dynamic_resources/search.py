"""The allocator: the first set of devices of one node that satisfies all claims (facts A3, "Search").

Depth first over claims, requests, alternatives and devices, each in its given order; combinations of devices, not
permutations, within a request; every refusal takes back all it had reserved. One `Search` serves one node once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kube.api import cel
from kube.api.quantity import Quantity
from kube.api.resource import DeviceTaint, DeviceToleration
from plugins.dynamic_resources import capacity
from plugins.dynamic_resources.allocated import AllocatedDevices
from plugins.dynamic_resources.constraints import Constraint, make_constraint
from plugins.dynamic_resources.counters import CounterBooks
from plugins.dynamic_resources.devices import DeviceId, DeviceView
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.plan import MAX_RESULTS, AllocationError, Plan, RequestPlan
from plugins.dynamic_resources.pools import Pool


class TooManyResultsError(Exception):
    """The branch would give a claim more results than it can hold: back to the nearest choice."""


@dataclass(frozen=True, slots=True)
class Pick:
    """A device that a request gets."""

    request: RequestPlan
    device: DeviceView
    #: what a share takes; None for a device that is taken whole
    consumed: dict[str, Quantity] | None = None


@dataclass(slots=True)
class Solution:
    """What each claim gets."""

    picks: tuple[tuple[Pick, ...], ...]
    #: per claim and request the index of the chosen alternative
    chosen: tuple[tuple[int, ...], ...]


@dataclass(slots=True)
class _Taken:
    """What one pick reserved, to be given back."""

    device: DeviceView
    request: RequestPlan
    charged: bool = False
    consumed: dict[str, Quantity] = field(default_factory=dict)


class Search:
    """One node, one plan."""

    def __init__(
        self,
        plan: Plan,
        node_name: str,
        labels: Mapping[str, str],
        pools: Sequence[Pool],
        allocated: AllocatedDevices,
        features: Features,
        check_time: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._node_name = node_name
        self._labels = labels
        self._pools = pools
        self._allocated = allocated
        self._features = features
        self._check_time = check_time
        #: devices that counted requests may get, in order
        self._devices = [device for pool in pools if pool.usable for device in pool.devices]
        self._counters = CounterBooks(pools, allocated)
        self._every: dict[int, list[DeviceView]] = {}
        self._selectable: dict[int, dict[DeviceId, bool]] = {}
        self._constraints: list[list[Constraint]] = []
        #: device -> claims (by position) that picked it in this search
        self._searching: dict[DeviceId, set[int]] = {}
        self._shared: dict[DeviceId, dict[str, int]] = {}
        self._share_counts: dict[DeviceId, int] = {}
        self._picks: list[list[Pick]] = [[] for _ in plan.claims]
        self._chosen = [[0] * len(claim.requests) for claim in plan.claims]

    def run(self) -> Solution | None:
        """None: the node has no solution. Raises AllocationError where the whole attempt is to end."""
        for i in range(len(self._plan.claims)):
            self._prepare(i)
        try:
            if not self._request(0, 0):
                return None
        except TooManyResultsError:
            return None
        return Solution(tuple(map(tuple, self._picks)), tuple(map(tuple, self._chosen)))

    # --- preparation: any failure here is an error ---------------------------------------------------------------

    def _prepare(self, i: int) -> None:
        claim = self._plan.claims[i]
        fewest = sum(min(self._needed(request) for request in self._checked(options)) for options in claim.requests)
        if fewest > MAX_RESULTS:
            text = f": number of requested devices {fewest} exceeds the claim limit of {MAX_RESULTS}"
            raise AllocationError(text, i)
        constraints = [make_constraint(spec) for spec in claim.devices.constraints]
        for number, constraint in enumerate(constraints):
            if constraint is None:
                text = f", constraint #{number}: empty constraint (unsupported constraint type?)"
                raise AllocationError(text, i)
        self._constraints.append([constraint for constraint in constraints if constraint is not None])

    def _checked(self, options: Sequence[RequestPlan]) -> Sequence[RequestPlan]:
        for request in options:
            if request.error is not None:
                raise AllocationError(request.error.text, request.error.claim)
            if request.all_devices:
                self._every[id(request)] = self._all_devices(request)
        return options

    def _needed(self, request: RequestPlan) -> int:
        return len(self._every[id(request)]) if request.all_devices else request.count

    def _all_devices(self, request: RequestPlan) -> list[DeviceView]:
        """Every device that could be meant, taken or not. A pool whose devices are not known for sure is an error."""
        found: list[DeviceView] = []
        for pool in self._pools:
            if not pool.usable:
                state = "being updated" if pool.incomplete else "invalid"
                text = (
                    f", request {request.name}: asks for all devices, but resource pool {pool.id} is currently {state}"
                )
                raise AllocationError(text, request.claim)
            found += [d for d in pool.devices if self._is_selectable(request, d) and self._has_capacity(request, d)]
        return found

    # --- the search ----------------------------------------------------------------------------------------------

    def _request(self, claim: int, index: int) -> bool:
        """The request at `index` of a claim and all that follows."""
        if claim == len(self._plan.claims):
            return True
        requests = self._plan.claims[claim].requests
        if index == len(requests):
            try:
                return self._request(claim + 1, 0)
            except TooManyResultsError:
                # Another choice in this claim may leave the next one a smaller alternative.
                return False
        options = requests[index]
        if not options[0].parent:
            return self._devices_of(options[0], claim, index, 0, 0)
        too_many = True
        for choice, option in enumerate(options):
            try:
                if self._devices_of(option, claim, index, 0, 0):
                    self._chosen[claim][index] = choice
                    return True
                too_many = False
            except TooManyResultsError:
                continue
        if too_many:
            raise TooManyResultsError
        return False

    def _devices_of(self, request: RequestPlan, claim: int, index: int, have: int, start: int) -> bool:
        """The device after the `have` that the request has already, from position `start` on, and all that follows."""
        self._check_time()
        every = self._every.get(id(request))
        if every is not None and not every:
            return False
        needed = self._needed(request)
        if have >= needed:
            return self._request(claim, index + 1)
        if len(self._picks[claim]) + needed - have > MAX_RESULTS:
            raise TooManyResultsError
        if every is not None:
            taken = self._take(request, every[have], must=True)
            return taken is not None and self._go_on(taken, request, claim, index, have + 1, 0)
        devices = self._devices
        for position in range(start, len(devices)):
            device = devices[position]
            if self._is_busy(request, device) or not self._is_selectable(request, device):
                continue
            if not self._has_capacity(request, device):
                continue
            taken = self._take(request, device, must=False)
            if taken is not None and self._go_on(taken, request, claim, index, have + 1, position + 1):
                return True
        return False

    def _go_on(self, taken: _Taken, request: RequestPlan, claim: int, index: int, have: int, start: int) -> bool:
        try:
            done = self._devices_of(request, claim, index, have, start)
        except TooManyResultsError:
            self._give_back(taken)
            raise
        if not done:
            self._give_back(taken)
        return done

    def _is_busy(self, request: RequestPlan, device: DeviceView) -> bool:
        """Admin access shares with everybody but its own claim."""
        picked = self._searching.get(device.id)
        if request.admin_access:
            return bool(picked) and request.claim in (picked or ())
        return bool(picked) or self._allocated.in_use(device.id)

    def _is_selectable(self, request: RequestPlan, device: DeviceView) -> bool:
        answers = self._selectable.setdefault(id(request), {})
        answer = answers.get(device.id)
        if answer is None:
            answer = answers[device.id] = self._select(request, device)
        return answer

    def _select(self, request: RequestPlan, device: DeviceView) -> bool:
        if device.body.binding_conditions and not self._features.binding_conditions:
            return False
        for selection in request.selections:
            try:
                if not device.matches(selection.expression):
                    return False
            except cel.SelectorError as error:
                raise AllocationError(f"{selection.prefix}{error}", selection.claim) from None
        return device.is_for(self._node_name, self._labels)

    def _has_capacity(self, request: RequestPlan, device: DeviceView) -> bool:
        if not self._features.consumable_capacity:
            return True
        committed = self._allocated.consumed(device.id)
        return capacity.fits(device, request.capacity, committed, self._shared.get(device.id, {}))

    # --- reserving and giving back -------------------------------------------------------------------------------

    def _is_shareable(self, device: DeviceView) -> bool:
        return device.shareable and self._features.consumable_capacity

    def _take(self, request: RequestPlan, device: DeviceView, *, must: bool) -> _Taken | None:
        """Reserve a device, or nothing at all."""
        shareable = self._is_shareable(device)
        if self._is_busy(request, device) and not (request.admin_access and shareable):
            return None
        if not self._has_capacity(request, device):
            return None
        taken = _Taken(device, request)
        if device.counters:
            if not self._features.partitionable_devices:
                return None
            if not (shareable and self._is_shared(device)):
                if not self._counters.charge(device):
                    return None
                taken.charged = True
        if self._is_tainted(request, device) or not self._join(request, device, must):
            if taken.charged:
                self._counters.release(device)
            return None
        self._book(taken, shareable)
        return taken

    def _is_shared(self, device: DeviceView) -> bool:
        return self._allocated.is_shared(device.id) or device.id in self._share_counts

    def _is_tainted(self, request: RequestPlan, device: DeviceView) -> bool:
        if not self._features.device_taints:
            return False
        return any(not any(_tolerates(each, taint) for each in request.tolerations) for taint in device.taints)

    def _join(self, request: RequestPlan, device: DeviceView, must: bool) -> bool:
        constraints = self._constraints[request.claim]
        for i, constraint in enumerate(constraints):
            if constraint.add(request.base_name, request.sub_name, device):
                continue
            if must:
                text = f"cannot add device {device.id} because a claim constraint would not be satisfied"
                raise AllocationError(f", request {request.name}: {text}", request.claim)
            for joined in constraints[:i]:
                joined.remove(request.base_name, request.sub_name, device)
            return False
        return True

    def _book(self, taken: _Taken, shareable: bool) -> None:
        device, request = taken.device, taken.request
        if shareable:
            taken.consumed = capacity.consumptions(device, request.capacity)
            self._share(device.id, taken.consumed, 1)
        else:
            self._searching.setdefault(device.id, set()).add(request.claim)
        self._picks[request.claim].append(Pick(request, device, taken.consumed if shareable else None))

    def _give_back(self, taken: _Taken) -> None:
        device, request = taken.device, taken.request
        self._picks[request.claim].pop()
        if self._is_shareable(device):
            self._share(device.id, taken.consumed, -1)
        else:
            self._searching[device.id].discard(request.claim)
        if taken.charged:
            self._counters.release(device)
        for constraint in self._constraints[request.claim]:
            constraint.remove(request.base_name, request.sub_name, device)

    def _share(self, device: DeviceId, consumed: dict[str, Quantity], sign: int) -> None:
        count = self._share_counts[device] = self._share_counts.get(device, 0) + sign
        amounts = self._shared.setdefault(device, {})
        for name, amount in consumed.items():
            amounts[name] = amounts.get(name, 0) + sign * amount.nanos
        if not count:
            del self._share_counts[device], self._shared[device]


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """As for node taints: an empty effect means all, an empty key (with Exists) all keys."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value
