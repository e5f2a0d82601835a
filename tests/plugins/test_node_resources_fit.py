"""NodeResourcesFit: what fits, every reason why not, three ways to score, and what wakes a pod it refused."""

from types import SimpleNamespace

import pytest

from config.types import (
    NodeResourcesFitArgs,
    RequestedToCapacityRatio,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from kube.api.core import ContainerStatus, PodStatus, ResourceRequirements
from plugins.helpers.allocation import broken_linear
from plugins.node_resources_fit import DEVICE_BACKED, NodeResourcesFit
from scheduler.framework.cluster_event import EventResource, QueueingHint
from scheduler.framework.status import Code
from tests.builders import make_container, make_node, make_pod
from tests.plugins.harness import Bench

QUEUE, LEAVE = QueueingHint.QUEUE, QueueingHint.SKIP
GPU = "example.com/gpu"
FITS: tuple[str, ...] = ()


def bench(*running, args: NodeResourcesFitArgs | None = None, gates=None, objects=(), **node) -> Bench:
    return Bench(
        NodeResourcesFit, nodes=[make_node("n1", **node)], pods=running, args=args, gates=gates, objects=objects
    )


def on_n1(name: str = "running", **fields):
    return make_pod(name, node_name="n1", **fields)


# --- Filter ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cluster", "pod", "reasons", "hopeless"),
    [
        pytest.param(bench(), make_pod("web", cpu="4", memory="32Gi"), FITS, False, id="exactly all of an empty node"),
        pytest.param(bench(on_n1(cpu="3")), make_pod("web", cpu="1"), FITS, False, id="exactly what is left"),
        pytest.param(
            bench(on_n1(cpu="3")), make_pod("web", cpu="1001m"), ("Insufficient cpu",), False, id="a milli too much"
        ),
        pytest.param(bench(), make_pod("web", cpu="4001m"), ("Insufficient cpu",), True, id="more than the node has"),
        pytest.param(
            bench(on_n1(cpu="1", memory="32Gi"), pods="1", extra={GPU: "1"}),
            make_pod("web", cpu="3500m", memory="1", requests={GPU: "2", "ephemeral-storage": "1Gi"}),
            (
                "Too many pods",
                "Insufficient cpu",
                "Insufficient memory",
                "Insufficient ephemeral-storage",
                f"Insufficient {GPU}",
            ),
            True,
            id="all that is lacking is named, in order",
        ),
        pytest.param(
            bench(on_n1(), pods="1"), make_pod("web"), ("Too many pods",), False, id="no room for one more pod"
        ),
        pytest.param(
            bench(pods="0"), make_pod("web"), ("Too many pods",), False, id="a node that takes no pods at all"
        ),
        pytest.param(
            bench(on_n1(cpu="5")),
            make_pod("web", memory="1Gi"),
            FITS,
            False,
            id="an overfull resource that is not asked for",
        ),
        pytest.param(
            bench(on_n1(cpu="5", memory="40Gi")),
            make_pod("web", requests={"cpu": "0", "memory": "0"}),
            FITS,
            False,
            id="zero requests only count the pod",
        ),
        pytest.param(
            bench(), make_pod("web", requests={GPU: "1"}), (f"Insufficient {GPU}",), True, id="no such resource"
        ),
        pytest.param(
            bench(on_n1(requests={GPU: "1"}), extra={GPU: "2"}),
            make_pod("web", requests={GPU: "2"}),
            (f"Insufficient {GPU}",),
            False,
            id="an extended resource is counted like any other",
        ),
        pytest.param(
            bench(extra={"example.com/b": "0", "example.com/a": "0"}),
            make_pod("web", requests={"example.com/b": "1", "example.com/a": "1"}),
            ("Insufficient example.com/a", "Insufficient example.com/b"),
            True,
            id="scalar resources are named by name",
        ),
        pytest.param(
            bench(),
            make_pod("web", cpu="1", init_containers=[make_container("init", cpu="5")]),
            ("Insufficient cpu",),
            True,
            id="the greatest init container counts",
        ),
        pytest.param(
            bench(),
            make_pod("web", cpu="3", overhead={"cpu": "1500m"}),
            ("Insufficient cpu",),
            True,
            id="overhead counts",
        ),
        pytest.param(
            bench(on_n1("other", scheduler_name="other", cpu="3")),
            make_pod("web", cpu="2"),
            ("Insufficient cpu",),
            False,
            id="pods of other schedulers count",
        ),
        pytest.param(
            bench(on_n1(cpu="3", deletion_timestamp="2026-01-01T00:00:00Z")),
            make_pod("web", cpu="2"),
            ("Insufficient cpu",),
            False,
            id="terminating pods count until they are gone",
        ),
        pytest.param(
            bench(extra={"example.com/bytes": str(2**60)}),
            make_pod("web", requests={"example.com/bytes": str(2**60 + 1)}),
            ("Insufficient example.com/bytes",),
            True,
            id="one more than 2^60 is more",
        ),
        pytest.param(
            bench(on_n1(requests={"example.com/bytes": "1"}), extra={"example.com/bytes": str(2**60)}),
            make_pod("web", requests={"example.com/bytes": str(2**60 - 1)}),
            FITS,
            False,
            id="one less than 2^60 fits beside one",
        ),
    ],
)
def test_a_pod_fits_where_all_its_requests_do(cluster, pod, reasons, hopeless):
    status = cluster.filter(pod)["n1"]
    assert status.reasons == reasons
    if reasons:
        assert (status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE) is hopeless


