"""Who holds which device: informers, writes that were answered, and decisions in flight, read as one state."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from kube.api.core import PodResourceClaim, PodResourceClaimStatus
from kube.api.meta import ObjectMeta
from plugins.dynamic_resources import answers, devices
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.pools import SliceIndex
from plugins.dynamic_resources.search import Search, Solution
from scheduler.framework.status import Status
from tests.builders import make_node
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


def two_nodes(*claims: str) -> Cluster:
    return Cluster(
        GPU,
        a_slice("s1", ["d1"], node="n1"),
        a_slice("s2", ["d2"], node="n2"),
        *(a_claim(name, exactly("r")) for name in claims),
        nodes=2,
    )


def reserve(cluster: Cluster, pod: str, claim: str, node: str) -> Status | None:
    state, _ = cluster.cycle(a_pod(pod, claim))
    status: Status | None = cluster.plugin.reserve(state, a_pod(pod, claim), node)
    return status


def test_a_reserved_device_is_nobody_elses() -> None:
    cluster = two_nodes("a", "b")
    assert reserve(cluster, "first", "a", "n1") is None
    assert cluster.devices(a_pod("second", "b")) == {"n2": ["r=d2"]}


def test_a_claim_in_flight_makes_the_next_pod_wait() -> None:
    cluster = two_nodes("a")
    reserve(cluster, "first", "a", "n1")
    text = "resource claim default/a is in the process of being allocated"
    assert cluster.problem(a_pod("second", "a")) == text


def test_what_is_unreserved_is_free_again_and_waiting_pods_hear_of_it() -> None:
    cluster = two_nodes("a", "b")
    pod = a_pod("first", "a")
    state, _ = cluster.cycle(pod)
    cluster.plugin.reserve(state, pod, "n1")
    cluster.plugin.unreserve(state, pod, "n1")
    cluster.plugin.unreserve(state, pod, "n1")
    assert set(cluster.devices(a_pod("second", "b"))) == {"n1", "n2"}
    [(event, old, new)] = cluster.reported
    assert event.resource == "ResourceClaim"
    assert (old.status.allocation is None, new.status.allocation is None) == (False, True)
    assert cluster.spawned == []


def test_a_claim_that_an_informer_shows_as_allocated_takes_its_device() -> None:
    cluster = two_nodes("a")
    assert set(cluster.devices(a_pod("p", "a"))) == {"n1", "n2"}
    cluster.put(a_claim("x", exactly("r"), status=held(f"{DRIVER}/s1/d1")))
    assert set(cluster.devices(a_pod("p", "a"))) == {"n2"}
    cluster.put(a_claim("x", exactly("r")))
    assert set(cluster.devices(a_pod("p", "a"))) == {"n1", "n2"}


def test_a_claim_that_is_deleted_gives_its_device_back() -> None:
    taken = a_claim("x", exactly("r"), status=held(f"{DRIVER}/s1/d1"))
    cluster = two_nodes("a")
    cluster.put(taken)
    assert set(cluster.devices(a_pod("p", "a"))) == {"n2"}
    cluster.drop(taken)
    assert set(cluster.devices(a_pod("p", "a"))) == {"n1", "n2"}


def test_slices_come_change_and_go() -> None:
    cluster = two_nodes("a")
    assert cluster.devices(a_pod("p", "a"))["n1"] == ["r=d1"]
    cluster.put(a_slice("s1", ["new"], node="n1", generation=2))
    assert cluster.devices(a_pod("p", "a"))["n1"] == ["r=new"]
    cluster.put(a_slice("s1", ["moved"], node="n2", pool="s1"))
    assert "n1" not in cluster.devices(a_pod("p", "a"))
    cluster.drop(a_slice("s2", node="n2"))
    assert cluster.devices(a_pod("p", "a")) == {"n2": ["r=moved"]}


def test_a_class_that_changes_is_looked_at_anew() -> None:
    cluster = two_nodes("a")
    assert set(cluster.devices(a_pod("p", "a"))) == {"n1", "n2"}
    cluster.put(a_class("gpu", 'device.driver == "other"'))
    assert cluster.devices(a_pod("p", "a")) == {}
    cluster.drop(a_class("gpu"))
    assert cluster.problem(a_pod("p", "a")) == "request r: device class gpu does not exist"


def test_a_node_whose_labels_change_sees_other_slices() -> None:
    term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}
    shared = a_slice("s", ["d"], nodeSelector={"nodeSelectorTerms": [term]})
    cluster = Cluster(GPU, shared, a_claim("a", exactly("r")))
    assert cluster.devices(a_pod("p", "a")) == {}
    cluster.cache.update_node(make_node("n1", labels={"rack": "r1"}))
    assert cluster.devices(a_pod("p", "a")) == {"n1": ["r=d"]}


def test_a_node_that_comes_later_and_one_in_the_row_of_another() -> None:
    cluster = two_nodes("a")
    cluster.put(a_slice("s3", ["d3"], node="n3"))
    cluster.cache.remove_node("n1")
    cluster.cache.add_node(make_node("n3"))
    assert cluster.devices(a_pod("p", "a")) == {"n3": ["r=d3"], "n2": ["r=d2"]}


def test_pods_of_one_template_search_only_where_devices_changed_hands(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    class Counting(Search):
        def run(self) -> Solution | None:
            searched.append(self._node_name)
            return super().run()

    monkeypatch.setattr(answers, "Search", Counting)
    cluster = two_nodes("a", "b", "c")
    reserve(cluster, "first", "a", "n1")
    assert sorted(searched) == ["n1", "n2"]
    reserve(cluster, "second", "b", "n2")
    assert sorted(searched) == ["n1", "n1", "n2"]
    cluster.cycle(a_pod("third", "c"))
    assert sorted(searched) == ["n1", "n1", "n2", "n2"]


# --- claims of the pod -------------------------------------------------------------------------------------------


def test_an_allocated_claim_binds_the_pod_to_its_nodes() -> None:
    cluster = two_nodes()
    cluster.put(a_claim("mine", exactly("r"), status=held(f"{DRIVER}/s1/d1", node="n1")))
    assert cluster.refusals(a_pod("p", "mine")) == {"n2": "resourceclaim not available on the node"}


def test_a_failed_allocation_hides_that_another_claim_is_elsewhere() -> None:
    cluster = two_nodes("free")
    cluster.put(a_claim("mine", exactly("r"), status=held(f"{DRIVER}/s1/d1", node="n2")))
    reasons = {"n1": "cannot allocate all claims"}
    assert cluster.refusals(a_pod("p", "mine", "free")) == reasons


@pytest.mark.parametrize(
    ("users", "message"),
    [
        pytest.param("", "deallocation of ResourceClaim completed", id="reserved by nobody"),
        pytest.param("uid-p", "deallocation of ResourceClaim completed", id="reserved by this pod"),
        pytest.param("uid-other", "still not schedulable", id="reserved by another"),
    ],
)
def test_an_idle_allocation_that_keeps_the_pod_from_nodes_is_freed(users: str, message: str) -> None:
    cluster = two_nodes()
    cluster.put(a_claim("mine", exactly("r"), status=held(f"{DRIVER}/s1/d1", node="elsewhere", by=users)))
    pod = a_pod("p", "mine")
    state, _ = cluster.cycle(pod)
    result, status = cluster.post_filter(state, pod)
    assert (result, status.code.text, status.message) == (None, "Unschedulable", message)
    assert len(cluster.spawned) == (message.startswith("deallocation"))
    cluster.close()


def test_the_text_for_pods_without_claims() -> None:
    cluster = two_nodes()
    state, _ = cluster.cycle(a_pod("p"))
    _, status = cluster.post_filter(state, a_pod("p"))
    assert status.message == "no new claims to deallocate"


@pytest.mark.parametrize(
    ("age", "reason"),
    [
        pytest.param(599, None, id="not ready, but there is time"),
        pytest.param(601, "resourceclaim not available on the node", id="not ready for longer than binding may take"),
    ],
)
def test_devices_that_are_not_made_ready(age: int, reason: str | None) -> None:
    status = held(f"{DRIVER}/s1/d1", bindingConditions=["ready"], bindingFailureConditions=["broken"])
    status["allocation"]["allocationTimestamp"] = "2026-01-01T00:00:00Z"
    cluster = Cluster(GPU, a_claim("mine", exactly("r"), status=status), now=1767225600.0 + age)
    assert cluster.refusals(a_pod("p", "mine")) == ({"n1": reason} if reason else {})


# --- scores ------------------------------------------------------------------------------------------------------


def test_earlier_alternatives_score_higher() -> None:
    best = 'device.attributes["gpu.example.com"].?kind.orValue("") == "best"'
    cluster = Cluster(
        GPU,
        a_slice("s1", ["plain"], node="n1"),
        a_slice("s2", [{"name": "best", "attributes": {"kind": {"string": "best"}}}], node="n2"),
        a_claim("c", first_of("f", exactly("a", 1, best), exactly("b"))),
        nodes=2,
    )
    pod = a_pod("p", "c")
    state, _ = cluster.cycle(pod)
    scores = cluster.plugin.score(state, pod, cluster.snapshot.nodes)
    assert isinstance(scores, np.ndarray)
    assert scores.tolist() == [7.0, 8.0]
    assert cluster.plugin.normalize(state, pod, scores, cluster.snapshot.nodes).tolist() == [87.0, 100.0]


def test_claims_without_alternatives_do_not_score() -> None:
    cluster = two_nodes("a")
    pod = a_pod("p", "a")
    state, _ = cluster.cycle(pod)
    assert cluster.plugin.score(state, pod, cluster.snapshot.nodes) == 0


# --- extended resources ------------------------------------------------------------------------------------------


def test_of_two_classes_of_one_resource_the_later_one_counts_and_then_the_smaller_name() -> None:
    name = {"extendedResourceName": "vendor.example/gpu"}
    older = a_class("older", created="2026-01-01T00:00:00Z", **name)
    younger = [a_class(x, created="2026-01-02T00:00:00Z", **name) for x in ("zz", "aa")]
    classes = Cluster(older, *younger).plugin.manager.classes
    found = classes.get("vendor.example/gpu")
    assert found is not None
    assert found.metadata.name == "aa"
    implicit = classes.get("deviceclass.resource.kubernetes.io/older")
    assert implicit is not None
    assert implicit.metadata.name == "older"


def test_answers_kept_for_pod_shapes_are_forgotten_when_a_class_comes() -> None:
    cluster = two_nodes()
    epoch = cluster.snapshot.node_epoch
    cluster.put(a_class("new", extendedResourceName="vendor.example/gpu"))
    assert cluster.snapshot.node_epoch != epoch


def test_a_pod_whose_template_claim_is_another_pods() -> None:
    cluster = two_nodes("a")
    claim = cluster.claim("a")
    cluster.put(msgspec.structs.replace(claim, metadata=ObjectMeta(name="a", namespace="default", uid="u")))
    pod = a_pod("p")
    spec = msgspec.structs.replace(
        pod.spec, resource_claims=(PodResourceClaim(name="x", resource_claim_template_name="t"),)
    )
    noted = msgspec.structs.replace(
        pod.status, resource_claim_statuses=(PodResourceClaimStatus(name="x", resource_claim_name="a"),)
    )
    waiting = msgspec.structs.replace(pod, spec=spec)
    noted_pod = msgspec.structs.replace(waiting, status=noted)
    early, wrong = cluster.plugin.pre_enqueue(waiting), cluster.plugin.pre_enqueue(noted_pod)
    assert early is not None
    assert early.message == 'pod "default/p": ResourceClaim not created yet'
    assert wrong is not None
    assert wrong.message == "ResourceClaim default/a was not created for Pod default/p (Pod is not owner)"


# --- what is remembered ------------------------------------------------------------------------------------------


def test_answers_to_selectors_that_name_a_job_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "MAX_ANSWERS", 16)
    [device] = devices.SliceView(a_slice("s", ["d"], node="n")).devices
    for i in range(100):
        assert device.matches(f'"job-{i}" != "" && device.driver == "{DRIVER}"')
        assert not device.matches(f'device.driver == "job-{i}"')
        assert len(device._published.answers) <= 16


def test_nodes_that_are_gone_leave_nothing_in_the_index_of_slices() -> None:
    index = SliceIndex(Features())
    for i in range(20):
        pool = index.put(a_slice("s", ["d"], node=f"n{i}"))
        assert pool
    index.remove("s")
    assert (index._slices, index._pools, index._of_node, index._shared) == ({}, {}, {}, set())
