"""NodeUnschedulable, NodeName, NodePorts and NodeDeclaredFeatures: who is refused, with which code and reason."""

import msgspec
import pytest

from kube.api.core import ContainerRestartRule
from plugins.node_declared_features import NodeDeclaredFeatures, features_changed
from plugins.node_name import NodeName
from plugins.node_ports import NodePorts, conflicting_port_freed
from plugins.node_unschedulable import NodeUnschedulable, became_schedulable, tolerates_now
from scheduler.framework.cluster_event import QueueingHint
from scheduler.framework.status import SKIP, Code
from tests.builders import equal, exists, host_port, make_container, make_node, make_pod
from tests.plugins.harness import Bench

QUEUE, LEAVE = QueueingHint.QUEUE, QueueingHint.SKIP
CORDON = "node.kubernetes.io/unschedulable"


# --- NodeUnschedulable -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tolerations", "fits"),
    [
        pytest.param([], {"open"}, id="no toleration"),
        pytest.param([exists(CORDON, "NoSchedule")], {"open", "cordoned"}, id="the toleration of daemon pods"),
        pytest.param([exists()], {"open", "cordoned"}, id="a toleration of everything"),
        pytest.param([equal(CORDON, "")], {"open", "cordoned"}, id="an empty value is equal"),
        pytest.param([exists(CORDON, "NoExecute")], {"open"}, id="a toleration of another effect"),
        pytest.param([exists("dedicated")], {"open"}, id="a toleration of another key"),
    ],
)
def test_a_cordoned_node_takes_only_pods_that_tolerate_it(tolerations, fits):
    bench = Bench(NodeUnschedulable, nodes=[make_node("open"), make_node("cordoned", unschedulable=True)])
    pod = make_pod("web", tolerations=tolerations)
    assert bench.fits(pod) == fits
    for status in (s for s in bench.filter(pod).values() if not s.ok):
        assert (status.code, status.reasons) == (
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            ("node(s) were unschedulable",),
        )


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        pytest.param(None, False, QUEUE, id="a schedulable node is added"),
        pytest.param(None, True, LEAVE, id="a cordoned node is added"),
        pytest.param(True, False, QUEUE, id="the cordon is lifted"),
        pytest.param(False, False, LEAVE, id="it was schedulable all along"),
        pytest.param(False, True, LEAVE, id="the node is cordoned"),
    ],
)
def test_a_node_that_becomes_schedulable_wakes_pods(before, after, hint):
    old = None if before is None else make_node("n1", unschedulable=before)
    assert became_schedulable(make_pod("web"), old, make_node("n1", unschedulable=after)) is hint


@pytest.mark.parametrize(
    ("uid", "tolerations", "hint"),
    [
        pytest.param("web", [exists(CORDON, "NoSchedule")], QUEUE, id="the pod tolerates the cordon now"),
        pytest.param("web", [exists("dedicated")], LEAVE, id="the pod tolerates something else now"),
        pytest.param("db", [exists(CORDON, "NoSchedule")], LEAVE, id="another pod tolerates the cordon now"),
    ],
)
def test_a_toleration_of_the_cordon_wakes_the_pod_itself(uid, tolerations, hint):
    updated = make_pod("web", uid=uid, tolerations=tolerations)
    assert tolerates_now(make_pod("web", uid="web"), None, updated) is hint


# --- NodeName ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        pytest.param("", {"n1", "n2"}, id="no node is named"),
        pytest.param("n2", {"n2"}, id="the named node alone"),
        pytest.param("n9", set(), id="a node that does not exist"),
    ],
)
def test_a_pod_that_names_its_node_goes_there_or_nowhere(wanted, fits):
    bench = Bench(NodeName, nodes=[make_node("n1"), make_node("n2")])
    pod = make_pod("web", node_name=wanted)
    assert bench.fits(pod) == fits
    for status in (s for s in bench.filter(pod).values() if not s.ok):
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert status.reasons == ("node(s) didn't match the requested node name",)


# --- NodePorts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "wanted", "fits"),
    [
        pytest.param(host_port(80), host_port(80), False, id="the same port"),
        pytest.param(host_port(80), host_port(81), True, id="another port"),
        pytest.param(host_port(80), host_port(80, protocol="UDP"), True, id="the same port of another protocol"),
        pytest.param(host_port(80), host_port(80, protocol="TCP"), False, id="no protocol is TCP"),
        pytest.param(host_port(80, ip="10.0.0.1"), host_port(80, ip="10.0.0.2"), True, id="another address"),
        pytest.param(host_port(80, ip="10.0.0.1"), host_port(80, ip="10.0.0.1"), False, id="the same address"),
        pytest.param(host_port(80, ip="10.0.0.1"), host_port(80), False, id="all addresses are wanted"),
        pytest.param(host_port(80), host_port(80, ip="10.0.0.1"), False, id="all addresses are taken"),
        pytest.param(
            host_port(80, ip="0.0.0.0"), host_port(80, ip="10.0.0.1"), False, id="0.0.0.0 written out is all addresses"
        ),
    ],
)
def test_a_host_port_is_given_once_per_node(used, wanted, fits):
    running = make_pod("running", host_ports=[used], node_name="n1")
    bench = Bench(NodePorts, nodes=[make_node("n1"), make_node("n2")], pods=[running])
    status = bench.filter(make_pod("web", host_ports=[wanted]))["n1"]
    assert status.ok is fits
    if not fits:
        assert status.code is Code.UNSCHEDULABLE
        assert status.reasons == ("node(s) didn't have free ports for the requested pod ports",)


