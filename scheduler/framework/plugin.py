"""The extension points, as their authors see them.

A plugin inherits from the classes of the points it takes part in and sets `name`. It may answer for all nodes at
once (`filter`, `score`: arrays over a `Nodes` view) or for one node at a time (`filter_node`, `score_node`); the
one that is missing is derived from the other's contract by the base class. Calls are made on the event loop, in
the order of a cycle; only PreBind, Bind and what follows may await.

`scope` tells the runtime what an answer depends on, so that it can be kept for the next pod of the same shape:
NODE    the pod's shape and the node object: kept until a node object changes
ROW     also the pods on that node: kept, recomputed for the rows that changed
CLUSTER anything: asked each time (the default, always right)
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from kube.api.core import Pod
from scheduler.framework.cluster_event import ClusterEventWithHint
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.refusals import Refusals
from scheduler.framework.status import Code, Status
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo, PodShape
from scheduler.snapshot.snapshot import Nodes

if TYPE_CHECKING:
    from scheduler.framework.diagnosis import Diagnosis
    from scheduler.framework.handle import Handle
    from scheduler.framework.pod_groups import Group

MAX_NODE_SCORE = 100


class Scope(enum.Enum):
    """What a filter's or score's answer for a node depends on, besides the pod's shape."""

    NODE = "node"
    ROW = "row"
    CLUSTER = "cluster"


class Versioned(Protocol):
    """Something that counts its changes."""

    @property
    def version(self) -> int:
        """Another number after each change."""


class Plugin:
    """The base of all plugins."""

    name: ClassVar[str]
    #: whether an answer may depend on what the pod requests: how much of a resource, which volumes and devices; what
    #: others say is kept for all pods that differ in that alone
    reads_requests: ClassVar[bool] = True
    #: events that may make a pod schedulable that this plugin refused; None: every event, (): none
    events: tuple[ClusterEventWithHint, ...] | None = None

    def __init__(self, args: Any, handle: Handle) -> None:
        """`args` are the plugin's own from pluginConfig, typed for in-tree plugins; None where none are given."""
        self.args = args
        self.handle = handle


class PreEnqueuePlugin(Plugin):
    """Asked before a pod may enter activeQ."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """None lets the pod in; a rejection gates it."""
        raise NotImplementedError


class QueueSortPlugin(Plugin):
    """Orders activeQ. Exactly one, the same in all profiles."""

    def sort_key(self, pod_info: PodInfo, timestamp: float) -> Any:
        """Smaller is popped first. `timestamp`: when the pod was (re-)added to the queue, in seconds."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """The only nodes worth looking at, by name; None: all."""

    node_names: frozenset[str] | None = None


class PreFilterPlugin(Plugin):
    """Looks at the pod once per cycle.

    With scope NODE or ROW, what it writes to the state may depend on the pod's shape and the plugin's
    configuration alone: the runtime keeps it for the next pod of the shape.
    """

    scope: Scope = Scope.CLUSTER

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """None: go on. SKIP: this plugin's Filter has nothing to say about this pod. Otherwise a rejection."""
        raise NotImplementedError

    def quiet_while(self, shape: PodShape) -> tuple[Versioned, ...] | None:
        """Whose versions keep it from having anything to do with pods of this shape; None: it may have.

        While none of them (and no node object) changes, none of its points from PreFilter to Score is called for these
        pods, and all nodes score 0; (): whatever changes. It may matter whether the pod requests something, not what.
        """
        return None

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> None:
        """A dry run put `added` on `node` (after NodeInfo counts it): bring what PreFilter wrote up to date."""

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> None:
        """A dry run took `removed` off `node` (after NodeInfo dropped it)."""


