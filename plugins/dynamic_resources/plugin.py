"""DynamicResources: pods get the devices that their ResourceClaims ask for (Kubernetes' structured parameters, 1.36).

The plugin's own work is to say, at each extension point, what the facts (A4) say; what it knows is in `manager`, what
one cycle knows in `state`, the search for devices in `search`, the writes in `binding` and `writes`.
Under its name in the CycleState is a `DevicesState`; `allocations_by_node()` of it tells what a pod would get where.
"""

from __future__ import annotations

from config.types import DynamicResourcesArgs
from kube.api.core import Pod
from kube.api.resource import DeviceRequest, ResourceClaim
from plugins.dynamic_resources import pod_claims
from plugins.dynamic_resources.answers import FilterTimeoutError
from plugins.dynamic_resources.binding import Binding
from plugins.dynamic_resources.extended import may_be_devices
from plugins.dynamic_resources.features import read_features
from plugins.dynamic_resources.hints import Hints
from plugins.dynamic_resources.manager import Manager
from plugins.dynamic_resources.pod_claims import UnusableClaimError, claim_id, claims_of
from plugins.dynamic_resources.state import DevicesState, Extended
from plugins.dynamic_resources.writes import ClaimWriter
from scheduler.framework.cluster_event import Action, EventResource, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.group_run import GroupRun
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import (
    FilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    ReservePlugin,
    Scope,
    ScorePlugin,
    Versioned,
    max_normalize,
)
from scheduler.framework.refusals import Refusals
from scheduler.framework.status import SKIP, Status, error, unresolvable, unschedulable
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodShape
from scheduler.snapshot.snapshot import Nodes

#: under this key NodeResourcesFit finds the extended resources that it is to leave to devices
DEVICE_BACKED = "DynamicResources/extended"


