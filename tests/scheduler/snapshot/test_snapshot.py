"""The snapshot's columns: rows, refreshes, labels, resources, views and indexes."""

import msgspec
import numpy as np
import pytest

from scheduler.cache import SchedulerCache
from scheduler.snapshot.columns import EXACT_LIMIT, FIRST_RESOURCES, WHOLE_LIMIT
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo
from scheduler.snapshot.row_writer import SPARE_RESOURCES, SPARE_TAINT_SETS
from scheduler.snapshot.snapshot import Snapshot
from tests.builders import HOSTNAME, ZONE, make_node, make_pod, taint


def cluster(*names: str) -> tuple[SchedulerCache, Snapshot]:
    snapshot = Snapshot()
    cache = SchedulerCache(snapshot)
    for name in names:
        cache.add_node(make_node(name))
    snapshot.refresh()
    return cache, snapshot


def alive(snapshot: Snapshot) -> list[str]:
    return [info.name for _, info in snapshot.nodes.infos()]


# --- rows --------------------------------------------------------------------------------------------------------


def test_rows_keep_their_order_and_a_freed_row_is_used_again() -> None:
    cache, snapshot = cluster("a", "b", "c")
    cache.remove_node("b")
    snapshot.refresh()
    assert (alive(snapshot), snapshot.count, snapshot.size) == (["a", "c"], 2, 3)
    cache.add_node(make_node("d"))
    snapshot.refresh()
    assert (alive(snapshot), snapshot.size) == (["a", "d", "c"], 3)


def test_a_row_that_changed_hands_between_two_refreshes_shows_only_the_new_node() -> None:
    cache, snapshot = cluster("a")
    cache.add_pod(make_pod("p", node_name="a", cpu="1"))
    cache.remove_node("a")
    cache.add_node(make_node("b", cpu="2"))
    snapshot.refresh()
    assert alive(snapshot) == ["b"]
    assert snapshot.nodes.free("cpu").tolist() == [2000]
    assert snapshot.nodes.requested("pods").tolist() == [0]


def test_columns_grow_with_the_cluster() -> None:
    _, snapshot = cluster(*(f"n{i}" for i in range(200)))
    assert snapshot.nodes.allocatable("cpu").tolist() == [4000] * 200
    assert snapshot.nodes.all.sum() == 200


def test_a_refresh_touches_only_what_changed_and_says_so() -> None:
    cache, snapshot = cluster("a", "b", "c")
    before, epoch = snapshot.version, snapshot.node_epoch
    snapshot.refresh()
    assert snapshot.version == before
    cache.add_pod(make_pod("p", node_name="b"))
    snapshot.refresh()
    assert snapshot.changed_since(before).tolist() == [1]
    assert snapshot.node_epoch == epoch, "a pod is no change of a node object"
    cache.update_node(make_node("c", cpu="1"))
    snapshot.refresh()
    assert snapshot.node_epoch == snapshot.version
    assert snapshot.changed_since(before).tolist() == [1, 2]


def test_the_few_rows_that_changed_are_those_that_changed_or_unknown() -> None:
    cache, snapshot = cluster("a", "b", "c")
    start = snapshot.version
    for node in ("a", "b", "a"):
        cache.add_pod(make_pod("p", node_name=node))
        snapshot.refresh()
    assert snapshot.few_changed_since(start, 5) == {0, 1}
    assert snapshot.few_changed_since(start + 2, 5) == {0}
    assert snapshot.few_changed_since(start, 1) is None
    for _ in range(300):
        cache.add_pod(make_pod("p", node_name="c"))
        snapshot.refresh()
    assert snapshot.few_changed_since(start, 5) is None, "too long ago to be remembered"
    assert snapshot.changed_since(start).tolist() == [0, 1, 2]


# --- resources ---------------------------------------------------------------------------------------------------


def test_a_resource_that_nobody_has_is_zero_everywhere() -> None:
    _, snapshot = cluster("a", "b")
    assert snapshot.nodes.free("example.com/gpu").tolist() == [0, 0]


def test_a_resource_appears_with_the_first_node_or_pod_that_names_it() -> None:
    cache, snapshot = cluster("a", "b")
    cache.add_pod(make_pod("p", node_name="a", requests={"example.com/gpu": "2"}))
    snapshot.refresh()
    assert snapshot.nodes.free("example.com/gpu").tolist() == [-2, 0]
    cache.update_node(make_node("a", extra={"example.com/gpu": "8"}))
    snapshot.refresh()
    assert snapshot.nodes.free("example.com/gpu").tolist() == [6, 0]


