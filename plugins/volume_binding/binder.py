"""Binder: carries out what Reserve decided. Writes it to the API server, then waits until the volumes are bound.

A volume is bound to a claim by writing the claim into it; provisioning is asked for by writing the node into the claim.
The rest is the volume controller's and the provisioners' work, who may also take the decision back. Writes are checked
by resourceVersion; on a conflict the object is read again, and the write repeated if the decision still stands.

Owner: one VolumeBinding plugin. It reads the informers' objects, never the assumed ones: only what the API server has
counts here. Everything that goes wrong is a BindingError with one line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from kube.api.core import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kube.api.csi_migration import MigrationError
from kube.api.meta import ObjectMeta, ObjectReference
from kube.api.storage import CSINode
from kube.api.volumes import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    is_bound_to,
    is_fully_bound,
    is_newer,
    not_found,
)
from plugins.volume_binding.finder import Binding, is_reachable
from scheduler.framework.handle import Client, Handle

POLL_SECONDS = 1.0
CONFLICT = 409
#: writes of one object before a conflict is given up on
MAX_WRITES = 5
TIMED_OUT = "context deadline exceeded"


class BindingError(Exception):
    """The volumes could not be bound; the pod must be scheduled anew."""


def bind_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume, bound to the claim; the same object where there is nothing to change."""
    ref = _reference(claim)
    old = volume.spec.claim_ref
    annotations = volume.metadata.annotations
    # A reference that the volume's author wrote is completed, but stays the author's.
    if not is_bound_to(volume, claim) and BOUND_BY_CONTROLLER not in annotations:
        annotations = annotations | {BOUND_BY_CONTROLLER: "yes"}
    if old is not None and (old.name, old.namespace, old.uid) == (ref.name, ref.namespace, ref.uid):
        ref = old
    if ref is old and annotations is volume.metadata.annotations:
        return volume
    return msgspec.structs.replace(
        volume,
        metadata=msgspec.structs.replace(volume.metadata, annotations=annotations),
        spec=msgspec.structs.replace(volume.spec, claim_ref=ref),
    )


def select_node(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    """The claim, with the node that a volume shall be provisioned for."""
    annotations = claim.metadata.annotations | {SELECTED_NODE: node_name}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=annotations))