@pytest.mark.parametrize(
    ("args", "resource", "fits"),
    [
        pytest.param(NodeResourcesFitArgs(ignored_resources=(GPU,)), GPU, True, id="an ignored resource"),
        pytest.param(NodeResourcesFitArgs(ignored_resources=(GPU,)), "example.com/tpu", False, id="another one"),
        pytest.param(NodeResourcesFitArgs(ignored_resource_groups=("example.com",)), GPU, True, id="an ignored group"),
        pytest.param(NodeResourcesFitArgs(ignored_resource_groups=("example",)), GPU, False, id="part of a group"),
        pytest.param(
            NodeResourcesFitArgs(ignored_resources=("hugepages-2Mi",)), "hugepages-2Mi", False, id="huge pages never"
        ),
    ],
)
def test_only_extended_resources_can_be_ignored(args, resource, fits):
    assert bench(args=args).filter(make_pod("web", requests={resource: "1"}))["n1"].ok is fits


def test_an_extended_resource_of_device_classes_is_left_to_their_plugin_where_the_node_has_none():
    nodes = [make_node("devices"), make_node("own", extra={GPU: "1"}), make_node("small", cpu="1")]
    cluster = Bench(NodeResourcesFit, nodes=nodes)
    pod = make_pod("web", cpu="2", requests={GPU: "2"})
    state = cluster.state(pod)
    cluster.pre_filter(pod, state)
    state.write(DEVICE_BACKED, frozenset({GPU}))
    mask = cluster.plugin.filter(state, pod, cluster.snapshot.nodes)
    assert mask.tolist() == [True, False, False]
    one_by_one = cluster.filter_one_by_one(state, pod)
    assert {name: status.reasons for name, status in one_by_one.items()} == {
        "devices": (),
        "own": (f"Insufficient {GPU}",),
        "small": ("Insufficient cpu",),
    }


# --- Score -------------------------------------------------------------------------------------------------------


def strategy(type_: str, *points: tuple[int, int], resources: dict[str, int] | None = None) -> NodeResourcesFitArgs:
    shape = tuple(UtilizationShapePoint(utilization=u, score=s) for u, s in points)
    wanted = {"cpu": 1, "memory": 1} if resources is None else resources
    return NodeResourcesFitArgs(
        scoring_strategy=ScoringStrategy(
            type=type_,
            resources=tuple(ResourceSpec(name=name, weight=weight) for name, weight in wanted.items()),
            requested_to_capacity_ratio=RequestedToCapacityRatio(shape=shape) if shape else None,
        )
    )


LEAST, MOST = strategy("LeastAllocated"), strategy("MostAllocated")
SMALL = make_pod("web", cpu="100m", memory="500Mi")
UP = ((0, 0), (100, 10))
DOWN = ((0, 10), (100, 0))
ONLY_CPU = {"cpu": 1}
PIB = 2**50


