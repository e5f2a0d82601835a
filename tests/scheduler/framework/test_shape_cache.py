"""The shape cache changes the cost of a cycle and nothing else: kept answers equal those of a fresh runtime."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kube.api.core import Pod
from scheduler.framework import kept_answers, shape_cache
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import (
    FilterPlugin,
    Plugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Scope,
    ScorePlugin,
    Versioned,
    max_normalize,
)
from scheduler.framework.runtime import Feasibility, Framework, Scores
from scheduler.framework.shape_patch import patch
from scheduler.framework.status import SKIP, Status, error, unschedulable
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodShape
from scheduler.snapshot.snapshot import Nodes
from tests.builders import make_node, make_pod, taint
from tests.scheduler.harness import Cluster


class Room(PreFilterPlugin, FilterPlugin, ScorePlugin):
    """Depends on the pods of the node; what PreFilter writes depends on the shape."""

    name = "Room"
    scope = Scope.ROW

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        state.write(self.name, state.pod_info.requests.get("cpu", 0))
        return None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status:
        return nodes.free("cpu") >= state.read(self.name)

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector | Status:
        return np.floor(100 * np.clip(nodes.free("cpu"), 0, None) / np.maximum(nodes.allocatable("cpu"), 1))


class Untainted(PreFilterPlugin, FilterPlugin):
    """Depends on the node object; skips pods that are labelled so."""

    name = "Untainted"
    scope = Scope.NODE
    reads_requests = False

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        return SKIP if "anywhere" in pod.metadata.labels else None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status:
        return nodes.taints == 0


class Zones(PreScorePlugin, ScorePlugin):
    """Normalised over the feasible nodes: its final scores change when others fill up."""

    name = "Zones"
    scope = Scope.NODE
    reads_requests = False

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        return SKIP if "anywhere" in pod.metadata.labels else None

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector | Status:
        return nodes.label_codes("topology.kubernetes.io/zone").astype(float)

    def normalize(self, state: CycleState, pod: Pod, scores: Vector, nodes: Nodes) -> Vector:
        return max_normalize(scores)


class Named(ScorePlugin):
    """A score that is final as it is and looks at no pods: a family has it in common."""

    name = "Named"
    scope = Scope.NODE
    reads_requests = False

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector | Status:
        return (nodes.allocatable("cpu") // 1000) % 3


class Tall(FilterPlugin):
    """Looks at the node object and at what the pod requests, and no pod on the node."""

    name = "Tall"
    scope = Scope.NODE

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status:
        return nodes.allocatable("cpu") >= 2 * state.pod_info.requests.get("cpu", 0)


class Rules:
    """What Curfew goes by. Owner: the test."""

    version = 0
    closed = ""

    def close(self, app: str) -> None:
        self.closed = app
        self.version += 1


class Curfew(PreFilterPlugin, FilterPlugin):
    """Has nothing to say while no rule concerns the pod; then it refuses nodes with pods."""

    name = "Curfew"
    reads_requests = False
    rules = Rules()

    def quiet_while(self, shape: PodShape) -> tuple[Versioned, ...] | None:
        return None if shape.labels.get("app") == self.rules.closed else (self.rules,)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        return None if pod.metadata.labels.get("app") == self.rules.closed else SKIP

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status:
        return nodes.requested("pods") == 0


class Crowd(ScorePlugin):
    """Raw scores from the pods of the node, normalised."""

    name = "Crowd"
    scope = Scope.ROW

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector | Status:
        return nodes.requested("pods").copy()

    def normalize(self, state: CycleState, pod: Pod, scores: Vector, nodes: Nodes) -> Vector:
        return max_normalize(scores, reverse=True)


class Global(FilterPlugin, ScorePlugin):
    """Depends on the whole cluster: asked each time."""

    name = "Global"

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status:
        whole = nodes.snapshot.nodes
        return nodes.requested("pods") <= whole.requested("pods").mean() + 1

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector | Status:
        return np.minimum(nodes.requested("pods"), 100)


class RoomByNode(Room):
    """The same with one-node forms, by which a few changed rows are asked about."""

    name = "Room"

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        fits = node.allocatable["cpu"] - node.requested.get("cpu", 0) >= state.read(self.name)
        return None if fits else unschedulable("Insufficient cpu")

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        have = node.allocatable["cpu"]
        return 100 * max(have - node.requested.get("cpu", 0), 0) // have


class CrowdByNode(Crowd):
    name = "Crowd"

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return len(node.pods)


VECTORISED = (Room, Untainted, Tall, Curfew, Zones, Named, Crowd, Global)
BY_NODE = (RoomByNode, Untainted, Tall, Curfew, Zones, Named, CrowdByNode, Global)
WEIGHTS = {"Room": 2, "Zones": 3}
#: the first two are a family, and so are the last two
SHAPES: tuple[dict[str, Any], ...] = (
    {"cpu": "100m"},
    {"cpu": "1500m"},
    {"cpu": "500m", "labels": {"anywhere": ""}},
    {"cpu": "500m", "labels": {"app": "x"}},
    {"cpu": "900m", "labels": {"app": "x"}},
)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("schedule"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("schedule"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("curfew"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("finish"), st.integers(0, 50), st.just(0)),
        st.tuples(st.sampled_from(["node", "tainted"]), st.integers(0, 5), st.integers(1, 4)),
        st.tuples(st.just("gone"), st.integers(0, 5), st.just(0)),
    ),
    min_size=5,
    max_size=60,
)


class World(Cluster):
    """A cluster whose every cycle is compared with one of a fresh runtime."""

    def __init__(self, plugins: tuple[type[Plugin], ...] = VECTORISED) -> None:
        super().__init__(
            *plugins, weights=WEIGHTS, nodes=[make_node("n0", cpu="2"), make_node("n1", cpu="4", zone="a")]
        )
        self.running: list[str] = []
        self.count = 0
        Curfew.rules.close("nobody")

    def schedule(self, look: dict[str, Any]) -> None:
        self.count += 1
        pod = make_pod(f"p{self.count}", uid=f"u{self.count}", **look)
        kept, fresh = self.judge(self.framework, pod), self.judge(self.fresh_framework(), pod)
        assert kept == fresh
        attempt = self.attempt(pod)
        if attempt.node_name:
            self.cache.add_pod(make_pod(f"p{self.count}", uid=f"u{self.count}", node_name=attempt.node_name, **look))
            self.running.append(f"u{self.count}")

    def judge(self, framework: Framework, pod: Pod) -> tuple[object, ...]:
        """Feasible rows, totals, scores by plugin, and the reasons where nobody fits."""
        self.snapshot.refresh()
        found: Feasibility = framework.find_feasible(CycleState(self.info(pod)))
        assert found.error is None
        rows = found.rows()
        if not len(rows):
            return ([], framework.diagnose(found).histogram())
        scores = framework.prioritize(found, rows)
        assert isinstance(scores, Scores)
        by_plugin = {name: values.tolist() for name, values in scores.by_plugin().items()}
        return (rows.tolist(), scores.total.tolist(), by_plugin)

    def run(self, script: list[tuple[str, int, int]]) -> None:
        for step, which, size in script:
            if step == "schedule":
                self.schedule(SHAPES[which])
            elif step == "finish" and self.running:
                self.cache.remove_pod(self.running.pop(which % len(self.running)))
            elif step in ("node", "tainted"):
                taints = [taint("dedicated")] if step == "tainted" else []
                zone = "abc"[which % 3] if which < 4 else None
                self.cache.add_node(make_node(f"n{which}", cpu=str(size), taints=taints, zone=zone))
            elif step == "curfew":
                Curfew.rules.close("x" if which else "nobody")
            elif step == "gone":
                self.cache.remove_node(f"n{which}")


many = settings(max_examples=80, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])


both = pytest.mark.parametrize(
    "plugins", [pytest.param(VECTORISED, id="asked about arrays"), pytest.param(BY_NODE, id="asked about nodes")]
)


@both
@given(script=steps)
@many
def test_kept_answers_equal_fresh_ones_over_any_history(
    plugins: tuple[type[Plugin], ...], script: list[tuple[str, int, int]]
) -> None:
    World(plugins).run(script)


def keeps_everything(entry: Any, state: Any, snapshot: Any) -> None:
    """Changed rows keep their old answers."""


def keeps_scores(entry: Any, state: Any, snapshot: Any) -> Status | None:
    """Changed rows keep their old scores."""
    base, raw = entry.base.copy(), [scores.copy() for scores in entry.raw]
    status = patch(entry, state, snapshot)
    entry.base, entry.raw = base, raw
    return status


def keeps_masks(entry: Any, state: Any, snapshot: Any) -> Status | None:
    """Changed rows keep their old masks."""
    mask = entry.mask.copy()
    status = patch(entry, state, snapshot)
    entry.mask = mask
    return status


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(keeps_everything, id="changed rows are not asked about again"),
        pytest.param(keeps_scores, id="their scores are not"),
        pytest.param(keeps_masks, id="their masks are not"),
    ],
)
@both
def test_the_property_catches(monkeypatch: pytest.MonkeyPatch, broken: Any, plugins: tuple[type[Plugin], ...]) -> None:
    monkeypatch.setattr(kept_answers, "patch", broken)
    with pytest.raises(AssertionError):
        World(plugins).run([("schedule", shape, 0) for shape in (0, 1, 2, 0, 1, 3, 1, 2) * 4])


def test_a_family_that_kept_what_depends_on_amounts_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    script = [("node", 1, 4), ("schedule", 3, 0), ("schedule", 4, 0), ("schedule", 0, 0), ("schedule", 1, 0)]
    World().run(script)
    monkeypatch.setattr(kept_answers, "_is_for_family", lambda plugin: plugin.scope is Scope.NODE)
    with pytest.raises(AssertionError):
        World().run(script)


def test_a_shape_that_wrote_to_the_mask_of_its_family_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    script = [("schedule", shape, 0) for shape in (1, 1, 1, 1, 0, 0)]
    World().run(script)

    def shares_mask(entry: shape_cache.ShapeEntry, common: shape_cache.ShapeEntry) -> None:
        take_over(entry, common)
        entry.mask = common.mask

    take_over = shape_cache.ShapeEntry.take_over
    monkeypatch.setattr(shape_cache.ShapeEntry, "take_over", shares_mask)
    with pytest.raises(AssertionError):
        World().run(script)


def test_a_plugin_that_stayed_quiet_though_it_has_something_to_say_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = [("schedule", 3, 0), ("schedule", 3, 0), ("curfew", 1, 0), ("schedule", 3, 0)]
    World().run(script)
    monkeypatch.setattr(shape_cache.ShapeEntry, "is_quiet", lambda entry, shape: True)
    with pytest.raises(AssertionError):
        World().run(script)


def test_an_entry_that_outlives_a_node_change_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    script = [("schedule", 0, 0), ("tainted", 1, 4), ("schedule", 0, 0)]
    World().run(script)
    world = World()
    monkeypatch.setattr(
        type(world.snapshot), "node_epoch", property(lambda self: 0, lambda self, value: None), raising=False
    )
    with pytest.raises(AssertionError):
        world.run(script)


# --- what is kept and for how long -------------------------------------------------------------------------------


class Counting(FilterPlugin):
    name = "Counting"
    scope = Scope.ROW
    sizes: list[int]

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status:
        self.sizes.append(nodes.size)
        return nodes.all


def counting(nodes: int = 5) -> tuple[Cluster, list[int]]:
    sizes: list[int] = []
    plugin = type("Counting", (Counting,), {"sizes": sizes})
    return Cluster(plugin, nodes=[make_node(f"n{i}") for i in range(nodes)]), sizes


def test_a_repeat_of_a_shape_asks_only_about_the_rows_that_changed() -> None:
    cluster, sizes = counting()
    cluster.attempt(make_pod("a"))
    cluster.attempt(make_pod("b"))
    cluster.cache.add_pod(make_pod("c", node_name="n3"))
    cluster.attempt(make_pod("d"))
    assert sizes == [5, 1]


def test_another_shape_is_asked_about_all_rows() -> None:
    cluster, sizes = counting()
    cluster.attempt(make_pod("a"))
    cluster.attempt(make_pod("b", cpu="1"))
    assert sizes == [5, 5]


def test_a_shape_of_a_known_family_asks_only_those_who_look_at_amounts() -> None:
    sizes: list[int] = []
    plugin = type("Counting", (Counting,), {"sizes": sizes, "scope": Scope.NODE, "reads_requests": False})
    cluster = Cluster(plugin, nodes=[make_node(f"n{i}") for i in range(5)])
    for cpu in ("1", "2", "3"):
        cluster.attempt(make_pod("a", cpu=cpu))
    assert sizes == [5]
    cluster.attempt(make_pod("b", cpu="1", labels={"app": "another"}))
    assert sizes == [5, 5]


def test_a_quiet_plugin_is_asked_again_only_when_what_it_goes_by_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def quiet_while(self: Curfew, shape: PodShape) -> tuple[Versioned, ...] | None:
        asked.append(shape.labels["app"])
        return (self.rules,)

    monkeypatch.setattr(Curfew, "quiet_while", quiet_while)
    cluster = Cluster(Curfew, nodes=[make_node("n1"), make_node("n2")])
    for _ in range(3):
        cluster.attempt(make_pod("a", labels={"app": "x"}))
    assert asked == ["x"]
    Curfew.rules.close("y")
    for _ in range(3):
        cluster.attempt(make_pod("a", labels={"app": "x"}))
    assert asked == ["x", "x"]


def test_a_changed_node_object_drops_what_was_kept() -> None:
    cluster, sizes = counting()
    cluster.attempt(make_pod("a"))
    cluster.cache.update_node(make_node("n1", labels={"new": "label"}))
    cluster.attempt(make_pod("b"))
    assert sizes == [5, 5]


def test_a_heartbeat_does_not() -> None:
    cluster, sizes = counting()
    cluster.attempt(make_pod("a"))
    cluster.cache.update_node(make_node("n1", resource_version="2"))
    cluster.attempt(make_pod("b"))
    assert sizes == [5]


def test_the_oldest_shapes_go_when_the_room_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, sizes = counting()
    cluster.attempt(make_pod("a"))
    one = cluster.framework.kept.shapes._bytes
    monkeypatch.setattr(shape_cache, "MAX_BYTES", 2 * one)
    for cpu in ("1", "2", "3"):
        cluster.attempt(make_pod("b", cpu=cpu))
    assert len(cluster.framework.kept.shapes) == 2
    sizes.clear()
    cluster.attempt(make_pod("c", cpu="3"))
    cluster.attempt(make_pod("d"))
    assert sizes == [5]


def test_answers_of_an_older_state_of_the_nodes_are_not_kept() -> None:
    """None of them will be used again, and most are of shapes that no pod has any more."""
    cluster, _ = counting()
    for cpu in ("1", "2", "3"):
        cluster.attempt(make_pod("a", cpu=cpu))
    assert len(cluster.framework.kept.shapes) == 3
    cluster.cache.update_node(make_node("n1", labels={"changed": "yes"}))
    cluster.attempt(make_pod("b", cpu="1"))
    assert len(cluster.framework.kept.shapes) == 1


@pytest.mark.parametrize("how", ["status", "exception"])
def test_rows_that_could_not_be_asked_about_are_asked_again(how: str) -> None:
    broken: list[bool] = []

    class Shaky(FilterPlugin):
        name = "Shaky"
        scope = Scope.ROW

        def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask | Status:
            if broken and how == "status":
                return error("not now")
            if broken:
                raise RuntimeError("not now")
            return nodes.requested("pods") == 0

    cluster = Cluster(Shaky, nodes=[make_node("n1"), make_node("n2")])
    assert cluster.feasible(make_pod("a")) == {"n1", "n2"}
    cluster.cache.add_pod(make_pod("b", node_name="n1"))
    broken.append(True)
    if how == "status":
        assert cluster.attempt(make_pod("c")).error is not None
    else:
        with pytest.raises(RuntimeError):
            cluster.attempt(make_pod("c"))
    broken.clear()
    assert cluster.feasible(make_pod("d")) == {"n2"}