@pytest.mark.parametrize(
    ("amount", "wide", "huge"),
    [
        (EXACT_LIMIT - 1, False, False),
        (EXACT_LIMIT, True, False),
        (WHOLE_LIMIT - 1, True, False),
        (WHOLE_LIMIT, True, True),
    ],
)
def test_amounts_too_large_for_exact_division_or_for_the_columns_are_named(amount: int, wide: bool, huge: bool) -> None:
    cache, snapshot = cluster()
    cache.add_node(make_node("a", memory=str(amount)))
    snapshot.refresh()
    assert ("memory" in snapshot.wide_resources) is wide
    assert ("memory" in snapshot.huge_resources) is huge


def test_requests_without_numbers_count_for_scoring_only() -> None:
    cache, snapshot = cluster("a")
    cache.add_pod(make_pod("p", node_name="a"))
    snapshot.refresh()
    assert snapshot.nodes.requested("cpu").tolist() == [0]
    assert snapshot.nodes.non_zero("cpu").tolist() == [100]
    assert snapshot.nodes.non_zero("memory").tolist() == [200 * 1024 * 1024]


# --- labels ------------------------------------------------------------------------------------------------------


def test_a_label_column_appears_when_somebody_asks_and_follows_the_nodes() -> None:
    cache, snapshot = cluster()
    for name, zone in (("a", "east"), ("b", None), ("c", "west")):
        cache.add_node(make_node(name, zone=zone))
    snapshot.refresh()

    def zones() -> list[str | None]:
        values = snapshot.label(ZONE).values.values
        return [values[code] for code in snapshot.nodes.label_codes(ZONE)]

    assert zones() == ["east", None, "west"]
    cache.update_node(make_node("b", zone="east"))
    cache.remove_node("a")
    snapshot.refresh()
    assert zones() == [None, "east", "west"]
    codes = snapshot.nodes.label_codes(ZONE).tolist()
    assert codes[0] == 0


def test_a_hostname_column_does_not_remember_every_node_there_ever_was() -> None:
    cache, snapshot = cluster("stays")
    first = snapshot.label(HOSTNAME)
    for i in range(1200):
        cache.add_node(make_node(f"n{i}"))
        snapshot.refresh()
        cache.remove_node(f"n{i}")
        snapshot.refresh()
    rebuilt = snapshot.label(HOSTNAME)
    assert rebuilt is not first
    assert len(rebuilt.values) < 1100
    assert rebuilt.values.values[snapshot.nodes.label_codes(HOSTNAME)[0]] == "stays"


def test_the_cost_of_taints_is_one_code_a_node() -> None:
    _, snapshot = cluster("a", "b")
    assert snapshot.nodes.taints.tolist() == [0, 0]
    assert snapshot.taint_sets.values == [()]


# --- views -------------------------------------------------------------------------------------------------------


def test_a_view_of_some_rows_is_in_the_order_asked_for() -> None:
    cache, snapshot = cluster("a", "b", "c")
    cache.add_pod(make_pod("p", node_name="c", cpu="1"))
    snapshot.refresh()
    view = snapshot.select(np.array([2, 0]))
    assert [info.name for _, info in view.infos()] == ["c", "a"]
    assert view.free("cpu").tolist() == [3000, 4000]
    assert view.info(1).name == "a"
    assert view.gather(np.array([10, 20, 30])).tolist() == [30, 10]
    assert (view.size, view.all.tolist(), view.none.tolist()) == (2, [True, True], [False, False])


def test_masks_and_zeros_are_the_callers_own() -> None:
    _, snapshot = cluster("a")
    snapshot.nodes.all[:] = False
    snapshot.nodes.zeros[:] = 7
    assert snapshot.nodes.all.tolist() == [True]
    assert snapshot.nodes.zeros.tolist() == [0]


# --- indexes -----------------------------------------------------------------------------------------------------


