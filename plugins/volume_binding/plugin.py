"""VolumeBinding: no node without the pod's volumes, and no bind before they are there.

PreFilter sorts the claims, Filter judges nodes, Reserve notes the decision for the chosen node, PreBind carries it out.
Volumes that name a node by hostname narrow the nodes down like any other, by label: the label need not be the node's
name, so PreFilter gives no set of names.

Called by the framework. Labels of zones are VolumeZone's affair, numbers of volumes NodeVolumeLimits'.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kube.api.core import PersistentVolumeClaim, Pod
from kube.api.csi_migration import MIGRATED_PLUGINS, MigrationError
from kube.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from kube.api.volumes import SELECTED_NODE, uses_claim, volume_limit
from plugins.helpers.hints import queue_if
from plugins.volume_binding.assume_cache import AssumeCache
from plugins.volume_binding.binder import Binder, BindingError, bind_volume, select_node
from plugins.volume_binding.claims import ClaimReader, PodClaims
from plugins.volume_binding.finder import Binding, Finder, PodVolumes, reasons_of
from plugins.volume_binding.scoring import node_score, score_table
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import (
    FilterPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
    Versioned,
)
from scheduler.framework.refusals import Refusals
from scheduler.framework.status import SKIP, Code, Status, error
from scheduler.snapshot.columns import Codes, Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodShape
from scheduler.snapshot.snapshot import Nodes

SCORING_GATE = "StorageCapacityScoring"
DEFAULT_BIND_TIMEOUT = 600


@dataclass(slots=True)
class Decision:
    """What a cycle knows of the pod's volumes. Reserve adds what was decided for the chosen node."""

    claims: PodClaims
    reserved: bool = False
    bindings: list[Binding] = field(default_factory=list)
    provisions: list[PersistentVolumeClaim] = field(default_factory=list)
    #: what this decision put into the caches
    assumed: list[tuple[AssumeCache, Any]] = field(default_factory=list)

    def assume(self, cache: AssumeCache, obj: Any) -> None:
        """Take an object for decided."""
        cache.assume(obj)
        self.assumed.append((cache, obj))

    def restore(self) -> None:
        """Take back what was assumed."""
        for cache, obj in self.assumed:
            cache.restore(obj)
        self.assumed.clear()


def class_changed(pod: Pod, old: StorageClass | None, new: StorageClass | None) -> QueueingHint:
    """A class is new, or volumes of it may be made elsewhere than before; the rest of a class cannot change."""
    return queue_if(old is None or new is None or old.allowed_topologies != new.allowed_topologies)