@pytest.mark.parametrize(
    ("args", "cluster", "pod", "score"),
    [
        pytest.param(None, {}, SMALL, 97, id="least allocated is the default: 97 and 98 are 97"),
        pytest.param(MOST, {}, SMALL, 1, id="most allocated: 2 and 1 are 1"),
        pytest.param(LEAST, {}, make_pod("web"), 98, id="a pod without requests counts as 100m and 200 MiB"),
        pytest.param(LEAST, {"cpu": "50m"}, SMALL, 49, id="a resource that is too small scores 0"),
        pytest.param(MOST, {"cpu": "50m"}, SMALL, 50, id="a resource that is too small is fully used"),
        pytest.param(LEAST, {"cpu": "0"}, SMALL, 98, id="a resource that the node does not have is left out"),
        pytest.param(LEAST, {"cpu": "0", "memory": "0"}, SMALL, 0, id="a node that has none of them scores 0"),
        pytest.param(
            strategy("LeastAllocated", resources={"cpu": 3, "memory": 1}), {}, SMALL, 97, id="weights: 389 / 4"
        ),
        pytest.param(
            strategy("MostAllocated", resources={"cpu": 1, GPU: 3}),
            {"extra": {GPU: "4"}},
            make_pod("web", cpu="1", requests={GPU: "2"}),
            43,
            id="an extended resource that the pod requests counts: (25 + 3*50) / 4",
        ),
        pytest.param(
            strategy("MostAllocated", resources={"cpu": 1, GPU: 3}),
            {"extra": {GPU: "4"}},
            make_pod("web", cpu="1"),
            25,
            id="an extended resource that the pod does not request is left out",
        ),
        pytest.param(
            strategy("LeastAllocated", resources={"ephemeral-storage": 1}),
            {"extra": {"ephemeral-storage": "100"}},
            make_pod("web"),
            100,
            id="ephemeral storage counts as requested, without a default",
        ),
        pytest.param(
            strategy("LeastAllocated", resources={"memory": 1}),
            {"memory": str(PIB + 47)},
            make_pod("web", memory="776870935721443"),
            30,
            id="a share so close below 31 that float64 would make it 31",
        ),
        pytest.param(strategy("LeastAllocated", resources={"pods": 1}), {}, SMALL, 0, id="pods are no scored resource"),
        pytest.param(
            strategy("LeastAllocated", resources={"example.com/bytes": 1}),
            {"extra": {"example.com/bytes": str(10**18)}},
            make_pod("web", requests={"example.com/bytes": str(10**17 + 1)}),
            89,
            id="one more than a tenth of 10^18 is seen",
        ),
        pytest.param(
            strategy("RequestedToCapacityRatio", *UP, resources=ONLY_CPU),
            {"cpu": "3"},
            make_pod("web", cpu="1"),
            33,
            id="up",
        ),
        pytest.param(
            strategy("RequestedToCapacityRatio", *DOWN, resources=ONLY_CPU),
            {"cpu": "3"},
            make_pod("web", cpu="1"),
            67,
            id="down, truncated toward zero",
        ),
        pytest.param(
            strategy("RequestedToCapacityRatio", *UP, resources=ONLY_CPU),
            {"cpu": "1"},
            make_pod("web", cpu="3"),
            100,
            id="more than all is all",
        ),
        pytest.param(
            strategy("RequestedToCapacityRatio", *UP),
            {"cpu": "2", "memory": "1000Gi"},
            make_pod("web", cpu="1"),
            50,
            id="a resource that scores 0 drops out of the mean",
        ),
        pytest.param(
            strategy("RequestedToCapacityRatio", *UP),
            {"cpu": "4", "memory": "4Gi"},
            make_pod("web", cpu="1", memory="2Gi"),
            38,
            id="the mean is rounded: 37.5 is 38",
        ),
    ],
)
def test_scores_follow_the_strategy(args, cluster, pod, score):
    assert bench(args=args, **cluster).score(pod) == {"n1": score}


def test_running_pods_count_with_the_defaults_of_scoring():
    # 100m + 100m of 1 cpu, 200Mi + 200Mi of 1000Mi: 80 and 60.
    cluster = bench(on_n1(), cpu="1", memory="1000Mi")
    assert cluster.score(make_pod("web")) == {"n1": 70}


@pytest.mark.parametrize(
    ("points", "utilization", "score"),
    [
        pytest.param(((20, 3), (80, 9)), 0, 30, id="constant before the first point"),
        pytest.param(((20, 3), (80, 9)), 20, 30, id="on the first point"),
        pytest.param(((20, 3), (80, 9)), 51, 61, id="between two points"),
        pytest.param(((20, 3), (80, 9)), 80, 90, id="on the last point"),
        pytest.param(((20, 3), (80, 9)), 100, 90, id="constant after the last point"),
        pytest.param(((0, 10), (30, 0), (100, 10)), 10, 67, id="down a slope, toward zero"),
        pytest.param(((50, 5),), 99, 50, id="a single point"),
    ],
)
def test_a_shape_is_straight_between_its_points(points, utilization, score):
    shape = [UtilizationShapePoint(utilization=u, score=s) for u, s in points]
    assert broken_linear(shape, utilization) == score


# --- queueing hints ----------------------------------------------------------------------------------------------

ASKING = make_pod("web", uid="web", cpu="2", requests={GPU: "1"})


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        pytest.param(on_n1(), None, QUEUE, id="an assigned pod is gone"),
        pytest.param(make_pod("a", nominated_node_name="n1"), None, QUEUE, id="a nominated pod is gone"),
        pytest.param(make_pod("a"), None, LEAVE, id="a pod without a place is gone"),
        pytest.param(ASKING, ASKING, QUEUE, id="the pod itself shrank"),
        pytest.param(on_n1(uid="a", cpu="2"), on_n1(uid="a", cpu="1"), QUEUE, id="an assigned pod gave back cpu"),
        pytest.param(
            on_n1(uid="a", memory="2"), on_n1(uid="a", memory="1"), LEAVE, id="it gave back what is not asked"
        ),
        pytest.param(
            make_pod("a", uid="a", cpu="2"), make_pod("a", uid="a", cpu="1"), LEAVE, id="a waiting pod shrank"
        ),
    ],
)
def test_room_that_was_freed_wakes_pods(old, new, hint):
    assert bench().plugin.room_was_freed(ASKING, old, new) is hint


