"""PreFilter and Filter: who is asked, whose word counts, and what is left (facts 1.2)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

from kube.api.core import Pod
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin, PreFilterResult, Scope
from scheduler.framework.status import SKIP, Code, Status, error, unresolvable, unschedulable
from scheduler.snapshot.columns import Mask
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.snapshot import Nodes
from tests.builders import make_node, make_pod
from tests.scheduler.harness import Cluster

NODES = [make_node(name) for name in ("n1", "n2", "n3")]


class Scripted(PreFilterPlugin, FilterPlugin):
    """Answers PreFilter as told; its Filter refuses the named nodes."""

    answer: Any = None
    refuses: tuple[str, ...] = ()
    calls: ClassVar[list[str]]

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        self.calls.append(f"{self.name}.pre_filter")
        return self.answer

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status:
        self.calls.append(f"{self.name}.filter")
        return np.array([info.name not in self.refuses for _, info in nodes.infos()], np.bool_)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return unschedulable(f"{self.name} says no") if node.name in self.refuses else None


def scripted(
    name: str, answer: Any = None, *, refuses: tuple[str, ...] = (), scope: Scope = Scope.CLUSTER
) -> type[Any]:
    return type(name, (Scripted,), {"name": name, "answer": answer, "refuses": refuses, "scope": scope, "calls": []})


def only(*names: str) -> PreFilterResult:
    return PreFilterResult(frozenset(names))


def calls(cluster: Cluster) -> list[str]:
    return [call for plugin in cluster.plugins.values() for call in getattr(plugin, "calls", ())]


# --- PreFilter ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", list(Scope))
def test_a_plugin_that_skips_is_not_asked_to_filter_and_the_others_are(scope: Scope) -> None:
    skipping, other = scripted("A", SKIP, refuses=("n1",), scope=scope), scripted("B", refuses=("n2",), scope=scope)
    cluster = Cluster(skipping, other, nodes=NODES)
    assert cluster.feasible(make_pod("web")) == {"n1", "n3"}
    assert cluster.feasible(make_pod("again")) == {"n1", "n3"}
    assert "A.filter" not in calls(cluster)


@pytest.mark.parametrize(
    ("first", "second", "message", "asked"),
    [
        pytest.param(unschedulable("no"), None, "no", True, id="after Unschedulable the other plugins still run"),
        pytest.param(unresolvable("never"), None, "never", False, id="UnschedulableAndUnresolvable ends it at once"),
        pytest.param(
            unschedulable("no"), unresolvable("never"), "never", True, id="a later Unresolvable wins over Unschedulable"
        ),
    ],
)
def test_rejections(first: Status, second: Status | None, message: str, asked: bool) -> None:
    cluster = Cluster(scripted("A", first), scripted("B", second), nodes=NODES)
    attempt = cluster.attempt(make_pod("web"))
    assert attempt.message() == f"0/3 nodes are available: {message}."
    assert ("B.pre_filter" in calls(cluster)) is asked
    assert not any(call.endswith(".filter") for call in calls(cluster))


def test_an_error_ends_the_attempt_and_names_the_plugin() -> None:
    attempt = Cluster(scripted("A", error("boom")), nodes=NODES).attempt(make_pod("web"))
    assert attempt.error is not None
    assert (attempt.error.code, attempt.error.message) == (Code.ERROR, 'running PreFilter plugin "A": boom')


@pytest.mark.parametrize(
    ("sets", "feasible"),
    [
        pytest.param([only("n1", "n2")], {"n1", "n2"}, id="one set"),
        pytest.param([only("n1", "n2"), only("n2", "n3")], {"n2"}, id="sets of several plugins are intersected"),
        pytest.param([PreFilterResult(), only("n3")], {"n3"}, id="no set means all nodes"),
        pytest.param([only("n1", "gone")], {"n1"}, id="names of nodes that do not exist are ignored"),
    ],
)
def test_node_sets(sets: list[PreFilterResult], feasible: set[str]) -> None:
    plugins = [scripted(f"P{i}", each) for i, each in enumerate(sets)]
    assert Cluster(*plugins, nodes=NODES).feasible(make_pod("web")) == feasible


@pytest.mark.parametrize(
    ("sets", "text"),
    [
        pytest.param([only()], "node(s) didn't satisfy plugin P0", id="by itself"),
        pytest.param(
            [only("n2"), only("n1")],
            "node(s) didn't satisfy plugin(s) [P0 P1] simultaneously",
            id="together with another set",
        ),
    ],
)
def test_an_empty_node_set_rejects_the_pod(sets: list[PreFilterResult], text: str) -> None:
    plugins = [scripted(f"P{i}", each) for i, each in enumerate(sets)]
    diagnosis = Cluster(*plugins, nodes=NODES).attempt(make_pod("web")).diagnosis
    assert diagnosis is not None
    assert diagnosis.message() == f"0/3 nodes are available: {text}."
    assert {status.code for status in diagnosis.node_statuses().values()} == {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}
    # An event of any of them may help.
    assert diagnosis.unschedulable_plugins == {plugin.name for plugin in plugins}


def test_nodes_outside_the_set_count_under_the_absent_reason() -> None:
    cluster = Cluster(scripted("B", only("n1", "n2")), scripted("A", only("n1"), refuses=("n1",)), nodes=NODES)
    diagnosis = cluster.attempt(make_pod("web")).diagnosis
    assert diagnosis is not None
    assert diagnosis.message() == "0/3 nodes are available: 1 A says no, 2 node(s) didn't satisfy plugin(s) [A B]."
    assert [diagnosis.code_of(row) for row in range(3)] == [
        Code.UNSCHEDULABLE,
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    ]
    assert diagnosis.unschedulable_plugins == {"A", "B"}


# --- Filter ------------------------------------------------------------------------------------------------------


class AllReasons(Scripted):
    """Refuses n1 for two reasons at once."""

    name = "AllReasons"
    refuses = ("n1",)
    calls: ClassVar[list[str]] = []

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return unschedulable("too small", "too hot") if node.name == "n1" else None


class NoPreFilter(FilterPlugin):
    """A bare filter; scalar, one node at a time."""

    name = "OneByOne"

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return unresolvable("not on n3") if node.name == "n3" else None


@pytest.mark.parametrize("scopes", [(Scope.CLUSTER,) * 3, (Scope.ROW,) * 3, (Scope.NODE, Scope.CLUSTER, Scope.ROW)])
def test_the_first_failing_plugin_wins_and_gives_all_its_reasons(scopes: tuple[Scope, ...]) -> None:
    plugins = (
        type("AllReasons", (AllReasons,), {"scope": scopes[0]}),
        scripted("B", refuses=("n1", "n2"), scope=scopes[1]),
        scripted("C", refuses=("n1", "n2", "n3"), scope=scopes[2]),
    )
    assert Cluster(*plugins, nodes=NODES).reasons(make_pod("web")) == {
        "n1": ("AllReasons", ("too small", "too hot")),
        "n2": ("B", ("B says no",)),
        "n3": ("C", ("C says no",)),
    }


def test_only_the_plugins_that_refused_a_node_are_recorded() -> None:
    cluster = Cluster(scripted("A", refuses=("n1", "n2", "n3")), scripted("B", refuses=("n1",)), nodes=NODES)
    diagnosis = cluster.attempt(make_pod("web")).diagnosis
    assert diagnosis is not None
    assert diagnosis.unschedulable_plugins == {"A"}


@pytest.mark.parametrize("scope", list(Scope))
def test_an_error_of_a_filter_ends_the_attempt(scope: Scope) -> None:
    class Breaks(FilterPlugin):
        name = "Breaks"

        def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status:
            return error("disk on fire")

    Breaks.scope = scope
    attempt = Cluster(Breaks, nodes=NODES).attempt(make_pod("web"))
    assert attempt.error is not None
    assert attempt.error.message == 'running "Breaks" filter plugin: disk on fire'
    assert not attempt.node_name


def test_a_sparse_filter_is_asked_only_about_nodes_that_are_left() -> None:
    seen: list[list[str]] = []

    class Expensive(FilterPlugin):
        name = "Expensive"
        sparse = True

        def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status:
            seen.append([info.name for _, info in nodes.infos()])
            return np.array([info.name != "n2" for _, info in nodes.infos()], np.bool_)

    cluster = Cluster(scripted("A", refuses=("n1",)), Expensive, nodes=NODES)
    assert cluster.feasible(make_pod("web")) == {"n3"}
    assert seen == [["n2", "n3"]]


def test_scalar_and_vectorised_filters_together() -> None:
    cluster = Cluster(NoPreFilter, scripted("A", refuses=("n1",)), nodes=NODES)
    assert cluster.feasible(make_pod("web")) == {"n2"}


def test_a_node_that_is_gone_is_never_feasible_whatever_a_filter_says_of_its_row() -> None:
    class Generous(FilterPlugin):
        name = "Generous"

        def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status:
            return np.ones(nodes.size, np.bool_)

    for scope in Scope:
        Generous.scope = scope
        cluster = Cluster(Generous, nodes=NODES)
        assert cluster.feasible(make_pod("web")) == {"n1", "n2", "n3"}
        cluster.cache.remove_node("n2")
        assert cluster.feasible(make_pod("web")) == {"n1", "n3"}


# --- nominated pods: two passes ----------------------------------------------------------------------------------


class Slots(PreFilterPlugin, FilterPlugin):
    """Nodes take two pods, and a pod labelled `needs` wants a pod of that name beside it."""

    name = "Slots"
    scope = Scope.CLUSTER

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        state.write(
            self.name,
            Beside({info.name: {p.pod.metadata.name for p in info.pods.values()} for _, info in nodes.infos()}),
        )
        return None

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> None:
        state.read(self.name).names[node.name].add(added.pod.metadata.name)

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status:
        return np.array([self.filter_node(state, pod, info) is None for _, info in nodes.infos()], np.bool_)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if len(node.pods) >= 2:
            return unschedulable("full")
        needs = pod.metadata.labels.get("needs")
        if needs and needs not in state.read(self.name).names[node.name]:
            return unschedulable(f"{needs} is not here")
        return None


class Beside:
    def __init__(self, names: Mapping[str, set[str]]) -> None:
        self.names = dict(names)

    def clone(self) -> "Beside":
        return Beside({node: set(names) for node, names in self.names.items()})


RUNNING = [make_pod("a", node_name="n1")]


@pytest.mark.parametrize(
    ("nominated", "needs", "feasible"),
    [
        pytest.param(None, None, True, id="one place is left"),
        pytest.param(5, None, False, id="a nominated pod of equal priority takes it"),
        pytest.param(9, None, False, id="so does one of higher priority"),
        pytest.param(4, None, True, id="one of lower priority does not count"),
        pytest.param(None, "a", True, id="its partner runs there"),
        pytest.param(None, "b", False, id="its partner is nowhere"),
    ],
)
def test_a_nominated_pod_takes_room(nominated: int | None, needs: str | None, feasible: bool) -> None:
    cluster = Cluster(Slots, nodes=NODES[:1], pods=RUNNING)
    if nominated is not None:
        cluster.nominator.add(cluster.info(make_pod("b", priority=nominated)), "n1")
    pod = make_pod("web", priority=5, labels={"needs": needs} if needs else None)
    assert cluster.feasible(pod) == ({"n1"} if feasible else set())


def test_a_pod_may_not_rely_on_a_nominated_pod_either() -> None:
    cluster = Cluster(Slots, nodes=NODES[:1])
    cluster.nominator.add(cluster.info(make_pod("b", priority=9)), "n1")
    pod = make_pod("web", labels={"needs": "b"})
    assert cluster.reasons(pod) == {"n1": ("Slots", ("b is not here",))}


def test_a_pod_is_not_in_the_way_of_itself() -> None:
    cluster = Cluster(Slots, nodes=NODES[:1], pods=RUNNING)
    pod = make_pod("web", nominated_node_name="n1")
    cluster.nominator.add(cluster.info(pod))
    assert cluster.feasible(pod) == {"n1"}


def test_the_reason_of_the_first_pass_is_told() -> None:
    cluster = Cluster(Slots, nodes=NODES[:1], pods=RUNNING)
    cluster.nominator.add(cluster.info(make_pod("b", priority=9)), "n1")
    diagnosis = cluster.attempt(make_pod("web")).diagnosis
    assert diagnosis is not None
    assert diagnosis.message() == "0/1 nodes are available: 1 full."
    assert diagnosis.unschedulable_plugins == {"Slots"}


def test_a_node_that_is_refused_anyway_is_not_tried_with_its_nominated_pods_unless_somebody_asks_why() -> None:
    """After many preemptions most nominated nodes are still full, and every cycle would try all of them."""
    tried: list[str] = []

    class Full(FilterPlugin):
        name = "Full"

        def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask:
            return np.array([info.name != "n1" for _, info in nodes.infos()])

        def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
            tried.append(node.name)
            return Status(Code.UNSCHEDULABLE, (f"{len(node.pods)} pods are too many",), self.name)

    cluster = Cluster(Full, nodes=NODES[:2])
    cluster.nominator.add(cluster.info(make_pod("b", priority=9)), "n1")
    _, found = cluster.find(make_pod("web"))
    assert (found.rows().tolist(), tried) == ([1], [])
    statuses = cluster.framework.diagnose(found).node_statuses()
    assert {name: status.reasons for name, status in statuses.items()} == {"n1": ("1 pods are too many",)}
    assert tried == ["n1"]


def test_the_first_pass_leaves_node_and_state_as_they_were() -> None:
    cluster = Cluster(Slots, nodes=NODES[:1])
    cluster.nominator.add(cluster.info(make_pod("b", priority=9)), "n1")
    state, found = cluster.find(make_pod("web"))
    assert found.rows().tolist() == [0]
    assert state.read("Slots").names == {"n1": set()}
    assert cluster.cache.validate() == []


def test_the_nominated_node_is_taken_without_scoring_if_it_is_feasible() -> None:
    cluster = Cluster(scripted("A"), nodes=NODES)
    names = {cluster.attempt(make_pod("web", nominated_node_name="n2")).node_name for _ in range(20)}
    assert names == {"n2"}


def test_a_nominated_node_that_no_longer_fits_is_only_one_of_many() -> None:
    cluster = Cluster(scripted("A", refuses=("n2",)), nodes=NODES)
    names = {cluster.attempt(make_pod("web", nominated_node_name="n2")).node_name for _ in range(40)}
    assert names == {"n1", "n3"}
