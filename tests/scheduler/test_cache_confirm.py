"""The informer shows a pod where it was assumed to be: what has been counted is not counted anew."""

import pytest

from kube.api.core import Pod
from scheduler.cache import SchedulerCache
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.snapshot import Snapshot
from tests.builders import make_node, make_pod, owned_by

LOOK = {"uid": "u1", "labels": {"app": "web"}, "cpu": "1", "phase": "Pending"}


def cache_with_assumed() -> SchedulerCache:
    """A pod is assumed on n1, and the snapshot has seen that."""
    cache = SchedulerCache(Snapshot())
    for name in ("n1", "n2"):
        cache.add_node(make_node(name))
    assumed = cache.snapshot.shapes.pod_info(make_pod("web", **LOOK)).on_node("n1")
    cache.assume_pod(assumed, "n1")
    cache.snapshot.refresh()
    return cache


def shown(**changed) -> Pod:
    return make_pod("web", **{**LOOK, "node_name": "n1", "resource_version": "2", **changed})


def test_a_confirmed_pod_is_the_informers_and_its_row_is_left_alone():
    cache = cache_with_assumed()
    before = cache.snapshot.version
    pod = shown()
    cache.add_pod(pod)
    assert not cache.is_assumed("u1")
    assert cache.nodes["n1"].pods["u1"].pod is pod
    assert cache.validate() == []
    assert cache.snapshot.version == before


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"cpu": "2"}, id="other requests"),
        pytest.param({"labels": {"app": "db"}}, id="other labels"),
        pytest.param({"owner": owned_by("ReplicaSet", "web")}, id="another owner"),
        pytest.param({"annotations": {"a": "b"}}, id="other annotations"),
        pytest.param({"priority": 7}, id="another priority"),
        pytest.param({"deletion_timestamp": "2026-01-01T00:00:00Z"}, id="it is being deleted"),
        pytest.param({"phase": "Running"}, id="it runs already"),
        pytest.param({"start_time": "2026-01-01T00:00:00Z"}, id="its kubelet has seen it"),
        pytest.param({"node_name": "n2"}, id="another node"),
    ],
)
def test_a_pod_that_is_not_what_was_assumed_is_counted_anew(changed):
    cache = cache_with_assumed()
    before = cache.snapshot.version
    cache.add_pod(shown(**changed))
    assert cache.validate() == []
    assert cache.snapshot.version > before


def test_a_plugins_column_by_pods_hears_of_a_confirmed_pod():
    cache = cache_with_assumed()

    def confirmed(node: NodeInfo) -> float:
        return sum(bool(pod.pod.metadata.resource_version) for pod in node.pods.values())

    key = cache.snapshot.add_column("confirmed", confirmed, float, by_pods=True)
    cache.add_pod(shown())
    cache.snapshot.refresh()
    assert cache.snapshot.nodes.column(key)[cache.nodes["n1"].row] == 1