class FilterPlugin(Plugin):
    """Says which nodes can take the pod."""

    scope: Scope = Scope.CLUSTER
    #: whether taking pods off a node can change the answer for it: such filters are re-run in dry runs
    depends_on_pods: bool = True
    #: whether a node it passed surely still passes once pods have left it: then dry runs need not ask again
    fewer_pods_help: bool = False
    #: asked only about nodes that passed the filters before it: for filters that cost a lot per node
    sparse: bool = False
    #: the one status of plugins that have just one
    code: Code = Code.UNSCHEDULABLE
    reason: str = ""

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status | None:
        """`(size,)` bool, True where the pod may go; None: to all of them. An ERROR status ends the attempt.

        The runtime may keep the array and change it: it is a fresh one, or a view (a column), which is copied.
        """
        mask = nodes.none
        for i, info in nodes.infos():
            status = self.filter_node(state, pod, info)
            if status is None or status.ok:
                mask[i] = True
            elif status.code is Code.ERROR:
                return status
        return mask

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """None: the pod may go to this node; otherwise all reasons why not.

        A plugin that only has `filter` is asked about the node as the snapshot has it.
        """
        mask = self.filter(state, pod, self.handle.snapshot.select(np.array([node.row], np.intp)))
        if isinstance(mask, Status):
            return mask
        return None if mask is None or mask[0] else Status(self.code, (self.reason,), self.name)

    def concerned_by(self, state: CycleState, shape: PodShape) -> bool:
        """Whether this filter's answer for a node may change when a pod of that shape leaves it (or comes).

        Dry runs ask this once a shape: a filter that none of a node's pods means anything to is not asked again.
        """
        return self.depends_on_pods

    def room_needed(self, state: CycleState) -> Mapping[str, int] | None:
        """The free amounts the pod needs ("pods": 1 among them), where they are all this filter looks at.

        It then refuses a node exactly if `allocatable - requested` of one of them is less. None: it looks at more.
        Preemption rules out hopeless nodes by it, all at once.
        """
        return None

    def refusals(self, state: CycleState, pod: Pod, nodes: Nodes) -> Refusals:
        """Why this filter refused the nodes of the view (it refused all of them)."""
        if self.reason:
            return Refusals((Status(self.code, (self.reason,), self.name),), np.zeros(nodes.size, np.intp))
        found: dict[Status, int] = {}
        which = np.zeros(nodes.size, np.intp)
        for i, info in nodes.infos():
            status = self.filter_node(state, pod, info) or Status(Code.UNSCHEDULABLE, (), self.name)
            which[i] = found.setdefault(status.by(self.name), len(found))
        return Refusals(tuple(found), which)

    @classmethod
    def is_scalar(cls) -> bool:
        """Whether it looks at one node at a time, so that node sampling is worth it."""
        return cls.filter is FilterPlugin.filter


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """What PostFilter did: the node it nominated ("" clears a nomination, None leaves it) and the victims."""

    nominated_node_name: str | None = None
    victims: tuple[PodInfo, ...] = ()


