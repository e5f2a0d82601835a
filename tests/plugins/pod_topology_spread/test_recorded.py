"""PodTopologySpread decides as the real kube-scheduler did, on every recorded cluster."""

import pytest

from plugins.pod_topology_spread import PodTopologySpread
from tests.plugins.inter_pod_affinity import definition as inter_pod_affinity
from tests.plugins.pod_topology_spread.definition import MISSING_KEY, SKEWED
from tests.plugins.recorded import bench_of, clusters, differences

REASONS = frozenset((SKEWED, MISSING_KEY))
#: InterPodAffinity is asked after this plugin
LATER = frozenset((inter_pod_affinity.AFFINITY, inter_pod_affinity.ANTI_AFFINITY, inter_pod_affinity.EXISTING))
WEIGHT = 2


@pytest.mark.parametrize("theme", ["affinity", "spread", "mixed", "plain", "preempt"])
def test_every_recorded_decision_is_ours(theme: str) -> None:
    found: list[str] = []
    cases = 0
    for cluster in clusters(theme):
        bench = bench_of(PodTopologySpread, cluster["objects"])
        for case in cluster["pods"]:
            cases += 1
            found += [f"seed {cluster['seed']}: {t}" for t in differences(bench, REASONS, LATER, WEIGHT, case)]

    assert cases >= 100
    assert found == []
