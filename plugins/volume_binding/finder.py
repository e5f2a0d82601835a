"""Which nodes have, or can get, the volumes of a pod's claims: facts 2.9, over all nodes at once and for one node.

The vectorised form walks claims and volumes, each of which says by its labels which rows it can be reached from. The
one-node form is the readable rule; it also tells which volume a claim gets there.

Owner: the plugin. It looks nodes and CSINodes up and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kube.api.core import PersistentVolume, PersistentVolumeClaim
from kube.api.csi_migration import InTreePlugin, csi_affinity, is_migrated_on, plugin_of
from kube.api.labels import Requirements, SelectorError, compile_selector, requirements_of
from kube.api.node_affinity import match_node_selector
from kube.api.storage import CSINode, CSIStorageCapacity, TopologySelectorTerm
from kube.api.volumes import provisions, reachable, required_affinity, topology_allowed
from plugins.helpers.label_rows import LabelRows, single_value
from plugins.helpers.listed import Derived
from plugins.volume_binding.claims import DelayedClaim, PodClaims
from plugins.volume_binding.free_volumes import SEVERAL
from scheduler.framework.handle import Handle
from scheduler.snapshot.columns import Codes, Mask
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.snapshot import Nodes

NOT_REACHABLE = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"
VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
MAX_TOPOLOGIES = 2**16
#: a node's problems are a sum of these bits; reasons are told in this order
REASONS = ((1, NOT_REACHABLE), (2, NO_VOLUME), (4, NO_ROOM), (8, VOLUME_GONE))
_NOT_REACHABLE, _NO_VOLUME, _NO_ROOM, _VOLUME_GONE = (bit for bit, _ in REASONS)


def reasons_of(problems: int) -> tuple[str, ...]:
    """The texts of a node's problems."""
    return tuple(text for bit, text in REASONS if problems & bit)


@dataclass(frozen=True, slots=True)
class Binding:
    """A volume found for a claim."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class Provision:
    """A claim that a volume will be made for, and the room that was measured for it, if any."""

    claim: PersistentVolumeClaim
    capacity: CSIStorageCapacity | None


@dataclass(slots=True)
class PodVolumes:
    """What a node means for the pod's claims."""

    problems: int = 0
    bindings: list[Binding] = field(default_factory=list)
    provisions: list[Provision] = field(default_factory=list)