class PostFilterPlugin(Plugin):
    """Asked when no node fits."""

    def post_filter(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status]:
        """Success: something was done that will make room. Otherwise the message for the FailedScheduling text."""
        raise NotImplementedError

    async def post_filter_with_extenders(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """The same in a cycle that may await, because extenders are asked."""
        return self.post_filter(state, pod, diagnosis)


class PreScorePlugin(Plugin):
    """Looks at the feasible nodes once before scoring."""

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """SKIP: this plugin's Score has nothing to say about this pod."""
        raise NotImplementedError


class ScorePlugin(Plugin):
    """Says how good feasible nodes are.

    With scope NODE or ROW, `score` may depend on the node alone and is asked over all nodes, feasible or not;
    `normalize` sees the scores of the feasible ones.
    """

    scope: Scope = Scope.CLUSTER
    #: final scores are 0..100 by the formula, so that nobody has to check
    bounded: bool = False

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector | float | Status:
        """`(size,)` float64, whole numbers; one float where all nodes score the same.

        The runtime may keep the array and change it: it is a fresh one, or a view (a column), which is copied.
        """
        scores = nodes.zeros
        for i, info in nodes.infos():
            scores[i] = self.score_node(state, pod, info)
        return scores

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """The score of one node, 0..100 unless `normalize` is there to bring it into that range."""
        raise NotImplementedError

    def normalize(self, state: CycleState, pod: Pod, scores: Vector, nodes: Nodes) -> Vector:
        """`(size,)` final scores 0..100, from the raw scores of the feasible nodes."""
        return scores

    @classmethod
    def normalizes(cls) -> bool:
        """Whether it has a NormalizeScore of its own."""
        return cls.normalize is not ScorePlugin.normalize

    @classmethod
    def is_scalar(cls) -> bool:
        """Whether it looks at one node at a time, so that node sampling is worth it."""
        return cls.score is ScorePlugin.score


class ReservePlugin(Plugin):
    """Keeps plugin-side books about assumed pods."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Note the decision; a rejection undoes it."""
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo `reserve`; idempotent, also called where `reserve` was not."""


class PermitPlugin(Plugin):
    """May hold a pod back before it is bound."""

    #: of a plugin that wants pods to start together: orders of the members that are worth a try
    group_orders: int = 1

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        """Success, WAIT with a timeout in seconds (at most 15 minutes), or a rejection."""
        raise NotImplementedError


class PreBindPlugin(Plugin):
    """Does the work that must be done before the bind."""

    #: may run at the same time as its neighbours that say so too
    allow_parallel: bool = False

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """None: `pre_bind` has work to do. SKIP: it will not be called. Must be cheap."""
        return None

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """May talk to the API server."""
        raise NotImplementedError


class BindPlugin(Plugin):
    """Binds the pod. The first one that does not skip has done it."""

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """None: bound. SKIP: somebody else's pod. Otherwise the bind failed."""
        raise NotImplementedError


class PostBindPlugin(Plugin):
    """Told of bound pods."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """For information."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Placement:
    """Nodes that a whole group may go to."""

    name: str
    #: `(rows,)` bool, None for all nodes
    rows: Mask | None = None


class PlacementGeneratePlugin(Plugin):
    """Says between which sets of nodes a group can choose."""

    def generate_placements(self, group: Group, nodes: Nodes) -> list[Placement] | Status:
        """At least one, or why there is none."""
        raise NotImplementedError


class PlacementScorePlugin(Plugin):
    """Says how good a placement is, with the group's members in it."""

    def score_placement(self, group: Group, nodes: Nodes) -> float:
        """The raw score; `nodes` are those of the placement, the members are counted on them."""
        raise NotImplementedError

    def normalize_placements(self, scores: list[float]) -> list[float]:
        """Final scores 0..100 of all placements that hold the group."""
        return scores


class PreemptionGround(Protocol):
    """The cluster during group preemption: pods can be taken away, and the group tried."""

    def lift(self, pods: Sequence[PodInfo]) -> None:
        """Take these pods off their nodes."""

    def put_back(self, pods: Sequence[PodInfo]) -> None:
        """And back on."""

    def place(self) -> dict[str, str] | Status:
        """uid -> node of the members that then have a place; why not, where the group does not fit."""


@dataclass(frozen=True, slots=True)
class GroupPreemption:
    """Who has to go, and the nodes (by member's uid) that the group then gets."""

    victims: tuple[PodInfo, ...]
    nodes: Mapping[str, str]


class PodGroupPostFilterPlugin(Plugin):
    """Asked when a whole group does not fit."""

    def pod_group_post_filter(
        self, group: Group, members: Sequence[PodInfo], ground: PreemptionGround
    ) -> GroupPreemption | Status:
        """What was done to make room, or why nothing can be done. The ground is put in order by the caller."""
        raise NotImplementedError


#: extension point -> the class whose subclasses take part in it; names as in KubeSchedulerConfiguration
EXTENSION_POINTS: dict[str, type[Plugin]] = {
    "preEnqueue": PreEnqueuePlugin,
    "queueSort": QueueSortPlugin,
    "placementGenerate": PlacementGeneratePlugin,
    "preFilter": PreFilterPlugin,
    "filter": FilterPlugin,
    "postFilter": PostFilterPlugin,
    "podGroupPostFilter": PodGroupPostFilterPlugin,
    "preScore": PreScorePlugin,
    "score": ScorePlugin,
    "placementScore": PlacementScorePlugin,
    "reserve": ReservePlugin,
    "permit": PermitPlugin,
    "preBind": PreBindPlugin,
    "bind": BindPlugin,
    "postBind": PostBindPlugin,
}


def points_of(plugin: type[Plugin]) -> frozenset[str]:
    """The extension points a plugin class takes part in."""
    return frozenset(point for point, base in EXTENSION_POINTS.items() if issubclass(plugin, base))


def max_normalize(scores: Vector, *, reverse: bool = False) -> Vector:
    """kube-scheduler's default normalisation: 100·s // max; all 0 where max is 0. Reversed: 100 minus that, all 100."""
    highest = float(scores.max()) if scores.size else 0.0
    if highest == 0:
        return np.full(scores.shape, float(MAX_NODE_SCORE) if reverse else 0.0)
    scaled: Vector = np.floor(scores * MAX_NODE_SCORE / highest)
    return MAX_NODE_SCORE - scaled if reverse else scaled


def only(plugins: Sequence[Plugin], kind: type[Plugin]) -> list[Any]:
    """Those plugins that take part in the extension point of `kind`, in order."""
    return [p for p in plugins if isinstance(p, kind)]
