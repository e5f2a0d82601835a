"""What the real kube-scheduler said, held against each of the plugins that look at one node by itself."""

from typing import Any

import pytest

from plugins.image_locality import ImageLocality
from plugins.node_affinity import NOT_MATCHED, NodeAffinity
from plugins.node_ports import NodePorts
from plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from plugins.node_resources_fit import TOO_MANY_PODS, NodeResourcesFit, insufficient
from plugins.node_unschedulable import NodeUnschedulable
from plugins.taint_toleration import TaintToleration
from scheduler.framework.plugin import Plugin
from tests.plugins.recorded import bench_of, clusters, differences

RESOURCES = ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu")
#: the reasons of each plugin, in the order in which plugins are asked
REASONS: dict[type[Plugin], frozenset[str]] = {
    NodeUnschedulable: frozenset({NodeUnschedulable.reason}),
    TaintToleration: frozenset({TaintToleration.reason}),
    NodeAffinity: frozenset({NOT_MATCHED}),
    NodePorts: frozenset({NodePorts.reason}),
    NodeResourcesFit: frozenset({TOO_MANY_PODS, *map(insufficient, RESOURCES)}),
    NodeResourcesBalancedAllocation: frozenset(),
    ImageLocality: frozenset(),
}
WEIGHTS: dict[type[Plugin], int] = {TaintToleration: 3, NodeAffinity: 2}


def later_reasons(plugin: type[Plugin]) -> frozenset[str]:
    """Reasons of the plugins asked after this one."""
    order = list(REASONS)
    return frozenset().union(*(REASONS[each] for each in order[order.index(plugin) + 1 :]))


@pytest.mark.parametrize(
    ("plugin", "themes"),
    [
        pytest.param(NodeUnschedulable, ("taints",), id="NodeUnschedulable"),
        pytest.param(TaintToleration, ("taints", "mixed"), id="TaintToleration"),
        pytest.param(NodeAffinity, ("affinity", "mixed"), id="NodeAffinity"),
        pytest.param(NodePorts, ("plain", "mixed"), id="NodePorts"),
        pytest.param(NodeResourcesFit, ("plain", "evict", "mixed"), id="NodeResourcesFit"),
        pytest.param(NodeResourcesBalancedAllocation, ("plain", "mixed"), id="NodeResourcesBalancedAllocation"),
        pytest.param(ImageLocality, ("images",), id="ImageLocality"),
    ],
)
def test_the_plugin_says_what_kube_scheduler_said(plugin: Any, themes):
    found = []
    for cluster in clusters(*themes):
        bench = bench_of(plugin, cluster["objects"])
        for case in cluster["pods"]:
            said = differences(bench, REASONS[plugin], later_reasons(plugin), WEIGHTS.get(plugin, 1), case)
            found += [f"seed {cluster['seed']} {cluster['theme']}: {difference}" for difference in said]
    assert not found
