"""A view of one profile's engine: the filters and scores of the real thing, asked without consequences.

Works on the live scheduler's own snapshot, in one go on its event loop, or on an offline simulation's. What it asks
is not measured, not kept for the next cycle, and evicts nobody.

Used by the explain package only; never awaits.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from kube.api.core import Pod
from plugins.default_preemption import DefaultPreemption
from scheduler.cache import SchedulerCache
from scheduler.decision_log import DecisionLog
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.meter import idle_meter
from scheduler.framework.preemption.candidates import spell_out
from scheduler.framework.preemption.choice import choose
from scheduler.framework.preemption.dry_run import Candidate
from scheduler.framework.runtime import Feasibility, Framework, Scores, unobserved
from scheduler.framework.shape_cache import ShapeCache
from scheduler.framework.status import Status
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import AffinityTerm, PodInfo, uid_of


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
    #: wall clock, seconds
    now: Callable[[], float] = lambda: 0.0

    @contextmanager
    def without(self, pod: Pod) -> Iterator[None]:
        """For the time of a question the pod is not counted on its node: as if it were still to be scheduled."""
        uid = uid_of(pod)
        state = self.cache.pods.get(uid)
        if state is not None:
            self.cache.remove_pod(uid)
        try:
            yield
        finally:
            if state is not None and state.assumed:
                self.cache.assume_pod(state.info, state.node_name)
                self.cache.pods[uid].binding_finished = state.binding_finished
            elif state is not None:
                self.cache.add_pod(state.info.pod)


class View:
    """One profile, asked about one pod. Lives for one explanation."""

    def __init__(self, framework: Framework, cache: SchedulerCache) -> None:
        self.engine = copy.copy(framework)
        self.engine.observe = unobserved
        self.engine.meter = idle_meter()
        self.engine.shapes = ShapeCache()
        self.snapshot = framework.snapshot
        self.handle = framework.handle
        self.cache = cache
        #: the assigned pods that a term means, as (row, pod): one walk over all pods per term is enough
        self.meant: dict[AffinityTerm, list[tuple[int, PodInfo]]] = {}
        #: the assigned pods whose anti-affinity means the pod, by term
        self.objecting: dict[AffinityTerm, list[tuple[int, PodInfo]]] | None = None

    def info(self, pod: Pod) -> PodInfo:
        """The pod as plugins see it, without a node."""
        bare = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
        return self.snapshot.shapes.pod_info(bare)

    def feasibility(self, info: PodInfo) -> Feasibility:
        """PreFilter and Filter over all nodes; never a sample."""
        self.snapshot.refresh()
        return self.engine.find_feasible(CycleState(info))

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

    def victims(self, found: Feasibility, diagnosis: Diagnosis) -> Candidate | str:
        """The victims that preemption would choose now, or its message. Nobody is evicted."""
        for plugin in self.engine.post_filter:
            if isinstance(plugin, DefaultPreemption):
                with self._own_randomness():
                    answer = plugin.evaluator.find_candidates(found.state, diagnosis)
                return spell_out(choose(answer)) if isinstance(answer, list) else answer[1].message
        return ""

    @contextmanager
    def _own_randomness(self) -> Iterator[None]:
        """A question must not change what the scheduler draws next."""
        theirs, self.handle.random = self.handle.random, random.Random(0)
        try:
            yield
        finally:
            self.handle.random = theirs
