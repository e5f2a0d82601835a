"""Choosing between candidates of a preemption (facts 2.8, step 6): the smaller evil, criterion by criterion."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler.framework.preemption.dry_run import Candidate, start_time

#: makes every priority positive, so that more victims never sum up to less
_ABOVE_ALL_PRIORITIES = 2**31


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """The best candidate; of several equally good ones the first."""
    left = candidates
    for criterion in CRITERIA:
        if len(left) == 1:
            break
        values = [criterion(candidate) for candidate in left]
        best = min(values)
        left = [candidate for candidate, value in zip(left, values, strict=True) if value == best]
    return left[0]


def _violations(candidate: Candidate) -> float:
    return candidate.violations


def _highest_priority(candidate: Candidate) -> float:
    return candidate.victims[0].priority


def _sum_of_priorities(candidate: Candidate) -> float:
    return sum(victim.priority + _ABOVE_ALL_PRIORITIES for victim in candidate.victims)


def _number_of_victims(candidate: Candidate) -> float:
    return len(candidate.victims)


def _work_lost(candidate: Candidate) -> float:
    """Among the victims of the highest priority the one that ran longest counts; the later it started the better."""
    highest = candidate.victims[0].priority
    return -min(start_time(victim) for victim in candidate.victims if victim.priority == highest)


#: smaller is better; the next one decides only between equals
CRITERIA: tuple[Callable[[Candidate], float], ...] = (
    _violations,
    _highest_priority,
    _sum_of_priorities,
    _number_of_victims,
    _work_lost,
)
