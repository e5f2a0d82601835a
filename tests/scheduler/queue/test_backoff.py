"""Backoff: how long, until when, and who may be taken early (facts 2.7 golden values, 2.8)."""

import pytest

from scheduler.framework.cluster_event import NODE_ADD, Action, on
from scheduler.queue.backoff_queue import BackoffQueue
from scheduler.queue.queued_pod import QueuedPodInfo
from scheduler.queue.scheduling_queue import QueueConfig
from scheduler.snapshot.pod_info import ShapeTable
from tests.builders import make_pod
from tests.scheduler.queue.harness import Bench, by_priority


def item(
    name: str = "web", *, priority: int = 0, timestamp: float = 0.0, refusals: int = 0, errors: int = 0
) -> QueuedPodInfo:
    made = QueuedPodInfo(ShapeTable().pod_info(make_pod(name, uid=name, priority=priority)), timestamp)
    made.unschedulable_count, made.consecutive_errors = refusals, errors
    return made


def backoff(initial: float = 1.0, maximum: float = 10.0, *, whole_seconds: bool = True) -> BackoffQueue:
    return BackoffQueue(initial, maximum, lambda i: by_priority(i.pod_info, i.timestamp), whole_seconds=whole_seconds)


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (7, 10), (2000, 10)]
)
def test_the_duration_doubles_up_to_the_maximum(attempt: int, seconds: float) -> None:
    assert backoff().duration(item(refusals=attempt)) == seconds
    assert backoff().duration(item(errors=attempt)) == seconds


@pytest.mark.parametrize(
    ("maximum", "refusals", "errors", "seconds"),
    [
        pytest.param(10, 0, 0, 0, id="a pod that was never tried has none"),
        pytest.param(0, 3, 0, 0, id="a maximum of 0 disables it"),
        pytest.param(10, 4, 1, 1, id="an error in a row counts instead of the refusals before it"),
        pytest.param(10, 1, 3, 4, id="errors in a row double it too"),
    ],
)
def test_the_duration_counts(maximum: float, refusals: int, errors: int, seconds: float) -> None:
    assert backoff(maximum=maximum).duration(item(refusals=refusals, errors=errors)) == seconds


@pytest.mark.parametrize(
    ("came_back", "whole_seconds", "end"),
    [
        pytest.param(7.0, True, 9.0, id="until the whole second in which it ends is over"),
        pytest.param(7.9, True, 9.0, id="so a fraction is rounded up, never down to less than configured"),
        pytest.param(7.9, False, 8.9, id="exactly, where nobody is popped early"),
    ],
)
def test_the_backoff_of_one_second_ends(came_back: float, whole_seconds: bool, end: float) -> None:
    queue, pod = backoff(whole_seconds=whole_seconds), item(timestamp=came_back, refusals=1)
    queue.start(pod)
    assert pod.backoff_expiration == end
    assert queue.is_backing_off(pod, end - 0.01)
    assert not queue.is_backing_off(pod, end)


def test_a_pod_without_backoff_never_backs_off_not_even_at_time_zero() -> None:
    queue, pod = backoff(), item()
    queue.start(pod)
    assert not queue.is_backing_off(pod, 0.0)


def test_within_one_second_queue_sort_decides_and_before_that_the_end() -> None:
    queue = backoff()
    for pod in (
        item("late and important", priority=9, timestamp=2.0, refusals=2),
        item("low", timestamp=1.1, refusals=1),
        item("high", priority=5, timestamp=1.8, refusals=1),
    ):
        queue.start(pod)
        queue.push(pod)
    assert [i.uid for i in iter(queue.pop_early, None)] == ["high", "low", "late and important"]


@pytest.mark.parametrize(
    ("plugins", "config", "popped"),
    [
        pytest.param(("Fit",), None, "web", id="a refused pod is taken early when the scheduler is idle"),
        pytest.param((), None, None, id="a pod that failed by error is not"),
        pytest.param(("Fit",), QueueConfig(pop_from_backoff=False), None, id="nobody is, with the gate off"),
    ],
)
def test_an_idle_scheduler(plugins: tuple[str, ...], config: QueueConfig | None, popped: str | None) -> None:
    bench = Bench({"Fit": [on("Node", Action.ADD)]}, config=config)
    failing = bench.popped(make_pod("web"))
    bench.happens(NODE_ADD)
    bench.refuse(failing, *plugins)
    assert bench.queue.lengths()["backoff"] == 1
    assert bench.pop() == popped


def test_a_pod_that_failed_after_permit_lets_its_backoff_end_since_no_event_helped_it() -> None:
    bench = Bench()
    failing = bench.popped(make_pod("web"))
    bench.queue.done(failing.uid)
    bench.refuse(failing, "Volumes")
    assert bench.pop() is None
    bench.now += 2
    bench.queue.flush_backoff_completed()
    assert bench.pop() == "web"


def test_active_pods_go_before_pods_in_backoff() -> None:
    bench = Bench(any_event=["Fit"])
    failing = bench.popped(make_pod("important", priority=10))
    bench.happens(NODE_ADD)
    bench.refuse(failing, "Fit")
    assert bench.queue.lengths()["backoff"] == 1
    bench.add(make_pod("new"))
    assert bench.pop() == "new"


def test_the_flush_moves_pods_whose_backoff_is_over_and_no_others() -> None:
    bench = Bench()
    first, second = make_pod("first"), make_pod("second")
    bench.refuse(bench.popped(first))
    bench.now += 1.5
    bench.refuse(bench.popped(second))
    bench.now = 1002.0
    bench.queue.flush_backoff_completed()
    assert (bench.pool(first), bench.pool(second)) == ("active", "backoff")
    assert ("active", "BackoffComplete") in bench.counted


def test_errors_in_a_row_are_forgotten_by_a_refusal_and_refusals_are_not_by_an_error() -> None:
    bench = Bench()
    pod = bench.popped(make_pod("web"))
    bench.refuse(pod)
    bench.now += 60
    bench.queue.flush_backoff_completed()
    bench.refuse(bench.pop_item(), "Fit")
    assert (pod.consecutive_errors, pod.unschedulable_count) == (0, 1)
    bench.queue.activate(["default/web"])
    bench.refuse(bench.pop_item())
    assert (pod.consecutive_errors, pod.unschedulable_count) == (1, 1)
