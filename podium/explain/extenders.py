"""What HTTP extenders say of the nodes that pass the filters: they are really asked, to filter and to score.

They are not asked about preemption, and never to bind. Each question is a pause of the explanation. Used by `explain`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kube.api.core import Pod
from podium.explain.documents import MAX_NAMES, Cause
from podium.explain.pieces import Pieces
from podium.explain.view import View
from scheduler.extender_cycle import EXTENDER, MAX_EXTENDER_SCORE
from scheduler.framework.diagnosis import Diagnosis, Refused
from scheduler.framework.extender import Extender, ExtenderError, FilterAnswer
from scheduler.framework.plugin import MAX_NODE_SCORE
from scheduler.framework.refusals import Refusals
from scheduler.framework.status import Status, unresolvable, unschedulable

#: what an extender that gives no reason has said
NO_REASON = "gives no reason"


@dataclass(slots=True)
class Said:
    """What they said. Owner: one explanation."""

    #: the nodes that are left
    names: list[str]
    #: (extender, reason, whether evicting pods may help) -> nodes
    refused: dict[tuple[str, str, bool], list[str]] = field(default_factory=dict)
    #: extender -> node -> what it adds to the score
    scores: dict[str, Mapping[str, int]] = field(default_factory=dict)
    #: an extender failed, and may not be left out
    error: str = ""


def ask_extenders(extenders: Sequence[Extender], pod: Pod, names: Sequence[str]) -> Pieces[Said]:
    """One sees what the one before it left; those that fail and are ignorable have no say."""
    said = Said([*names])
    for extender in extenders:
        if not said.names or not extender.filters():
            continue
        answer = yield _filtered(extender, pod, said.names)
        if isinstance(answer, FilterAnswer):
            _note(said, extender, answer)
        elif not extender.ignorable:
            said.error = str(answer)
            return said
    for extender in extenders:
        if len(said.names) > 1 and extender.prioritizes():
            scale = extender.weight * (MAX_NODE_SCORE // MAX_EXTENDER_SCORE)
            scores = yield _scored(extender, pod, said.names)
            said.scores[f"extender {extender.name}"] = {name: score * scale for name, score in scores.items()}
    return said


async def _filtered(extender: Extender, pod: Pod, names: Sequence[str]) -> FilterAnswer | ExtenderError:
    try:
        return await extender.filter(pod, names)
    except ExtenderError as failure:
        return failure


async def _scored(extender: Extender, pod: Pod, names: Sequence[str]) -> Mapping[str, int]:
    try:
        return await extender.prioritize(pod, names)
    except ExtenderError:
        return {}


def _note(said: Said, extender: Extender, answer: FilterAnswer) -> None:
    left = set(answer.feasible)
    for name in said.names:
        if name in left:
            continue
        final = answer.failed_and_unresolvable.get(name)
        reason = final or answer.failed.get(name) or NO_REASON
        said.refused.setdefault((extender.name, reason, final is None), []).append(name)
    said.names = [name for name in said.names if name in left]


def causes_by_extenders(said: Said) -> list[Cause]:
    """One per extender and reason."""
    return [
        Cause(
            plugin=EXTENDER,
            reason=reason,
            detail=f"extender {extender}: {reason}",
            brief=f"refused by extender {extender} ({reason})",
            nodes=len(names),
            names=tuple(names[:MAX_NAMES]),
            eviction_may_help=may_help,
        )
        for (extender, reason, may_help), names in said.refused.items()
    ]


def add_to_diagnosis(view: View, diagnosis: Diagnosis, said: Said) -> None:
    """So that the message counts them, as the scheduler's does; who gives no reason is not in there either."""
    diagnosis.unschedulable_plugins.add(EXTENDER)
    for (_, reason, may_help), names in said.refused.items():
        rows = [view.snapshot.row_of[name] for name in names if name in view.snapshot.row_of]
        if reason == NO_REASON or not rows:
            continue
        status: Status = (unschedulable(reason) if may_help else unresolvable(reason)).by(EXTENDER)
        refusals = Refusals((status,), np.zeros(len(rows), np.intp))
        diagnosis.add_refused(Refused(EXTENDER, np.array(rows, np.intp), refusals))
