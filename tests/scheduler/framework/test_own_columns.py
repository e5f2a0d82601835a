"""Columns of a plugin's own in the snapshot: by a function of the node, and of the pods on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kube.api.core import Pod
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import FilterPlugin, Scope, ScorePlugin
from scheduler.snapshot.columns import Mask, Vector
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.snapshot import Nodes
from tests.builders import make_node, make_pod
from tests.scheduler.harness import Cluster


def green(info: NodeInfo) -> float:
    return float(info.annotations.get("example.com/green", "0"))


def web_pods(info: NodeInfo) -> float:
    return sum(pod.pod.metadata.labels.get("app") == "web" for pod in info.pods.values())


class GreenPower(ScorePlugin):
    """Prefer nodes that run on green power. Its answer is the column itself."""

    name = "GreenPower"
    scope = Scope.NODE

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.green = handle.column("green", green)

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Vector:
        column: Vector = nodes.column(self.green)
        return column


class AtMostTwoWebPods(FilterPlugin):
    """A node holds two web pods. Its answer is a column, too."""

    name = "AtMostTwoWebPods"
    scope = Scope.ROW
    reason = "node(s) had two web pods"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.has_room = handle.column("room for web", lambda info: web_pods(info) < 2, np.bool_, by_pods=True)

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Mask:
        column: Mask = nodes.column(self.has_room)
        return column

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> None:
        return None if web_pods(node) < 2 else super().filter_node(state, pod, node)


def web(name: str, node: str = "") -> Pod:
    return make_pod(name, labels={"app": "web"}, node_name=node)


def values(cluster: Cluster, key: str) -> dict[str, Any]:
    cluster.snapshot.refresh()
    column = cluster.snapshot.nodes.column(key).tolist()
    return {info.name: column[i] for i, info in cluster.snapshot.nodes.infos()}


def a_node(name: str, power: int | None = None) -> Any:
    return make_node(name, annotations={} if power is None else {"example.com/green": str(power)})


def test_a_column_holds_the_functions_value_for_each_node_whenever_that_came_or_changed() -> None:
    cluster = Cluster(GreenPower, nodes=[a_node("early", 30)])
    key = cluster.plugins["GreenPower"].green
    assert values(cluster, key) == {"early": 30}
    for i in range(100):
        cluster.cache.add_node(a_node(f"n{i}", i))
    cluster.cache.update_node(a_node("early", 40))
    assert values(cluster, key) == {"early": 40, **{f"n{i}": i for i in range(100)}}
    cluster.cache.remove_node("early")
    cluster.cache.add_node(a_node("takes the row", 7))
    assert values(cluster, key)["takes the row"] == 7
    assert cluster.snapshot.validate() == []


def test_a_column_by_pods_follows_the_pods_that_come_and_go() -> None:
    first = web("p1", "a")
    cluster = Cluster(AtMostTwoWebPods, nodes=[a_node("a"), a_node("b")], pods=[first])
    key = cluster.plugins["AtMostTwoWebPods"].has_room
    assert values(cluster, key) == {"a": True, "b": True}
    cluster.cache.add_pod(web("p2", "a"))
    assert values(cluster, key) == {"a": False, "b": True}
    cluster.cache.remove_pod(first.metadata.uid)
    assert values(cluster, key) == {"a": True, "b": True}


def test_a_column_of_the_node_alone_is_not_asked_for_when_pods_come() -> None:
    cluster = Cluster(nodes=[a_node("a")])
    cluster.snapshot.refresh()
    asked = []
    cluster.handle.column("counted", lambda info: asked.append(info.name) or 1)
    cluster.cache.add_pod(web("p1", "a"))
    cluster.snapshot.refresh()
    assert asked == ["a"]


def test_decisions_follow_the_columns() -> None:
    cluster = Cluster(GreenPower, AtMostTwoWebPods, nodes=[a_node("grey", 1), a_node("green", 90)])
    for i, expected in enumerate(["green", "green", "grey", "grey"]):
        assert cluster.attempt(web(f"p{i}")).node_name == expected
        cluster.cache.add_pod(web(f"p{i}", expected))
    refused = cluster.attempt(web("p4"))
    assert refused.message() == "0/2 nodes are available: 2 node(s) had two web pods."


def test_kept_answers_are_not_written_into_the_column_they_came_from() -> None:
    """The second pod of a shape patches what was kept of the first: in a copy."""
    cluster = Cluster(GreenPower, AtMostTwoWebPods, nodes=[a_node("a", 50), a_node("b", 60)])
    room, power = cluster.plugins["AtMostTwoWebPods"].has_room, cluster.plugins["GreenPower"].green
    cluster.attempt(web("p1"))
    [entry] = [cluster.framework.kept.shapes.get(cluster.info(web("p1")).shape.key, cluster.snapshot)]
    assert entry is not None
    for kept in (*entry.masks, *entry.raw):
        kept[:] = 0
    assert values(cluster, room) == {"a": True, "b": True}
    assert values(cluster, power) == {"a": 50, "b": 60}


def test_a_touched_node_is_asked_about_again_and_kept_answers_are_dropped() -> None:
    """The value comes from something beside the node: a custom resource, a file, a clock."""
    load = {"a": 10.0, "b": 20.0}

    class Load(GreenPower):
        name = "Load"

        def __init__(self, args: Any, handle: Handle) -> None:
            super().__init__(args, handle)
            self.green = handle.column("load", lambda info: load[info.name])

    cluster = Cluster(Load, nodes=[a_node("a"), a_node("b")])
    assert cluster.attempt(web("p1")).node_name == "b"
    load["a"] = 30.0
    cluster.handle.node_changed("a")
    cluster.handle.node_changed("nobody knows it")
    assert cluster.attempt(web("p2")).node_name == "a"
    assert cluster.snapshot.validate() == []


def test_a_function_that_raises_costs_its_column_the_value_and_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(nodes=[a_node("a"), a_node("b", 8)])
    key = cluster.handle.column("strict", lambda info: float(info.annotations["example.com/green"]))
    assert values(cluster, key) == {"a": 0, "b": 8}
    assert "own:podium/strict: no value for node a" in caplog.text


def test_a_name_is_taken_once() -> None:
    cluster = Cluster()
    cluster.handle.column("green", green)
    with pytest.raises(ValueError, match="there is a column 'podium/green' already"):
        cluster.handle.column("green", green)