class DynamicResources(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
):
    """Refuse nodes without the devices; reserve them and write the claims."""

    name = "DynamicResources"
    scope = Scope.CLUSTER
    #: a search costs more than all other filters together
    sparse = True
    #: devices are held by claims, and those stay when a pod goes: evicting pods never helps
    depends_on_pods = False
    allow_parallel = True

    def __init__(self, args: DynamicResourcesArgs | None, handle: Handle) -> None:
        super().__init__(args, handle)
        args = args or DynamicResourcesArgs()
        self.filter_timeout = args.filter_timeout.seconds if args.filter_timeout is not None else 0.0
        self.binding_timeout = args.binding_timeout.seconds if args.binding_timeout is not None else 600.0
        self.features = read_features(handle.gate)
        self.manager = handle.snapshot.index(Manager)
        self.manager.connect(handle, self.features)
        self._writer = ClaimWriter(handle, self.manager)
        self._binding = Binding(handle, self.manager, self._writer, self.binding_timeout)
        hints = Hints(self.manager)
        self.events = (
            on(
                EventResource.NODE,
                Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE,
            ),
            on(EventResource.RESOURCE_CLAIM, Action.ADD | Action.UPDATE, hint=hints.claim_changed),
            on(EventResource.POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, hint=hints.pod_changed),
            on(EventResource.DEVICE_CLASS, Action.ADD | Action.UPDATE),
            on(EventResource.RESOURCE_SLICE, Action.ADD | Action.UPDATE),
        )

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Every claim must be there and usable; otherwise an attempt would be in vain."""
        if not pod.spec.resource_claims:
            return None
        try:
            claims_of(pod, self.manager.claims.get)
        except UnusableClaimError as problem:
            return unresolvable(str(problem))
        return None

    # --- PreFilter and Filter -------------------------------------------------------------------------------------

    def quiet_while(self, shape: PodShape) -> tuple[Versioned, ...] | None:
        """Pods without claims and without a resource that a class could back."""
        return None if shape.pod.spec.resource_claims or any(map(may_be_devices, shape.requests)) else ()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """Look up the claims; a pod that needs no devices is not looked at again."""
        self.manager.refresh()
        extended = self._extended(state, pod)
        if not pod.spec.resource_claims and extended is None:
            return SKIP
        try:
            claims = claims_of(pod, self.manager.claims.get)
        except UnusableClaimError as problem:
            return unresolvable(str(problem))
        if not claims and extended is None:
            return SKIP
        shared: tuple[int, ...] = ()
        if self.handle.group is not None and self.handle.group.shared:
            claims, shared = _decided_by_siblings(claims, self.handle.group)
        for claim in claims:
            if claim.status.allocation is None:
                refusal = self._check_unallocated(claim)
                if refusal is not None:
                    return refusal
        devices = DevicesState(pod, self.manager, self.filter_timeout, claims=claims, extended=extended, shared=shared)
        devices.failed = self._failed(claims)
        state.write(self.name, devices)
        if extended is not None:
            state.write(DEVICE_BACKED, extended.resources)
        return None

    def _extended(self, state: CycleState, pod: Pod) -> Extended | None:
        if not self.features.extended_resources:
            return None
        requests = state.pod_info.shape.requests
        backed = self.manager.classes.backed(requests)
        if not backed:
            return None
        stale = next(iter(self.manager.extended_claims_of(pod)), None)
        if stale is not None and not stale.spec.devices.requests:
            stale = None
        return Extended(backed, self.manager.classes.extended(requests), stale)

    def _check_unallocated(self, claim: ResourceClaim) -> Status | None:
        if self.manager.claims.is_in_flight(claim):
            return unresolvable(f"resource claim {claim.key} is in the process of being allocated")
        for request in claim.spec.devices.requests:
            problem = self._check_request(claim, request)
            if problem:
                return unresolvable(problem)
        return None

    def _check_request(self, claim: ResourceClaim, request: DeviceRequest) -> str:
        exact = request.exact
        if exact is not None and not request.first_available:
            return self._check_class(exact.device_class_name, request.name)
        if not request.first_available:
            return f"resource claim {claim.key}, request {request.name}: unknown request type"
        if not self.features.prioritized_list:
            text = "has subrequests, but the DRAPrioritizedList feature is disabled"
            return f"resource claim {claim.key}, request {request.name}: {text}"
        problems = (
            self._check_class(each.device_class_name, f"{request.name}/{each.name}") for each in request.first_available
        )
        return next((problem for problem in problems if problem), "")

    def _check_class(self, name: str, request: str) -> str:
        known = self.manager.device_class(name) is not None
        return "" if known else f"request {request}: device class {name} does not exist"

    def _failed(self, claims: list[ResourceClaim]) -> frozenset[int]:
        """Allocated claims whose devices could not be made ready for any node."""
        if not self.features.binding_conditions:
            return frozenset()
        now = self.handle.now()
        return frozenset(
            position
            for position, claim in enumerate(claims)
            if claim.status.allocation is not None
            and pod_claims.has_binding_conditions(claim)
            and (
                pod_claims.binding_failure(claim)
                or (
                    not pod_claims.is_ready_for_binding(claim)
                    and pod_claims.binding_timed_out(claim, now, self.binding_timeout)
                )
            )
        )

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status:
        """Where all claims can be used or allocated."""
        devices = self._devices(state)
        try:
            return nodes.all if devices is None else devices.filter(nodes)
        except FilterTimeoutError as late:
            return error(str(late))

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The same for one node."""
        devices = self._devices(state)
        try:
            return None if devices is None else devices.refusal(node)
        except FilterTimeoutError as late:
            return error(str(late))

    def refusals(self, state: CycleState, pod: Pod, nodes: Nodes) -> Refusals:
        """Why these nodes were refused: mostly known since the filter was asked."""
        devices = self._devices(state)
        known = devices.refusals(nodes) if devices is not None else None
        if known is None:
            return super().refusals(state, pod, nodes)
        return Refusals(tuple(status.by(self.name) for status in known.statuses), known.which)

    def _devices(self, state: CycleState) -> DevicesState | None:
        devices: DevicesState | None = state.read(self.name)
        return devices

    # --- PostFilter -----------------------------------------------------------------------------------------------

    def post_filter(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status]:
        """Free one allocation that keeps the pod from every node and that nobody else needs.

        The write goes on beside the loop; its event wakes the pod. Never more than UNSCHEDULABLE, so that preemption
        is tried as well.
        """
        return None, unschedulable(self._free_something(state, pod))

    def _free_something(self, state: CycleState, pod: Pod) -> str:
        devices = self._devices(state)
        if devices is None or devices.empty:
            return "no new claims to deallocate"
        spawn = self.handle.spawn
        if devices.extended is not None and devices.extended.stale is not None:
            if spawn is not None:
                spawn(self._writer.delete(devices.extended.stale))
            return "deletion of ResourceClaim completed"
        idle = [
            devices.claims[i] for i in sorted(devices.unavailable) if pod_claims.is_free_for(devices.claims[i], pod)
        ]
        if not idle:
            return "still not schedulable"
        if spawn is not None:
            spawn(self._deallocate(self.handle.random.choice(idle)))
        return "deallocation of ResourceClaim completed"

    async def _deallocate(self, claim: ResourceClaim) -> None:
        freed = await self._writer.deallocate(claim)
        self.manager.touch(self.manager.claims.assume(freed))

    # --- Score ----------------------------------------------------------------------------------------------------

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector | float | Status:
        """The earlier the chosen alternatives stand in their lists, the better; without alternatives all are equal."""
        devices = self._devices(state)
        return devices.scores(nodes) if devices is not None and devices.chooses else 0.0

    def normalize(self, state: CycleState, pod: Pod, scores: Vector, nodes: Nodes) -> Vector:
        """In relation to the best node."""
        return max_normalize(scores)

    # --- Reserve and PreBind --------------------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Note the devices as taken."""
        devices = self._devices(state)
        return None if devices is None else self._binding.reserve(devices, node_name)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Give them back."""
        devices = self._devices(state)
        if devices is not None:
            self._binding.unreserve(devices, pod)

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Nothing to do where every claim is reserved for the pod already."""
        devices = self._devices(state)
        return None if devices is not None and self._binding.has_work(devices, pod) else SKIP

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Write the claims, and wait for the devices to be ready."""
        devices = self._devices(state)
        return None if devices is None else await self._binding.pre_bind(devices, pod, node_name)


def _decided_by_siblings(claims: list[ResourceClaim], run: GroupRun) -> tuple[list[ResourceClaim], tuple[int, ...]]:
    """The claims, those that a sibling allocates in the same group cycle with that allocation; positions of the latter.

    The pod must then go where the allocation can be used, like with any allocated claim.
    """
    decided = [run.shared.get(claim_id(claim)) if claim.status.allocation is None else None for claim in claims]
    merged = [
        found if isinstance(found, ResourceClaim) else claim for claim, found in zip(claims, decided, strict=True)
    ]
    return merged, tuple(i for i, found in enumerate(decided) if found is not None)