class Log:
    """An index that writes down what it is told."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.told: list[tuple[str, int, str]] = []

    def node_changed(self, row: int, node: NodeInfo | None) -> None:
        self.told.append(("node", row, "" if node is None else node.name))

    def pod_added(self, row: int, pod: PodInfo) -> None:
        self.told.append(("added", row, pod.pod.metadata.name))

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        self.told.append(("removed", row, pod.pod.metadata.name))


def test_an_index_is_built_from_what_is_there_and_told_of_every_change() -> None:
    cache, snapshot = cluster("a", "b")
    cache.add_pod(make_pod("p", uid="p", node_name="b"))
    log = snapshot.index(Log)
    assert log is snapshot.index(Log)
    assert log.told == [("node", 0, "a"), ("node", 1, "b"), ("added", 1, "p")]
    log.told.clear()
    cache.remove_node("b")
    assert log.told == [("removed", 1, "p"), ("node", 1, "")], "pods go first, then the node"
    log.told.clear()
    cache.remove_pod("p")
    assert log.told == [], "a ghost has no row"
    cache.add_pod(make_pod("q", node_name="c"))
    cache.add_node(make_node("c"))
    assert log.told == [("node", 1, "c"), ("added", 1, "q")], "the node comes first, then the pods of its ghost"


# --- validate ----------------------------------------------------------------------------------------------------


def test_validate_names_what_is_stale() -> None:
    _, snapshot = cluster("a")
    snapshot.trimmed["requested"][1, 0] = 500
    assert snapshot.validate() == ["a: requested cpu is stale"]


def test_when_a_taint_was_added_makes_no_new_set_of_taints() -> None:
    snapshot = Snapshot()
    cache = SchedulerCache(snapshot)
    for i in range(3):
        added = msgspec.structs.replace(taint("gone", "", "NoExecute"), time_added=f"2026-01-0{i + 1}T00:00:00Z")
        cache.add_node(make_node(f"n{i}", taints=[added]))
    snapshot.refresh()
    assert len(snapshot.taint_sets) == 2  # none at all, and this one


@pytest.mark.parametrize("few_rows", [0, 1000])
def test_many_rows_written_at_once_show_the_same_as_one_by_one(few_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.snapshot.snapshot.FEW_ROWS", few_rows)
    cache, snapshot = cluster()
    for i in range(3):
        cache.add_node(make_node(f"n{i}", cpu=str(i + 1), extra={"example.com/gpu": str(i)}))
        cache.add_pod(make_pod(f"p{i}", cpu="500m", node_name=f"n{i}", requests={f"example.com/r{i}": "1"}))
    cache.remove_node("n1")
    assert snapshot.validate() == []
    assert snapshot.nodes.allocatable("cpu").tolist() == [1000, 0, 3000]
    assert snapshot.nodes.free("cpu").tolist() == [500, 0, 2500]
    assert snapshot.nodes.free("example.com/r2").tolist() == [0, 0, -1]
    assert snapshot.nodes.non_zero("memory").tolist() == [200 * 2**20, 0, 200 * 2**20]


def test_taint_sets_that_no_node_has_any_more_are_forgotten() -> None:
    """Autoscalers write the time into the taint of a node that they are about to take away."""
    cache, snapshot = cluster("stays")
    for i in range(300):
        cache.add_node(make_node("goes", taints=[taint("ToBeDeleted", str(i))]))
        snapshot.refresh()
        assert snapshot.taint_sets.values[snapshot.nodes.taints[snapshot.row_of["goes"]]][0].value == str(i)
        assert snapshot.taint_sets.values[snapshot.nodes.taints[snapshot.row_of["stays"]]] == ()
        cache.remove_node("goes")
        snapshot.refresh()
    assert len(snapshot.taint_sets) <= SPARE_TAINT_SETS + 4


def test_labels_that_nobody_asks_about_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods of one job may select nodes by a key that only this job has; nothing else need change in the cluster."""
    monkeypatch.setattr("scheduler.snapshot.row_writer.MAX_LABELS", 16)
    cache, snapshot = cluster("a", "b")
    cache.add_node(make_node("c", labels={"stays": "here", "job-7": "mine"}))
    snapshot.refresh()
    asked_in_every_cycle, epochs = snapshot.label("stays"), set()
    for i in range(200):
        snapshot.refresh()
        assert snapshot.label("stays") is asked_in_every_cycle
        assert snapshot.nodes.label_codes("stays").tolist() == [0, 0, 1]
        assert snapshot.nodes.label_codes(f"job-{i}").tolist() == [0, 0, int(i == 7)]
        assert len(snapshot.label_values) <= 18
        epochs.add(snapshot.node_epoch)
    assert snapshot.nodes.label_codes("job-7").tolist() == [0, 0, 1]
    assert sum(name.startswith("label:") for name in snapshot.trimmed) == len(snapshot.label_values)
    assert len(epochs) > 10, "what was kept by the codes of a forgotten column would still be believed"


def test_resources_that_nobody_has_any_more_are_forgotten() -> None:
    """Some device plugins name a resource after the very device."""
    cache, snapshot = cluster("stays")
    for i in range(300):
        device = f"example.com/device-{i}"
        cache.add_node(make_node("goes", extra={device: "2"}))
        pod = make_pod(f"p{i}", node_name="stays", requests={"example.com/odd": "1", device: "3"})
        cache.add_pod(pod)
        snapshot.refresh()
        assert snapshot.nodes.free(device).tolist() == [-3, 2]
        assert snapshot.nodes.free("example.com/odd").tolist() == [-1, 0]
        assert snapshot.validate() == []
        cache.remove_pod(pod.metadata.uid)
        cache.remove_node("goes")
    snapshot.refresh()
    assert len(snapshot.resource_index) <= 2 * (len(FIRST_RESOURCES) + 3) + SPARE_RESOURCES
    assert snapshot.nodes.allocatable("cpu").tolist() == [4000, 0]
    assert "example.com/odd" not in snapshot.infos[0].requested
