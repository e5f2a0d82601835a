"""Pods that wait for devices: from slices, classes and claims to the sentence."""

from __future__ import annotations

from typing import Any

import pytest

from kube.api.core import Pod
from podium.explain.documents import Explanation
from tests.builders import make_node
from tests.plugins.dynamic_resources.builders import (
    DRIVER,
    a_claim,
    a_class,
    a_pod,
    a_slice,
    exactly,
    first_of,
    held,
)
from tests.podium.explain.asking import explained

GPU = a_class("gpu", f'device.driver == "{DRIVER}"')
BIG = 'device.attributes["gpu.example.com"].size == "big"'


def device(name: str, size: str = "small", **more: Any) -> dict[str, Any]:
    return {"name": name, "attributes": {"size": {"string": size}, "numa": {"int": int(name[-1])}}, **more}


def partition(name: str, slots: str) -> dict[str, Any]:
    taken = {"counterSet": "board", "counters": {"slots": {"value": slots}}}
    return {"name": name, "consumesCounters": [taken]}


def shared(name: str, memory: str) -> dict[str, Any]:
    return {"name": name, "allowMultipleAllocations": True, "capacity": {"memory": {"value": memory}}}


def board(slots: str) -> Any:
    counters = [{"name": "board", "counters": {"slots": {"value": slots}}}]
    return a_slice("counters", sharedCounters=counters, count=2, pool="p")


def ask(*objects: Any, pod: Pod | None = None, nodes: int = 1) -> Explanation:
    machines = [make_node(f"n{i + 1}") for i in range(nodes)]
    return explained(pod or a_pod("x", "c"), machines, others=[GPU, *objects])


SITUATIONS = [
    pytest.param(
        [a_claim("c", exactly("r"))],
        "claim c, request r: no devices there",
        id="no driver has published any device",
    ),
    pytest.param(
        [a_slice("s", ["d1", "d2"], driver="net.example.com"), a_claim("c", exactly("r"))],
        "claim c, request r: none of 2 devices is of class gpu",
        id="no device of the class",
    ),
    pytest.param(
        [a_slice("s", [device("d1"), device("d2")]), a_claim("c", exactly("r", 1, BIG))],
        f"claim c, request r: none of 2 devices of class gpu matches the selector {BIG}",
        id="the request's own selector",
    ),
    pytest.param(
        [a_slice("s", [device("d1"), device("d2")]), a_claim("c", exactly("r", 3))],
        "claim c, request r: 3 wanted, 2 devices of class gpu there",
        id="more devices than there are",
    ),
    pytest.param(
        [
            a_slice("s", [device("d1"), device("d2")], pool="p"),
            a_claim("other", exactly("r"), status=held(f"{DRIVER}/p/d1", by="uid-o")),
            a_claim("c", exactly("r", 2)),
        ],
        "claim c, request r: 2 wanted, 1 of 2 devices of class gpu in use by claim default/other",
        id="another claim has one of them",
    ),
    pytest.param(
        [
            a_slice("s", [device("d1", taints=[{"key": "broken", "value": "fan", "effect": "NoSchedule"}])]),
            a_claim("c", exactly("r")),
        ],
        "claim c, request r: 1 device of class gpu with device taint broken=fan:NoSchedule",
        id="a device taint",
    ),
    pytest.param(
        [
            a_slice("s", [shared("d1", "24Gi"), shared("d2", "16Gi")]),
            a_claim("c", exactly("r", capacity={"requests": {"memory": "40Gi"}})),
        ],
        f"claim c, request r: 40Gi memory wanted, 24Gi of 24Gi left at most on {DRIVER}/s/d1",
        id="a device's capacity",
    ),
    pytest.param(
        [
            board("4"),
            a_slice("s", [partition("d1", "3"), partition("d2", "2")], pool="p", count=2),
            a_claim("other", exactly("r"), status=held(f"{DRIVER}/p/d1", by="uid-o")),
            a_claim("c", exactly("r")),
        ],
        f"claim c, request r: counter slots of board in pool {DRIVER}/p: 2 wanted at least, 1 left",
        id="a counter that partitions share",
    ),
    pytest.param(
        [a_slice("s", [device("d1")], count=2), a_claim("c", exactly("r"))],
        f"claim c, request r: resource pool {DRIVER}/s is being updated by its driver",
        id="a pool that is not complete",
    ),
    pytest.param(
        [
            a_slice("s", [device("d1"), device("d2")]),
            a_claim("c", exactly("r", 2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]),
        ],
        f"claim c: no choice of devices has one value of {DRIVER}/numa",
        id="a constraint on the devices together",
    ),
    pytest.param(
        [a_slice("s", [device("d1")]), a_claim("c", exactly("r"), exactly("q"))],
        "claim c: its 2 requests together want more devices than there are",
        id="two requests and one device",
    ),
    pytest.param(
        [a_slice("s", [device("d1")]), a_claim("c", first_of("r", exactly("big", 1, BIG), exactly("many", 4)))],
        f"claim c, request r: none of the alternatives big or many is possible; big: none of 1 device of class gpu "
        f"matches the selector {BIG}",
        id="alternatives, of which none is possible",
    ),
    pytest.param(
        [a_claim("c", exactly("r", of="none"))],
        "request r: device class none does not exist",
        id="a class that does not exist",
    ),
]


@pytest.mark.parametrize(("objects", "detail"), SITUATIONS)
def test_which_part_of_a_claim_finds_no_devices(objects: list[Any], detail: str) -> None:
    found = ask(*objects)
    assert found.state == "unschedulable"
    (cause,) = found.causes
    assert (cause.plugin, cause.detail) == ("DynamicResources", detail)
    assert detail in found.verdict


def test_a_claim_that_has_its_devices_elsewhere() -> None:
    claim = a_claim("c", exactly("r"), status=held(f"{DRIVER}/s/d1", node="n9", by="uid-o"))
    found = ask(a_slice("s", ["d1"], node="n9"), claim, nodes=2)
    assert found.verdict == (
        "It fits on none of 2 nodes: claim c has gpu.example.com/s/d1 already, to be used where metadata.name In [n9]."
    )


def test_two_claims_that_want_the_same_device() -> None:
    found = ask(
        a_slice("s", [device("d1")]), a_claim("a", exactly("r")), a_claim("b", exactly("r")), pod=a_pod("x", "a", "b")
    )
    assert found.causes[0].detail == "the claims a and b together want more devices than there are"


def test_nodes_with_different_devices_are_told_apart() -> None:
    found = ask(
        a_slice("s1", [device("d1")], node="n1"),
        a_slice("s2", ["d1"], node="n2", driver="net.example.com"),
        a_claim("c", exactly("r", 1, BIG)),
        nodes=3,
    )
    assert {cause.names[0]: cause.brief for cause in found.causes} == {
        "n1": "without a matching device of class gpu",
        "n2": "without device of class gpu",
        "n3": "without devices",
    }


def test_a_pod_whose_claim_is_not_there_is_kept_out_of_the_queue() -> None:
    found = ask()
    assert found.state == "gated"
    assert found.verdict == 'It is kept out of the queue: could not find ResourceClaim "default/c".'
