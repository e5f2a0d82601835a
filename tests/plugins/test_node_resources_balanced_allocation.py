"""NodeResourcesBalancedAllocation: how much more evenly a node would be used with the pod; 75 is no change."""

import pytest

from config.types import NodeResourcesBalancedAllocationArgs, ResourceSpec
from plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from tests.builders import make_node, make_pod
from tests.plugins.harness import Bench

GPU = "example.com/gpu"


def bench(*running, resources=(), **node) -> Bench:
    args = NodeResourcesBalancedAllocationArgs(resources=tuple(ResourceSpec(name=name) for name in resources))
    return Bench(
        NodeResourcesBalancedAllocation,
        nodes=[make_node("n1", **node)],
        pods=running,
        args=args if resources else None,
    )


def on_n1(**fields):
    return make_pod("running", node_name="n1", **fields)


@pytest.mark.parametrize(
    ("cluster", "pod", "score"),
    [
        pytest.param(bench(), make_pod("web", cpu="100m", memory="500Mi"), 74, id="a small pod on an empty node"),
        pytest.param(bench(), make_pod("web", cpu="3", memory="2Gi"), 57, id="a lopsided pod on an empty node"),
        pytest.param(
            bench(on_n1(cpu="2", memory="2Gi")), make_pod("web", memory="14Gi"), 86, id="a pod that evens out the node"
        ),
        pytest.param(bench(), make_pod("web", cpu="2", memory="16Gi"), 75, id="an even pod changes nothing"),
        pytest.param(
            bench(on_n1()), make_pod("web", cpu="2", memory="16Gi"), 75, id="pods without requests count for nothing"
        ),
        pytest.param(bench(), make_pod("web", cpu="8", memory="64Gi"), 75, id="a share is at most all"),
        pytest.param(bench(cpu="0"), make_pod("web", cpu="1", memory="16Gi"), 75, id="one resource is always even"),
        pytest.param(
            bench(resources=("cpu", "memory", GPU), extra={GPU: "4"}),
            make_pod("web", cpu="2", memory="16Gi"),
            75,
            id="an extended resource that the pod does not request is left out",
        ),
        pytest.param(
            bench(resources=("cpu", "memory", GPU), extra={GPU: "4"}),
            make_pod("web", cpu="2", requests={GPU: "4"}),
            54,
            id="three resources: shares of a half, none and all deviate by 0.408",
        ),
        pytest.param(
            bench(resources=("cpu", "memory", GPU)),
            make_pod("web", cpu="2", requests={GPU: "4"}),
            62,
            id="of three resources the node has two: half and none deviate by 0.25",
        ),
    ],
)
def test_scores_say_how_much_more_even_a_node_gets(cluster, pod, score):
    assert cluster.score(pod) == {"n1": score}


@pytest.mark.parametrize(
    ("pod", "skipped"),
    [
        pytest.param(make_pod("web"), True, id="no requests at all"),
        pytest.param(make_pod("web", requests={"ephemeral-storage": "1Gi"}), True, id="only other resources"),
        pytest.param(make_pod("web", requests={"cpu": "0"}), True, id="a request of nothing"),
        pytest.param(make_pod("web", memory="1"), False, id="a byte of memory"),
    ],
)
def test_pods_that_request_none_of_the_resources_are_not_scored(pod, skipped):
    assert (bench().score(pod) is None) is skipped


def test_evenness_without_the_pod_follows_the_pods_on_the_node():
    cluster = bench()
    pod = make_pod("web", memory="14Gi")
    assert cluster.score(pod) == {"n1": 64}
    cluster.cache.add_pod(on_n1(cpu="2", memory="2Gi", uid="a"))
    assert cluster.score(pod) == {"n1": 86}
    cluster.cache.remove_pod("a")
    assert cluster.score(pod) == {"n1": 64}