class Finder:
    """Judges nodes."""

    def __init__(self, handle: Handle) -> None:
        self.csi_nodes = handle.listers("CSINode")
        self.rows = LabelRows(handle.snapshot)
        self._snapshot = handle.snapshot
        #: the rows by in-tree plugin
        self._migrated: Derived[dict[str, Mask]] = Derived(self.csi_nodes, handle.snapshot, dict)
        #: capacity -> the object and its parsed topology: there may be one per node
        self._topologies: dict[str, tuple[CSIStorageCapacity, Requirements | None]] = {}

    # --- one node -----------------------------------------------------------------------------------------

    def find(self, claims: PodClaims, node: NodeInfo) -> PodVolumes:
        """What the node means for the claims. Raises MigrationError for a volume that nobody can translate."""
        found = PodVolumes(self._bound_problem(claims, node))
        if any(d.selected_node != node.name for d in claims.selected):
            found.problems |= _NO_VOLUME
            return found
        to_provision = list(claims.selected)
        for delayed in claims.to_match:
            taken = [binding.volume.metadata.name for binding in found.bindings]
            volume = delayed.pick(node.labels, taken)
            if volume is None:
                to_provision.append(delayed)
            else:
                found.bindings.append(Binding(delayed.claim, volume))
        for delayed in to_provision:
            problem, capacity = _provisioning(delayed, node.labels)
            if problem:
                found.problems |= problem
                found.provisions.clear()
                return found
            found.provisions.append(Provision(delayed.claim, capacity))
        return found

    def _bound_problem(self, claims: PodClaims, node: NodeInfo) -> int:
        """The first bound claim with a problem decides."""
        csi_node = self.csi_nodes.get(node.name) if claims.bound else None
        for bound in claims.bound:
            if bound.volume is None:
                return _VOLUME_GONE
            if not is_reachable(bound.volume, node.labels, csi_node):
                return _NOT_REACHABLE
        return 0

    # --- all nodes ----------------------------------------------------------------------------------------

    def problems(self, claims: PodClaims, nodes: Nodes) -> Codes:
        """`(size,)` the problems of each node. Raises MigrationError."""
        problems = self._bound_problems(claims, nodes)
        if not claims.delayed:
            return problems
        undecided = nodes.all
        for delayed in claims.selected:
            undecided &= _is_row(nodes, delayed.selected_node)
        problems[~undecided] |= _NO_VOLUME
        needs: list[tuple[DelayedClaim, Mask]] = [(delayed, undecided.copy()) for delayed in claims.selected]
        for delayed, chosen in zip(claims.to_match, self.choices(claims.to_match, nodes), strict=True):
            needs.append((delayed, undecided & (chosen < 0)))
        for delayed, need in needs:
            wanted = need & undecided
            if not wanted.any():
                continue
            allowed = nodes.gather(self._allowed(delayed)) if provisions(delayed.storage_class) else nodes.none
            room = nodes.gather(self._room(delayed))
            problems[wanted & ~allowed] |= _NO_VOLUME
            problems[wanted & allowed & ~room] |= _NO_ROOM
            undecided &= ~wanted | (allowed & room)
        return problems

    def _bound_problems(self, claims: PodClaims, nodes: Nodes) -> Codes:
        problems = np.zeros(nodes.size, np.intp)
        undecided = nodes.all
        for bound in claims.bound:
            if bound.volume is None:
                problems[undecided] = _VOLUME_GONE
                return problems
            reached = self._reached_where_migrated(bound.volume, nodes)
            problems[undecided & ~reached] = _NOT_REACHABLE
            undecided &= reached
        return problems

    def choices(self, claims: Sequence[DelayedClaim], nodes: Nodes) -> list[Codes]:
        """Per claim `(size,)`: the position of the volume that a node gives it (0 for a reserved one), -1 for none.

        A volume that an earlier claim of the pod took on a node is left out there.
        """
        earlier: list[tuple[DelayedClaim, Codes]] = []
        for delayed in claims:
            chosen = np.full(nodes.snapshot.size, -1, np.intp)
            if delayed.reserved is not None:
                chosen[self._rows_reaching(delayed.reserved)] = 0
            else:
                self._choose(delayed, chosen, earlier)
            earlier.append((delayed, chosen))
        return [nodes.gather(chosen) for _, chosen in earlier]

    def _choose(self, delayed: DelayedClaim, chosen: Codes, earlier: Sequence[tuple[DelayedClaim, Codes]]) -> None:
        """Each node takes the smallest volume that it reaches and that is left."""
        positions = delayed.positions
        rows = delayed.free.rows(self.rows)[positions]
        taken_as = [at for other, at in earlier if other.free is delayed.free and other.reserved is None]
        local = rows >= 0
        for at in taken_as:
            local &= at[rows] != positions
        # Of several volumes of a row the last one written stays: the smallest.
        chosen[rows[local][::-1]] = positions[local][::-1]
        shared = positions[rows == SEVERAL]
        alive = self.rows.everywhere
        for position in shared.tolist():
            wanting = alive & ((chosen < 0) | (chosen > position))
            if not wanting.any():
                break
            for at in taken_as:
                wanting &= at != position
            reached = self._rows_reaching(delayed.free.volumes[position])
            chosen[reached[wanting[reached]]] = position

    def _rows_reaching(self, volume: PersistentVolume) -> Codes:
        """Rows from which a volume can be reached; a local volume names one, found without looking at the others."""
        required = required_affinity(volume)
        if required is None:
            return np.arange(self.rows.size)
        single = single_value(required)
        if single is not None:
            return self.rows.with_value(*single)
        rows: Codes = self.rows.by_node_selector(required).nonzero()[0]
        return rows

    def _reached_where_migrated(self, volume: PersistentVolume, nodes: Nodes) -> Mask:
        """`(size,)`; an in-tree volume is where its CSI driver says, on nodes that have handed it to the driver."""
        required = required_affinity(volume)
        reached: Mask = nodes.all if required is None else nodes.gather(self.rows.by_node_selector(required))
        plugin = plugin_of(volume.spec)
        if plugin is None:
            return reached
        plugin.handle(getattr(volume.spec, plugin.field), volume.metadata.labels)
        translated = csi_affinity(volume, plugin)
        by_driver = nodes.all if translated is None else nodes.gather(self.rows.by_node_selector(translated))
        return np.where(nodes.gather(self._where_migrated(plugin)), by_driver, reached)

    def _where_migrated(self, plugin: InTreePlugin) -> Mask:
        """`(rows,)` looked up node by node, but only once until a CSINode or a node changes."""
        masks = self._migrated.get()
        migrated = masks.get(plugin.name)
        if migrated is None:
            migrated = masks[plugin.name] = self._snapshot.nodes.none
            for row, info in self._snapshot.nodes.infos():
                migrated[row] = is_migrated_on(plugin, self.csi_nodes.get(info.name))
        return migrated

    def _allowed(self, delayed: DelayedClaim) -> Mask:
        """`(rows,)` where volumes of the class may be made."""
        terms = delayed.storage_class.allowed_topologies
        allowed = self.rows.everywhere if not terms else self.rows.nowhere
        for term in terms:
            allowed = allowed | self._term(term)
        return allowed

    def _term(self, term: TopologySelectorTerm) -> Mask:
        if not term.match_label_expressions:
            return self.rows.nowhere
        found = self.rows.everywhere
        for e in term.match_label_expressions:
            found = found & self.rows.by_requirements(((e.key, "In", tuple(sorted(set(e.values)))),))
        return found

    def _room(self, delayed: DelayedClaim) -> Mask:
        """`(rows,)` where there is room for the volume."""
        if delayed.capacities is None:
            return self.rows.everywhere
        room = self.rows.nowhere
        for capacity in delayed.capacities:
            room = room | self.reaching(capacity)
        return room

    def reaching(self, capacity: CSIStorageCapacity) -> Mask:
        """`(rows,)` nodes that can use the storage."""
        known = self._topologies.get(capacity.key)
        if known is None or known[0] is not capacity:
            if len(self._topologies) >= MAX_TOPOLOGIES:
                self._topologies.clear()
            known = self._topologies[capacity.key] = (capacity, _topology(capacity))
        return self.rows.by_requirements(known[1])


