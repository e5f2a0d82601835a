"""Which devices a pod gets: the rules of the allocator, and oddities of 1.36. Its bugs: see test_known_bugs.py."""

from __future__ import annotations

from typing import Any

import pytest

from config.duration import Duration
from config.types import DynamicResourcesArgs
from tests.plugins.dynamic_resources.builders import (
    DRIVER,
    Cluster,
    a_claim,
    a_class,
    a_pod,
    a_slice,
    exactly,
    first_of,
    held,
)

GPU = a_class("gpu", f'device.driver == "{DRIVER}"')
ANY = a_class("any")
KIND = 'device.attributes["gpu.example.com"].kind == "{}"'


def with_kind(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "attributes": {"kind": {"string": kind}}, **more}


def counted(name: str, amount: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "consumesCounters": [{"counterSet": "s", "counters": {"slots": {"value": amount}}}], **more}


def counters(name: str, amount: str, **spec: Any) -> Any:
    return a_slice(name, sharedCounters=[{"name": "s", "counters": {"slots": {"value": amount}}}], count=2, **spec)


# --- order and backtracking --------------------------------------------------------------------------------------


def test_devices_are_tried_by_driver_pool_and_slice_and_in_the_order_of_their_slice() -> None:
    cluster = Cluster(
        ANY,
        a_slice("b", ["y", "x"], driver="b.example.com"),
        a_slice("s2", ["d3"], pool="p", count=2),
        a_slice("s1", ["d2", "d1"], pool="p", count=2),
        a_claim("c", exactly("r", 5, of="any")),
    )
    assert cluster.devices(a_pod("p", "c")) == {"n1": ["r=y", "r=x", "r=d2", "r=d1", "r=d3"]}


def test_a_pool_with_binding_conditions_comes_last() -> None:
    waits = {"name": "w", "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    cluster = Cluster(ANY, a_slice("aaa", [waits]), a_slice("zzz", ["z"]), a_claim("c", exactly("r", 2, of="any")))
    assert cluster.devices(a_pod("p", "c")) == {"n1": ["r=z", "r=w"]}


def test_an_earlier_request_gives_way_to_a_later_one_that_has_no_choice() -> None:
    cluster = Cluster(
        GPU,
        a_slice("p", [with_kind("big", "big"), with_kind("small", "small")]),
        a_claim("c", exactly("a"), exactly("b", 1, KIND.format("big"))),
    )
    assert cluster.devices(a_pod("p", "c")) == {"n1": ["a=small", "b=big"]}


def test_an_alternative_gives_way_to_a_later_request() -> None:
    cluster = Cluster(
        GPU,
        a_slice("p", [with_kind("big", "big"), with_kind("small", "small")]),
        a_claim(
            "c",
            first_of("f", exactly("one", 1, KIND.format("big")), exactly("two", 1, KIND.format("small"))),
            exactly("b", 1, KIND.format("big")),
        ),
    )
    assert cluster.devices(a_pod("p", "c")) == {"n1": ["f/two=small", "b=big"]}


def test_claims_share_the_devices_of_a_node_and_backtrack_over_each_other() -> None:
    cluster = Cluster(
        GPU,
        a_slice("p", [with_kind("big", "big"), with_kind("small", "small")]),
        a_claim("first", exactly("a")),
        a_claim("second", exactly("b", 1, KIND.format("big"))),
    )
    assert cluster.devices(a_pod("p", "first", "second")) == {"n1": ["a=small", "b=big"]}


# --- how many ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param(exactly("r", 32), 32, id="32 devices fit in a claim"),
        pytest.param(
            exactly("r", 33),
            "claim default/c: number of requested devices 33 exceeds the claim limit of 32",
            id="33 are an error",
        ),
        pytest.param(
            exactly("r", allocationMode="All"),
            "claim default/c: number of requested devices 40 exceeds the claim limit of 32",
            id="so are all of 40",
        ),
        pytest.param(
            first_of("f", exactly("all", allocationMode="All"), exactly("two", 2)),
            2,
            id="all of 40 as the first alternative makes way for the second",
        ),
    ],
)
def test_results_of_a_claim(request_: Any, expected: int | str) -> None:
    cluster = Cluster(GPU, a_slice("p", [f"d{i:02}" for i in range(40)]), a_claim("c", request_))
    pod = a_pod("p", "c")
    if isinstance(expected, str):
        assert cluster.problem(pod) == expected
    else:
        assert len(cluster.devices(pod)["n1"]) == expected


