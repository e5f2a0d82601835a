"""Effective requests: sidecars and init containers, pod level, overhead, resize in progress; host ports; QoS."""

import pytest
from msgspec.structs import replace

from kube.api.core import Condition, ContainerStatus, PodStatus, ResourceRequirements
from kube.api.pod_requests import (
    host_ports,
    is_extended_resource,
    is_scalar_resource,
    non_zero_requests,
    pod_requests,
)
from tests.builders import host_port, make_container, make_pod

MIB = 1 << 20


def sized(cpu, **kwargs):
    return make_container(cpu=cpu, **kwargs)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(make_pod("p"), {}, id="nothing asked"),
        pytest.param(make_pod("p", cpu="0"), {"cpu": 0}, id="an explicit zero stays"),
        pytest.param(make_pod("p", cpu="1.5", memory="1Gi"), {"cpu": 1500, "memory": 1024 * MIB}, id="one container"),
        pytest.param(make_pod("p", containers=[sized("1"), sized("2")]), {"cpu": 3000}, id="containers add up"),
        pytest.param(
            make_pod("p", containers=[sized("0.5m"), sized("0.5m")]), {"cpu": 1}, id="the sum is rounded, not its parts"
        ),
        pytest.param(make_pod("p", memory="1500m"), {"memory": 2}, id="memory is rounded up to bytes"),
        pytest.param(
            make_pod("p", cpu="1", init_containers=[sized("3"), sized("2")]),
            {"cpu": 3000},
            id="the largest init container",
        ),
        pytest.param(
            make_pod("p", cpu="1", init_containers=[sized("2", sidecar=True)]),
            {"cpu": 3000},
            id="a sidecar adds to main",
        ),
        pytest.param(
            make_pod("p", cpu="1", init_containers=[sized("2", sidecar=True), sized("4")]),
            {"cpu": 6000},
            id="an init container runs beside the sidecars before it",
        ),
        pytest.param(
            make_pod("p", cpu="1", init_containers=[sized("4"), sized("2", sidecar=True)]),
            {"cpu": 4000},
            id="but not beside those after it",
        ),
        pytest.param(
            make_pod(
                "p",
                cpu="700m",
                init_containers=[
                    sized("100m", sidecar=True),
                    sized("800m"),
                    sized("200m", sidecar=True),
                    sized("900m"),
                ],
            ),
            {"cpu": 1200},
            id="sidecars pile up along the way",
        ),
        pytest.param(
            make_pod("p", cpu="1", init_containers=[sized(None, memory="5Mi")]),
            {"cpu": 1000, "memory": 5 * MIB},
            id="each resource has its own maximum",
        ),
        pytest.param(
            make_pod("p", cpu="1", overhead={"cpu": "250m", "memory": "1Mi"}),
            {"cpu": 1250, "memory": MIB},
            id="overhead comes on top",
        ),
        pytest.param(
            make_pod(
                "p",
                cpu="1",
                requests={"example.com/gpu": "2", "hugepages-2Mi": "4Mi"},
                resources=ResourceRequirements(
                    requests={"cpu": "3", "hugepages-2Mi": "2Mi", "example.com/gpu": "9", "ephemeral-storage": "1"}
                ),
                overhead={"cpu": "1"},
            ),
            {"cpu": 4000, "example.com/gpu": 2, "hugepages-2Mi": 2 * MIB},
            id="pod-level cpu, memory and huge pages replace the sum, overhead is added",
        ),
        pytest.param(
            make_pod("p", cpu="1", resources=ResourceRequirements(limits={"cpu": "3"})),
            {"cpu": 1000},
            id="pod-level limits are no requests",
        ),
    ],
)
def test_effective_requests(pod, expected):
    assert pod_requests(pod) == expected


def resized(spec, allocated, actuated, *, sidecar=False, **status):
    reported = ContainerStatus(
        name="main",
        allocated_resources={"cpu": allocated},
        resources=None if actuated is None else ResourceRequirements(requests={"cpu": actuated}),
    )
    if sidecar:
        return make_pod(
            "p",
            containers=[],
            init_containers=[sized(spec, sidecar=True)],
            status=PodStatus(init_container_statuses=(reported,), **status),
        )
    return make_pod("p", cpu=spec, status=PodStatus(container_statuses=(reported,), **status))


INFEASIBLE = {"conditions": (Condition(type="PodResizePending", status="True", reason="Infeasible"),)}


