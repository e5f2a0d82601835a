"""Reserve, Unreserve and PreBind: from devices chosen in memory to claims written (facts A4).

Owner: the plugin. Reserve and Unreserve are synchronous; PreBind awaits the API server and, where devices have binding
conditions, their drivers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from kube.api.core import Pod
from kube.api.resource import ResourceClaim
from plugins.dynamic_resources import pod_claims
from plugins.dynamic_resources.extended import IN_MEMORY_NAME
from plugins.dynamic_resources.manager import Manager
from plugins.dynamic_resources.metrics import ERROR, FAILED, SUCCESS, TIMEOUT, DeviceMetrics
from plugins.dynamic_resources.state import DevicesState, with_allocation
from plugins.dynamic_resources.writes import ClaimWriteError, ClaimWriter
from scheduler.framework.cluster_event import Action, ClusterEvent, EventResource
from scheduler.framework.handle import Handle
from scheduler.framework.status import Status, error

CONDITION_POLL = 5.0
_CLAIM_UPDATED = ClusterEvent(EventResource.RESOURCE_CLAIM, Action.UPDATE_OTHER, "ResourceClaimUpdate")


class Binding:
    """What happens to the claims of a pod whose node is decided."""

    def __init__(self, handle: Handle, manager: Manager, writer: ClaimWriter, binding_timeout: float) -> None:
        self._metrics = DeviceMetrics(handle)
        self._handle = handle
        self._manager = manager
        self._writer = writer
        self._timeout = binding_timeout

    def reserve(self, state: DevicesState, node_name: str) -> Status | None:
        """Keep the devices out of other pods' hands from now on."""
        node = self._handle.snapshot.info(node_name)
        if node is None:
            return error("claim allocation not found for node")
        allocations = state.allocations(node)
        wanted = state.to_allocate
        if len([claim for claim, _ in allocations if claim.metadata.name != IN_MEMORY_NAME]) != len(wanted):
            return error("claim allocation not found for node")
        for claim, allocation in allocations:
            reserved = with_allocation(claim, allocation)
            self._manager.touch(self._manager.claims.reserve(reserved))
            if claim.metadata.name == IN_MEMORY_NAME:
                state.extended_reserved = reserved
                found = state.answers_of(node)
                state.mappings = found[0].mappings if found is not None else ()
            else:
                state.reserved.append(reserved)
                if self._handle.group is not None:
                    self._handle.group.shared[pod_claims.claim_id(reserved)] = reserved
        for position in state.shared:
            self._manager.touch(self._manager.claims.reserve(state.claims[position]))
            state.reserved.append(state.claims[position])
        return None

    def unreserve(self, state: DevicesState, pod: Pod) -> None:
        """Give back what is not written, and take the pod off what is."""
        for claim in (*state.reserved, *([state.extended_reserved] if state.extended_reserved else ())):
            self._release(claim)
        spawn = self._handle.spawn
        for position, claim in enumerate(state.claims):
            written = state.written.get(position)
            if spawn is not None and (written is not None or pod_claims.is_reserved_for(claim, pod)):
                spawn(self._writer.unreserve(pod, written or claim))
        if spawn is not None and state.extended_written is not None:
            spawn(self._writer.delete(state.extended_written))
        state.reserved, state.extended_reserved, state.extended_written = [], None, None
        state.written.clear()

    def _release(self, claim: ResourceClaim) -> None:
        dropped, pools = self._manager.claims.release(claim)
        if dropped is None:
            return
        self._manager.touch(pools | self._manager.claims.restore(claim))
        if self._handle.group is not None:
            # A try of a group that is being decided: nobody could see what it took.
            return
        # Nobody else will say that these devices are free: nothing changed in the API server.
        free = msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, allocation=None))
        self._handle.report(_CLAIM_UPDATED, claim, free)

    def has_work(self, state: DevicesState, pod: Pod) -> bool:
        """Whether PreBind has something to write or to wait for."""
        if state.extended_reserved is not None or state.reserved:
            return True
        return any(
            not pod_claims.is_reserved_for(claim, pod)
            or (self._manager.features.binding_conditions and pod_claims.has_binding_conditions(claim))
            for claim in state.claims
        )

    # --- PreBind -------------------------------------------------------------------------------------------------

    async def pre_bind(self, state: DevicesState, pod: Pod, node_name: str) -> Status | None:
        """Write each claim in the pod's order, then wait for what the devices' drivers have to do."""
        reserved = {pod_claims.claim_id(claim): claim for claim in state.reserved}
        try:
            for position, claim in enumerate(state.claims):
                await self._bind(state, position, claim, reserved.get(pod_claims.claim_id(claim)), pod)
            if state.extended_reserved is not None:
                await self._bind_extended(state, state.extended_reserved, pod)
            if self._manager.features.binding_conditions:
                await self._wait_for_conditions(state, pod, node_name)
        except ClaimWriteError as problem:
            return error(str(problem))
        except Exception as problem:
            # The client's errors (kube.client.errors) are not known to plugins; each is one line.
            return error(str(problem) or type(problem).__name__)
        return None

    async def _bind(
        self, state: DevicesState, position: int, claim: ResourceClaim, reserved: ResourceClaim | None, pod: Pod
    ) -> None:
        if reserved is None and pod_claims.is_reserved_for(claim, pod):
            return
        allocation = reserved.status.allocation if reserved is not None else None
        if position in state.shared:
            # Whoever of the siblings comes first writes the allocation.
            meta = claim.metadata
            claim = self._manager.claims.get(meta.namespace, meta.name) or claim
        with self._in_flight_until_done(reserved):
            written = await self._writer.reserve(pod, claim, allocation)
            state.written[position] = written
            self._manager.touch(self._manager.claims.assume(written))

    async def _bind_extended(self, state: DevicesState, reserved: ResourceClaim, pod: Pod) -> None:
        """The claim is created, allocated like any other, and its name told to the kubelet."""
        with self._in_flight_until_done(reserved):
            created = state.extended_written = await self._create_extended(reserved)
            written = await self._writer.reserve(pod, created, reserved.status.allocation)
            state.extended_written = written
            await self._writer.wait_until_known(written)
            self._manager.touch(self._manager.claims.assume(written))
        await self._writer.report_extended(pod, written, state.mappings)

    async def _create_extended(self, reserved: ResourceClaim) -> ResourceClaim:
        try:
            created = await self._writer.create_extended(reserved)
        except Exception:
            self._metrics.claim_created(succeeded=False)
            raise
        self._metrics.claim_created(succeeded=True)
        return created

    @contextmanager
    def _in_flight_until_done(self, reserved: ResourceClaim | None) -> Iterator[None]:
        """However it ends, the allocation is then either written (and assumed) or free."""
        try:
            yield
        finally:
            if reserved is not None:
                _, pools = self._manager.claims.release(reserved)
                self._manager.touch(pools)

    # --- binding conditions --------------------------------------------------------------------------------------

    async def _wait_for_conditions(self, state: DevicesState, pod: Pod, node_name: str) -> None:
        claims = [state.written.get(i, claim) for i, claim in enumerate(state.claims)]
        claims += [state.extended_written] if state.extended_written is not None else []
        claims = [claim for claim in claims if pod_claims.has_binding_conditions(claim)]
        if not claims:
            return
        note = f"waiting for binding conditions for device on node {node_name}"
        self._handle.event(pod, None, "Normal", "BindingConditionsPending", "Scheduling", note)
        drivers = [driver for claim in claims for driver in pod_claims.drivers_with_conditions(claim)]
        clock = asyncio.get_running_loop().time
        started, outcome = clock(), ERROR
        try:
            async with asyncio.timeout(self._timeout):
                while not self._are_ready(claims):  # noqa: ASYNC110 - facts A4: at once and every 5 s
                    await asyncio.sleep(CONDITION_POLL)
            outcome = SUCCESS
        except TimeoutError:
            outcome = TIMEOUT
            raise ClaimWriteError("device binding timeout") from None
        except ClaimWriteError:
            outcome = FAILED
            raise
        finally:
            self._metrics.conditions_ended(drivers, outcome, clock() - started)

    def _are_ready(self, claims: list[ResourceClaim]) -> bool:
        newest = [self._manager.claims.get(c.metadata.namespace, c.metadata.name) or c for c in claims]
        for claim in newest:
            failure = pod_claims.binding_failure(claim)
            if failure:
                raise ClaimWriteError(f"device binding failed: {failure}")
        return all(pod_claims.is_ready_for_binding(claim) for claim in newest)
