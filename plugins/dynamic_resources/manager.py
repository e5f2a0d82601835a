"""What all profiles of a scheduler share about devices: slices, classes, claims, and the answers kept per node.

One `Manager` lives in the snapshot as an index over its rows, so every profile's plugin finds the same one, and it
hears of node changes. Of slices, classes and claims it hears through index functions of their listers: these are
called with every object that comes, changes or goes. `refresh` then looks at what they named.

A row's version counts the changes that can make another choice of devices right there; an answer computed at that
version holds as long as it stays.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kube.api.core import NodeSelector, NodeSelectorTerm, Pod
from kube.api.node_affinity import METADATA_NAME, match_node_selector
from kube.api.resource import EXTENDED_RESOURCE_CLAIM, DeviceClass, ResourceClaim, ResourceSlice
from plugins.dynamic_resources.allocated import AllocatedDevices
from plugins.dynamic_resources.answers import Answers
from plugins.dynamic_resources.claim_tracker import ClaimTracker
from plugins.dynamic_resources.devices import PoolId
from plugins.dynamic_resources.extended import ClassMapping
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.plan import make_plan, plan_key
from plugins.dynamic_resources.pools import Pool, SliceIndex
from scheduler.framework.handle import Handle, Lister
from scheduler.snapshot.columns import Mask
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.snapshot import Snapshot

#: claims of how many different specs have their answers kept
MAX_ANSWERS = 64
#: allocations' node selectors whose nodes are kept
MAX_SELECTORS = 1024
_CHANGES = "dynamicresources/changes"
EXTENDED_OWNER = "dynamicresources/extended-owner"


class Manager:
    """Owner: the snapshot (`snapshot.index(Manager)`); connected by the first plugin that is built."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._connected = False
        self._versions = np.zeros(0, np.int64)
        self._clock = 0
        self._pools: dict[str, tuple[Pool, ...]] = {}
        self._answers: OrderedDict[bytes, Answers] = OrderedDict()
        self._selected: dict[bytes, Mask] = {}
        self._selected_epoch = -1
        self._changed_slices: set[str] = set()
        self._changed_claims: dict[tuple[str, str], None] = {}

    def connect(self, handle: Handle, features: Features) -> None:
        """Read everything there is, and hear of what comes. Later calls change nothing."""
        if self._connected:
            return
        self._connected = True
        self.features = features
        self._slice_lister = handle.listers("ResourceSlice")
        self._class_lister = handle.listers("DeviceClass")
        claims = handle.listers("ResourceClaim")
        self._claim_lister: Lister = claims
        self.slices = SliceIndex(features)
        self.classes = ClassMapping(self._class_lister)
        self.claims = ClaimTracker(claims, AllocatedDevices(features.consumable_capacity))
        self._slice_lister.add_index(_CHANGES, self._slice_changed)
        self._class_lister.add_index(_CHANGES, self._class_changed)
        claims.add_index(_CHANGES, self._claim_changed)
        claims.add_index(EXTENDED_OWNER, extended_owners)
        for resource_slice in self._slice_lister.list():
            self._slice_changed(resource_slice)
        for claim in claims.list():
            self._claim_changed(claim)

    # --- told by listers -----------------------------------------------------------------------------------------

    def _slice_changed(self, obj: ResourceSlice) -> Iterable[str]:
        self._changed_slices.add(obj.metadata.name)
        return ()

    def _claim_changed(self, obj: ResourceClaim) -> Iterable[str]:
        self._changed_claims[obj.metadata.namespace, obj.metadata.name] = None
        return ()

    def _class_changed(self, obj: DeviceClass) -> Iterable[str]:
        """Which extended resources are devices is part of other plugins' kept answers."""
        self._answers.clear()
        self.classes.forget()
        self._snapshot.forget_answers()
        return ()

    # --- told by the snapshot ------------------------------------------------------------------------------------

    def node_changed(self, row: int, node: NodeInfo | None) -> None:
        """Labels decide which slices are for the node."""
        self._clock += 1
        self._grow()
        self._versions[row] = self._clock
        if node is not None:
            self._pools.pop(node.name, None)
        elif len(self._pools) > 2 * self._snapshot.count + 64:
            self._pools.clear()

    # --- asked by plugins ----------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take in what listers have told; at the start of a cycle."""
        if self._changed_slices:
            names, self._changed_slices = self._changed_slices, set()
            for name in sorted(names):
                self._refresh_slice(name)
        if self._changed_claims:
            keys, self._changed_claims = self._changed_claims, {}
            for namespace, name in keys:
                self.touch(self.claims.refresh(namespace, name))

    def _refresh_slice(self, name: str) -> None:
        before = {pool: self.slices.nodes_of(pool) for pool in self.slices.pools_of_slice(name)}
        found: ResourceSlice | None = self._slice_lister.get(name)
        touched = self.slices.remove(name) if found is None else self.slices.put(found)
        for pool in touched:
            nodes, earlier = self.slices.nodes_of(pool), before.get(pool, set())
            self._pools_changed(None if nodes is None or earlier is None else nodes | earlier)

    def _pools_changed(self, nodes: set[str] | None) -> None:
        if nodes is None:
            self._pools.clear()
        else:
            for name in nodes:
                self._pools.pop(name, None)
        self._bump(nodes)

    def touch(self, pools: set[PoolId]) -> None:
        """Devices of these pools have been taken or given back."""
        for pool in pools:
            self._bump(self.slices.nodes_of_devices(pool))

    def _bump(self, nodes: set[str] | None) -> None:
        self._clock += 1
        self._grow()
        if nodes is None:
            self._versions[:] = self._clock
            return
        row_of = self._snapshot.row_of
        for name in nodes:
            row = row_of.get(name)
            if row is not None:
                self._versions[row] = self._clock

    def _grow(self) -> None:
        size = self._snapshot.size
        if len(self._versions) < size:
            versions = np.full(2 * size, self._clock, np.int64)
            versions[: len(self._versions)] = self._versions
            self._versions = versions

    @property
    def versions(self) -> Any:
        """`(at least rows,)` int64: the version of each row."""
        self._grow()
        return self._versions

    def node(self, row: int) -> NodeInfo:
        """The node of a row."""
        info = self._snapshot.infos[row]
        assert info is not None, "asked about a row without a node"
        return info

    def node_named(self, name: str) -> NodeInfo:
        """The node of that name."""
        return self.node(self._snapshot.row_of[name])

    def selected(self, key: bytes, selector: NodeSelector) -> Mask:
        """`(rows,)` the nodes that an allocation can be used from; kept by the selector's encoding."""
        snapshot = self._snapshot
        if self._selected_epoch != snapshot.node_epoch:
            self._selected_epoch = snapshot.node_epoch
            self._selected.clear()
        mask = self._selected.get(key)
        if mask is None:
            mask = snapshot.nodes.none
            for row in self._rows_worth_asking(selector):
                info = snapshot.infos[row]
                mask[row] = info is not None and match_node_selector(selector, info.labels, info.name)
            if len(self._selected) >= MAX_SELECTORS:
                self._selected.clear()
            self._selected[key] = mask
        return mask

    def _rows_worth_asking(self, selector: NodeSelector) -> Iterable[int]:
        """Most allocations name the one node they are for."""
        names = [_only_name(term) for term in selector.node_selector_terms]
        if None in names:
            return range(self._snapshot.size)
        row_of = self._snapshot.row_of
        return [row_of[name] for name in names if name in row_of]

    def pools(self, node: NodeInfo) -> tuple[Pool, ...]:
        """The pools that a node sees."""
        found = self._pools.get(node.name)
        if found is None:
            found = self._pools[node.name] = self.slices.gather(node.name, node.labels)
        return found

    def answers(self, claims: list[ResourceClaim]) -> Answers:
        """What is known, per node, of the way to allocate such claims."""
        key = plan_key(claims)
        answers = self._answers.get(key)
        if answers is None:
            plan = make_plan(claims, self._class_lister.get, self.features)
            answers = self._answers[key] = Answers(plan, self)
            if len(self._answers) > MAX_ANSWERS:
                self._answers.popitem(last=False)
        else:
            self._answers.move_to_end(key)
        return answers

    def device_class(self, name: str) -> DeviceClass | None:
        """A class by name."""
        found: DeviceClass | None = self._class_lister.get(name)
        return found

    def extended_claims_of(self, pod: Pod) -> Iterable[ResourceClaim]:
        """The claims made for the extended resources of a pod."""
        meta = pod.metadata
        return self._claim_lister.by_index(EXTENDED_OWNER, meta.uid or f"{meta.namespace}/{meta.name}")


def _only_name(term: NodeSelectorTerm) -> str | None:
    for each in term.match_fields:
        if each.key == METADATA_NAME and each.operator == "In" and len(each.values) == 1:
            return each.values[0]
    return None


def extended_owners(claim: ResourceClaim) -> Iterable[str]:
    """Index function: the pod (UID, or key where it has none) whose extended resources the claim is for."""
    annotations: Mapping[str, str] = claim.metadata.annotations
    if annotations.get(EXTENDED_RESOURCE_CLAIM) != "true":
        return ()
    return tuple(
        owner.uid or f"{claim.metadata.namespace}/{owner.name}"
        for owner in claim.metadata.owner_references
        if owner.controller
    )
