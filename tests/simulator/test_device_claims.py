"""A simulation in which one pod after another takes devices: what is placed holds them, what is evicted lets go."""

from __future__ import annotations

from typing import Any

import pytest

from config.defaults import default_configuration
from config.feature_gates import DEFAULT_GATES
from kube.api.codec import convert
from kube.api.core import Pod, PodResourceClaim
from kube.api.resource import ResourceClaimTemplate
from plugins.registry import Registry
from simulator.load import ClusterObjects
from simulator.offline import PodResult, Simulation
from tests.builders import make_node, make_pod
from tests.plugins.dynamic_resources.builders import DRIVER, a_claim, a_class, a_pod, a_slice, exactly, held

GPU = a_class("gpu", f'device.driver == "{DRIVER}"', extendedResourceName="vendor.example/gpu")


def simulation(*objects: Any, nodes: int = 2, pods: tuple[Pod, ...] = ()) -> Simulation:
    others: dict[str, list[Any]] = {}
    for obj in objects:
        others.setdefault(obj.KIND, []).append(obj)
    cluster = ClusterObjects(
        nodes=tuple(make_node(f"n{i + 1}", cpu="1") for i in range(nodes)),
        pods=pods,
        others={kind: tuple(found) for kind, found in others.items()},
    )
    return Simulation(cluster, default_configuration(DEFAULT_GATES), Registry(), DEFAULT_GATES.as_dict())


def places(results: list[PodResult]) -> dict[str, str | None]:
    return {result.name: result.node for result in results}


def test_pods_take_the_devices_away_from_each_other() -> None:
    slices = [a_slice(f"s{i}", ["d"], node=f"n{i}") for i in (1, 2)]
    claims = [a_claim(name, exactly("r")) for name in "abc"]
    results = list(simulation(GPU, *slices, *claims).schedule([a_pod(f"p-{name}", name) for name in "abc"]))
    assert sorted(place or "" for place in places(results).values()) == ["", "n1", "n2"]
    assert results[2].message.startswith("0/2 nodes are available: 2 cannot allocate all claims.")


def test_a_shared_claim_keeps_its_pods_on_one_node() -> None:
    slices = [a_slice(f"s{i}", ["d"], node=f"n{i}") for i in (1, 2)]
    results = list(
        simulation(GPU, *slices, a_claim("shared", exactly("r"))).schedule([a_pod(p, "shared") for p in "pq"])
    )
    assert places(results)["p"] == places(results)["q"] is not None


def test_extended_resources_are_taken_like_devices_of_claims() -> None:
    pods = [make_pod(name, uid=f"uid-{name}", requests={"vendor.example/gpu": "1"}) for name in "pq"]
    results = list(simulation(GPU, a_slice("s", ["d"], node="n1")).schedule(pods))
    assert places(results) == {"p": "n1", "q": None}


@pytest.mark.parametrize(
    ("wants", "place"),
    [
        pytest.param("2", None, id="nobody to evict for a device alone"),
        pytest.param("1", "n1", id="whoever is evicted for cpu lets go of its device"),
    ],
)
def test_victims_let_go_of_their_devices(wants: str, place: str | None) -> None:
    running = make_pod("low", uid="uid-low", cpu="1", node_name="n1", priority=0)
    taken = a_claim("theirs", exactly("r"), status=held(f"{DRIVER}/s/d1", node="n1", by="uid-low"))
    high = a_pod("high", "mine", cpu="1", priority=10)
    waiting = simulation(
        GPU,
        a_slice("s", ["d1", "d2"], node="n1"),
        taken,
        a_claim("mine", exactly("r", int(wants))),
        nodes=1,
        pods=(running, high),
    )
    results = list(waiting.run())
    assert places(results)["high"] == place


def test_claims_are_made_from_templates_also_for_objects_without_uids() -> None:
    """As hand-written manifests have them."""
    template = convert(
        {
            "metadata": {"name": "t", "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": [exactly("r")]}}},
        },
        ResourceClaimTemplate,
    )
    use = PodResourceClaim(name="gpu", resource_claim_template_name="t")
    pods = [make_pod(name, uid="", resource_claims=(use,)) for name in "pqr"]
    results = list(simulation(GPU, a_slice("s", ["d1", "d2"], node="n1"), template).schedule(pods))
    assert places(results) == {"p": "n1", "q": "n1", "r": None}
    devices = [result.allocations["n1"][0]["devices"][0]["device"] for result in results[:2]]
    assert devices == ["d1", "d2"]


def test_a_pod_whose_template_is_not_in_the_input_waits_for_its_claim() -> None:
    use = PodResourceClaim(name="gpu", resource_claim_template_name="t")
    [result] = simulation(GPU).judge_alone([make_pod("p", resource_claims=(use,))])
    assert (result.node, result.message) == (None, 'pod "default/p": ResourceClaim not created yet')
