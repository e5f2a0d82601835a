"""Numbers kept per row follow the nodes and the pods on them, however many changed."""

import pytest

from plugins.helpers.kept_rows import KeptRows
from scheduler.cache import SchedulerCache
from scheduler.framework.shape_patch import FEW
from scheduler.snapshot.snapshot import Snapshot
from tests.builders import make_node, make_pod

NODES = FEW + 5


@pytest.mark.parametrize(
    ("changed", "asked"),
    [
        pytest.param(0, [], id="nothing changed, nobody is asked"),
        pytest.param(FEW, ["one"] * FEW, id="few rows are asked about one by one"),
        pytest.param(FEW + 1, ["many"], id="more rows at once"),
    ],
)
def test_only_rows_whose_pods_changed_are_asked_about_again(changed: int, asked: list[str]) -> None:
    snapshot, told = Snapshot(), []
    cache = SchedulerCache(snapshot)
    for i in range(NODES):
        cache.add_node(make_node(f"n{i}"))
    kept = KeptRows(
        lambda nodes: told.append("many") or nodes.requested("pods").copy(),
        lambda node: told.append("one") or node.requested["pods"],
    )
    snapshot.refresh()
    assert kept.of(snapshot.nodes).tolist() == [0] * NODES
    told.clear()
    for i in range(changed):
        cache.add_pod(make_pod(f"p{i}", node_name=f"n{i}"))
    snapshot.refresh()
    assert kept.of(snapshot.nodes).tolist() == [1] * changed + [0] * (NODES - changed)
    assert told == asked


def test_a_changed_node_is_asked_about_with_all_others() -> None:
    snapshot = Snapshot()
    cache = SchedulerCache(snapshot)
    cache.add_node(make_node("n0", cpu="1"))
    kept = KeptRows(lambda nodes: nodes.allocatable("cpu").copy(), lambda node: node.allocatable["cpu"])
    snapshot.refresh()
    assert kept.of(snapshot.nodes).tolist() == [1000]
    cache.update_node(make_node("n0", cpu="2"))
    cache.add_node(make_node("n1", cpu="3"))
    snapshot.refresh()
    assert kept.of(snapshot.nodes).tolist() == [2000, 3000]