@pytest.mark.parametrize(
    ("request_", "outcome"),
    [
        pytest.param(exactly("r", 1, KIND.format("x")), {"n1": ["r=free"]}, id="one: the free one is found first"),
        pytest.param(exactly("r", 2, KIND.format("x")), "cannot allocate all claims", id="two: refused, not an error"),
        pytest.param(
            exactly("r", 1, KIND.format("x"), allocationMode="All"),
            "claim default/c: selector #0: CEL runtime error: no such key: kind",
            id="all: an error",
        ),
    ],
)
def test_a_device_in_use_is_not_asked_for_what_it_lacks(request_: Any, outcome: Any) -> None:
    cluster = Cluster(
        GPU,
        a_slice("p", [with_kind("free", "x"), "taken"]),
        a_claim("other", status=held(f"{DRIVER}/p/taken")),
        a_claim("c", request_),
    )
    pod = a_pod("p", "c")
    if isinstance(outcome, dict):
        assert cluster.devices(pod) == outcome
    elif outcome.startswith("claim"):
        assert cluster.problem(pod) == outcome
    else:
        assert cluster.refusals(pod) == {"n1": outcome}


# --- pools -------------------------------------------------------------------------------------------------------


def test_an_old_generation_is_ignored() -> None:
    old, new = a_slice("old", ["o"], pool="p"), a_slice("new", ["n"], pool="p", generation=2)
    cluster = Cluster(GPU, old, new, a_claim("c", exactly("r")))
    assert cluster.devices(a_pod("p", "c")) == {"n1": ["r=n"]}


def test_a_pool_that_is_replaced_elsewhere_first_gives_nothing_here() -> None:
    cluster = Cluster(
        GPU,
        a_slice("old", ["o"], pool="p", node="n1", count=2),
        a_slice("new", ["n"], pool="p", node="n2", generation=2),
        a_claim("one", exactly("r")),
        a_claim("all", exactly("r", allocationMode="All")),
        nodes=2,
    )
    for claim in ("one", "all"):
        assert cluster.refusals(a_pod("p", claim)) == {"n1": "cannot allocate all claims"}


def test_an_incomplete_partitioned_pool_of_one_node_is_an_error_on_every_node_for_all_devices() -> None:
    cluster = Cluster(
        GPU,
        counters("n1-counters", "2", pool="n1", node="n1"),
        a_slice("n2-devices", ["d"], pool="n2", node="n2"),
        a_claim("all", exactly("r", allocationMode="All")),
        a_claim("one", exactly("r")),
        nodes=2,
    )
    text = (
        f"claim default/all, request r: asks for all devices, but resource pool {DRIVER}/n1 is currently being updated"
    )
    assert cluster.problem(a_pod("a", "all")) == text
    assert cluster.refusals(a_pod("b", "one")) == {"n1": "cannot allocate all claims"}
    assert cluster.devices(a_pod("b", "one")) == {"n2": ["r=d"]}


def test_devices_of_the_same_name_make_a_pool_invalid() -> None:
    cluster = Cluster(GPU, a_slice("p", ["d", "d"]), a_claim("c", exactly("r")))
    assert cluster.refusals(a_pod("p", "c")) == {"n1": "invalid resource pools were encountered"}


@pytest.mark.parametrize(
    ("spec", "nodes"),
    [
        pytest.param({"node": "n2"}, {"n2"}, id="a slice for one node"),
        pytest.param({}, {"n1", "n2", "n3"}, id="a slice for all nodes"),
        pytest.param(
            {
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]}
                    ]
                }
            },
            {"n3"},
            id="a slice with a node selector",
        ),
        pytest.param({"allNodes": False}, set(), id="a slice that names no nodes"),
    ],
)
def test_which_nodes_a_slice_is_for(spec: Any, nodes: set[str]) -> None:
    cluster = Cluster(GPU, a_slice("p", ["d"], **spec), a_claim("c", exactly("r")), nodes=3)
    assert set(cluster.devices(a_pod("p", "c"))) == nodes


# --- constraints -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requests", "found"),
    [
        pytest.param([exactly("r", 3)], ["r=d0", "r=d1", "r=d2"], id="one request remembers its latest value only"),
        pytest.param([exactly(name) for name in "abc"], None, id="three requests remember three"),
    ],
)
def test_distinct_values_x_y_x(requests: list[Any], found: list[str] | None) -> None:
    devices = [with_kind(f"d{i}", kind) for i, kind in enumerate("xyx")]
    constraint = {"distinctAttribute": f"{DRIVER}/kind"}
    cluster = Cluster(GPU, a_slice("p", devices), a_claim("c", *requests, constraints=[constraint]))
    assert cluster.devices(a_pod("p", "c")) == ({"n1": found} if found else {})


