"""InterPodAffinity decides as the real kube-scheduler did, on every recorded cluster."""

from typing import Any

import pytest

from plugins.inter_pod_affinity import InterPodAffinity
from tests.plugins.inter_pod_affinity.definition import AFFINITY, ANTI_AFFINITY, EXISTING
from tests.plugins.recorded import bench_of, clusters, differences

REASONS = frozenset((AFFINITY, ANTI_AFFINITY, EXISTING))
WEIGHT = 2
THEMES = ("affinity", "spread", "mixed", "plain", "preempt")


@pytest.mark.parametrize("theme", THEMES)
def test_every_recorded_decision_is_ours(theme: str) -> None:
    found: list[str] = []
    cases = 0
    for cluster in clusters(theme):
        bench = bench_of(InterPodAffinity, cluster["objects"])
        for case in cluster["pods"]:
            cases += 1
            found += [f"seed {cluster['seed']}: {text}" for text in judged(bench, case)]

    assert cases >= 100
    assert found == []


def judged(bench: Any, case: Any) -> list[str]:
    return differences(bench, REASONS, frozenset(), WEIGHT, case)