@pytest.mark.parametrize(
    ("pod", "milli_cpu"),
    [
        pytest.param(resized("2", "1", "1"), 2000, id="growing counts as wanted"),
        pytest.param(resized("1", "2", "1"), 2000, id="allocated is larger"),
        pytest.param(resized("1", "1", "3"), 3000, id="still actuated at the larger size"),
        pytest.param(resized("5", "2", "1", **INFEASIBLE), 2000, id="an infeasible wish does not count"),
        pytest.param(resized("5", "1", "2", resize="Infeasible"), 2000, id="the verdict of servers before 1.33"),
        pytest.param(resized("2", "4", None), 2000, id="no actuated size reported, so the spec counts"),
        pytest.param(resized("1", "2", "1", sidecar=True), 2000, id="sidecars can be resized"),
    ],
)
def test_a_resize_in_progress_counts_for_assigned_pods(pod, milli_cpu):
    assert pod_requests(pod, assigned=True)["cpu"] == milli_cpu


def test_the_pending_pod_is_sized_from_its_spec():
    assert pod_requests(resized("1", "2", "3"))["cpu"] == 1000


def test_an_ordinary_init_container_is_not_resized():
    pod = resized("1", "2", "3", sidecar=True)
    ordinary = replace(pod, spec=replace(pod.spec, init_containers=(sized("1"),)))
    assert pod_requests(ordinary, assigned=True)["cpu"] == 1000


def test_a_pod_level_resize_counts_its_largest_size():
    status = PodStatus(
        resources=ResourceRequirements(requests={"cpu": "2", "example.com/gpu": "1"}), allocated_resources={"cpu": "4"}
    )
    pod = make_pod("p", resources=ResourceRequirements(requests={"cpu": "3"}), status=status)
    assert pod_requests(pod, assigned=True) == {"cpu": 4000}
    assert pod_requests(pod) == {"cpu": 3000}
    refused = replace(pod, status=replace(status, allocated_resources={}, **INFEASIBLE))
    assert pod_requests(refused, assigned=True) == {"cpu": 2000}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(make_pod("p"), (100, 200 * MIB), id="the defaults"),
        pytest.param(make_pod("p", cpu="0", memory="0"), (0, 0), id="an explicit zero is an answer"),
        pytest.param(make_pod("p", cpu="1"), (1000, 200 * MIB), id="only memory is missing"),
        pytest.param(make_pod("p", containers=[sized("1"), sized(None)]), (1100, 400 * MIB), id="per container"),
        pytest.param(
            make_pod("p", cpu="10m", init_containers=[sized(None)]), (100, 200 * MIB), id="init containers get them too"
        ),
        pytest.param(
            make_pod("p", cpu="10m", init_containers=[sized(None, sidecar=True), sized("1")]),
            (1100, 400 * MIB),
            id="and so do sidecars",
        ),
        pytest.param(make_pod("p", overhead={"cpu": "5m"}), (105, 200 * MIB), id="overhead on top"),
        pytest.param(
            make_pod("p", resources=ResourceRequirements(requests={"cpu": "2"})),
            (2000, 200 * MIB),
            id="pod-level cpu, memory asked by nobody",
        ),
        pytest.param(
            make_pod(
                "p",
                containers=[sized("1", memory="7Mi"), sized("1")],
                resources=ResourceRequirements(requests={"cpu": "2"}),
            ),
            (2000, 7 * MIB),
            id="with pod-level requests no defaults where one container asks",
        ),
    ],
)
def test_non_zero_requests_for_scoring(pod, expected):
    assert non_zero_requests(pod) == expected


@pytest.mark.parametrize(
    ("name", "scalar", "extended"),
    [
        ("cpu", False, False),
        ("memory", False, False),
        ("pods", False, False),
        ("ephemeral-storage", False, False),
        ("example.com/gpu", True, True),
        ("hugepages-2Mi", True, False),
        ("attachable-volumes-aws-ebs", True, False),
        ("kubernetes.io/batch-cpu", True, False),
        ("deviceclass.resource.kubernetes.io/gpu", True, False),
        ("requests.example.com/gpu", False, False),
        ("unknown", False, False),
    ],
)
def test_which_resources_are_counted(name, scalar, extended):
    assert (is_scalar_resource(name), is_extended_resource(name)) == (scalar, extended)


def test_host_ports_of_containers_and_sidecars():
    pod = make_pod(
        "p",
        host_ports=[80, host_port(53, protocol="UDP", ip="10.0.0.1"), 0],
        init_containers=[
            make_container("sidecar", ports=[host_port(9)], sidecar=True),
            make_container("init", ports=[host_port(7)]),
        ],
    )
    assert host_ports(pod) == (("TCP", "0.0.0.0", 80), ("UDP", "10.0.0.1", 53), ("TCP", "0.0.0.0", 9))
