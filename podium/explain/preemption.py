"""What preemption finds now, in pieces: the search of the engine, asked about some nodes at a time.

A search may dry-run thousands of nodes, which the scheduler must do in one go, and a question need not. The parts grow
while they are quick. Nobody is evicted for an explanation.
"""

from __future__ import annotations

from collections import Counter
from time import perf_counter

import numpy as np

from podium.explain.amounts import listed
from podium.explain.documents import PodName, Preemption
from podium.explain.pieces import Pieces
from podium.explain.reasons import reasons_of
from podium.explain.view import View
from scheduler.framework.diagnosis import Diagnosis, Refused
from scheduler.framework.preemption.candidates import NOT_HELPFUL
from scheduler.framework.preemption.choice import Badness
from scheduler.framework.preemption.dry_run import Candidate
from scheduler.framework.refusals import Refusals
from scheduler.framework.status import Code
from scheduler.snapshot.pod_info import PodInfo

#: rows of the first part, and seconds that a part should take
FIRST_PART = 32
QUICK = 0.008
#: candidates that are enough, as in the engine's own search where nobody configures it
ENOUGH = 100


def preemption_of(view: View, info: PodInfo, patience: float | None) -> Pieces[tuple[Preemption | None, str]]:
    """What there is to tell, and the search's message. `patience`: seconds after which what was seen is enough."""
    search = _Search(view, info)
    while view.preempts and not search.ended:
        started = perf_counter()
        search.part()
        spent = perf_counter() - started
        search.adapt(spent)
        if patience is not None and search.spent > patience:
            break
        yield None
    return search.answer()


class _Search:
    """Owner: one call of `preemption_of`."""

    def __init__(self, view: View, info: PodInfo) -> None:
        self._view = view
        self._info = info
        self._from = 0
        self._size = FIRST_PART
        self._best: tuple[Badness, Candidate] | None = None
        self._candidates = 0
        self._reasons: Counter[str] = Counter()
        #: said of the pod as a whole
        self._said = ""
        self._refused_as_a_whole = False
        self.spent = 0.0
        self.ended = False

    def part(self) -> None:
        """Look at the next rows."""
        found = self._view.now(self._info)
        if found.error is not None or (found.rejection is None and len(found.rows())):
            self.ended = True
            return
        diagnosis = self._view.engine.diagnose(found)
        until = self._from + self._size
        if diagnosis.pre_filter is not None:
            self._refused_as_a_whole, until = True, self._view.snapshot.size
        answer = self._view.victims(found, _between(diagnosis, self._from, until))
        self._from = until
        self.ended = until >= self._view.snapshot.size
        if isinstance(answer, str):
            self._hear(answer)
        else:
            self._take(*answer)

    def _take(self, badness: Badness, candidate: Candidate, number: int) -> None:
        if self._best is None or badness < self._best[0]:
            self._best = badness, candidate
        self._candidates += number
        self.ended |= self._candidates >= ENOUGH and not self._best[1].violations

    def _hear(self, message: str) -> None:
        if "nodes are available" not in message:
            self._said, self.ended = message, True
            return
        for reason, nodes in reasons_of(message):
            if reason != NOT_HELPFUL:
                self._reasons[reason] += nodes

    def adapt(self, spent: float) -> None:
        """The next part is larger where this one was quick, and smaller where it was not."""
        self.spent += spent
        if spent < QUICK:
            self._size *= 2
        elif spent > 2 * QUICK:
            self._size = max(self._size // 2, 8)

    # --- the answer ---------------------------------------------------------------------------------------

    def answer(self) -> tuple[Preemption | None, str]:
        """What there is to tell, and the message."""
        if self._best is not None:
            return _room(self._best[1]), ""
        message = self._said or self._message()
        if not self._view.preempts or not message:
            return None, ""
        return Preemption(text=self._no_victims(message)), message

    def _message(self) -> str:
        nodes = self._view.snapshot.count
        reasons = Counter(self._reasons)
        # Nodes that the search had no time for count like those that were not worth a look.
        reasons[NOT_HELPFUL] += nodes - sum(self._reasons.values())
        entries = sorted(f"{number} {reason}" for reason, number in reasons.items() if number > 0)
        return f"0/{nodes} nodes are available: {', '.join(entries)}."

    def _no_victims(self, message: str) -> str:
        """What the search's message means."""
        priority = self._info.priority
        if "preemptionPolicy=Never" in message:
            return "it may not preempt: its preemptionPolicy is Never"
        if "terminating pod" in message:
            return "it waits: pods that it preempted on its nominated node are still terminating"
        if not self.ended:
            seen = min(self._from, self._view.snapshot.count)
            return f"evicting pods (of priority below {priority}) does not help on the {seen:,} nodes looked at"
        if self._refused_as_a_whole or "No preemption victims" not in message:
            return f"evicting pods (of priority below {priority}) does not help on any node"
        return f"no node has pods of lower priority (below {priority}) whose eviction would help"


def _between(diagnosis: Diagnosis, first: int, until: int) -> Diagnosis:
    """The part of a diagnosis that is about the rows from `first` up to `until`."""
    if diagnosis.pre_filter is not None:
        return diagnosis
    part = Diagnosis(diagnosis.snapshot, diagnosis.node_count)
    for refused in diagnosis.refused_with(Code.UNSCHEDULABLE):
        at = (refused.rows >= first) & (refused.rows < until)
        if np.any(at):
            refusals = Refusals(refused.refusals.statuses, refused.refusals.which[at])
            part.refused.append(Refused(refused.plugin, refused.rows[at], refusals))
    return part


def _room(candidate: Candidate) -> Preemption:
    victims = tuple(PodName(pod=v.key, priority=v.priority) for v in candidate.victims)
    names = listed([f"{v.pod} (priority {v.priority})" for v in victims], 5)
    protected = f"; {candidate.violations} of them against a PodDisruptionBudget" if candidate.violations else ""
    text = f"evicting {names} makes room on {candidate.node_name}{protected}"
    return Preemption(text=text, node=candidate.node_name, victims=victims, budget_violations=candidate.violations)
