"""The public issues on device scheduling (kubernetes/kubernetes), one test each, named by its number: what podium does.

Of those that are not here the rest of the tests holds: #131730 `test_a_search_that_takes_too_long_ends_the_attempt`,
#140087 and #137617 `test_members_that_share_a_claim_run_where_its_device_is`. #141620 is about DeviceTaintRules, which
podium does not have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler.framework.status import Code, Status
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
SHARE = "a671734a-e8e5-11e4-8fde-00000000000"


def counted(name: str, amount: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "consumesCounters": [{"counterSet": "s", "counters": {"slots": {"value": amount}}}], **more}


def counters(amount: str, **spec: Any) -> Any:
    return a_slice("c", sharedCounters=[{"name": "s", "counters": {"slots": {"value": amount}}}], count=2, **spec)


def test_139016_one_claim_from_before_and_a_new_one_are_scored_together() -> None:
    before = a_claim("shared", first_of("f", exactly("a"), exactly("b")), status=held(f"{DRIVER}/s1/d0", request="f/b"))
    new = a_claim("new", first_of("f", exactly("a"), exactly("b")))
    cluster = Cluster(GPU, a_slice("s1", ["d0", "d1"], node="n1"), before, new, nodes=1)
    pod = a_pod("p", "shared", "new")
    state, _ = cluster.cycle(pod)
    scores = cluster.plugin.score(state, pod, cluster.snapshot.nodes)
    assert isinstance(scores, np.ndarray)
    assert scores.tolist() == [7.0 + 8.0]


def test_140436_a_refused_candidate_gives_back_its_counters_and_leaves_the_constraint_as_it_was() -> None:
    kinds = {"a": "x", "b": "y", "c": "x"}
    devices = [counted(name, "1", attributes={"kind": {"string": kind}}) for name, kind in kinds.items()]
    same = [{"matchAttribute": f"{DRIVER}/kind"}]
    two = a_claim("two", exactly("r", 2), constraints=same)
    cluster = Cluster(GPU, counters("2", pool="p"), a_slice("d", devices, pool="p", count=2), two)
    assert cluster.devices(a_pod("p", "two")) == {"n1": ["r=a", "r=c"]}


def test_140434_two_drivers_with_equal_pool_names_have_counters_of_their_own() -> None:
    cluster = Cluster(
        ANY,
        *(
            a_slice(
                f"c-{x}",
                sharedCounters=[{"name": "s", "counters": {"slots": {"value": "1"}}}],
                count=2,
                pool="p",
                driver=f"{x}.example.com",
            )
            for x in "ab"
        ),
        *(a_slice(f"d-{x}", [counted("d", "1")], pool="p", driver=f"{x}.example.com", count=2) for x in "ab"),
        a_claim("c", exactly("r", 2, of="any")),
    )
    assert cluster.devices(a_pod("p", "c")) == {"n1": ["r=d", "r=d"]}


def test_140433_a_share_without_an_amount_is_not_charged_twice() -> None:
    shared = counted("d", "1", allowMultipleAllocations=True)
    cluster = Cluster(
        GPU,
        counters("1", pool="p"),
        a_slice("d", [shared], pool="p", count=2),
        a_claim("other", status=held(f"{DRIVER}/p/d", shareID=f"{SHARE}1")),
        a_claim("c", exactly("r")),
    )
    assert cluster.devices(a_pod("p", "c")) == {"n1": ["r=d"]}


def test_139034_committed_shares_take_the_counters_once_so_an_exclusive_partition_is_not_given_as_well() -> None:
    devices = [counted("shared", "2", allowMultipleAllocations=True), counted("whole", "4"), counted("half", "2")]
    cluster = Cluster(
        GPU,
        counters("4", pool="p"),
        a_slice("d", devices, pool="p", count=2),
        *(a_claim(f"other-{i}", status=held(f"{DRIVER}/p/shared", shareID=f"{SHARE}{i}")) for i in (1, 2)),
        a_claim("one", exactly("r", 1, "device.allowMultipleAllocations == false")),
        a_claim("two", exactly("r", 2, "device.allowMultipleAllocations == false")),
    )
    assert cluster.devices(a_pod("a", "one")) == {"n1": ["r=half"]}
    assert cluster.refusals(a_pod("b", "two")) == {"n1": "cannot allocate all claims"}


def test_136269_a_device_that_is_being_given_away_is_not_given_to_the_next_pod_whatever_the_informer_shows() -> None:
    cluster = Cluster(GPU, a_slice("p", ["d0", "d1"]), a_claim("a", exactly("r")), a_claim("b", exactly("r")))
    first, second = a_pod("a", "a"), a_pod("b", "b")
    state, _ = cluster.cycle(first)
    assert cluster.plugin.reserve(state, first, "n1") is None
    assert cluster.devices(second) == {"n1": ["r=d1"]}
    # The informer shows an older state of the first claim once more.
    cluster.put(a_claim("a", exactly("r")))
    assert cluster.devices(second) == {"n1": ["r=d1"]}


async def test_134434_the_tolerations_that_a_device_was_given_by_are_in_its_allocation() -> None:
    tolerated = {"key": "k", "operator": "Exists", "effect": "NoExecute"}
    device = {"name": "d", "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}
    cluster = Cluster(GPU, a_slice("p", [device]), a_claim("c", exactly("r", tolerations=[tolerated])))
    pod = a_pod("p", "c")
    state, _ = cluster.cycle(pod)
    assert cluster.plugin.reserve(state, pod, "n1") is None
    assert await cluster.plugin.pre_bind(state, pod, "n1") is None
    allocation = cluster.claim("c").status.allocation
    assert allocation is not None
    (result,) = allocation.devices.results
    assert [(each.key, each.effect) for each in result.tolerations] == [("k", "NoExecute")]


def test_enhancements_5690_no_pod_is_evicted_for_a_device_yet() -> None:
    """Facts A3: up to 1.36 every refusal of the plugin is one that preemption cannot resolve."""
    cluster = Cluster(GPU, a_slice("p", ["d"]), a_claim("low", status=held(f"{DRIVER}/p/d", by="low")))
    cluster.put(a_claim("c", exactly("r")))
    pod = a_pod("urgent", "c", priority=1000)
    state, mask = cluster.cycle(pod)
    assert not mask.any()
    (_, info), *_ = cluster.snapshot.nodes.infos()
    status = cluster.plugin.filter_node(state, pod, info)
    assert status is not None
    assert (status.code, status.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "cannot allocate all claims")


def test_141214_all_devices_of_an_incomplete_pool_are_an_error_as_in_1_36() -> None:
    cluster = Cluster(GPU, a_slice("p", ["d"], count=2), a_claim("c", exactly("r", allocationMode="All")))
    text = f"claim default/c, request r: asks for all devices, but resource pool {DRIVER}/p is currently being updated"
    assert text in cluster.problem(a_pod("p", "c"))


@pytest.mark.parametrize(("free", "fits"), [("4", True), ("3", False)])
def test_138882_all_devices_of_a_pool_with_counters(free: str, fits: bool) -> None:
    cluster = Cluster(
        GPU,
        counters(free, pool="p"),
        a_slice("d", [counted("a", "2"), counted("b", "2")], pool="p", count=2),
        a_claim("c", exactly("r", allocationMode="All")),
    )
    pod = a_pod("p", "c")
    assert cluster.devices(pod) == ({"n1": ["r=a", "r=b"]} if fits else {})


def test_134466_all_devices_of_pools_that_span_nodes() -> None:
    cluster = Cluster(
        GPU,
        a_slice("a", ["a0", "a1"], pool="p", node="n1", count=2),
        a_slice("b", ["b0"], pool="p", node="n2", count=2),
        a_claim("c", exactly("r", allocationMode="All")),
        nodes=2,
    )
    _, outcome = cluster.cycle(a_pod("p", "c"))
    assert not isinstance(outcome, Status)
    assert cluster.devices(a_pod("p", "c")) == {"n1": ["r=a0", "r=a1"], "n2": ["r=b0"]}
