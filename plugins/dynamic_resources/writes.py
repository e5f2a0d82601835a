"""What is written to the API server for a pod's claims (facts A4, PreBind, Unreserve, PostFilter).

Claims are changed by merge patches that carry the claim's UID and resourceVersion: the same conflicts as with an
update, and fields that podium does not know stay as they are. Conflicts are answered by reading again and trying once
more, a few times.

Called by the plugin, in the binding cycle or in a task of the scheduler's; the only module here that awaits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from kube.api.codec import to_builtins
from kube.api.core import Pod
from kube.api.meta import ObjectMeta, format_time
from kube.api.resource import (
    FINALIZER,
    AllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from plugins.dynamic_resources.extended import Mappings
from plugins.dynamic_resources.manager import Manager
from plugins.dynamic_resources.state import reserved_for
from scheduler.framework.handle import Client, Handle

#: as client-go's DefaultRetry
TRIES = 5
CONFLICT = 409
#: the API server answers within this, or the write counts as failed
TIMEOUT = 30.0
EXTENDED_CLAIM_WAIT = 120.0
_POLL = 1.0


class ClaimWriteError(Exception):
    """A write that cannot succeed by trying again; the text is for the pod's event."""


class ClaimWriter:
    """Owner: the plugin."""

    def __init__(self, handle: Handle, manager: Manager) -> None:
        self._handle = handle
        self._manager = manager

    @property
    def _client(self) -> Client:
        if self._handle.client is None:
            raise ClaimWriteError("there is no API server to write claims to")
        return self._handle.client

    async def reserve(self, pod: Pod, claim: ResourceClaim, allocation: AllocationResult | None) -> ResourceClaim:
        """Store the allocation, if one was made now, and that the pod uses the claim; the stored claim."""
        return await self._retried(claim, lambda newest: self._reserve_once(pod, newest, allocation))

    async def _reserve_once(self, pod: Pod, claim: ResourceClaim, allocation: AllocationResult | None) -> ResourceClaim:
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimWriteError(f"claim {claim.key} got deleted in the meantime")
        if allocation is not None and _same_devices(allocation, claim.status.allocation):
            # A sibling of the pod's group that shares the claim has written it.
            allocation = None
        if allocation is None and claim.status.allocation is None:
            raise ClaimWriteError(f"claim {claim.key} got deallocated elsewhere in the meantime")
        status: dict[str, Any] = {
            "reservedFor": [to_builtins(each) for each in reserved_for(claim, pod).status.reserved_for]
        }
        if allocation is not None:
            if claim.status.allocation is not None:
                raise ClaimWriteError(f"claim {claim.key} got allocated elsewhere in the meantime")
            if FINALIZER not in claim.metadata.finalizers:
                finalizers = [*claim.metadata.finalizers, FINALIZER]
                claim = await self._patch(claim, {"metadata": {"finalizers": finalizers}})
            status["allocation"] = to_builtins(self._stamped(allocation))
        elif self._manager.features.binding_conditions and not _timestamp(claim):
            status["allocation"] = {"allocationTimestamp": format_time(self._handle.now())}
        return await self._patch(claim, {"status": status}, "status")

    def _stamped(self, allocation: AllocationResult) -> AllocationResult:
        if not self._manager.features.binding_conditions or allocation.allocation_timestamp:
            return allocation
        return msgspec.structs.replace(allocation, allocation_timestamp=format_time(self._handle.now()))

    async def unreserve(self, pod: Pod, claim: ResourceClaim) -> None:
        """Take the pod off the claim's users; the allocation stays."""
        gone = {"$patch": "delete", "uid": pod.metadata.uid}
        patch = {"metadata": {"uid": claim.metadata.uid}, "status": {"reservedFor": [gone]}}
        async with asyncio.timeout(TIMEOUT):
            await self._client.patch(claim, patch, "status", "strategic")

    async def deallocate(self, claim: ResourceClaim) -> ResourceClaim:
        """Give the claim's devices back."""
        cleared = {"reservedFor": None, "allocation": None, "devices": None}
        return await self._patch(claim, {"status": cleared}, "status")

    async def create_extended(self, claim: ResourceClaim) -> ResourceClaim:
        """Store the claim that so far was in memory; the API server names it."""
        meta = claim.metadata
        nameless = ObjectMeta(
            generate_name=meta.generate_name,
            namespace=meta.namespace,
            owner_references=meta.owner_references,
            annotations=meta.annotations,
        )
        async with asyncio.timeout(TIMEOUT):
            stored: ResourceClaim = await self._client.create(
                msgspec.structs.replace(claim, metadata=nameless, status=ResourceClaimStatus())
            )
        return stored

    async def report_extended(self, pod: Pod, claim: ResourceClaim, mappings: Mappings) -> None:
        """Tell the kubelet which container uses which request, in the pod's status."""
        status = {
            "resourceClaimName": claim.metadata.name,
            "requestMappings": [to_builtins(mapping) for mapping in mappings],
        }
        async with asyncio.timeout(TIMEOUT):
            await self._client.patch(pod, {"status": {"extendedResourceClaimStatus": status}}, "status", "strategic")

    async def wait_until_known(self, claim: ResourceClaim) -> None:
        """Until the informer shows a claim that was created here, so that its devices count as taken; not for ever."""
        try:
            async with asyncio.timeout(EXTENDED_CLAIM_WAIT):
                meta = claim.metadata
                while self._manager.claims.get(meta.namespace, meta.name) is None:  # noqa: ASYNC110 - a lister tells none
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            # It exists in the API server all the same, and the pod is going to be bound with it.
            return

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim made for extended resources, its finalizer first."""
        await self._retried(claim, self._without_finalizer)
        async with asyncio.timeout(TIMEOUT):
            await self._client.delete(claim, uid=claim.metadata.uid)

    async def _without_finalizer(self, claim: ResourceClaim) -> ResourceClaim:
        left = [name for name in claim.metadata.finalizers if name != FINALIZER]
        return await self._patch(claim, {"metadata": {"finalizers": left}})

    async def _patch(self, claim: ResourceClaim, patch: dict[str, Any], subresource: str = "") -> ResourceClaim:
        meta: dict[str, Any] = {"uid": claim.metadata.uid, **patch.get("metadata", {})}
        if claim.metadata.resource_version:
            meta["resourceVersion"] = claim.metadata.resource_version
        async with asyncio.timeout(TIMEOUT):
            stored: ResourceClaim = await self._client.patch(claim, {**patch, "metadata": meta}, subresource, "merge")
        return stored

    async def _retried(
        self, claim: ResourceClaim, write: Callable[[ResourceClaim], Awaitable[ResourceClaim]]
    ) -> ResourceClaim:
        """Somebody else may change a claim at any time, mostly in ways that do not matter."""
        for left in reversed(range(TRIES)):
            try:
                return await write(claim)
            except Exception as problem:
                if not left or not _is_conflict(problem):
                    raise
            async with asyncio.timeout(TIMEOUT):
                claim = await self._client.get("ResourceClaim", claim.metadata.name, claim.metadata.namespace)
        raise AssertionError("unreachable: the last try raises or returns")


def _same_devices(one: AllocationResult, other: AllocationResult | None) -> bool:
    return other is not None and one.devices.results == other.devices.results


def _timestamp(claim: ResourceClaim) -> str | None:
    allocation = claim.status.allocation
    return allocation.allocation_timestamp if allocation is not None else None


def _is_conflict(problem: Exception) -> bool:
    """The client's errors carry the HTTP status; plugins do not know their types."""
    return getattr(problem, "status", None) == CONFLICT