def test_matching_values_must_be_of_one_type_and_every_device_must_have_one() -> None:
    devices: list[Any] = [
        {"name": "none"},
        {"name": "number", "attributes": {"numa": {"int": 1}}},
        {"name": "text", "attributes": {"numa": {"string": "1"}}},
        {"name": "same", "attributes": {f"{DRIVER}/numa": {"int": 1}}},
    ]
    constraint = {"matchAttribute": f"{DRIVER}/numa"}
    cluster = Cluster(GPU, a_slice("p", devices), a_claim("c", exactly("r", 2), constraints=[constraint]))
    assert cluster.devices(a_pod("p", "c")) == {"n1": ["r=number", "r=same"]}


def test_a_device_that_one_constraint_refuses_leaves_the_other_as_it_was() -> None:
    devices = [with_kind("lone", "x")]
    devices += [{"name": n, "attributes": {"kind": {"string": "y"}, "rack": {"int": 1}}} for n in ("d1", "d2")]
    constraints = [{"matchAttribute": f"{DRIVER}/{name}"} for name in ("kind", "rack")]
    cluster = Cluster(GPU, a_slice("p", devices), a_claim("c", exactly("r", 2), constraints=constraints))
    assert cluster.devices(a_pod("p", "c")) == {"n1": ["r=d1", "r=d2"]}


def test_a_constraint_may_concern_one_alternative() -> None:
    devices = [with_kind("d0", "x"), with_kind("d1", "y")]
    constraint = {"matchAttribute": f"{DRIVER}/kind", "requests": ["f/one", "b"]}
    request = first_of("f", exactly("one"), exactly("two"))
    cluster = Cluster(GPU, a_slice("p", devices), a_claim("c", request, exactly("b"), constraints=[constraint]))
    assert cluster.devices(a_pod("p", "c")) == {"n1": ["f/two=d0", "b=d1"]}


# --- admin access, taints ----------------------------------------------------------------------------------------


def test_admin_access_sees_devices_in_use_but_not_twice_in_a_claim() -> None:
    cluster = Cluster(
        GPU,
        a_slice("p", ["d0", "d1"]),
        a_claim("other", status=held(f"{DRIVER}/p/d0")),
        a_claim("c", exactly("a", adminAccess=True), exactly("b", adminAccess=True)),
    )
    assert cluster.devices(a_pod("p", "c")) == {"n1": ["a=d0", "b=d1"]}


def test_who_only_watches_a_device_does_not_occupy_it() -> None:
    watching = held(f"{DRIVER}/p/d0", adminAccess=True)
    cluster = Cluster(GPU, a_slice("p", ["d0"]), a_claim("other", status=watching), a_claim("c", exactly("r")))
    assert cluster.devices(a_pod("p", "c")) == {"n1": ["r=d0"]}


@pytest.mark.parametrize(
    ("effect", "tolerations", "fits"),
    [
        pytest.param("NoSchedule", [], False, id="a NoSchedule taint blocks"),
        pytest.param("NoExecute", [], False, id="a NoExecute taint blocks"),
        pytest.param("None", [], True, id="effect None only informs"),
        pytest.param("Someday", [], True, id="an effect that is not known does not block"),
        pytest.param("NoSchedule", [{"operator": "Exists"}], True, id="everything is tolerated"),
        pytest.param("NoSchedule", [{"key": "k", "value": "v"}], True, id="equal key and value"),
        pytest.param("NoSchedule", [{"key": "k", "value": "w"}], False, id="another value"),
        pytest.param(
            "NoSchedule", [{"key": "k", "operator": "Exists", "effect": "NoExecute"}], False, id="other effect"
        ),
    ],
)
def test_device_taints(effect: str, tolerations: list[Any], fits: bool) -> None:
    device = {"name": "d", "taints": [{"key": "k", "value": "v", "effect": effect}]}
    cluster = Cluster(GPU, a_slice("p", [device]), a_claim("c", exactly("r", tolerations=tolerations)))
    assert (cluster.refusals(a_pod("p", "c")) == {}) == fits


# --- partitions --------------------------------------------------------------------------------------------------


def test_partitions_take_from_the_counters_of_their_pool() -> None:
    cluster = Cluster(
        GPU,
        counters("c", "4", pool="p"),
        a_slice("d", [counted("whole", "4"), counted("half-0", "2"), counted("half-1", "2")], pool="p", count=2),
        a_claim("two", exactly("r", 2)),
        a_claim("other", status=held(f"{DRIVER}/p/half-1")),
        a_claim("one", exactly("r")),
    )
    assert cluster.devices(a_pod("a", "two")) == {}
    assert cluster.devices(a_pod("b", "one")) == {"n1": ["r=half-0"]}


def test_a_partition_that_leads_nowhere_gives_its_counters_back() -> None:
    cluster = Cluster(
        GPU,
        counters("c", "4", pool="p"),
        a_slice("d", [counted("whole", "4"), counted("half-0", "2"), counted("half-1", "2")], pool="p", count=2),
        a_claim("two", exactly("r", 2)),
    )
    assert cluster.devices(a_pod("a", "two")) == {"n1": ["r=half-0", "r=half-1"]}


