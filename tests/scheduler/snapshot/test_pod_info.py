"""PodInfo and PodShape: what replicas share, and what is a pod's own."""

from typing import Any

import pytest

from kube.api.core import ContainerStatus, ImageVolumeSource, Pod, PodStatus, ResourceRequirements, Volume
from scheduler.snapshot.pod_info import ShapeTable, uid_of
from tests.builders import HOSTNAME, affinity, exists, make_container, make_pod, owned_by, pod_term, spread

SHAPES = ShapeTable()
BASE: dict[str, Any] = {"cpu": "1", "labels": {"app": "web"}}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"uid": "other"}, id="uid"),
        pytest.param({"priority": 9}, id="priority"),
        pytest.param({"annotations": {"a": "b"}}, id="annotations"),
        pytest.param({"node_name": "n1"}, id="the node it is on"),
        pytest.param({"nominated_node_name": "n1"}, id="status"),
        pytest.param({"scheduler_name": "podium"}, id="whose pod it is"),
    ],
)
def test_pods_of_one_shape_differ_in(change: dict[str, Any]) -> None:
    assert SHAPES.shape(make_pod("b", **BASE, **change)) is SHAPES.shape(make_pod("a", **BASE))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"cpu": "2"}, id="requests"),
        pytest.param({"labels": {"app": "db"}}, id="labels"),
        pytest.param({"namespace": "other"}, id="namespace"),
        pytest.param({"image": "nginx"}, id="image"),
        pytest.param({"tolerations": [exists("x")]}, id="tolerations"),
        pytest.param({"node_selector": {"disk": "ssd"}}, id="node selector"),
        pytest.param({"affinity": affinity(anti_required=[pod_term(HOSTNAME, {"app": "web"})])}, id="affinity"),
        pytest.param({"spread": [spread(HOSTNAME, {"app": "web"})]}, id="spread constraints"),
        pytest.param({"host_ports": [80]}, id="host ports"),
        pytest.param({"claims": ["data"]}, id="claims"),
        pytest.param({"owner": owned_by("ReplicaSet", "rs")}, id="controller"),
        pytest.param({"overhead": {"cpu": "10m"}}, id="overhead"),
    ],
)
def test_pods_of_different_shapes_differ_in(change: dict[str, Any]) -> None:
    assert SHAPES.shape(make_pod("a", **{**BASE, **change})) is not SHAPES.shape(make_pod("a", **BASE))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"cpu": "2"}, id="how much they request"),
        pytest.param({"claims": ["other"]}, id="the claim that they use"),
        pytest.param({"init_containers": [make_container("init", cpu="3")]}, id="how much an init container requests"),
    ],
)
def test_shapes_of_one_family_differ_in(change: dict[str, Any]) -> None:
    base = {**BASE, "cpu": "1", "claims": ["own"], "init_containers": [make_container("init", cpu="1")]}
    one, other = SHAPES.shape(make_pod("a", **base)), SHAPES.shape(make_pod("b", **{**base, **change}))
    assert one is not other
    assert one.family_key == other.family_key


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"labels": {"app": "other"}}, id="labels"),
        pytest.param({"namespace": "other"}, id="namespace"),
        pytest.param({"image": "other"}, id="image"),
        pytest.param({"host_ports": [80]}, id="host port"),
        pytest.param({"requests": {"cpu": "1", "example.com/gpu": "1"}}, id="whether they request a resource"),
        pytest.param({"overhead": {"example.com/gpu": "1"}}, id="overhead of a resource"),
        pytest.param({"claims": []}, id="whether they use a claim"),
        pytest.param(
            {"volumes": [Volume(name="v", image=ImageVolumeSource(reference="x"))], "claims": []}, id="image volume"
        ),
        pytest.param({"node_selector": {"disk": "ssd"}}, id="node selector"),
        pytest.param({"tolerations": [exists("dedicated")]}, id="tolerations"),
    ],
)
def test_shapes_of_different_families_differ_in(change: dict[str, Any]) -> None:
    base = {**BASE, "requests": {"cpu": "1"}, "claims": ["own"]}
    one, other = SHAPES.shape(make_pod("a", **base)), SHAPES.shape(make_pod("a", **{**base, **change}))
    assert one.family_key != other.family_key


def test_shapes_live_as_long_as_somebody_holds_them() -> None:
    table = ShapeTable()
    held = table.pod_info(make_pod("a", cpu="7"))
    table.pod_info(make_pod("b", cpu="8"))
    assert len(table) == 1
    assert held.requests == {"cpu": 7000}


def test_a_pod_without_uid_goes_by_its_name() -> None:
    pod = make_pod("web", uid="", namespace="shop")
    assert uid_of(pod) == SHAPES.pod_info(pod).uid == "shop/web"


def test_the_same_pod_on_a_node() -> None:
    info = SHAPES.pod_info(make_pod("web", uid="u", **BASE))
    there = info.on_node("n1")
    assert (there.pod.spec.node_name, there.uid, there.shape) == ("n1", "u", info.shape)
    assert info.pod.spec.node_name == ""


def test_claims_by_namespace() -> None:
    assert SHAPES.pod_info(make_pod("web", namespace="shop", claims=["data", "logs"])).pvc_keys == (
        "shop/data",
        "shop/logs",
    )


def in_a_resize(**fields: Any) -> Pod:
    allocated = ContainerStatus(name="main", resources=ResourceRequirements(requests={"cpu": "3"}))
    return make_pod("web", cpu="1", status=PodStatus(container_statuses=(allocated,)), **fields)


def test_an_assigned_pod_in_a_resize_takes_what_it_still_has() -> None:
    assert SHAPES.pod_info(in_a_resize(node_name="n1")).requests == {"cpu": 3000}


def test_a_pending_pod_is_sized_from_its_spec() -> None:
    assert SHAPES.pod_info(in_a_resize()).requests == {"cpu": 1000}


def test_resources_a_scheduler_does_not_count_are_left_out() -> None:
    info = SHAPES.pod_info(make_pod("web", requests={"cpu": "1", "example.com/gpu": "1", "unknown": "5"}))
    assert info.requests == {"cpu": 1000, "example.com/gpu": 1}
