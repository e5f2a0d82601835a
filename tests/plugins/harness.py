"""One plugin on a small cluster: what it says of every node, in all the forms the engine asks it.

    bench = Bench(NodeName, nodes=[make_node("n1"), make_node("n2")], pods=[make_pod("a", node_name="n1")])
    bench.fits(make_pod("web"))          -> {"n1", "n2"}
    bench.filter(make_pod("web"))        -> {"n1": SUCCESS, "n2": Status(...)}
    bench.score(make_pod("web"))         -> {"n1": 97, "n2": 100}

`filter` and `score` ask the vectorised form about all nodes and about subsets of them, and fail when these disagree;
`filter` also holds the one-node form against them. Nothing of podium is replaced: snapshot and cache are the real ones,
only what lies behind the handle (listers, nominations, client) is given by the test.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from config.feature_gates import DEFAULT_GATES
from kube.api.core import Node, Pod
from kube.api.meta import ApiObject
from scheduler.cache import SchedulerCache
from scheduler.framework.cluster_event import ClusterEvent
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Client, Handle
from scheduler.framework.plugin import (
    FilterPlugin,
    Plugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
)
from scheduler.framework.plugin_metrics import PluginMetrics
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.framework.waiting_pods import WaitingPods
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import Nodes, Snapshot


class ListedObjects:
    """A lister over objects that a test wrote down."""

    def __init__(self, objects: Iterable[ApiObject] = ()) -> None:
        self.objects: dict[tuple[str, str], Any] = {}
        self._indexes: dict[str, Callable[[Any], Iterable[str]]] = {}
        self.version = 0
        for obj in objects:
            self.put(obj)

    def put(self, obj: Any) -> None:
        """Add or replace an object."""
        self.objects[obj.metadata.namespace, obj.metadata.name] = obj
        self.version += 1

    def remove(self, name: str, namespace: str = "") -> None:
        """Take an object out."""
        del self.objects[namespace, name]
        self.version += 1

    def get(self, name: str, namespace: str = "") -> Any | None:
        return self.objects.get((namespace, name))

    def list(self) -> Iterable[Any]:
        return self.objects.values()

    def by_index(self, index: str, value: str) -> Iterable[Any]:
        function = self._indexes[index]
        return [obj for obj in self.objects.values() if value in function(obj)]

    def add_index(self, index: str, function: Callable[[Any], Iterable[str]]) -> None:
        self._indexes.setdefault(index, function)


class Nominations:
    """Nominated pods that a test wrote down: node name to pods."""

    def __init__(self) -> None:
        self.by_node: dict[str, list[PodInfo]] = {}

    def nominated_pods_for_node(self, node_name: str) -> Sequence[PodInfo]:
        return self.by_node.get(node_name, [])

    def nominated_nodes(self) -> Mapping[str, Sequence[PodInfo]]:
        return self.by_node


class Bench:
    """A cluster, a handle, and one plugin set up on it. Change the cluster through `cache`, then ask again."""

    def __init__(
        self,
        plugin: type[Plugin],
        *,
        nodes: Iterable[Node] = (),
        pods: Iterable[Pod] = (),
        objects: Iterable[ApiObject] = (),
        args: Any = None,
        gates: Mapping[str, bool] | None = None,
        client: Client | None = None,
        metrics: PluginMetrics | None = None,
    ) -> None:
        self.snapshot = Snapshot()
        self.cache = SchedulerCache(self.snapshot)
        for node in nodes:
            self.cache.add_node(node)
        for pod in pods:
            self.cache.add_pod(pod)
        self.listed: dict[str, ListedObjects] = {}
        for obj in objects:
            self.lister(obj.KIND).put(obj)
        self.nominations = Nominations()
        self.reported: list[ClusterEvent] = []
        self.handle = Handle(
            snapshot=self.snapshot,
            profile="podium",
            listers=self.lister,
            nominator=self.nominations,
            waiting_pods=WaitingPods(),
            feature_gates=DEFAULT_GATES.as_dict() | dict(gates or {}),
            client=client,
            metrics=metrics or PluginMetrics(),
            report=lambda event, old, new: self.reported.append(event),
        )
        self.plugin: Any = plugin(args, self.handle)

    def lister(self, kind: str) -> ListedObjects:
        """The objects of a kind."""
        return self.listed.setdefault(kind, ListedObjects())

    def state(self, pod: Pod) -> CycleState:
        """A fresh cycle for the pod, on the cluster as it is now."""
        self.snapshot.refresh()
        return CycleState(self.snapshot.shapes.pod_info(pod))

    # --- PreFilter and Filter -----------------------------------------------------------------------------

    def pre_filter(self, pod: Pod, state: CycleState | None = None) -> PreFilterResult | Status | None:
        """The answer of PreFilter; None where the plugin has no such point."""
        state = state or self.state(pod)
        if not isinstance(self.plugin, PreFilterPlugin):
            return None
        return self.plugin.pre_filter(state, pod, self.snapshot.nodes)

    def filter(self, pod: Pod) -> dict[str, Status]:
        """Node name to status, SUCCESS where the pod fits; all forms of the filter agree on it.

        A PreFilter rejection stands for every node, SKIP lets all pass; PreFilter's node set is left out of account.
        """
        state = self.state(pod)
        answer = self.pre_filter(pod, state)
        if isinstance(answer, Status) and not answer.ok:
            passed = SUCCESS if answer.skip else answer.by(self.plugin.name)
            return {info.name: passed for info in self.snapshot.node_infos()}
        found = self._filter_view(state, pod, self.snapshot.nodes)
        for rows in self._subsets():
            view = self.snapshot.select(rows)
            part = self._filter_view(state, pod, view)
            assert part == {name: found[name] for name in part}, "a subset view says otherwise than the whole"
        if type(self.plugin).filter_node is not FilterPlugin.filter_node:
            one_by_one = self.filter_one_by_one(state, pod)
            assert one_by_one == found, "the one-node form says otherwise than the vectorised one"
        return found

    def filter_one_by_one(self, state: CycleState, pod: Pod) -> dict[str, Status]:
        """The one-node form, asked about every node."""
        return {info.name: self._one(state, pod, info) for info in self.snapshot.node_infos()}

    def _one(self, state: CycleState, pod: Pod, info: NodeInfo) -> Status:
        status = self.plugin.filter_node(state, pod, info)
        return SUCCESS if status is None or status.ok else status.by(self.plugin.name)

    def _filter_view(self, state: CycleState, pod: Pod, view: Nodes) -> dict[str, Status]:
        mask = self.plugin.filter(state, pod, view)
        assert not isinstance(mask, Status), mask
        mask = np.ones(view.size, np.bool_) if mask is None else mask
        assert mask.shape == (view.size,)
        assert mask.dtype == np.bool_
        rows = np.arange(view.size) if view.rows is None else view.rows
        found = {info.name: SUCCESS for _, info in view.infos()}
        refused = rows[~mask & view.column("alive")]
        if len(refused):
            refusals = self.plugin.refusals(state, pod, self.snapshot.select(refused))
            for row, which in zip(refused.tolist(), refusals.which.tolist(), strict=True):
                info = self.snapshot.infos[row]
                assert info is not None
                found[info.name] = refusals.statuses[which]
        return found

    def fits(self, pod: Pod) -> set[str]:
        """Names of the nodes that can take the pod."""
        return {name for name, status in self.filter(pod).items() if status.ok}

    def reasons(self, pod: Pod) -> dict[str, tuple[str, ...]]:
        """Node name to reasons, of the nodes that refuse the pod."""
        return {name: status.reasons for name, status in self.filter(pod).items() if not status.ok}

    def codes(self, pod: Pod) -> dict[str, Code]:
        """Node name to code, of all nodes."""
        return {name: status.code for name, status in self.filter(pod).items()}

    # --- PreScore and Score -------------------------------------------------------------------------------

    def score(
        self, pod: Pod, *, feasible: Iterable[str] | None = None, normalized: bool = True
    ) -> dict[str, int] | None:
        """Node name to score of the feasible nodes (all, unless named); None where PreScore skips.

        Raw scores of a subset must be those of the whole where the plugin's scope says so.
        """
        state = self.state(pod)
        self.pre_filter(pod, state)
        view = self._view(feasible)
        if isinstance(self.plugin, PreScorePlugin):
            status = self.plugin.pre_score(state, pod, view)
            if status is not None and status.skip:
                return None
            assert status is None or status.ok, status
        raw = self._score_view(state, pod, view)
        if type(self.plugin).scope is not ScorePlugin.scope:
            self._check_raw_scores(state, pod)
        final = self.plugin.normalize(state, pod, raw.copy(), view) if normalized else raw
        return dict(zip(self._names(view), as_ints(final), strict=True))

    def _score_view(self, state: CycleState, pod: Pod, view: Nodes) -> Any:
        raw = self.plugin.score(state, pod, view)
        assert not isinstance(raw, Status), raw
        raw = np.full(view.size, raw) if isinstance(raw, float) else raw
        assert raw.shape == (view.size,)
        assert raw.dtype == np.float64
        return raw

    def _check_raw_scores(self, state: CycleState, pod: Pod) -> None:
        whole = self._score_view(state, pod, self.snapshot.nodes)
        for rows in self._subsets():
            part = self._score_view(state, pod, self.snapshot.select(rows))
            assert part.tolist() == whole[rows].tolist(), "a subset view scores otherwise than the whole"

    # --- views --------------------------------------------------------------------------------------------

    def _view(self, names: Iterable[str] | None) -> Nodes:
        wanted = [info.name for info in self.snapshot.node_infos()] if names is None else list(names)
        return self.snapshot.select(np.array([self.snapshot.row_of[name] for name in wanted], np.intp))

    def _names(self, view: Nodes) -> list[str]:
        return [info.name for _, info in view.infos()]

    def _subsets(self) -> list[Any]:
        """Rows out of order: each alone (the first few), every second one, all reversed, none."""
        rows = np.array([info.row for info in self.snapshot.node_infos()], np.intp)
        singles = [rows[i : i + 1] for i in itertools.islice(range(len(rows)), 3)]
        return [*singles, rows[::2], rows[::-1].copy(), rows[:0]]


def as_ints(values: Any) -> list[int]:
    """Scores are whole numbers held in float64."""
    numbers = values.tolist()
    assert all(number == int(number) for number in numbers), "a score is not a whole number"
    return [int(number) for number in numbers]