def own_claim_changed(pod: Pod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> QueueingHint:
    """A claim the pod uses was added or changed."""
    return queue_if(new is not None and uses_claim(pod, new))


def migration_changed(pod: Pod, old: CSINode | None, new: CSINode | None) -> QueueingHint:
    """A CSINode is new, or its driver took over other in-tree plugins."""
    if old is None or new is None:
        return QueueingHint.QUEUE
    before, now = old.metadata.annotations, new.metadata.annotations
    return queue_if(before.get(MIGRATED_PLUGINS) != now.get(MIGRATED_PLUGINS))


def capacity_check_dropped(pod: Pod, old: CSIDriver | None, new: CSIDriver | None) -> QueueingHint:
    """A driver the pod names inline no longer measures its room."""
    if old is None or new is None:
        return QueueingHint.SKIP
    used = any(v.csi is not None and v.csi.driver == new.metadata.name for v in pod.spec.volumes)
    return queue_if(used and bool(old.spec.storage_capacity) and not new.spec.storage_capacity)


def room_grew(pod: Pod, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> QueueingHint:
    """Storage is new, or larger volumes can be made from it than before."""
    if old is None or new is None:
        return QueueingHint.QUEUE
    before, now = volume_limit(old), volume_limit(new)
    return queue_if(now is not None and (before is None or now > before))


class VolumeBinding(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, ReservePlugin, PreBindPlugin):
    """Finds volumes for a pod's claims, and binds them before the pod is bound."""

    name = "VolumeBinding"
    depends_on_pods = False
    sparse = True
    allow_parallel = True
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    events = (
        on(EventResource.STORAGE_CLASS, Action.ADD | Action.UPDATE, hint=class_changed),
        on(EventResource.PERSISTENT_VOLUME_CLAIM, Action.ADD | Action.UPDATE, hint=own_claim_changed),
        on(EventResource.PERSISTENT_VOLUME, Action.ADD | Action.UPDATE),
        on(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
        on(EventResource.CSI_NODE, Action.ADD | Action.UPDATE, hint=migration_changed),
        on(EventResource.CSI_DRIVER, Action.UPDATE, hint=capacity_check_dropped),
        on(EventResource.CSI_STORAGE_CAPACITY, Action.ADD | Action.UPDATE, hint=room_grew),
    )

    def __init__(self, args: Any, handle: Handle) -> None:
        """`args`: VolumeBindingArgs, or None."""
        super().__init__(args, handle)
        self.reader = ClaimReader(handle)
        self.finder = Finder(handle)
        timeout = args.bind_timeout_seconds if args is not None else DEFAULT_BIND_TIMEOUT
        self.binder = Binder(handle, timeout)
        shape = args.shape if args is not None and handle.gate(SCORING_GATE) else ()
        self.score_table = score_table(shape) if shape else ()

    # --- PreFilter and Filter -----------------------------------------------------------------------------

    def quiet_while(self, shape: PodShape) -> tuple[Versioned, ...] | None:
        """Pods without a volume that scheduling looks at."""
        return None if shape.volumes else ()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """SKIP without claims; a claim that cannot be used rules out every node."""
        if not pod.spec.volumes:
            return SKIP
        claims = self.reader.read(pod)
        if claims is None:
            return SKIP
        if isinstance(claims, Status):
            return claims
        state.write(self.name, Decision(claims))
        return None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status:
        """Nodes without a problem."""
        try:
            problems = self._problems(state, nodes)
        except MigrationError as wrong:
            return error(f"could not translate pv: {wrong}")
        mask: Mask = problems == 0
        return mask

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """The same rules for one node."""
        decision: Decision = state.read(self.name)
        try:
            found = self.finder.find(decision.claims, node)
        except MigrationError as wrong:
            return error(f"could not translate pv: {wrong}")
        return Status(self.code, reasons_of(found.problems), self.name) if found.problems else None

    def refusals(self, state: CycleState, pod: Pod, nodes: Nodes) -> Refusals:
        """Nodes with the same problems share a status."""
        kinds, which = np.unique(self._problems(state, nodes), return_inverse=True)
        statuses = tuple(Status(self.code, reasons_of(int(kind)), self.name) for kind in kinds)
        return Refusals(statuses, which.astype(np.intp))

    def _problems(self, state: CycleState, nodes: Nodes) -> Codes:
        decision: Decision = state.read(self.name)
        return self.finder.problems(decision.claims, nodes)

    # --- Score --------------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """SKIP unless storage is scored and the pod has claims."""
        return None if self.score_table and state.read(self.name) is not None else SKIP

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector:
        """How full the storage would be. Node by node: which volumes a pod gets is a matter of its own on each."""
        scores = nodes.zeros
        for i, info in nodes.infos():
            scores[i] = self.score_node(state, pod, info)
        return scores

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """The score of one node."""
        decision: Decision | None = state.read(self.name)
        return 0 if decision is None else node_score(self.finder.find(decision.claims, node), self.score_table)

    # --- Reserve ------------------------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Settle on volumes, and keep other pods from them."""
        decision: Decision | None = state.read(self.name)
        if decision is None or not decision.claims.delayed:
            return None
        info = self.handle.snapshot.info(node_name)
        if info is None:
            return error(f'no pod volumes found for node "{node_name}"')
        self._assume(decision, self.finder.find(decision.claims, info), node_name)
        return None

    def _assume(self, decision: Decision, found: PodVolumes, node_name: str) -> None:
        """What another pod with the same claim has assumed already is left to it."""
        decision.bindings = found.bindings
        decision.provisions = [provision.claim for provision in found.provisions]
        for binding in decision.bindings:
            volume = bind_volume(binding.volume, binding.claim)
            if volume is not binding.volume:
                decision.assume(self.reader.volumes, volume)
        for claim in decision.provisions:
            if claim.metadata.annotations.get(SELECTED_NODE) != node_name:
                decision.assume(self.reader.claims, select_node(claim, node_name))
        decision.reserved = True

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Forget the decision; what was written already stays written."""
        decision: Decision | None = state.read(self.name)
        if decision is not None:
            decision.restore()
            decision.reserved = False

    # --- PreBind ------------------------------------------------------------------------------------------

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """SKIP where every claim has its volume."""
        decision: Decision | None = state.read(self.name)
        if decision is None or not decision.claims.delayed:
            return SKIP
        return None if decision.reserved else error(f'no pod volumes found for node "{node_name}"')

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Write the decision and wait until it is true; an API error reaches the binding cycle as it is."""
        decision: Decision | None = state.read(self.name)
        if decision is None or not decision.reserved:
            return None
        try:
            await self.binder.bind(pod, node_name, decision.bindings, decision.provisions)
        except BindingError as failure:
            return error(str(failure))
        # The informer shows all of it by now.
        decision.restore()
        return None
