"""What a running scheduler costs, seen from outside: CPU and memory of its process, and its metrics. Reads only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """CPU the process has used, all threads."""
    # The name in parentheses may hold anything; fields are counted behind it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory_mib(pid: int, field: str) -> float:
    """`VmHWM` (peak) or `VmRSS` (now) of the process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return 0.0


@dataclass(frozen=True, slots=True)
class Histogram:
    """Upper bounds and how many were at most that, all series of the metric that match added up."""

    buckets: tuple[tuple[float, float], ...] = ()

    def since(self, before: Histogram) -> Histogram:
        """What was observed in between."""
        earlier = dict(before.buckets)
        return Histogram(tuple((bound, count - earlier.get(bound, 0.0)) for bound, count in self.buckets))

    @property
    def count(self) -> float:
        """All observations."""
        return self.buckets[-1][1] if self.buckets else 0.0

    def quantile(self, q: float) -> float | None:
        """As Prometheus has it: linear within the bucket, and the last finite bound for what lies above."""
        wanted = q * self.count
        if not wanted:
            return None
        lower, below = 0.0, 0.0
        for bound, count in self.buckets:
            if count >= wanted:
                return lower if bound == float("inf") else lower + (bound - lower) * (wanted - below) / (count - below)
            lower, below = bound, count
        return lower


def histogram(text: str, names: Iterable[str], labels: Mapping[str, str]) -> Histogram:
    """The first of these metrics that an exposition has; the series that carry the labels."""
    wanted = [f"{name}_bucket" for name in names]
    found: dict[str, dict[float, float]] = {}
    for family in text_string_to_metric_families(text):
        if family.type != "histogram":
            continue
        for sample in family.samples:
            if sample.name in wanted and labels.items() <= sample.labels.items():
                counts = found.setdefault(sample.name, {})
                bound = float(sample.labels["le"])
                counts[bound] = counts.get(bound, 0.0) + sample.value
    name = next((name for name in wanted if name in found), None)
    return Histogram(tuple(sorted(found[name].items()))) if name else Histogram()
