"""Constraints for pods that bring none: the system's or the profile's, with a selector from Services and owners."""

from typing import Any

import msgspec
import pytest

from config.types import PodTopologySpreadArgs
from kube.api.apps import ReplicaSet, ReplicaSetSpec, StatefulSet, StatefulSetSpec
from kube.api.core import Pod, ReplicationController, ReplicationControllerSpec, Service, ServiceSpec
from kube.api.meta import ObjectMeta
from plugins.pod_topology_spread import PodTopologySpread
from tests.builders import HOSTNAME, ZONE, make_node, make_pod, owned_by, selector, spread
from tests.plugins.harness import Bench

WEB = {"app": "web"}


def meta(name: str, namespace: str = "default") -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace)


def service(match: dict[str, str], namespace: str = "default", name: str = "svc") -> Service:
    return Service(metadata=meta(name, namespace), spec=ServiceSpec(selector=match))


def bench(*objects: Any, args: Any = None, pods: Any = None) -> Bench:
    """a in zone a with two pods of web, b in zone b."""
    running = [make_pod(f"w{i}", labels=WEB, node_name="a") for i in range(2)] if pods is None else pods
    nodes = [make_node("a", zone="a"), make_node("b", zone="b")]
    return Bench(PodTopologySpread, nodes=nodes, pods=running, objects=objects, args=args)


def owned(kind: str, api_version: str = "apps/v1") -> Pod:
    return make_pod("new", labels=WEB | {"tier": "x"}, owner=owned_by(kind, "owner", api_version=api_version))


REPLICA_SET = ReplicaSet(metadata=meta("owner"), spec=ReplicaSetSpec(selector=selector(WEB)))
STATEFUL_SET = StatefulSet(metadata=meta("owner"), spec=StatefulSetSpec(selector=selector(WEB)))
CONTROLLER = ReplicationController(metadata=meta("owner"), spec=ReplicationControllerSpec(selector=WEB))


def test_system_defaults_spread_over_hosts_and_zones() -> None:
    # host: ln(2+2)·2 + 2 = 4.77, zone: ln(2+2)·2 + 4 = 6.77: 12 on a; 2 + 4 on b
    assert bench(service(WEB)).score(make_pod("new", labels=WEB), normalized=False) == {"a": 12, "b": 6}
    assert bench(service(WEB)).score(make_pod("new", labels=WEB)) == {"a": 50, "b": 100}


@pytest.mark.parametrize(
    ("objects", "pod"),
    [
        pytest.param([], make_pod("new", labels=WEB), id="no Service and no owner"),
        pytest.param([service(WEB, "other")], make_pod("new", labels=WEB), id="a Service of another namespace"),
        pytest.param([service(WEB | {"x": "y"})], make_pod("new", labels=WEB), id="a Service that selects others"),
        pytest.param([service({})], make_pod("new", labels=WEB), id="a Service without a selector"),
        pytest.param([REPLICA_SET], owned("ReplicaSet", "example.com/v1"), id="an owner of another API group"),
        pytest.param([], owned("ReplicaSet"), id="an owner that is gone"),
        pytest.param(
            [service(WEB)],
            make_pod("new", labels=WEB, spread=[spread(ZONE, WEB)]),
            id="constraints of its own, none soft",
        ),
    ],
)
def test_no_default_constraints(objects: list[Any], pod: Pod) -> None:
    assert bench(*objects).score(pod) is None


@pytest.mark.parametrize(
    ("objects", "pod"),
    [
        pytest.param([service(WEB)], make_pod("new", labels=WEB | {"x": "y"}), id="a Service that selects the pod"),
        pytest.param([REPLICA_SET], owned("ReplicaSet"), id="its ReplicaSet"),
        pytest.param([STATEFUL_SET], owned("StatefulSet"), id="its StatefulSet"),
        pytest.param([CONTROLLER], owned("ReplicationController", "v1"), id="its ReplicationController"),
        pytest.param([service({"app": "web"}), REPLICA_SET], owned("ReplicaSet"), id="both, which agree"),
    ],
)
def test_who_makes_the_selector(objects: list[Any], pod: Pod) -> None:
    assert bench(*objects).score(pod) == {"a": 50, "b": 100}


def test_all_services_and_the_owner_select_together() -> None:
    objects = [service({"tier": "x"}), service({"app": "web"}, name="other"), REPLICA_SET]

    # The running pods have no tier, so none counts.
    assert bench(*objects).score(owned("ReplicaSet")) == {"a": 100, "b": 100}


def test_a_service_that_comes_later_counts() -> None:
    cluster = bench()
    pod = make_pod("new", labels=WEB)
    assert cluster.score(pod) is None

    cluster.lister("Service").put(service(WEB))
    assert cluster.score(pod) == {"a": 50, "b": 100}

    cluster.lister("Service").put(service({"app": "db"}))
    assert cluster.score(pod) is None


def test_with_system_defaults_a_node_without_a_zone_is_scored_by_its_host() -> None:
    nodes = [make_node("a", zone="a"), make_node("b", zone="b"), make_node("nowhere")]
    pods = [make_pod(f"w{i}", labels=WEB, node_name="nowhere") for i in range(3)]
    cluster = Bench(PodTopologySpread, nodes=nodes, pods=pods, objects=[service(WEB)])

    # host: ln(3+2)·3 + 2 = 6.83, zone: 4 where there is one; the missing zone is a third value
    assert cluster.score(make_pod("new", labels=WEB), normalized=False) == {"a": 6, "b": 6, "nowhere": 7}


def test_with_system_defaults_a_node_without_a_hostname_is_scored_by_its_zone() -> None:
    nameless = msgspec.structs.replace(make_node("nameless"), metadata=ObjectMeta(name="nameless", labels={ZONE: "c"}))
    nodes = [make_node("a", zone="a"), nameless]
    pods = [make_pod(f"w{i}", labels=WEB, node_name="nameless") for i in range(3)]
    cluster = Bench(PodTopologySpread, nodes=nodes, pods=pods, objects=[service(WEB)])

    # zone: ln(2+2)·3 + 4 = 8.16; a: host 2, zone 4
    assert cluster.score(make_pod("new", labels=WEB), normalized=False) == {"a": 6, "nameless": 8}


def test_the_missing_zone_counts_as_a_value_in_the_weight() -> None:
    nodes = [make_node("a", zone="a"), make_node("b", zone="b"), make_node("nowhere")]
    pods = [make_pod(f"w{i}", labels=WEB, node_name="a") for i in range(9)]
    cluster = Bench(PodTopologySpread, nodes=nodes, pods=pods, objects=[service(WEB)])

    # a: host ln(5)·9 + 2, zone ln(3 + 2)·9 + 4 = 34.97; with two zones it would be 32.96
    assert cluster.score(make_pod("new", labels=WEB), normalized=False)["a"] == 35


def test_the_profiles_own_defaults_can_be_hard_and_replace_the_systems() -> None:
    args = PodTopologySpreadArgs(default_constraints=(spread(HOSTNAME),), defaulting_type="List")
    cluster = bench(service(WEB), args=args)

    assert cluster.fits(make_pod("new", labels=WEB)) == {"b"}
    assert cluster.score(make_pod("new", labels=WEB)) is None


def test_without_defaults_nothing_is_asked_for() -> None:
    cluster = bench(service(WEB), args=PodTopologySpreadArgs(defaulting_type="List"))

    assert cluster.score(make_pod("new", labels=WEB)) is None