# --- consumable capacity -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "requested", "amount"),
    [
        pytest.param(None, None, "10", id="nothing asked, no policy: everything"),
        pytest.param({"default": "2"}, None, "2", id="nothing asked: the policy's default"),
        pytest.param(None, "3", "3", id="without a policy what is asked"),
        pytest.param({"validRange": {"min": "4"}}, "3", "4", id="at least the minimum"),
        pytest.param({"validRange": {"min": "4", "step": "3"}}, "5", "7", id="a whole number of steps above it"),
        pytest.param({"validRange": {"min": "1", "max": "5"}}, "6", None, id="above the maximum nothing"),
        pytest.param({"validValues": ["1", "5"]}, "3", "5", id="the next valid value"),
        pytest.param({"validValues": ["1", "5"]}, "6", None, id="above all valid values nothing"),
        pytest.param(None, "11", None, id="more than there is"),
    ],
)
def test_what_a_share_takes(policy: Any, requested: str | None, amount: str | None) -> None:
    size = {"value": "10", **({"requestPolicy": policy} if policy else {})}
    device = {"name": "d", "allowMultipleAllocations": True, "capacity": {"memory": size}}
    more: dict[str, Any] = {"capacity": {"requests": {"memory": requested}}} if requested else {}
    cluster = Cluster(GPU, a_slice("p", [device]), a_claim("c", exactly("r", **more)))
    state, _ = cluster.cycle(a_pod("p", "c"))
    found = [d["consumedCapacity"]["memory"] for claims in cluster.found(state).values() for d in claims[0]["devices"]]
    assert found == ([amount] if amount else [])


def test_shares_add_up() -> None:
    device = {"name": "d", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "10"}}}
    taken = held(f"{DRIVER}/p/d", shareID="a671734a-e8e5-11e4-8fde-000000000001", consumedCapacity={"memory": "4"})
    wants = {name: exactly("r", capacity={"requests": {"memory": name}}) for name in ("3", "6", "7")}
    cluster = Cluster(
        GPU,
        a_slice("p", [device]),
        a_claim("other", status=taken),
        *(a_claim(f"c{name}", request) for name, request in wants.items()),
    )
    assert cluster.devices(a_pod("a", "c6")) == {"n1": ["r=d"]}
    assert cluster.devices(a_pod("b", "c7")) == {}
    assert cluster.devices(a_pod("c", "c3", "c3")) == {"n1": ["r=d", "r=d"]}
    assert cluster.devices(a_pod("d", "c3", "c6")) == {}


def test_a_capacity_that_the_device_lacks_is_not_there() -> None:
    request = exactly("r", capacity={"requests": {"ghost": "1"}})
    cluster = Cluster(GPU, a_slice("p", ["d"]), a_claim("c", request))
    assert cluster.refusals(a_pod("p", "c")) == {"n1": "cannot allocate all claims"}


# --- gates -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gate", "objects", "text"),
    [
        pytest.param(
            "DRAConsumableCapacity",
            [a_slice("p", ["d"]), a_claim("c", exactly("r", capacity={"requests": {"m": "1"}}))],
            "claim default/c, request r: has capacity requests, but the DRAConsumableCapacity feature is disabled",
            id="capacity requests without consumable capacity",
        ),
        pytest.param(
            "DRAPrioritizedList",
            [a_slice("p", ["d"]), a_claim("c", first_of("f", exactly("a")))],
            "resource claim default/c, request f: has subrequests, but the DRAPrioritizedList feature is disabled",
            id="alternatives without prioritized lists",
        ),
        pytest.param(
            "DRAAdminAccess",
            [a_slice("p", ["d"]), a_claim("c", exactly("r", adminAccess=False))],
            "claim default/c, request r: admin access is requested, but the feature is disabled",
            id="admin access, even false, without the feature",
        ),
    ],
)
def test_a_request_for_what_is_switched_off(gate: str, objects: list[Any], text: str) -> None:
    assert Cluster(GPU, *objects, gates={gate: False}).problem(a_pod("p", "c")) == text


def test_a_search_that_takes_too_long_ends_the_attempt() -> None:
    """27 devices out of 26: there is no solution, but more ways to look for one than time."""
    devices = [with_kind(f"d{i:02}", "x") for i in range(26)]
    requests = [exactly(f"r{i}", 2) for i in range(13)]
    cluster = Cluster(
        GPU,
        a_slice("p", devices),
        a_claim("c", *requests, exactly("last", 1)),
        args=DynamicResourcesArgs(filter_timeout=Duration.of(0.05)),
    )
    assert cluster.problem(a_pod("p", "c")) == "node n1: timed out trying to allocate devices"
