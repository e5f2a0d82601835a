"""A view of one profile's engine: the filters and scores of the real thing, asked without consequences.

Works on the live scheduler's own snapshot, on its event loop, or on an offline simulation's. What it asks is not
measured, not kept for the next cycle, and evicts nobody. A feasibility is good until the loop goes on: after a pause it
is asked for again (`now`).

Used by the explain package only; never awaits.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from kube.api.core import Pod
from plugins.default_preemption import DefaultPreemption
from plugins.dynamic_resources.devices import DeviceId
from scheduler.cache import SchedulerCache
from scheduler.decision_log import DecisionLog
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.meter import idle_meter
from scheduler.framework.preemption.candidates import spell_out
from scheduler.framework.preemption.choice import Badness, choose
from scheduler.framework.preemption.dry_run import Candidate
from scheduler.framework.runtime import Feasibility, Framework, Scores, unobserved
from scheduler.framework.status import Status
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import AffinityTerm, PodInfo, uid_of


class _FromTheFirst(random.Random):
    """A search that may begin anywhere begins with the first node: who asks twice gets one answer."""

    def randrange(self, *bounds: object) -> int:
        """Not random at all."""
        return 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Whoever schedules, live or offline, as explain needs it."""

    cache: SchedulerCache
    frameworks: Mapping[str, Framework]
    #: the profile that a pod belongs to, None where no profile claims it
    profile_of: Callable[[Pod], str | None]
    #: None offline
    queue: SchedulingQueue | None = None
    decisions: DecisionLog | None = None
    #: whether extenders can be asked
    asks: bool = False
    #: wall clock, seconds
    now: Callable[[], float] = lambda: 0.0

    def place_of(self, pod: Pod) -> str:
        """The node that a pod is on or, in a running podium, is about to be bound to; empty for none."""
        state = self.cache.pods.get(uid_of(pod)) if not pod.spec.node_name else None
        return state.node_name if state is not None else pod.spec.node_name

    @contextmanager
    def without(self, pod: Pod) -> Iterator[None]:
        """For the time of a question the pod is not counted on its node: as if it were still to be scheduled."""
        state = self.cache.lift_pod(uid_of(pod))
        try:
            yield
        finally:
            if state is not None:
                self.cache.put_back(state)


class View:
    """One profile, asked about one pod. Lives for one explanation."""

    def __init__(self, framework: Framework, cache: SchedulerCache) -> None:
        self.engine = copy.copy(framework)
        self.engine.observe = unobserved
        self.engine.meter = idle_meter()
        self.engine.kept = framework.kept.empty()
        self.snapshot = framework.snapshot
        #: the answer of `now`, and of which node objects and version it tells
        self._kept: tuple[PodInfo, int, Feasibility] | None = None
        self._node_epoch = framework.snapshot.node_epoch
        self.handle = framework.handle
        self.cache = cache
        #: device -> the claim that has it, once somebody asked
        self.holders: dict[DeviceId, str] | None = None
        #: the assigned pods that a term means, as (row, pod): one walk over all pods per term is enough
        self.meant: dict[AffinityTerm, list[tuple[int, PodInfo]]] = {}
        #: the assigned pods whose anti-affinity means the pod, by term
        self.objecting: dict[AffinityTerm, list[tuple[int, PodInfo]]] | None = None

    def info(self, pod: Pod) -> PodInfo:
        """The pod as plugins see it, without a node."""
        bare = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
        return self.snapshot.shapes.pod_info(bare)

    def now(self, info: PodInfo) -> Feasibility:
        """Where the pod can go now; asked again only where something has changed since."""
        self.snapshot.refresh()
        if self.snapshot.node_epoch != self._node_epoch:
            # Rows are other nodes now. Pods that came or went meanwhile are no reason to walk over all of them again.
            self._node_epoch = self.snapshot.node_epoch
            self.meant.clear()
            self.objecting = None
        kept = self._kept
        if kept is None or kept[0] is not info or kept[1] != self.snapshot.version:
            kept = self._kept = (info, self.snapshot.version, self.feasibility(info))
        return kept[2]

    def feasibility(self, info: PodInfo) -> Feasibility:
        """PreFilter and Filter over all nodes; never a sample."""
        self.snapshot.refresh()
        return self.engine.find_feasible(CycleState(info))

    def among(self, found: Feasibility, names: Collection[str]) -> Feasibility:
        """The same where only these nodes are left."""
        left = copy.copy(found)
        left.mask = self.snapshot.nodes.none
        left.mask[[self.snapshot.row_of[name] for name in names if name in self.snapshot.row_of]] = True
        left.mask &= found.mask
        return left

    def fits(self, found: Feasibility, node: NodeInfo) -> bool:
        """Whether the pod fits on a node that need not look like the snapshot's."""
        return self.refusal(found, node) is None

    def refusal(self, found: Feasibility, node: NodeInfo) -> Status | None:
        """The first filter that refuses a node, asked one node at a time; None: the pod fits."""
        if found.rejection is not None:
            return found.rejection
        if found.error is not None:
            return found.error
        if node.row >= 0 and found.candidates is not None and not found.candidates[node.row]:
            return found.absent
        return self.engine.filter_with_nominated_pods(found.state, found.state.pod_info, node)

    def refusing(self, found: Feasibility, node: NodeInfo) -> list[Status]:
        """Every filter that refuses a node, not only the first."""
        said = []
        state, pod = found.state, found.state.pod_info.pod
        if node.row >= 0 and found.candidates is not None and not found.candidates[node.row] and found.absent:
            said.append(found.absent)
        for plugin in self.engine.active_filters(state):
            status = plugin.filter_node(state, pod, node)
            if status is not None and not status.ok:
                said.append(status.by(plugin.name))
        return said

    def without_pods(self, found: Feasibility, node: NodeInfo, gone: list[PodInfo]) -> tuple[Feasibility, NodeInfo]:
        """The question and the node as they are once some pods have left it."""
        dry, left = copy.copy(found), node.clone()
        dry.state = found.state.clone()
        for pod in gone:
            self.engine.remove_pod(dry.state, found.state.pod_info, pod, left)
        return dry, left

    def scores(self, found: Feasibility) -> Scores | None:
        """The scores of the feasible nodes; None where there is none, or a score plugin failed."""
        rows = found.rows()
        if found.rejection or found.error or not len(rows):
            return None
        scores = self.engine.prioritize(found, rows)
        return None if isinstance(scores, Status) else scores

    @property
    def preempts(self) -> bool:
        """Whether the profile looks for victims."""
        return self._preemption() is not None

    def _preemption(self) -> DefaultPreemption | None:
        return next((plugin for plugin in self.engine.post_filter if isinstance(plugin, DefaultPreemption)), None)

    def victims(self, found: Feasibility, diagnosis: Diagnosis) -> tuple[Badness, Candidate, int] | str:
        """The victims that preemption would choose on the nodes of a diagnosis, with what speaks against them and the
        number of nodes that it chose from; or its message. Nobody is evicted.
        """
        plugin = self._preemption()
        if plugin is None:
            return ""
        with self._own_randomness():
            answer = plugin.evaluator.find_candidates(found.state, diagnosis)
        if not isinstance(answer, list):
            return answer[1].message
        best = choose(answer)
        return best[0], spell_out(best), len(answer)

    @contextmanager
    def _own_randomness(self) -> Iterator[None]:
        """A question must not change what the scheduler draws next."""
        theirs, self.handle.random = self.handle.random, _FromTheFirst()
        try:
            yield
        finally:
            self.handle.random = theirs
