"""The situations that people ask about most (facts, section 4), from objects to the sentence they read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kube.api.core import (
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    Pod,
)
from kube.api.meta import ObjectMeta
from kube.api.storage import StorageClass
from tests.builders import (
    HOSTNAME,
    ZONE,
    affinity,
    exists,
    host_port,
    make_node,
    make_pod,
    pod_term,
    requires,
    spread,
    taint,
)
from tests.podium.explain.asking import explained

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def claim(name: str, *, volume: str = "", modes: tuple[str, ...] = ("ReadWriteOnce",), storage: str = "") -> Any:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=name, namespace="default", annotations=BOUND if volume else {}),
        spec=PersistentVolumeClaimSpec(volume_name=volume, access_modes=modes, storage_class_name=storage),
        status=PersistentVolumeClaimStatus(phase="Bound" if volume else "Pending"),
    )


def volume_in(zone: str) -> Any:
    return PersistentVolume(metadata=ObjectMeta(name="pv-1", labels={ZONE: zone}), spec=PersistentVolumeSpec())


IMMEDIATE = StorageClass(metadata=ObjectMeta(name="fast"), volume_binding_mode="Immediate", provisioner="ebs.example")

n1, n2 = make_node("n1", zone="a", cpu="2"), make_node("n2", zone="b", cpu="2")
gpu = [make_node(f"gpu{i}", taints=[taint("gpu", "true")]) for i in range(3)]
web = [make_pod(f"web-{i}", labels={"app": "web"}, node_name=f"n{i}") for i in (1, 2)]
full = [make_pod(f"batch-{i}", cpu="1500m", node_name=f"n{i}") for i in (1, 2)]

SITUATIONS: list[Any] = [
    pytest.param(
        make_pod("big", cpu="1750m", preemption_policy="Never"),
        [n1, n2],
        [full[0], make_pod("batch-2", cpu="500m", node_name="n2")],
        [],
        "It fits on none of 2 nodes: 1750m CPU requested, 1500m at most free on n2 (2 allocatable, 500m requested): "
        "250m short; it would fit on n2 if you request 1500m CPU instead of 1750m.",
        id="it lacks CPU: how much, and on which node least",
    ),
    pytest.param(
        make_pod("huge", cpu="64"),
        [n1, n2],
        [],
        [],
        "It fits on none of 2 nodes: 64 CPU requested, more than any of them has, n1 the most (2).",
        id="it requests more than any node has",
    ),
    pytest.param(
        make_pod("plain", cpu="100m"),
        gpu,
        [],
        [],
        "It fits on none of 3 nodes: taint gpu=true:NoSchedule; it would fit on 3 nodes if you tolerate "
        "gpu=true:NoSchedule.",
        id="taints: with key and value",
    ),
    pytest.param(
        make_pod("ssd", node_selector={"disktype": "ssd"}),
        [make_node("n1", labels={"disktype": "hdd"}), make_node("n2")],
        [],
        [],
        "It fits on none of 2 nodes: nodeSelector disktype=ssd: the label is hdd on 1, absent on 1; "
        "it would fit on 2 nodes if you drop nodeSelector disktype=ssd.",
        id="a label that no node has",
    ),
    pytest.param(
        make_pod("zonal", affinity=affinity(node_required=[requires(ZONE, "In", "x", "y")])),
        [n1, n2],
        [],
        [],
        f"It fits on none of 2 nodes: node affinity {ZONE} In [x, y]: the label is a on 1, b on 1; "
        f"it would fit on 2 nodes if you drop node affinity {ZONE} In [x, y].",
        id="node affinity to zones without nodes",
    ),
    pytest.param(
        make_pod("late"),
        [make_node("n1", unschedulable=True, taints=[taint("node.kubernetes.io/unschedulable")])],
        [],
        [],
        "It does not fit on the only node: cordoned; it would fit on n1 if you uncordon n1.",
        id="a cordoned node",
    ),
    pytest.param(
        make_pod("late"),
        [make_node("n1", taints=[taint("node.kubernetes.io/not-ready", effect="NoExecute")])],
        [],
        [],
        "It does not fit on the only node: taint node.kubernetes.io/not-ready:NoExecute; it would fit on n1 if you "
        "mend n1 (taint node.kubernetes.io/not-ready:NoExecute).",
        id="a node that is not ready: nobody is told to tolerate that",
    ),
    pytest.param(
        make_pod("web-3", affinity=affinity(anti_required=[pod_term(HOSTNAME, {"app": "web"})])),
        [n1, n2],
        web,
        [],
        "It fits on none of 2 nodes: pod anti-affinity to app=web on the same node: default/web-1 and default/web-2; "
        "it would fit on 2 nodes if you drop the pod anti-affinity to app=web on the same node.",
        id="its own anti-affinity: which pods are there",
    ),
    pytest.param(
        make_pod("web-3", labels={"app": "web"}),
        [n1],
        [make_pod("db", node_name="n1", affinity=affinity(anti_required=[pod_term(ZONE, {"app": "web"})]))],
        [],
        "It does not fit on the only node: default/db refuses pods with app=web in the same zone by anti-affinity; "
        "it would fit on n1 without default/db.",
        id="the anti-affinity of a running pod: whose",
    ),
    pytest.param(
        make_pod("near", affinity=affinity(pod_required=[pod_term(ZONE, {"app": "cache"})])),
        [n1, n2],
        [],
        [],
        "It fits on none of 2 nodes: pod affinity wants a pod with app=cache in the same zone: there is no such pod "
        "on any node; it would fit on 2 nodes if you drop the pod affinity with app=cache in the same zone.",
        id="affinity to a pod that is not there",
    ),
    pytest.param(
        make_pod("web-4", cpu="500m", labels={"app": "web"}, spread=[spread(ZONE, {"app": "web"})]),
        [n1, n2],
        [
            *(make_pod(f"web-{i}", labels={"app": "web"}, node_name="n2") for i in (1, 2)),
            make_pod("full", cpu="2", node_name="n1"),
        ],
        [],
        "It fits on none of 2 nodes: 1 short of CPU (n1 by 500m), 1 over maxSkew 1 by zone; "
        "it would fit on n2 if you allow maxSkew 3 instead of 1 by zone.",
        id="spreading: by how much the skew is too large",
    ),
    pytest.param(
        make_pod("busy", host_ports=[host_port(8080)]),
        [n1],
        [make_pod("other", node_name="n1", host_ports=[host_port(8080)])],
        [],
        "It does not fit on the only node: host port 8080/TCP is taken by default/other on n1; "
        "it would fit on n1 if you use another host port than 8080/TCP.",
        id="a host port that is taken: by whom",
    ),
    pytest.param(
        make_pod("one-more"),
        [make_node("n1", pods="2")],
        [make_pod(f"p{i}", node_name="n1") for i in range(2)],
        [],
        "It does not fit on the only node: 2 pods are on n1 already; it would fit on n1 without default/p0.",
        id="a node that is full of pods",
    ),
    pytest.param(
        make_pod("data", claims=["data"]),
        [n1, n2],
        [],
        [claim("data", volume="pv-1"), volume_in("c")],
        f"It fits on none of 2 nodes: claim data is bound to volume pv-1, to be reached from nodes with {ZONE} in c.",
        id="a volume in another zone: which claim",
    ),
    pytest.param(
        make_pod("data", claims=["data"]),
        [n1, n2],
        [],
        [claim("data", storage="fast"), IMMEDIATE],
        "It fits on none of 2 nodes: claim data is not bound, and its storage class fast binds at once: "
        "it waits for its provisioner, not for the scheduler.",
        id="an unbound claim that binds at once",
    ),
    pytest.param(
        make_pod("data", claims=["data"]),
        [n1],
        [],
        [],
        "It does not fit on the only node: claim data does not exist.",
        id="a claim that does not exist",
    ),
    pytest.param(
        make_pod("solo", claims=["data"]),
        [n1, n2],
        [make_pod("holder", claims=["data"], node_name="n1")],
        [claim("data", volume="pv-1", modes=("ReadWriteOncePod",)), volume_in("a")],
        "It fits on none of 2 nodes: claim data (ReadWriteOncePod) is in use by default/holder on n1; "
        "it would fit on n1 without default/holder.",
        id="a ReadWriteOncePod claim in use: by whom",
    ),
    pytest.param(
        make_pod("gated", scheduling_gates=["example.com/quota"]),
        [n1],
        [],
        [],
        "It is not scheduled before its scheduling gate example.com/quota is removed.",
        id="a scheduling gate",
    ),
    pytest.param(
        make_pod("vip", cpu="1", priority=100),
        [n1],
        full[:1],
        [],
        "It does not fit on the only node: 1 CPU requested, 500m free on n1 (2 allocatable, 1500m requested): "
        "500m short; preemption would make room on n1.",
        id="preemption would help",
    ),
    pytest.param(make_pod("lonely"), [], [], [], "There are no nodes to schedule it on.", id="no nodes at all"),
    pytest.param(
        make_pod("fine", cpu="100m", tolerations=[exists("gpu")]),
        [n1, *gpu[:1]],
        [],
        [],
        "It fits on 2 of 2 nodes, the best is gpu0 (score 472).",
        id="it fits: where best",
    ),
]


@pytest.mark.parametrize(("pod", "nodes", "pods", "others", "sentence"), SITUATIONS)
def test_sentence(pod: Pod, nodes: Iterable[Node], pods: Iterable[Pod], others: Iterable[Any], sentence: str) -> None:
    assert explained(pod, nodes, pods, others).verdict == sentence


@pytest.mark.parametrize(
    ("scheduler", "sentence"),
    [
        pytest.param(
            "podum",
            'Nobody schedules it: spec.schedulerName is "podum", did you mean "podium"?',
            id="a name that is nearly a profile's",
        ),
        pytest.param(
            "default-scheduler",
            'It belongs to another scheduler: spec.schedulerName is "default-scheduler", this one serves podium.',
            id="another scheduler's pod",
        ),
        pytest.param("podium", "It fits on n1, the only node.", id="our own"),
    ],
)
def test_pods_that_no_profile_claims(scheduler: str, sentence: str) -> None:
    assert explained(make_pod("p", scheduler_name=scheduler), [n1], any_name=False).verdict == sentence


@pytest.mark.parametrize(
    ("pod", "pods", "sentence"),
    [
        pytest.param(
            make_pod("p", cpu="1", node_name="n1"),
            [],
            "It is on n1, which is still the best of 2 nodes that it fits on, as good as n2.",
            id="where it would go now",
        ),
        pytest.param(
            make_pod("p", cpu="1", node_name="n1"),
            [make_pod("q", cpu="1", node_name="n1")],
            "It is on n1 (score 411); n2 would win now (score 436).",
            id="another node would win now, with the scores",
        ),
        pytest.param(
            make_pod("p", cpu="1", node_name="n1"),
            [make_pod("q", cpu="2", node_name="n1")],
            "It is on n1, and would not fit there any more: Insufficient cpu.",
            id="its node is overfull",
        ),
        pytest.param(
            make_pod("p", cpu="1", node_name="gone"), [], "It is on gone, and that node is gone.", id="its node is gone"
        ),
    ],
)  # fmt: skip
def test_placed_pods(pod: Pod, pods: Iterable[Pod], sentence: str) -> None:
    assert explained(pod, [n1, n2], pods).verdict == sentence


def test_a_nominated_pod_waits_for_its_victims() -> None:
    victim = make_pod("victim", cpu="2", node_name="n1", deletion_timestamp="2026-01-01T00:00:00Z")
    pod = make_pod("vip", cpu="1", priority=10, nominated_node_name="n1")
    found = explained(pod, [n1], [victim])
    assert found.state == "nominated"
    assert found.verdict.startswith(
        "Preemption nominated it to n1, where it waits for default/victim to terminate; it does not fit"
    )


def test_room_that_is_kept_for_a_nominated_pod() -> None:
    waiting = make_pod("waiting", cpu="2", priority=10, nominated_node_name="n1")
    assert explained(make_pod("low", cpu="1"), [n1], [waiting]).verdict == (
        "It does not fit on the only node: 2 CPU free on n1, but kept for nominated default/waiting."
    )


def test_a_placed_pod_is_shown_with_its_runners_up_plugin_by_plugin() -> None:
    pod = make_pod("p", cpu="1", node_name="n1")
    found = explained(pod, [n1, n2], [make_pod("q", cpu="1", node_name="n1")])
    assert [(score.node, score.total) for score in found.scores] == [("n2", 436), ("n1", 411)]
    for score in found.scores:
        assert sum(score.plugins.values()) == score.total
    better, own = (score.plugins["NodeResourcesFit"] for score in found.scores)
    assert better > own