def test_pods_without_host_ports_are_not_filtered():
    bench = Bench(NodePorts, nodes=[make_node("n1")])
    assert bench.pre_filter(make_pod("web")) is SKIP


def test_a_sidecar_holds_its_port_and_an_init_container_does_not():
    init = make_container("init", ports=[host_port(80)])
    sidecar = make_container("sidecar", ports=[host_port(81)], sidecar=True)
    running = make_pod("running", init_containers=[init, sidecar], node_name="n1")
    bench = Bench(NodePorts, nodes=[make_node("n1")], pods=[running])
    assert bench.fits(make_pod("a", host_ports=[80])) == {"n1"}
    assert bench.fits(make_pod("b", host_ports=[81])) == set()


def test_a_port_is_free_when_its_last_user_is_gone():
    pods = [make_pod(name, uid=name, host_ports=[80], node_name="n1") for name in ("a", "b")]
    bench = Bench(NodePorts, nodes=[make_node("n1")], pods=pods)
    pod = make_pod("web", host_ports=[80])
    assert bench.fits(pod) == set()
    bench.cache.remove_pod("a")
    assert bench.fits(pod) == set()
    bench.cache.remove_pod("b")
    assert bench.fits(pod) == {"n1"}


@pytest.mark.parametrize(
    ("deleted", "hint"),
    [
        pytest.param(make_pod("a", host_ports=[80], node_name="n1"), QUEUE, id="an assigned pod with the port"),
        pytest.param(make_pod("a", host_ports=[80], nominated_node_name="n1"), QUEUE, id="a nominated pod with it"),
        pytest.param(make_pod("a", host_ports=[80]), LEAVE, id="a pod that had no place"),
        pytest.param(make_pod("a", host_ports=[81], node_name="n1"), LEAVE, id="a pod with another port"),
        pytest.param(make_pod("a", node_name="n1"), LEAVE, id="a pod without ports"),
    ],
)
def test_a_deleted_pod_wakes_those_that_want_its_port(deleted, hint):
    assert conflicting_port_freed(make_pod("web", host_ports=[80]), deleted, None) is hint


# --- NodeDeclaredFeatures ----------------------------------------------------------------------------------------

RESTART_ALL = "RestartAllContainersOnContainerExits"
ON = {"NodeDeclaredFeatures": True}


def restarting(name: str = "web", *, init: bool = False, action: str = "RestartAllContainers"):
    rules = (ContainerRestartRule(action=action),)
    container = msgspec.structs.replace(make_container(), restart_policy_rules=rules)
    return make_pod(name, init_containers=[container]) if init else make_pod(name, containers=[container])


FEATURE_NODES = [
    make_node("new", declared_features=["GuaranteedQoSPodCPUResize", RESTART_ALL]),
    make_node("old", declared_features=["GuaranteedQoSPodCPUResize"]),
    make_node("older"),
]


@pytest.mark.parametrize(
    ("pod", "fits"),
    [
        pytest.param(restarting(), {"new"}, id="a container's exit restarts all containers"),
        pytest.param(restarting(init=True), {"new"}, id="an init container's exit restarts all containers"),
        pytest.param(restarting(action="Restart"), {"new", "old", "older"}, id="an exit restarts that container"),
        pytest.param(make_pod("web"), {"new", "old", "older"}, id="a pod that needs nothing special"),
    ],
)
def test_a_pod_goes_where_the_features_it_needs_are_declared(pod, fits):
    bench = Bench(NodeDeclaredFeatures, nodes=FEATURE_NODES, gates=ON)
    assert bench.fits(pod) == fits
    for status in (s for s in bench.filter(pod).values() if not s.ok):
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert status.reasons == ("node(s) didn't match Pod's required features",)


def test_with_the_gate_off_no_feature_is_needed():
    off = {"NodeDeclaredFeatures": False}
    assert Bench(NodeDeclaredFeatures, nodes=FEATURE_NODES, gates=off).pre_filter(restarting()) is SKIP


def test_a_feature_that_a_node_stops_declaring_is_gone():
    bench = Bench(NodeDeclaredFeatures, nodes=FEATURE_NODES, gates=ON)
    assert bench.fits(restarting()) == {"new"}
    bench.cache.update_node(make_node("new"))
    bench.cache.update_node(make_node("old", declared_features=[RESTART_ALL]))
    assert bench.fits(restarting()) == {"old"}
    bench.cache.remove_node("old")
    assert bench.fits(restarting()) == set()


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        pytest.param(None, [], QUEUE, id="a node is added"),
        pytest.param([], [RESTART_ALL], QUEUE, id="a feature is declared"),
        pytest.param([RESTART_ALL], [RESTART_ALL], LEAVE, id="the features are as before"),
    ],
)
def test_declared_features_wake_pods(before, after, hint):
    old = None if before is None else make_node("n1", declared_features=before)
    assert features_changed(restarting(), old, make_node("n1", declared_features=after)) is hint
