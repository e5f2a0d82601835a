"""The scheduling cycle of a pod that extenders are interested in: the one cycle that awaits (facts 1.5).

No other cycle runs meanwhile, but events come in: nodes and pods appear and go, rows are freed and used again. So
nothing that refers to rows outlives an await here. What extenders answered is kept by node name, and where the world
changed while they were asked, it is looked at again: a node must pass the filters as it is now, and the extenders as
they saw it.

Called by the Scheduler, which runs everything else by `schedule_pod`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import numpy as np

from kube.api.core import Pod
from scheduler.framework.extender import Extender, ExtenderError, FilterAnswer
from scheduler.framework.plugin import MAX_NODE_SCORE
from scheduler.framework.runtime import Framework
from scheduler.framework.status import Status, error, unresolvable, unschedulable
from scheduler.scheduling_cycle import Attempt, after_post_filter, begin, diagnose, rank
from scheduler.snapshot.columns import Codes
from scheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

#: the pseudo plugin that a pod is tagged with whom an extender refused: every event wakes it
EXTENDER = "Extender"
MAX_EXTENDER_SCORE = 10
_EVERY_NODE = 100


async def schedule_pod_with_extenders(
    framework: Framework, pod_info: PodInfo, extenders: Sequence[Extender], percentage: int = 0
) -> Attempt:
    """One cycle: plugins filter, extenders filter what is left, both score, one of the best is chosen."""
    return await _Cycle(framework, pod_info, extenders).run(percentage)


class _Cycle:
    """One cycle of one pod."""

    def __init__(self, framework: Framework, pod_info: PodInfo, extenders: Sequence[Extender]) -> None:
        self._framework = framework
        self._snapshot = framework.snapshot
        self._pod_info = pod_info
        self._extenders = extenders
        self._version = -1
        self._attempt: Attempt
        self._refused: dict[str, Status] = {}
        #: whether extenders took nodes away, with or without a reason
        self._removed = False

    async def run(self, percentage: int) -> Attempt:
        """The steps."""
        pod = self._pod_info.pod
        self._look(percentage)
        if self._attempt.error is not None:
            return self._attempt
        names = self._attempt.feasible()
        nominated = pod.status.nominated_node_name
        if nominated in names and await self._filter(pod, [nominated]) and self._still([nominated]):
            # It is taken without scoring, as long as nobody objects.
            self._attempt.node_name = nominated
            return self._attempt
        if self._attempt.error is None:
            names = self._still(await self._filter(pod, self._attempt.feasible()))
        if self._attempt.error is not None:
            return self._attempt
        extra: dict[str, float] = {}
        if len(names) > 1:
            extra = await self._prioritize(pod, names)
            names = self._still(names)
        return await self._choose(names, extra)

    # --- looking ------------------------------------------------------------------------------------------

    def _look(self, percentage: int) -> None:
        self._attempt = begin(self._framework, self._pod_info, percentage)
        self._version = self._snapshot.version

    def _still(self, names: list[str]) -> list[str]:
        """Those of the nodes that pass the filters now; from here to the next await rows may be used."""
        if self._attempt.error is not None:
            return []
        if self._snapshot.stale or self._snapshot.version != self._version:
            self._look(_EVERY_NODE)
            passing = set(self._attempt.feasible())
            return [name for name in names if name in passing]
        return names

    def _rows(self, names: Sequence[str]) -> Codes:
        return np.array(sorted(self._snapshot.row_of[name] for name in names), np.intp)

    # --- asking -------------------------------------------------------------------------------------------

    async def _filter(self, pod: Pod, names: list[str]) -> list[str]:
        """One extender sees what the one before it left."""
        self._refused.clear()
        asked = names
        for extender in self._extenders:
            if not names or not extender.filters():
                continue
            try:
                answer = await extender.filter(pod, names)
            except ExtenderError as failure:
                if extender.ignorable:
                    log.warning("pod %s is scheduled without asking: %s", pod.key, failure)
                    continue
                self._attempt.error = error(str(failure))
                return []
            left = set(answer.feasible)
            self._refused |= {
                name: _refusal(answer, name) for name in names if name not in left and _said(answer, name)
            }
            names = [name for name in names if name in left]
        self._removed = len(names) < len(asked)
        return names

    async def _prioritize(self, pod: Pod, names: list[str]) -> dict[str, float]:
        """node name -> what the extenders add to its score. All are asked at the same time."""
        asked = [extender for extender in self._extenders if extender.prioritizes()]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_scores(extender, pod, names)) for extender in asked]
        extra = dict.fromkeys(names, 0.0)
        for task in tasks:
            for name, score in task.result().items():
                if name in extra:
                    extra[name] += score
        return extra

    # --- the end ------------------------------------------------------------------------------------------

    async def _choose(self, names: list[str], extra: dict[str, float]) -> Attempt:
        attempt = self._attempt
        if attempt.error is not None:
            return attempt
        if not names:
            return await self._fail()
        if len(names) == 1:
            attempt.node_name = names[0]
            return attempt
        rows = self._rows(names)
        added = None
        if extra:
            infos = [self._snapshot.infos[row] for row in rows.tolist()]
            added = np.array([extra[info.name] for info in infos if info is not None])
        rank(self._framework, attempt, rows, added)
        return attempt

    async def _fail(self) -> Attempt:
        """Who refused what, extenders included, and whether PostFilter can make room."""
        attempt = self._attempt
        attempt.extender_refusals = self._refused
        worth_a_try = diagnose(self._framework, attempt)
        diagnosis = attempt.diagnosis
        assert diagnosis is not None
        if self._removed:
            diagnosis.unschedulable_plugins.add(EXTENDER)
        if not worth_a_try:
            return attempt
        result, status = await self._framework.run_post_filter_with_extenders(
            attempt.state, self._pod_info.pod, diagnosis
        )
        return after_post_filter(attempt, result, status)


def _said(answer: FilterAnswer, name: str) -> bool:
    return name in answer.failed or name in answer.failed_and_unresolvable


def _refusal(answer: FilterAnswer, name: str) -> Status:
    """Evicting pods does not help where both lists name the node."""
    if name in answer.failed_and_unresolvable:
        return unresolvable(answer.failed_and_unresolvable[name]).by(EXTENDER)
    return unschedulable(answer.failed[name]).by(EXTENDER)


async def _scores(extender: Extender, pod: Pod, names: Sequence[str]) -> dict[str, float]:
    """In the plugins' range, weighted. A failure costs this extender its say, and nothing else."""
    try:
        scores = await extender.prioritize(pod, names)
    except ExtenderError as failure:
        log.warning("pod %s is scored without asking: %s", pod.key, failure)
        return {}
    scale = extender.weight * (MAX_NODE_SCORE // MAX_EXTENDER_SCORE)
    return {name: float(score * scale) for name, score in scores.items()}
