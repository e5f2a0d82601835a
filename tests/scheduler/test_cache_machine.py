"""SchedulerCache against a model: a dictionary of nodes and a dictionary of where each pod is counted."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kube.api.core import Node, Pod
from scheduler.cache import PodState, SchedulerCache
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import Snapshot
from tests.builders import HOSTNAME, affinity, make_node, make_pod, pod_term, taint
from tests.scheduler.machines import SOUND, must_catch

NODES = ("n1", "n2", "n3")
UIDS = tuple(f"uid-p{i}" for i in range(6))

#: what pods of the machine look like: each counts somewhere else
LOOKS: tuple[dict[str, Any], ...] = (
    {},
    {"cpu": "500m", "memory": "1Gi"},
    {"requests": {"example.com/gpu": "2", "cpu": "1"}, "labels": {"app": "gpu"}},
    {"host_ports": [8080, 9090]},
    {"claims": ["data"], "labels": {"app": "db"}},
    {"affinity": affinity(anti_required=[pod_term(HOSTNAME, {"app": "db"})])},
)
NODE_LOOKS: tuple[dict[str, Any], ...] = (
    {},
    {"cpu": "8", "zone": "a"},
    {"zone": "b", "taints": [taint("dedicated", "db")]},
    {"unschedulable": True, "extra": {"example.com/gpu": "4"}},
)

uids, nodes = st.sampled_from(UIDS), st.sampled_from(NODES)
looks, node_looks = st.sampled_from(LOOKS), st.sampled_from(NODE_LOOKS)


@dataclass(frozen=True)
class Counted:
    """The model of a pod: its object, the node it counts on, and whether that is only assumed."""

    pod: Pod
    node: str
    assumed: bool


class CacheMachine(RuleBasedStateMachine):
    """Every call that event handlers and cycles make, in any order."""

    cache_class: type[SchedulerCache] = SchedulerCache
    snapshot_class: type[Snapshot] = Snapshot

    def __init__(self) -> None:
        super().__init__()
        self.snapshot = self.snapshot_class()
        self.snapshot.label("topology.kubernetes.io/zone")
        self.cache = self.cache_class(self.snapshot)
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Counted] = {}
        self.corrections = 0

    def pod(self, uid: str, node: str, look: dict[str, Any]) -> Pod:
        return make_pod(uid.removeprefix("uid-"), uid=uid, node_name=node, **look)

    def info(self, pod: Pod) -> PodInfo:
        return self.snapshot.shapes.pod_info(pod)

    @rule(name=nodes, look=node_looks)
    def add_or_update_node(self, name: str, look: dict[str, Any]) -> None:
        self.nodes[name] = make_node(name, **look)
        self.cache.add_node(self.nodes[name])

    @rule(name=nodes, look=node_looks)
    def update_node(self, name: str, look: dict[str, Any]) -> None:
        self.nodes[name] = make_node(name, **look)
        self.cache.update_node(self.nodes[name])

    @rule(name=nodes)
    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.cache.remove_node(name)

    @rule(uid=uids, node=nodes, look=looks)
    def assume(self, uid: str, node: str, look: dict[str, Any]) -> None:
        pod = self.pod(uid, node, look)
        if uid in self.pods:
            with pytest.raises(ValueError, match="in the cache already"):
                self.cache.assume_pod(self.info(pod), node)
            return
        self.cache.assume_pod(self.info(pod), node)
        self.pods[uid] = Counted(pod, node, assumed=True)

    @precondition(lambda self: any(pod.assumed for pod in self.pods.values()))
    @rule(data=st.data(), elsewhere=st.none() | nodes)
    def confirm(self, data: st.DataObject, elsewhere: str | None) -> None:
        uid = data.draw(st.sampled_from(sorted(uid for uid, pod in self.pods.items() if pod.assumed)))
        known = self.pods[uid]
        node = elsewhere or known.node
        self.corrections += node != known.node
        pod = make_pod(
            uid, uid=uid, node_name=node, labels=dict(known.pod.metadata.labels), containers=known.pod.spec.containers
        )
        self.cache.add_pod(pod)
        self.pods[uid] = Counted(pod, node, assumed=False)

    @rule(uid=uids, node=nodes, look=looks)
    def informer_shows(self, uid: str, node: str, look: dict[str, Any]) -> None:
        known = self.pods.get(uid)
        self.corrections += known is not None and known.assumed and known.node != node
        pod = self.pod(uid, node, look)
        self.cache.add_pod(pod)
        self.pods[uid] = Counted(pod, node, assumed=False)

    @rule(uid=uids, look=looks)
    def update(self, uid: str, look: dict[str, Any]) -> None:
        if uid in self.pods and not self.pods[uid].assumed:
            pod = self.pod(uid, self.pods[uid].node, look)
            self.cache.update_pod(pod)
            self.pods[uid] = replace(self.pods[uid], pod=pod)

    @rule(uid=uids)
    def forget(self, uid: str) -> None:
        known = self.pods.get(uid)
        info = self.info(known.pod if known is not None else self.pod(uid, "n1", {}))
        was_assumed = known is not None and known.assumed
        assert self.cache.forget_pod(info) is was_assumed
        if was_assumed:
            del self.pods[uid]

    @rule(uid=uids)
    def remove(self, uid: str) -> None:
        assert self.cache.remove_pod(uid) is (uid in self.pods)
        self.pods.pop(uid, None)

    @rule(node=nodes, look=looks, assumed=st.booleans())
    def adding_and_removing_leaves_no_trace(self, node: str, look: dict[str, Any], assumed: bool) -> None:
        before = self.traces()
        info = self.info(self.pod("uid-passing", node, look))
        if assumed:
            self.cache.assume_pod(info, node)
            self.snapshot.refresh()
            self.cache.forget_pod(info)
        else:
            self.cache.add_pod(info.pod)
            self.snapshot.refresh()
            self.cache.remove_pod(info.uid)
        assert self.traces() == before

    def traces(self) -> dict[str, object]:
        """All that is counted, by node; zeros that were left behind do not count."""
        self.snapshot.refresh()
        return {name: (books(info), columns_of(self.snapshot, info)) for name, info in self.cache.nodes.items()}

    @invariant()
    def is_consistent(self) -> None:
        assert self.cache.validate() == []

    @invariant()
    def equals_the_model(self) -> None:
        assert {n: i.node for n, i in self.cache.nodes.items() if i.node is not None} == self.nodes
        assert {uid: (s.info.pod, s.node_name, s.assumed) for uid, s in self.cache.pods.items()} == {
            uid: (pod.pod, pod.node, pod.assumed) for uid, pod in self.pods.items()
        }
        assert set(filter(self.cache.is_assumed, UIDS)) == {uid for uid, pod in self.pods.items() if pod.assumed}
        on_node = {name: {u for u, pod in self.pods.items() if pod.node == name} for name in NODES}
        assert {name: set(info.pods) for name, info in self.cache.nodes.items()} == {
            name: pods for name, pods in on_node.items() if pods or name in self.nodes
        }
        assert self.cache.node_count() == len(self.nodes)
        assert self.cache.corrections == self.corrections

    @invariant()
    def columns_equal_node_infos(self) -> None:
        self.snapshot.refresh()
        for name, pods in ((name, [p for p in self.pods.values() if p.node == name]) for name in self.nodes):
            fresh = NodeInfo(name)
            fresh.set_node(self.nodes[name])
            for counted in pods:
                fresh.add_pod(self.info(counted.pod))
            info = self.cache.nodes[name]
            assert books(info) == books(fresh)
            assert columns_of(self.snapshot, info) == expected_columns(fresh)
        assert int(self.snapshot.trimmed["alive"].sum()) == len(self.nodes)


def books(info: NodeInfo) -> dict[str, object]:
    return {
        "requested": {name: amount for name, amount in info.requested.items() if amount},
        "non zero": (info.non_zero_cpu, info.non_zero_memory),
        "ports": info.used_ports,
        "claims": info.pvc_ref_counts,
        "pods": set(info.pods),
        "affinity": set(info.pods_with_affinity),
        "anti-affinity": set(info.pods_with_required_anti_affinity),
    }


RESOURCES = ("pods", "cpu", "memory", "ephemeral-storage", "example.com/gpu")


def columns_of(snapshot: Snapshot, info: NodeInfo) -> dict[str, object] | None:
    if info.row < 0:
        return None
    view = snapshot.select(snapshot.nodes.gather(snapshot.nodes.all).nonzero()[0])
    at = [i.name for _, i in view.infos()].index(info.name)
    zone = snapshot.label("topology.kubernetes.io/zone")
    return {
        "allocatable": [view.allocatable(name)[at] for name in RESOURCES],
        "requested": [view.requested(name)[at] for name in RESOURCES],
        "free": [view.free(name)[at] for name in RESOURCES],
        "non zero": [view.non_zero(name)[at] for name in ("cpu", "memory")],
        "unschedulable": bool(view.unschedulable[at]),
        "taints": snapshot.taint_sets.values[view.taints[at]],
        "zone": zone.values.values[view.label_codes("topology.kubernetes.io/zone")[at]],
    }


def expected_columns(info: NodeInfo) -> dict[str, object]:
    assert info.node is not None
    allocatable = [info.allocatable.get(name, 0) for name in RESOURCES]
    requested = [info.requested.get(name, 0) for name in RESOURCES]
    return {
        "allocatable": allocatable,
        "requested": requested,
        "free": [have - used for have, used in zip(allocatable, requested, strict=True)],
        "non zero": [info.non_zero_cpu, info.non_zero_memory],
        "unschedulable": info.node.spec.unschedulable,
        "taints": info.node.spec.taints,
        "zone": info.labels.get("topology.kubernetes.io/zone"),
    }


TestCache = CacheMachine.TestCase
TestCache.settings = SOUND


# --- mutants: each breaks one property, and the machine notices ---------------------------------------------------


class KeepsAssuming(SchedulerCache):
    def add_pod(self, pod: Pod) -> None:
        assumed = pod.metadata.uid in self.assumed
        super().add_pod(pod)
        if assumed:
            self.assumed.add(pod.metadata.uid)


class CountsOnBothNodes(SchedulerCache):
    def add_pod(self, pod: Pod) -> None:
        self._put(PodState(self.snapshot.shapes.pod_info(pod), pod.spec.node_name))
        self.assumed.discard(pod.metadata.uid)


class ForgetsConfirmedPods(SchedulerCache):
    def forget_pod(self, info: PodInfo) -> bool:
        return self.remove_pod(info.uid)


class DropsGhosts(SchedulerCache):
    def remove_node(self, name: str) -> None:
        info = self.nodes.get(name)
        super().remove_node(name)
        for uid in [] if info is None else list(info.pods):
            self.remove_pod(uid)


class CorrectsSilently(SchedulerCache):
    def add_pod(self, pod: Pod) -> None:
        super().add_pod(pod)
        self.corrections = 0


class LeavesAPort(SchedulerCache):
    def _take(self, state: PodState) -> None:
        ports = {key: dict(ips) for key, ips in self.nodes[state.node_name].used_ports.items()}
        super()._take(state)
        if state.node_name in self.nodes:
            self.nodes[state.node_name].used_ports = ports


class MissesRemovedPods(Snapshot):
    def pod_removed(self, info: NodeInfo, pod: PodInfo) -> None:
        """The row is not marked dirty."""


class MissesNewLabels(Snapshot):
    def _write_node(self, row: int, info: NodeInfo) -> None:
        labels, self.label_values = self.label_values, {}
        super()._write_node(row, info)
        self.label_values = labels


class LeavesDeadRowsAlive(Snapshot):
    def _clear_row(self, row: int) -> None:
        """The old values stay."""


@pytest.mark.parametrize(
    "mutation",
    [
        pytest.param({"cache_class": KeepsAssuming}, id="a confirmed pod stays in the assumed set"),
        pytest.param({"cache_class": CountsOnBothNodes}, id="a pod that moved counts on both nodes"),
        pytest.param({"cache_class": ForgetsConfirmedPods}, id="forget takes away a confirmed pod"),
        pytest.param({"cache_class": DropsGhosts}, id="pods of a deleted node are dropped"),
        pytest.param({"cache_class": CorrectsSilently}, id="a corrected assumption is not counted"),
        pytest.param({"cache_class": LeavesAPort}, id="a removed pod leaves its host port behind"),
        pytest.param({"snapshot_class": MissesRemovedPods}, id="a removed pod stays in the columns"),
        pytest.param({"snapshot_class": MissesNewLabels}, id="a label column is not written"),
        pytest.param({"snapshot_class": LeavesDeadRowsAlive}, id="the row of a removed node stays alive"),
    ],
)
def test_the_machine_catches(mutation: dict[str, type]) -> None:
    must_catch(CacheMachine, **mutation)
