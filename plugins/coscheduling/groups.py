"""What Coscheduling knows of its groups: the objects, the pods that bear their label, and how their attempts went.

Owner: the plugin; one per profile. `Assigned` is an index of the snapshot and shared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kube.api.core import Pod
from kube.api.meta import parse_time
from kube.api.workload import CoschedulingPodGroup
from scheduler.framework.handle import Handle
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import Snapshot

LABEL = "scheduling.x-k8s.io/pod-group"
RESOURCE = "podgroups.v1alpha1.scheduling.x-k8s.io"


def group_of(pod: Pod) -> str:
    """`namespace/group` of the pod's label, "" without one."""
    name = pod.metadata.labels.get(LABEL)
    return f"{pod.metadata.namespace}/{name}" if name else ""


def _by_group(pod: Pod) -> Iterable[str]:
    key = group_of(pod)
    return (key,) if key else ()


class Assigned:
    """group -> its pods that have a node, assumed ones included. Owner: the snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._rows: dict[str, dict[str, tuple[int, PodInfo]]] = {}

    def of(self, key: str) -> dict[str, tuple[int, PodInfo]]:
        """uid -> (row, pod), to be read only."""
        return self._rows.get(key, {})

    def node_changed(self, row: int, node: NodeInfo | None) -> None:
        """Groups do not look at nodes."""

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """A pod is counted on a node now."""
        key = group_of(pod.pod)
        if key:
            self._rows.setdefault(key, {})[pod.uid] = (row, pod)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """And is not any more."""
        key = group_of(pod.pod)
        rows = self._rows.get(key) if key else None
        if rows is not None and rows.pop(pod.uid, None) is not None and not rows:
            del self._rows[key]


@dataclass(slots=True)
class History:
    """How the attempts of a group went. Seconds: the failure by the wall clock, the others by the loop's."""

    last_failure: float | None = None
    backoff_until: float = 0.0
    #: the cluster had room for all of it when that was looked at; not looked at again before
    room_until: float = 0.0
    #: members that wait do not call the others before
    quiet_until: float = 0.0
    #: one has called them since the last failure
    called: bool = False


class CoschedulingGroups:
    """The groups and their pods."""

    def __init__(self, handle: Handle) -> None:
        self._groups = handle.listers(RESOURCE, CoschedulingPodGroup)
        self._pods = handle.listers("Pod")
        self._pods.add_index(LABEL, _by_group)
        self.assigned = handle.snapshot.index(Assigned)
        self._history: dict[str, History] = {}

    def get(self, key: str) -> CoschedulingPodGroup | None:
        """The object of a group."""
        namespace, _, name = key.partition("/")
        found: CoschedulingPodGroup | None = self._groups.get(name, namespace)
        return found

    def pods(self, key: str) -> list[Pod]:
        """All pods with the group's label, with a node or without."""
        return list(self._pods.by_index(LABEL, key))

    def history(self, key: str) -> History:
        """How the group's attempts went; remembered from now on."""
        return self._history.setdefault(key, History())

    def known_history(self, key: str) -> History | None:
        """The same, None where there were none."""
        return self._history.get(key)

    def forget(self, key: str) -> None:
        """The group has what it wanted, or is gone."""
        self._history.pop(key, None)

    def created(self, key: str) -> float | None:
        """When the object was made, seconds."""
        obj = self.get(key)
        if obj is None or not obj.metadata.creation_timestamp:
            return None
        try:
            return parse_time(obj.metadata.creation_timestamp)
        except ValueError:
            return None