class Binder:
    """Writes and waits."""

    def __init__(self, handle: Handle, timeout: float) -> None:
        self.handle = handle
        self.timeout = timeout
        self.claims = handle.listers("PersistentVolumeClaim")
        self.volumes = handle.listers("PersistentVolume")
        self.csi_nodes = handle.listers("CSINode")
        self.pods = handle.listers("Pod")

    async def bind(
        self, pod: Pod, node_name: str, bindings: list[Binding], provisions: list[PersistentVolumeClaim]
    ) -> None:
        """Bind these volumes and have these claims provisioned. Raises BindingError, and the client's exceptions."""
        client = self.handle.client
        if client is None:
            raise BindingError("there is no API server to bind volumes with")
        written = [Binding(b.claim, await self._write_volume(client, b)) for b in bindings]
        asked = [await self._write_claim(client, claim, node_name) for claim in provisions]
        try:
            await self._wait(lambda: self._all_bound(pod, node_name, written, asked))
        except (BindingError, MigrationError) as failure:
            raise BindingError(f"binding volumes: {failure}") from failure

    # --- writing ------------------------------------------------------------------------------------------

    async def _write_volume(self, client: Client, binding: Binding) -> PersistentVolume:
        volume, claim = binding.volume, binding.claim

        async def write(current: PersistentVolume) -> Any:
            wanted = bind_volume(current, claim)
            patch = {
                "metadata": _checked(current.metadata) | {"annotations": wanted.metadata.annotations},
                "spec": {"claimRef": msgspec.to_builtins(wanted.spec.claim_ref)},
            }
            return await client.patch(current, patch, kind="merge")

        def still_free(current: PersistentVolume | None) -> bool:
            return current is not None and (current.spec.claim_ref is None or is_bound_to(current, claim))

        # Found assumed, it may not be written yet: another pod with the same claim is about to.
        known: PersistentVolume | None = self.volumes.get(volume.metadata.name)
        if known is not None and bind_volume(known, claim) is known:
            return known
        problem = f"was bound to another claim than {claim.key}"
        stored: PersistentVolume = await _write(client, volume, write, still_free, problem)
        return stored

    async def _write_claim(self, client: Client, claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
        async def write(current: PersistentVolumeClaim) -> Any:
            patch = {"metadata": _checked(current.metadata) | {"annotations": {SELECTED_NODE: node_name}}}
            return await client.patch(current, patch, kind="merge")

        def still_wanted(current: PersistentVolumeClaim | None) -> bool:
            return (
                current is not None
                and current.metadata.uid == claim.metadata.uid
                and current.metadata.annotations.get(SELECTED_NODE, node_name) == node_name
            )

        known: PersistentVolumeClaim | None = self.claims.get(claim.metadata.name, claim.metadata.namespace)
        if known is not None and known.metadata.annotations.get(SELECTED_NODE) == node_name:
            return known
        problem = f"cannot be provisioned for node {node_name} any more"
        stored: PersistentVolumeClaim = await _write(client, claim, write, still_wanted, problem)
        return stored

    # --- waiting ------------------------------------------------------------------------------------------

    async def _wait(self, done: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout
        while (left := deadline - loop.time()) > 0:
            await asyncio.sleep(min(POLL_SECONDS, left))
            if done():
                return
        raise BindingError(TIMED_OUT)

    def _all_bound(
        self, pod: Pod, node_name: str, bindings: list[Binding], provisions: list[PersistentVolumeClaim]
    ) -> bool:
        """Whether all is done; raises BindingError where it cannot come to that any more."""
        info = self.handle.snapshot.info(node_name)
        if info is None or info.node is None:
            raise BindingError(f'failed to get node "{node_name}": {not_found("node", node_name)}')
        current = self.pods.get(pod.metadata.name, pod.metadata.namespace)
        if current is None or current.metadata.uid != pod.metadata.uid:
            raise BindingError(f"pod does not exist any more: {not_found('pod', pod.metadata.name)}")
        node, csi_node = info.node, self.csi_nodes.get(node_name)
        # No short cut: a later one that has failed must not wait for an earlier one.
        bound = [self._is_bound(binding, node, csi_node) for binding in bindings]
        provisioned = [self._is_provisioned(claim, node, csi_node) for claim in provisions]
        return all(bound) and all(provisioned)

    def _is_bound(self, binding: Binding, node: Node, csi_node: CSINode | None) -> bool:
        volume: PersistentVolume | None = self.volumes.get(binding.volume.metadata.name)
        if volume is None:
            raise BindingError(
                f"failed to check binding: {not_found('persistentvolume', binding.volume.metadata.name)}"
            )
        claim = self._claim(binding.claim, "failed to check binding")
        if is_newer(binding.volume.metadata, volume.metadata):
            return False
        _check_reachable(volume, node, csi_node)
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise BindingError(f'ClaimRef got reset for pv "{volume.metadata.name}"')
        return is_fully_bound(claim)

    def _is_provisioned(self, asked: PersistentVolumeClaim, node: Node, csi_node: CSINode | None) -> bool:
        claim = self._claim(asked, "failed to check provisioning pvc")
        if is_newer(asked.metadata, claim.metadata):
            return False
        if not claim.metadata.annotations:
            raise BindingError(f'selectedNode annotation reset for PVC "{claim.metadata.name}"')
        # A provisioner that cannot make the volume there says so by taking the annotation away.
        if claim.metadata.annotations.get(SELECTED_NODE) != node.metadata.name:
            raise BindingError(f'provisioning failed for PVC "{claim.metadata.name}"')
        if claim.spec.volume_name:
            volume = self.volumes.get(claim.spec.volume_name)
            if volume is None:
                # The claim's news came before the volume's.
                return False
            _check_reachable(volume, node, csi_node)
        return is_fully_bound(claim)

    def _claim(self, claim: PersistentVolumeClaim, doing: str) -> PersistentVolumeClaim:
        current: PersistentVolumeClaim | None = self.claims.get(claim.metadata.name, claim.metadata.namespace)
        if current is None:
            raise BindingError(f"{doing}: {not_found('persistentvolumeclaim', claim.metadata.name)}")
        return current


async def _write(
    client: Client,
    obj: Any,
    write: Callable[[Any], Awaitable[Any]],
    still_right: Callable[[Any], bool],
    problem: str,
) -> Any:
    """Write an object; after a conflict read it again and try once more, as long as the decision still stands."""
    name = f'{obj.KIND} "{obj.key}"'
    for _ in range(MAX_WRITES):
        try:
            return await write(obj)
        except Exception as failure:
            # The client's errors carry the HTTP status; plugins do not know their types.
            if getattr(failure, "status", None) != CONFLICT:
                raise
        obj = await client.get(obj.KIND, obj.metadata.name, obj.metadata.namespace)
        if not still_right(obj):
            raise BindingError(f"{name} {problem}")
    raise BindingError(f"{name} keeps changing while it is written")


def _checked(meta: ObjectMeta) -> dict[str, Any]:
    """Metadata that makes the API server refuse the patch where the object has changed."""
    return {"resourceVersion": meta.resource_version} if meta.resource_version else {}


def _check_reachable(volume: PersistentVolume, node: Node, csi_node: CSINode | None) -> None:
    if not is_reachable(volume, node.metadata.labels, csi_node):
        raise BindingError(
            f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node.metadata.name}": '
            "no matching NodeSelectorTerms"
        )


def _reference(claim: PersistentVolumeClaim) -> ObjectReference:
    meta = claim.metadata
    return ObjectReference(
        kind="PersistentVolumeClaim",
        api_version="v1",
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
