"""NodeInfo: sums over the pods of a node, and when host ports clash (facts 2.3)."""

import pytest

from scheduler.snapshot.node_info import NodeInfo, allocatable_of, ports_conflict
from scheduler.snapshot.pod_info import ShapeTable
from tests.builders import HOSTNAME, affinity, make_node, make_pod, pod_term

SHAPES = ShapeTable()


@pytest.mark.parametrize(
    ("used", "wanted", "conflict"),
    [
        pytest.param({}, ("TCP", "0.0.0.0", 80), False, id="nothing is used"),
        pytest.param({("TCP", 80): {"0.0.0.0": 1}}, ("TCP", "0.0.0.0", 80), True, id="the same port"),
        pytest.param({("TCP", 80): {"0.0.0.0": 1}}, ("TCP", "0.0.0.0", 81), False, id="another port"),
        pytest.param({("TCP", 80): {"0.0.0.0": 1}}, ("UDP", "0.0.0.0", 80), False, id="another protocol"),
        pytest.param({("TCP", 80): {"10.0.0.1": 1}}, ("TCP", "10.0.0.2", 80), False, id="another address"),
        pytest.param({("TCP", 80): {"10.0.0.1": 1}}, ("TCP", "0.0.0.0", 80), True, id="all addresses are wanted"),
        pytest.param({("TCP", 80): {"0.0.0.0": 1}}, ("TCP", "10.0.0.1", 80), True, id="all addresses are used"),
    ],
)
def test_host_ports(used: dict[tuple[str, int], dict[str, int]], wanted: tuple[str, str, int], conflict: bool) -> None:
    assert ports_conflict(used, *wanted) is conflict


def test_allocatable_is_rounded_up_and_cpu_in_milli() -> None:
    node = make_node("n", cpu="1500m", memory="1Ki", pods="5", extra={"example.com/gpu": "2"})
    assert allocatable_of(node) == {"cpu": 1500, "memory": 1024, "pods": 5, "example.com/gpu": 2}


def test_a_clone_can_be_changed_without_the_original_noticing() -> None:
    anti = affinity(anti_required=[pod_term(HOSTNAME, {"app": "db"})])
    first = SHAPES.pod_info(make_pod("a", cpu="1", host_ports=[80], claims=["data"], affinity=anti))
    second = SHAPES.pod_info(make_pod("b", cpu="2", host_ports=[81], claims=["data"], affinity=anti))
    node = NodeInfo("n")
    node.set_node(make_node("n"))
    node.add_pod(first)
    clone = node.clone()
    clone.add_pod(second)
    clone.remove_pod(first)
    assert (set(node.pods), node.requested["cpu"], node.pvc_ref_counts) == ({first.uid}, 1000, {"default/data": 1})
    assert set(node.used_ports) == {("TCP", 80)}
    assert set(node.pods_with_required_anti_affinity) == {first.uid}
    assert (set(clone.pods), clone.requested["cpu"], set(clone.used_ports)) == ({second.uid}, 2000, {("TCP", 81)})


def test_two_pods_on_one_port_leave_it_used_until_the_second_is_gone() -> None:
    node = NodeInfo("n")
    pods = [SHAPES.pod_info(make_pod(name, host_ports=[80])) for name in "ab"]
    for pod in pods:
        node.add_pod(pod)
    node.remove_pod(pods[0])
    assert node.used_ports == {("TCP", 80): {"0.0.0.0": 1}}
    node.remove_pod(pods[1])
    assert node.used_ports == {}


def test_removing_a_pod_that_is_not_there_is_a_bug() -> None:
    with pytest.raises(KeyError):
        NodeInfo("n").remove_pod(SHAPES.pod_info(make_pod("a")))
