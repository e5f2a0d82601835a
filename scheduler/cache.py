"""The scheduler's cache: every node, and every pod that has or is about to have one.

The life of a pod here:

    initial --assume_pod--> assumed --add_pod (the informer confirms)--> added
    initial --add_pod--> added
    assumed --forget_pod--> gone          assumed/added --remove_pod--> gone
    added --update_pod--> added

There is no expiry: an assumed pod stays until it is confirmed, forgotten or deleted (facts 2.8).
Pods are keyed by UID. A node that is deleted while pods are on it stays as a ghost (no object, no row in the
snapshot) until they are gone; it gets its row back when the node comes back.

Owner: Scheduler; only event handlers and the two cycles change it, on the event loop. Never awaits.
"""

from __future__ import annotations

from dataclasses import dataclass

from kube.api.core import Node, Pod
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo, uid_of
from scheduler.snapshot.snapshot import Snapshot


@dataclass(slots=True)
class PodState:
    """A pod of the cache and where it stands."""

    info: PodInfo
    node_name: str
    assumed: bool = False
    #: the bind call returned; from here on only the informer decides
    binding_finished: bool = False


class SchedulerCache:
    """Nodes and assigned pods; writes the snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.nodes: dict[str, NodeInfo] = {}
        self.pods: dict[str, PodState] = {}
        self.assumed: set[str] = set()
        #: a pod appeared on another node than it was assumed on: corrected, and worth an alarm
        self.corrections = 0

    # --- pods ---------------------------------------------------------------------------------------------

    def assume_pod(self, info: PodInfo, node_name: str) -> None:
        """Count a pod on the node chosen for it, before the bind. Raises ValueError if it is counted already."""
        if info.uid in self.pods:
            raise ValueError(f"pod {info.key} is in the cache already, it cannot be assumed")
        self._put(PodState(info, node_name, assumed=True))
        self.assumed.add(info.uid)

    def finish_binding(self, info: PodInfo) -> None:
        """The bind call returned."""
        state = self.pods.get(info.uid)
        if state is not None and state.assumed:
            state.binding_finished = True

    def forget_pod(self, info: PodInfo) -> bool:
        """Take back an assumption; False where the pod is not (or no longer only) assumed."""
        state = self.pods.get(info.uid)
        if state is None or not state.assumed:
            return False
        self._take(state)
        return True

    def lift_pod(self, uid: str) -> PodState | None:
        """Count a pod no longer, for now: a group cycle looks at the cluster without it. None where it is not here."""
        state = self.pods.get(uid)
        if state is not None:
            self._take(state)
        return state

    def put_back(self, state: PodState) -> None:
        """Count a lifted pod again, as it was."""
        self._put(state)
        if state.assumed:
            self.assumed.add(state.info.uid)

    def add_pod(self, pod: Pod) -> None:
        """The informer shows an assigned pod: confirms an assumption or counts a new one."""
        known = self.pods.get(uid_of(pod))
        info = self._info(pod, known)
        if known is not None:
            if known.assumed and known.node_name == pod.spec.node_name and info.is_like(known.info):
                self._confirm(known, info)
                return
            if known.assumed and known.node_name != pod.spec.node_name:
                self.corrections += 1
            self._take(known)
        self._put(PodState(info, pod.spec.node_name))

    def _info(self, pod: Pod, known: PodState | None) -> PodInfo:
        """As the shape table makes it; a pod that has not changed keeps its shape, which costs a tenth."""
        if known is not None:
            before, shape = known.info.pod, known.info.shape
            labels, owners = pod.metadata.labels, pod.metadata.owner_references
            if (pod.spec, labels, owners) == (before.spec, before.metadata.labels, before.metadata.owner_references):
                return PodInfo(pod, shape)
        return self.snapshot.shapes.pod_info(pod)

    def _confirm(self, state: PodState, info: PodInfo) -> None:
        """The pod is where and what it was assumed to be: its node does not change by it."""
        node = self.nodes[state.node_name]
        node.replace_pod(info)
        self.pods[info.uid] = PodState(info, state.node_name)
        self.assumed.discard(info.uid)
        if node.row >= 0:
            self.snapshot.pod_confirmed(node, state.info, info)

    def update_pod(self, pod: Pod) -> None:
        """An assigned pod changed. An update of a pod that was never seen is an addition."""
        self.add_pod(pod)

    def remove_pod(self, uid: str) -> bool:
        """The pod is gone, whatever it was; False where it was not here."""
        state = self.pods.get(uid)
        if state is None:
            return False
        self._take(state)
        return True

    def is_assumed(self, uid: str) -> bool:
        """Assumed and not confirmed."""
        return uid in self.assumed

    def is_on_node(self, uid: str, node_name: str) -> bool:
        """Whether the informer has shown the pod on that node."""
        state = self.pods.get(uid)
        return state is not None and not state.assumed and state.node_name == node_name

    def _put(self, state: PodState) -> None:
        info = self.nodes.get(state.node_name)
        if info is None:
            info = self.nodes[state.node_name] = NodeInfo(state.node_name)
        info.add_pod(state.info)
        self.pods[state.info.uid] = state
        if info.row >= 0:
            self.snapshot.pod_added(info, state.info)

    def _take(self, state: PodState) -> None:
        info = self.nodes[state.node_name]
        info.remove_pod(state.info)
        del self.pods[state.info.uid]
        self.assumed.discard(state.info.uid)
        if info.row >= 0:
            self.snapshot.pod_removed(info, state.info)
        elif not info.pods:
            del self.nodes[info.name]

    # --- nodes --------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        """A node appeared (or came back); pods that were counted on its ghost count at once."""
        name = node.metadata.name
        info = self.nodes.get(name)
        if info is None:
            info = self.nodes[name] = NodeInfo(name)
        if info.node is not None:
            self.update_node(node)
            return
        info.set_node(node)
        self.snapshot.add_node(info)

    def update_node(self, node: Node) -> None:
        """A node changed; a change that no plugin can see (a heartbeat) costs nothing."""
        info = self.nodes.get(node.metadata.name)
        if info is None or info.node is None:
            self.add_node(node)
            return
        changed = differs(info.node, node)
        info.set_node(node)
        if changed:
            self.snapshot.node_changed(info)

    def remove_node(self, name: str) -> None:
        """A node is gone; with pods still on it, its ghost stays."""
        info = self.nodes.get(name)
        if info is None or info.node is None:
            return
        self.snapshot.remove_node(info)
        info.node = None
        info.allocatable = {}
        if not info.pods:
            del self.nodes[name]

    # --- questions ----------------------------------------------------------------------------------------

    def node_count(self) -> int:
        """Nodes that exist."""
        return self.snapshot.count

    def validate(self) -> list[str]:
        """What is inconsistent, as lines for people; empty when all is well."""
        problems = self.snapshot.validate()
        counted = {uid: name for name, info in self.nodes.items() for uid in info.pods}
        for uid, state in self.pods.items():
            if counted.pop(uid, None) != state.node_name:
                problems.append(f"pod {state.info.key} is not counted on {state.node_name}")
            if state.assumed != (uid in self.assumed):
                problems.append(f"pod {state.info.key}: assumed set disagrees")
        problems += [f"pod {uid} is counted on {name} but not in the cache" for uid, name in counted.items()]
        for name, info in self.nodes.items():
            if (info.node is not None) != (info.row >= 0) or (info.node is None and not info.pods):
                problems.append(f"node {name}: row {info.row}, object {info.node is not None}, {len(info.pods)} pods")
            problems += _wrong_sums(info)
        return problems


def differs(old: Node, new: Node) -> bool:
    """Whether plugins could see the difference; resourceVersion and heartbeats are none."""
    return (
        old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or old.metadata.annotations != new.metadata.annotations
        or old.metadata.uid != new.metadata.uid
        or old.status != new.status
    )


def _wrong_sums(info: NodeInfo) -> list[str]:
    fresh = NodeInfo(info.name)
    for pod in info.pods.values():
        fresh.add_pod(pod)
    wrong = [
        f"node {info.name}: {what} is {getattr(info, what)}, pods say {getattr(fresh, what)}"
        for what in ("non_zero_cpu", "non_zero_memory", "used_ports", "pvc_ref_counts")
        if getattr(fresh, what) != getattr(info, what)
    ]
    return wrong + [
        f"node {info.name}: requested {name} is off"
        for name in fresh.requested.keys() | info.requested.keys()
        if fresh.requested.get(name, 0) != info.requested.get(name, 0)
    ]
