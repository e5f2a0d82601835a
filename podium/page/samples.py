"""What the page draws over time: one sample a second, for the last ten minutes, whether anybody looks or not.

Rates come from the counters, latencies of cycles from the decision log, of pods from the histogram that is exported
too: exact to its buckets, between which it is interpolated. Owner: the page's server.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence

from podium.page.rows import Sample
from scheduler.decision_log import Decision
from scheduler.metrics import Metrics
from scheduler.scheduler import Scheduler

SAMPLES = 600
Buckets = dict[float, float]


class Samples:
    """The newest samples; `take` is called once a second."""

    def __init__(self, scheduler: Scheduler, metrics: Metrics) -> None:
        self._scheduler = scheduler
        self._metrics = metrics
        self.all: deque[Sample] = deque(maxlen=SAMPLES)
        #: samples ever taken
        self.count = 0
        self._time = time.time()
        self._attempts = self._count_attempts()
        self._buckets = self._pod_buckets()
        self._newest: Decision | None = next(iter(scheduler.decisions), None)

    def take(self) -> None:
        """Note how it is now."""
        now, attempts, buckets = time.time(), self._count_attempts(), self._pod_buckets()
        passed = max(now - self._time, 0.001)
        rates = {result: (attempts[result] - self._attempts[result]) / passed for result in attempts}
        cycles = sorted(self._new_cycles())
        delta = {bound: count - self._buckets.get(bound, 0.0) for bound, count in buckets.items()}
        lengths = self._scheduler.queue.lengths()
        self.all.append(
            Sample(
                time=round(now, 1),
                bound=round(rates["scheduled"], 1),
                refused=round(rates["unschedulable"] + rates["error"], 1),
                cycle_p50=_milliseconds(_at(cycles, 0.5)),
                cycle_p99=_milliseconds(_at(cycles, 0.99)),
                bound_p50=_milliseconds(quantile(delta, 0.5)),
                bound_p99=_milliseconds(quantile(delta, 0.99)),
                active=lengths["active"],
                backoff=lengths["backoff"],
                unschedulable=lengths["unschedulable"],
                gated=lengths["gated"],
            )
        )
        self.count += 1
        self._time, self._attempts, self._buckets = now, attempts, buckets

    def since(self, count: int) -> list[Sample]:
        """Those that were taken after so many."""
        new = min(self.count - count, len(self.all))
        return [self.all[i] for i in range(len(self.all) - new, len(self.all))]

    def _new_cycles(self) -> list[float]:
        found, newest = [], self._newest
        for decision in self._scheduler.decisions:
            if decision is newest:
                break
            found.append(decision.seconds)
            if len(found) == 1:
                self._newest = decision
        return found

    def _count_attempts(self) -> dict[str, float]:
        counts = dict.fromkeys(("scheduled", "unschedulable", "error"), 0.0)
        for family in self._metrics.schedule_attempts.collect():
            for sample in family.samples:
                if sample.name.endswith("_total"):
                    counts[sample.labels["result"]] = counts.get(sample.labels["result"], 0.0) + sample.value
        return counts

    def _pod_buckets(self) -> Buckets:
        """Upper bound -> pods bound within it, of all numbers of attempts together."""
        buckets: Buckets = {}
        for family in self._metrics.sli_duration.collect():
            for sample in family.samples:
                if sample.name.endswith("_bucket"):
                    bound = float(sample.labels["le"])
                    buckets[bound] = buckets.get(bound, 0.0) + sample.value
        return buckets


def quantile(cumulative: Mapping[float, float], part: float) -> float | None:
    """The quantile of a histogram, interpolated within its bucket; None where nothing was counted."""
    bounds = sorted(cumulative)
    total = cumulative[bounds[-1]] if bounds else 0.0
    if total <= 0:
        return None
    rank, lower, below = part * total, 0.0, 0.0
    for bound in bounds:
        count = cumulative[bound]
        if count >= rank:
            if bound == float("inf"):
                return lower
            return lower + (bound - lower) * ((rank - below) / (count - below) if count > below else 1.0)
        lower, below = bound, count
    return lower


def _at(ordered: Sequence[float], part: float) -> float | None:
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else None


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
