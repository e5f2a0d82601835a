"""The scheduling cycle: from a pod and the snapshot to a node, or to the reasons why there is none.

A plain function of its arguments, called on the event loop. It never awaits: that is the lock. HTTP extenders are
the exception (`scheduler.extender_cycle`), in the same steps.

Called by the Scheduler and by offline simulation; neither has scheduling code of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scheduler import score_log
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.diagnosis import Diagnosis, Refused
from scheduler.framework.plugin import PostFilterResult
from scheduler.framework.refusals import Refusals
from scheduler.framework.runtime import Feasibility, Framework, Scores
from scheduler.framework.status import Status
from scheduler.snapshot.columns import Codes, Vector
from scheduler.snapshot.pod_info import PodInfo

#: below this many feasible nodes kube-scheduler does not sample (facts 2.4)
MIN_FEASIBLE_NODES_TO_FIND = 100
_MIN_PERCENTAGE = 5


def num_feasible_nodes_to_find(node_count: int, percentage: int = 0) -> int:
    """How many feasible nodes one-node plugins look for; percentage 0 adapts to the size (facts 2.4)."""
    if node_count < MIN_FEASIBLE_NODES_TO_FIND:
        return node_count
    if percentage == 0:
        percentage = max(50 - node_count // 125, _MIN_PERCENTAGE)
    return max(node_count * percentage // 100, MIN_FEASIBLE_NODES_TO_FIND)


@dataclass(slots=True)
class Attempt:
    """One scheduling cycle: where the pod goes, or why nowhere. Read what refers to rows before the next refresh."""

    state: CycleState
    node_count: int
    found: Feasibility | None = None
    scores: Scores | None = None
    #: the chosen node, "" where there is none
    node_name: str = ""
    diagnosis: Diagnosis | None = None
    post_filter: PostFilterResult | None = None
    error: Status | None = None
    #: what extenders refused: node name -> status
    extender_refusals: dict[str, Status] = field(default_factory=dict)

    @property
    def pod_info(self) -> PodInfo:
        """The pod."""
        return self.state.pod_info

    @property
    def feasible_count(self) -> int:
        """Number of nodes that passed every filter."""
        if self.found is None or self.found.rejection or self.found.error:
            return 0
        return int(np.count_nonzero(self.found.mask))

    def feasible(self) -> list[str]:
        """Names of the nodes that passed every filter."""
        if self.found is None or self.found.rejection or self.found.error:
            return []
        snapshot = self.found.nodes.snapshot
        return [info.name for _, info in snapshot.select(self.found.rows()).infos()]

    def message(self) -> str:
        """The text of a failed attempt, "" for a successful one."""
        if self.error is not None:
            return self.error.message
        if self.diagnosis is not None and not self.node_name:
            return self.diagnosis.message()
        return ""


def schedule_pod(framework: Framework, pod_info: PodInfo, percentage: int = 0) -> Attempt:
    """One cycle: PreFilter, Filter, (PostFilter), PreScore, Score, and the choice among the best."""
    attempt = begin(framework, pod_info, percentage)
    if attempt.error is not None:
        return attempt
    found = attempt.found
    rows = found.rows() if found is not None and found.rejection is None else np.zeros(0, np.intp)
    if not len(rows):
        return fail(framework, attempt)
    nominated = nominated_row(framework, pod_info, rows)
    if nominated is not None:
        choose(framework, attempt, nominated)
    elif len(rows) == 1:
        choose(framework, attempt, int(rows[0]))
    else:
        assert found is not None
        rank(framework, attempt, rows)
    return attempt


def begin(framework: Framework, pod_info: PodInfo, percentage: int) -> Attempt:
    """Refresh the snapshot and find the feasible nodes."""
    snapshot = framework.snapshot
    snapshot.refresh()
    state = CycleState(pod_info)
    count = snapshot.count
    attempt = Attempt(state, count)
    if count == 0:
        return attempt
    wanted = num_feasible_nodes_to_find(count, percentage) if framework.has_scalar_plugins else None
    attempt.found = framework.find_feasible(state, wanted)
    attempt.error = attempt.found.error
    return attempt


def nominated_row(framework: Framework, pod_info: PodInfo, rows: Codes) -> int | None:
    """The row of the node the pod was nominated to, if it is feasible: it is taken without scoring."""
    name = pod_info.pod.status.nominated_node_name
    row = framework.snapshot.row_of.get(name) if name else None
    return row if row is not None and bool((rows == row).any()) else None


def choose(framework: Framework, attempt: Attempt, row: int) -> None:
    """Settle on a row."""
    info = framework.snapshot.infos[row]
    assert info is not None
    attempt.node_name = info.name


def rank(framework: Framework, attempt: Attempt, rows: Codes, extra: Vector | None = None) -> None:
    """Score the rows and choose among the best. `extra`: `(len(rows),)` what extenders add."""
    assert attempt.found is not None
    scores = framework.prioritize(attempt.found, rows)
    if isinstance(scores, Status):
        attempt.error = scores
        return
    if extra is not None:
        scores.total = scores.total + extra
    total = scores.total
    attempt.scores = scores
    if score_log.wanted():
        score_log.write(attempt.pod_info.key, scores)
    best = (total == np.maximum.reduce(total)).nonzero()[0]
    # Uniform among the best: neither row order nor history may leak into the choice.
    pick = best[0] if len(best) == 1 else best[int(framework.handle.random.random() * len(best))]
    choose(framework, attempt, int(rows[pick]))


def fail(framework: Framework, attempt: Attempt) -> Attempt:
    """Nobody fits: who refused what, and whether PostFilter can make room."""
    if not diagnose(framework, attempt):
        return attempt
    assert attempt.diagnosis is not None
    return after_post_filter(
        attempt, *framework.run_post_filter(attempt.state, attempt.pod_info.pod, attempt.diagnosis)
    )


def diagnose(framework: Framework, attempt: Attempt) -> bool:
    """Find out who refused what; True where PostFilter is to be asked."""
    if attempt.found is None:
        attempt.diagnosis = Diagnosis(framework.snapshot, 0)
        return False
    attempt.diagnosis = framework.diagnose(attempt.found)
    if attempt.extender_refusals and attempt.found.rejection is None:
        _add_extender_refusals(framework, attempt, attempt.diagnosis, attempt.found)
    return bool(framework.post_filter)


def after_post_filter(attempt: Attempt, result: PostFilterResult | None, status: Status) -> Attempt:
    """Take in what PostFilter said."""
    attempt.post_filter = result
    if not status.ok and attempt.diagnosis is not None:
        attempt.diagnosis.post_filter_message = status.message
    return attempt


def _add_extender_refusals(framework: Framework, attempt: Attempt, diagnosis: Diagnosis, found: Feasibility) -> None:
    """Only for nodes that passed the plugins: whoever was refused by one has its reason."""
    rows, which = [], []
    numbers: dict[Status, int] = {}
    for name, status in attempt.extender_refusals.items():
        row = framework.snapshot.row_of.get(name)
        if row is not None and found.mask[row]:
            rows.append(row)
            which.append(numbers.setdefault(status, len(numbers)))
    if rows:
        refusals = Refusals(tuple(numbers), np.array(which, np.intp))
        diagnosis.add_refused(Refused(next(iter(numbers)).plugin, np.array(rows, np.intp), refusals))
