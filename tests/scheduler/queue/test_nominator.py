"""The nominator: whose word counts when a pod object changes (facts 2.8)."""

from typing import Any

import pytest

from scheduler.queue.nominator import Nominator
from scheduler.snapshot.pod_info import PodInfo, ShapeTable
from tests.builders import make_pod

SHAPES = ShapeTable()


def info(nominated: str = "", **fields: Any) -> PodInfo:
    return SHAPES.pod_info(make_pod("web", uid="u", nominated_node_name=nominated, **fields))


@pytest.mark.parametrize(
    ("known", "before", "after", "now"),
    [
        pytest.param("n1", "", "", "n1", id="an update that says nothing keeps what only the scheduler knows"),
        pytest.param("", "", "", "", id="and makes up nothing"),
        pytest.param("n1", "", "n2", "n2", id="a nomination that appears counts"),
        pytest.param("n1", "n1", "n2", "n2", id="a nomination that moves moves"),
        pytest.param("n1", "n1", "", "", id="a nomination that goes is gone"),
        pytest.param("n1", "n1", "n1", "n1", id="a nomination that stays stays"),
    ],
)
def test_an_update_of_the_pod(known: str, before: str, after: str, now: str) -> None:
    nominator = Nominator()
    nominator.add(info(), known)
    changed = info(after, labels={"new": "label"})
    nominator.update(info(before).pod, changed)
    assert nominator.node_of("u") == now
    assert list(nominator.nominated_pods_for_node(now)) == ([changed] if now else [])


def test_a_pod_is_nominated_to_one_node_and_the_last_word_counts() -> None:
    nominator = Nominator()
    nominator.add(info("n1"))
    nominator.add(info("n1"), "n2")
    assert {name: len(pods) for name, pods in nominator.nominated_nodes().items()} == {"n2": 1}


def test_a_deleted_pod_leaves_nothing_and_its_neighbour_stays() -> None:
    nominator = Nominator()
    other = SHAPES.pod_info(make_pod("other", uid="o"))
    nominator.add(info("n1"))
    nominator.add(other, "n1")
    nominator.delete("u")
    nominator.delete("u")
    assert dict(nominator.nominated_nodes()) == {"n1": [other]}
    nominator.delete("o")
    assert dict(nominator.nominated_nodes()) == {}
