"""Choosing between candidates of a preemption (facts 2.8, step 6): the smaller evil, criterion by criterion."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from scheduler.framework.preemption.dry_run import Candidate, start_time

#: makes every priority positive, so that more victims never sum up to less
ABOVE_ALL_PRIORITIES = 2**31

#: what speaks against a candidate, in order of weight; smaller is better:
#: PDB violations, highest priority of a victim, sum of priorities, number of victims, minus the start of that victim
#: of the highest priority which ran longest: the later it started, the less work is lost
Badness = tuple[float, ...]


def badness(candidate: Candidate) -> Badness:
    """What speaks against this candidate."""
    victims = candidate.victims
    highest = max(victim.priority for victim in victims)
    return (
        candidate.violations,
        highest,
        sum(victim.priority + ABOVE_ALL_PRIORITIES for victim in victims),
        len(victims),
        -min(start_time(victim) for victim in victims if victim.priority == highest),
    )


def choose(options: Sequence[tuple[Badness, Any, Any]]) -> tuple[Badness, Any, Any]:
    """The best by its badness, which comes first; of several equally good ones the first."""
    return min(options, key=itemgetter(0))
