"""Handle: what a plugin may reach of the scheduler around it.

Built once per profile by the wiring. Everything here is a protocol or a plain value, so that plugins do not
depend on the client, the queue or the cache, and run unchanged offline. The whole of it is told, with examples, in
docs/architecture.md.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from kube.api.core import Pod
from kube.api.meta import ApiObject
from scheduler.framework.cluster_event import ClusterEvent
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.group_run import GroupRun
from scheduler.framework.plugin_metrics import PluginMetrics
from scheduler.framework.status import Status
from scheduler.framework.waiting_pods import WaitingPods
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from scheduler.framework.extender import Extender


class Lister(Protocol):
    """Objects of one kind, from an informer's cache or from files."""

    @property
    def version(self) -> int:
        """Counts changes of the objects."""

    def get(self, name: str, namespace: str = "") -> Any | None:
        """The object, or None."""

    def list(self) -> Iterable[Any]:
        """All objects."""

    def by_index(self, index: str, value: str) -> Iterable[Any]:
        """Objects for which the index function of that name yields `value`."""

    def add_index(self, index: str, function: Callable[[Any], Iterable[str]]) -> None:
        """Keep an index by a function of the object; adding the same name again changes nothing."""

    def add_handler(
        self,
        *,
        add: Callable[[Any], None] | None = None,
        update: Callable[[Any, Any], None] | None = None,
        delete: Callable[[Any, bool], None] | None = None,
    ) -> Any:
        """Call these on news; what is there already is told as adds. Offline nothing changes but by the simulation.

        They are called before the pods that wait for the event are looked at, and must not wait. `delete` also
        learns whether the final state is unknown.
        """


class Listers(Protocol):
    """Informers' caches by resource; each is filled from the start, or from the first question on."""

    def __call__(self, resource: str, type_: type[ApiObject] | None = None) -> Lister:
        """The objects of a kind podium knows ("Pod"), or of any other resource ("foos.v1.example.com").

        These are CustomObjects, or of a struct of the plugin's own. Empty where the server has no such resource.
        Raises ValueError, of one line, for a name that is neither.
        """


class Client(Protocol):
    """The writes that plugins make. Offline they are refused or recorded by whoever runs the simulation."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        """POST the binding."""

    async def update(self, obj: Any, subresource: str = "") -> Any:
        """PUT an object, checked by its resourceVersion; the stored object comes back."""

    async def patch(self, obj: Any, patch: Mapping[str, Any], subresource: str = "", kind: str = "strategic") -> Any:
        """PATCH an object (`kind`: strategic, merge); the stored object comes back."""

    async def create(self, obj: Any) -> Any:
        """POST an object."""

    async def delete(self, obj: Any, *, uid: str = "") -> None:
        """DELETE an object, with its UID as precondition where given; NotFound is success."""

    async def get(self, kind: str, name: str, namespace: str = "") -> Any:
        """GET an object past all caches."""


class Nominator(Protocol):
    """Pods that preemption promised a place."""

    def nominated_pods_for_node(self, node_name: str) -> Sequence[PodInfo]:
        """The pods nominated to a node."""

    def nominated_nodes(self) -> Mapping[str, Sequence[PodInfo]]:
        """node name -> pods nominated to it; empty where there are none."""

    def node_of(self, uid: str) -> str:
        """The node a pod is nominated to, "" for none."""

    def delete(self, uid: str) -> None:
        """Take a pod's nomination back, in memory."""


class DryRun(Protocol):
    """Asking the profile's filters about one changed node (the framework implements it)."""

    def active_filters(self, state: CycleState) -> Sequence[Any]:
        """The filters that have something to say about the pod, in order."""

    def nominated_rows(self, pod_info: PodInfo) -> Mapping[int, Sequence[PodInfo]]:
        """row -> nominated pods that count for this pod; rows without such are left out."""

    def filter_with_nominated_pods(
        self, state: CycleState, pod_info: PodInfo, node: NodeInfo, filters: Sequence[Any] | None = None
    ) -> Status | None:
        """Filters (default: all) in order, twice where equal or higher nominated pods count (facts 2.8); None: fits."""

    def add_pod(self, state: CycleState, pod_info: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Put a pod on a cloned node and tell the plugins."""

    def remove_pod(self, state: CycleState, pod_info: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Take a pod off a cloned node and tell the plugins."""


EventFunction = Callable[[Pod, Pod | None, str, str, str, str], None]


#: (number of victims, "success" or "error", seconds it took to evict them)
PreemptionObserver = Callable[[int, str, float], None]


def _no_event(regarding: Pod, related: Pod | None, kind: str, reason: str, action: str, note: str) -> None:
    """Offline nobody listens."""


@dataclass(slots=True)
class Handle:
    """The scheduler, as a plugin of one profile sees it."""

    snapshot: Snapshot
    profile: str
    #: kind ("PersistentVolumeClaim") or "plural.version.group" -> its lister
    listers: Listers
    nominator: Nominator
    waiting_pods: WaitingPods
    #: feature gate -> on?
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    #: series of the plugin's own, served with podium's
    metrics: PluginMetrics = field(default_factory=PluginMetrics)
    random: random.Random = field(default_factory=random.Random)
    #: kind -> the version of it that the server has, "" where it has none; offline nothing is served
    served: Callable[[str], str] = field(default=lambda kind: "")
    #: wall clock, seconds
    now: Callable[[], float] = field(default=lambda: 0.0)
    client: Client | None = None
    #: (regarding, related, type, reason, action, note)
    event: EventFunction = _no_event
    #: move these pods ("namespace/name") out of the pool, whatever made them wait
    activate: Callable[[Iterable[str]], None] = field(default=lambda pods: None)
    #: these pods' places in activeQ may have changed
    resort: Callable[[Iterable[str]], None] = field(default=lambda pods: None)
    #: these pods wait until their backoff is over, whatever an idle scheduler would do
    sit_out: Callable[[Iterable[str]], None] = field(default=lambda pods: None)
    #: report a cluster event that no informer sees
    report: Callable[[ClusterEvent, Any, Any], None] = field(default=lambda event, old, new: None)
    #: call a function after some seconds; offline in the simulation's own time, or never where that stands still
    later: Callable[[float, Callable[[], None]], None] = field(default=lambda seconds, function: None)
    #: run a coroutine in the scheduler's task group (asynchronous preemption)
    spawn: Callable[[Any], None] | None = None
    extenders: Sequence[Extender] = ()
    #: counts preemption_attempts_total
    preemption_attempted: Callable[[], None] = field(default=lambda: None)
    #: observes the other preemption metrics once the victims are evicted
    preemption_done: PreemptionObserver = field(default=lambda victims, result, seconds: None)
    #: set while a pod group is being decided
    group: GroupRun | None = None
    #: set by the framework once it is built
    dry_run: DryRun = field(init=False)

    def column(
        self, name: str, function: Callable[[NodeInfo], float], dtype: DTypeLike = np.float64, *, by_pods: bool = False
    ) -> str:
        """Keep a column of the plugin's own in the snapshot; the answer is its key for `nodes.column(key)`.

        `function` is asked about a node when that has changed; with `by_pods` also when pods came or went. Where it
        raises, that is logged and the node's value is 0. A name is the profile's: another profile's is another column.
        """
        return self.snapshot.add_column(f"{self.profile}/{name}", function, dtype, by_pods=by_pods)

    def node_changed(self, name: str) -> None:
        """Something that columns or kept answers about this node come from has changed, beside the node itself."""
        self.snapshot.touch(name)

    def gate(self, name: str) -> bool:
        """Whether a feature gate is on."""
        return bool(self.feature_gates.get(name, False))