def resized(actual: str):
    """An assigned pod that wants 1 cpu and still holds `actual`."""
    held = ContainerStatus(name="main", resources=ResourceRequirements(requests={"cpu": actual}))
    return on_n1(uid="a", cpu="1", status=PodStatus(container_statuses=(held,)))


def test_a_resize_frees_room_when_the_kubelet_has_done_it():
    assert bench().plugin.room_was_freed(ASKING, resized("2"), resized("2")) is LEAVE
    assert bench().plugin.room_was_freed(ASKING, resized("2"), resized("1")) is QUEUE


def node(cpu: str = "4", gpu: str = "1", pods: str = "110", memory: str = "32Gi"):
    return make_node("n1", cpu=cpu, memory=memory, pods=pods, extra={GPU: gpu})


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        pytest.param(None, node(), QUEUE, id="a node with room is added"),
        pytest.param(None, node(cpu="1"), LEAVE, id="a node without room is added"),
        pytest.param(None, node(pods="0"), LEAVE, id="a node that takes no pods is added"),
        pytest.param(node(cpu="2"), node(cpu="4"), QUEUE, id="what is asked for grew"),
        pytest.param(node(gpu="1"), node(gpu="2"), QUEUE, id="an extended resource grew"),
        pytest.param(node(pods="10"), node(pods="11"), QUEUE, id="the number of pods grew"),
        pytest.param(node(memory="1Gi"), node(memory="2Gi"), LEAVE, id="something else grew"),
        pytest.param(node(cpu="4"), node(cpu="3"), LEAVE, id="the node shrank"),
        pytest.param(node(gpu="0"), node(cpu="8", gpu="0"), LEAVE, id="it grew and still lacks something"),
    ],
)
def test_a_node_wakes_pods_that_it_could_take(old, new, hint):
    assert bench().plugin.room_was_added(ASKING, old, new) is hint


def device_class(name: str, extended: str = ""):
    """As far as hints read device classes."""
    metadata, spec = SimpleNamespace(name=name, namespace=""), SimpleNamespace(extended_resource_name=extended)
    return SimpleNamespace(metadata=metadata, spec=spec)


DRA = {"DRAExtendedResource": True}


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        pytest.param(None, device_class("gpus", GPU), QUEUE, id="a class for the resource is added"),
        pytest.param(None, device_class("gpus"), LEAVE, id="a class for nothing is added"),
        pytest.param(device_class("gpus"), device_class("gpus", GPU), QUEUE, id="a class comes to back the resource"),
        pytest.param(device_class("gpus", GPU), device_class("gpus", GPU), LEAVE, id="it backed it all along"),
    ],
)
def test_a_device_class_that_backs_a_requested_resource_wakes_pods(old, new, hint):
    assert bench(gates=DRA).plugin.device_class_came(ASKING, old, new) is hint


def test_a_new_device_class_backs_the_resource_of_its_own_name():
    pod = make_pod("web", requests={"deviceclass.resource.kubernetes.io/gpus": "1"})
    plugin = bench(gates=DRA).plugin
    assert plugin.device_class_came(pod, None, device_class("gpus")) is QUEUE
    assert plugin.device_class_came(pod, None, device_class("nics")) is LEAVE


def test_a_node_without_the_resource_wakes_pods_whose_devices_it_may_have():
    cluster = bench(gates=DRA)
    bare = make_node("n2")
    assert cluster.plugin.room_was_added(ASKING, None, bare) is LEAVE
    cluster.lister("DeviceClass").put(device_class("gpus", GPU))
    assert cluster.plugin.room_was_added(ASKING, None, bare) is QUEUE
    by_class = make_pod("web", requests={"deviceclass.resource.kubernetes.io/gpus": "1"})
    assert cluster.plugin.room_was_added(by_class, None, bare) is QUEUE
    by_another = make_pod("web", requests={"deviceclass.resource.kubernetes.io/nics": "1"})
    assert cluster.plugin.room_was_added(by_another, None, bare) is LEAVE


def test_device_classes_matter_only_with_their_gate():
    def resources(cluster: Bench) -> set[str]:
        return {entry.event.resource for entry in cluster.plugin.events}

    assert EventResource.DEVICE_CLASS in resources(bench(gates=DRA))
    assert EventResource.DEVICE_CLASS not in resources(bench(gates=dict.fromkeys(DRA, False)))
