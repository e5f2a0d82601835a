"""Nodes drained, removed and added on paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from kube.api.storage import CSINode
from podium.what_if.cluster_changes import add, drain, find_template, parse_additions, remove
from simulator.load import ClusterObjects, LoadError
from tests.builders import HOSTNAME, make_node, make_pod, owned_by, taint

LOGS = owned_by("DaemonSet", "logs")
CLUSTER = ClusterObjects(
    nodes=(
        make_node("n1", zone="a", taints=[taint("gpu", "true"), taint("node.kubernetes.io/not-ready")]),
        make_node("n2", zone="b"),
    ),
    pods=(
        make_pod("web", node_name="n1"),
        make_pod("logs-n1", node_name="n1", owner=LOGS),
        make_pod("static", node_name="n1", annotations={"kubernetes.io/config.mirror": "x"}),
        make_pod("db", node_name="n2"),
        make_pod("waiting"),
    ),
    others={"CSINode": (CSINode(metadata=make_node("n1").metadata),)},
)


def names(objects: ClusterObjects) -> dict[str, str]:
    """pod -> its node."""
    return {pod.metadata.name: pod.spec.node_name for pod in objects.pods}


def test_a_drained_node_keeps_what_belongs_to_it() -> None:
    drained = drain(CLUSTER, ["n1"])
    assert names(drained) == {"web": "", "logs-n1": "n1", "static": "n1", "db": "n2", "waiting": ""}
    assert [node.spec.unschedulable for node in drained.nodes] == [True, False]
    assert "node.kubernetes.io/unschedulable" in {t.key for t in drained.nodes[0].spec.taints}


def test_a_removed_node_takes_it_along() -> None:
    removed = remove(CLUSTER, ["n1"])
    assert names(removed) == {"web": "", "db": "n2", "waiting": ""}
    assert [node.metadata.name for node in removed.nodes] == ["n2"]


@pytest.mark.parametrize("change", [drain, remove])
def test_nodes_that_are_not_there_are_named_all_at_once(change: object) -> None:
    with pytest.raises(LoadError) as problem:
        change(CLUSTER, ["n1", "n8", "n9"])  # type: ignore[operator]
    assert problem.value.problems == ("there is no node n8", "there is no node n9")


def test_added_nodes_are_like_their_template_but_healthy_and_bring_its_daemons() -> None:
    bigger = add(CLUSTER, find_template(CLUSTER, "n1"), 2)
    new = bigger.nodes[2:]
    assert [node.metadata.name for node in new] == ["n1-new-1", "n1-new-2"]
    assert [node.metadata.labels[HOSTNAME] for node in new] == ["n1-new-1", "n1-new-2"]
    assert [[t.key for t in node.spec.taints] for node in new] == [["gpu"], ["gpu"]]
    assert [pod for pod, node in names(bigger).items() if node == "n1-new-2"] == [
        "logs-n1-n1-new-2",
        "static-n1-new-2",
    ]
    assert [each.metadata.name for each in bigger.of_kind("CSINode")] == ["n1", "n1-new-1", "n1-new-2"]


def test_names_of_added_nodes_are_free_ones() -> None:
    again = add(add(CLUSTER, find_template(CLUSTER, "n2"), 1), find_template(CLUSTER, "n2"), 1)
    assert [node.metadata.name for node in again.nodes] == ["n1", "n2", "n2-new-1", "n2-new-2"]
    assert len({node.metadata.uid for node in again.nodes}) == 4


def test_a_template_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "node.yaml"
    file.write_text("{apiVersion: v1, kind: Node, metadata: {name: big}, status: {allocatable: {cpu: '64'}}}")
    assert find_template(CLUSTER, str(file)).name == "big"


def test_a_template_that_is_nowhere(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="neither a node of the cluster nor a file with one"):
        find_template(CLUSTER, str(tmp_path / "nope"))


@pytest.mark.parametrize(
    ("text", "found"),
    [("n1=3", ("n1", 3)), ("n1", ("n1", 1)), ("a=b=2", ("a=b", 2)), ("dir/node.yaml=1", ("dir/node.yaml", 1))],
)
def test_additions(text: str, found: tuple[str, int]) -> None:
    assert parse_additions([text]) == [found]


@pytest.mark.parametrize("text", ["n1=0", "n1=x", "=3", "n1=-1"])
def test_additions_that_make_no_sense(text: str) -> None:
    with pytest.raises(LoadError, match="expected TEMPLATE=N"):
        parse_additions([text])