def is_reachable(volume: PersistentVolume, labels: Mapping[str, str], csi_node: CSINode | None) -> bool:
    """Whether a node reaches a bound volume, as its CSI driver sees it where that took the volume over."""
    plugin = plugin_of(volume.spec)
    if plugin is None or not is_migrated_on(plugin, csi_node):
        return reachable(volume, labels)
    plugin.handle(getattr(volume.spec, plugin.field), volume.metadata.labels)
    translated = csi_affinity(volume, plugin)
    return translated is None or match_node_selector(translated, labels, "")


def _provisioning(delayed: DelayedClaim, labels: Mapping[str, str]) -> tuple[int, CSIStorageCapacity | None]:
    """What keeps a volume from being made for a node, and the room it would take."""
    if not provisions(delayed.storage_class):
        return _NO_VOLUME, None
    if not topology_allowed(delayed.storage_class.allowed_topologies, labels):
        return _NO_VOLUME, None
    if delayed.capacities is None:
        return 0, None
    room = next((capacity for capacity in delayed.capacities if _has_access(labels, capacity)), None)
    return (_NO_ROOM, None) if room is None else (0, room)


def _has_access(labels: Mapping[str, str], capacity: CSIStorageCapacity) -> bool:
    return compile_selector(_topology(capacity))(labels)


def _topology(capacity: CSIStorageCapacity) -> Requirements | None:
    """The nodes that can use the storage; None, no node, also where Kubernetes could not read the selector."""
    try:
        return requirements_of(capacity.node_topology)
    except SelectorError:
        return None


def _is_row(nodes: Nodes, name: str) -> Mask:
    row = nodes.snapshot.row_of.get(name, -1)
    rows = np.arange(nodes.size) if nodes.rows is None else nodes.rows
    mask: Mask = rows == row
    return mask
