"""SchedulingGates, PrioritySort and DefaultBinder: before the queue, in the queue, and at the end."""

from typing import Any

import pytest

from plugins.default_binder import DefaultBinder
from plugins.priority_sort import PrioritySort
from plugins.scheduling_gates import SchedulingGates, own_gates_eliminated
from scheduler.framework.cluster_event import QueueingHint
from scheduler.framework.status import Code
from tests.builders import make_node, make_pod
from tests.plugins.harness import Bench


def test_a_gated_pod_is_told_which_gates_it_waits_for():
    status = Bench(SchedulingGates).plugin.pre_enqueue(make_pod("web", scheduling_gates=["a", "b"]))
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == "waiting for scheduling gates: [a b]"


def test_a_pod_without_gates_may_enter():
    assert Bench(SchedulingGates).plugin.pre_enqueue(make_pod("web")) is None


@pytest.mark.parametrize(
    ("uid", "hint"),
    [
        pytest.param("web", QueueingHint.QUEUE, id="its own gates are gone"),
        pytest.param("db", QueueingHint.SKIP, id="another pod's gates are gone"),
    ],
)
def test_only_a_pods_own_update_can_open_its_gates(uid, hint):
    updated = make_pod("other", uid=uid)
    assert own_gates_eliminated(make_pod("web", uid="web"), updated, updated) is hint


def test_pods_are_ordered_by_priority_and_then_by_age():
    bench = Bench(PrioritySort)
    queue = [("late", 0, 9.0), ("urgent", 10, 8.0), ("early", 0, 1.0), ("modest", -5, 0.0)]
    order = sorted(
        queue,
        key=lambda entry: bench.plugin.sort_key(bench.state(make_pod(entry[0], priority=entry[1])).pod_info, entry[2]),
    )
    assert [name for name, _, _ in order] == ["urgent", "early", "late", "modest"]


class ApiServer:
    """The end of the wire that DefaultBinder talks to."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.bindings: list[tuple[str, str]] = []
        self.failure = failure

    async def bind(self, pod: Any, node_name: str) -> None:
        if self.failure is not None:
            raise self.failure
        self.bindings.append((pod.metadata.name, node_name))


async def test_the_binder_posts_one_binding():
    server = ApiServer()
    bench = Bench(DefaultBinder, nodes=[make_node("n1")], client=server)
    pod = make_pod("web")
    assert await bench.plugin.bind(bench.state(pod), pod, "n1") is None
    assert server.bindings == [("web", "n1")]


async def test_a_failed_bind_reaches_the_binding_cycle():
    bench = Bench(DefaultBinder, client=ApiServer(failure=OSError("connection refused")))
    pod = make_pod("web")
    with pytest.raises(OSError, match="connection refused"):
        await bench.plugin.bind(bench.state(pod), pod, "n1")


async def test_without_an_api_server_the_bind_is_an_error_not_a_crash():
    bench = Bench(DefaultBinder)
    pod = make_pod("web")
    assert (await bench.plugin.bind(bench.state(pod), pod, "n1")).code is Code.ERROR
