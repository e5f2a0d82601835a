"""From informers to cache and queue (facts 2.12)."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kube.api.core import Node, Pod
from kube.api.meta import Condition
from scheduler.cache import SchedulerCache
from scheduler.event_handlers import EventHandlers, node_update_events
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint, on
from scheduler.framework.waiting_pods import WaitingPods
from scheduler.queue.hints import Hint, ProfileHooks
from scheduler.queue.nominator import Nominator
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.snapshot.snapshot import Snapshot
from tests.builders import make_node, make_pod, taint

Heard = tuple[str, str, str]


class Bench:
    """Handlers with a real cache and queue, and one pod in the pool that notes what it hears: (event, old, new)."""

    def __init__(self) -> None:
        self.cache = SchedulerCache(Snapshot())
        self.heard: list[Heard] = []
        self.cached_nodes: list[int] = []
        self.assigned: list[str] = []
        wildcard = Hint("Ears", on(EventResource.WILDCARD, Action.ALL, hint=self.hear))
        hooks = ProfileHooks(lambda pod: None, [wildcard])
        self.queue = SchedulingQueue(lambda pod: hooks, Nominator(), lambda info, timestamp: timestamp, lambda: 1000.0)
        profiles = {"podium", "second"}
        self.handlers = EventHandlers(self.cache, self.queue, WaitingPods(), profiles, self.assigned.append)
        self.listener("ears", priority=5)

    def listener(self, name: str, priority: int) -> None:
        self.queue.add(self.cache.snapshot.shapes.pod_info(make_pod(name, uid=name, priority=priority)))
        item = self.queue.pop_nowait()
        assert item is not None
        item.unschedulable_plugins = {"Ears"}
        self.queue.add_unschedulable(item)

    def hear(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        self.heard.append((pod.metadata.name, name_of(old), name_of(new)))
        self.cached_nodes.append(self.cache.node_count())
        return QueueingHint.SKIP

    def waits(self, pod: Pod) -> bool:
        return (pod.metadata.uid or pod.key) in self.queue

    def counted_on(self, pod: Pod) -> str | None:
        state = self.cache.pods.get(pod.metadata.uid)
        return None if state is None else state.node_name


def name_of(obj: Any) -> str:
    return "" if obj is None else obj.metadata.name


def ours(name: str = "web", **fields: Any) -> Pod:
    return make_pod(name, **{"uid": name, "scheduler_name": "podium", **fields})


def version(pod: Pod, number: str) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, resource_version=number))


# --- pods that appear --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "waits", "node", "heard"),
    [
        pytest.param(ours(), True, None, [], id="a pending pod of ours enters the queue"),
        pytest.param(ours(scheduler_name="second"), True, None, [], id="of any of our profiles"),
        pytest.param(
            ours(scheduler_name="default-scheduler"), False, None, [], id="a pending pod of others is ignored"
        ),
        pytest.param(ours(node_name="n1"), False, "n1", [("ears", "", "web")], id="an assigned pod is counted"),
        pytest.param(
            ours(node_name="n1", scheduler_name="somebody"),
            False,
            "n1",
            [("ears", "", "web")],
            id="whoever assigned it",
        ),
        pytest.param(
            ours(node_name="n1", deletion_timestamp="2026-01-01T00:00:00Z"),
            False,
            "n1",
            [("ears", "", "web")],
            id="a terminating pod counts until it is gone",
        ),
    ],
)
def test_a_pod_appears(pod: Pod, waits: bool, node: str | None, heard: list[Heard]) -> None:
    b = Bench()
    b.handlers.add_pod(pod)
    assert (b.waits(pod), b.counted_on(pod), b.heard) == (waits, node, heard)


def test_an_assumed_pod_that_appears_again_does_not_enter_the_queue() -> None:
    b = Bench()
    pod = ours()
    b.cache.assume_pod(b.cache.snapshot.shapes.pod_info(pod), "n1")
    b.handlers.add_pod(pod)
    b.handlers.update_pod(version(pod, "1"), version(pod, "2"))
    assert not b.waits(pod)
    assert b.cache.is_assumed("web")


# --- pods that change --------------------------------------------------------------------------------------------


def test_a_pod_that_somebody_else_bound_leaves_the_queue_and_is_counted() -> None:
    b = Bench()
    before, after = version(ours(), "1"), version(ours(node_name="n1"), "2")
    b.handlers.add_pod(before)
    b.handlers.update_pod(before, after)
    assert (b.waits(after), b.counted_on(after), b.heard) == (False, "n1", [("ears", "", "web")])


def test_it_is_told_once_that_a_pod_got_its_node() -> None:
    b = Bench()
    pending, assigned = version(ours(), "1"), version(ours(node_name="n1"), "2")
    b.handlers.add_pod(pending)
    assert b.assigned == []
    b.handlers.update_pod(pending, assigned)
    b.handlers.update_pod(assigned, version(assigned, "3"))
    b.handlers.add_pod(ours("other", node_name="n1"))
    assert b.assigned == ["web", "other"]


def test_an_update_with_the_same_resource_version_is_no_news() -> None:
    b = Bench()
    b.handlers.add_pod(version(ours(node_name="n1"), "1"))
    b.heard.clear()
    b.handlers.update_pod(version(ours(node_name="n1"), "1"), version(ours(node_name="n1", labels={"a": "b"}), "1"))
    assert b.heard == []
    assert b.cache.pods["web"].info.pod.metadata.labels == {}


def test_a_delete_and_an_add_seen_as_one_update_leave_one_pod() -> None:
    b = Bench()
    before, after = ours(node_name="n1", uid="old", cpu="1"), ours(node_name="n2", uid="new", cpu="1")
    b.handlers.add_pod(before)
    b.handlers.update_pod(version(before, "1"), version(after, "2"))
    assert (b.counted_on(before), b.counted_on(after)) == (None, "n2")


def test_the_same_for_a_pod_that_waits() -> None:
    b = Bench()
    before, after = ours(uid="old"), ours(uid="new")
    b.handlers.add_pod(before)
    b.handlers.update_pod(version(before, "1"), version(after, "2"))
    assert (b.waits(before), b.waits(after)) == (False, True)


def test_an_assigned_pod_that_changed_is_counted_anew_and_told_of_by_what_changed() -> None:
    b = Bench()
    before, after = ours(node_name="n1", cpu="2"), ours(node_name="n1", cpu="1", labels={"a": "b"})
    b.handlers.add_pod(before)
    b.heard.clear()
    b.handlers.update_pod(version(before, "1"), version(after, "2"))
    assert b.cache.nodes["n1"].requested["cpu"] == 1000
    assert b.heard == [("ears", "web", "web")] * 2  # labels, scale down


# --- pods that go ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "heard"),
    [
        pytest.param(ours(node_name="n1"), [("ears", "web", "")], id="room becomes free"),
        pytest.param(ours(), [], id="a pod that only waited helps nobody"),
        pytest.param(ours(nominated_node_name="n1", priority=9), [("ears", "web", "")], id="a promise becomes free"),
        pytest.param(ours(nominated_node_name="n1", priority=4), [], id="but not for pods of higher priority"),
    ],
)
@pytest.mark.parametrize("final_state_unknown", [False, True])
def test_a_pod_goes(pod: Pod, heard: list[Heard], final_state_unknown: bool) -> None:
    b = Bench()
    b.handlers.add_pod(pod)
    b.heard.clear()
    b.handlers.delete_pod(pod, final_state_unknown)
    assert (b.waits(pod), b.counted_on(pod), b.heard) == (False, None, heard)
    assert b.cache.validate() == b.queue.validate() == []


def test_a_delete_that_was_missed_cleans_cache_and_queue_whatever_the_last_state_says() -> None:
    b = Bench()
    bound = ours(node_name="n1")
    b.handlers.add_pod(bound)
    b.handlers.delete_pod(ours(), True)
    assert b.counted_on(bound) is None
    waiting = ours("waiting")
    b.handlers.add_pod(waiting)
    b.handlers.delete_pod(ours("waiting", node_name="n1"), True)
    assert not b.waits(waiting)


def test_an_assumed_pod_that_is_deleted_frees_its_room() -> None:
    b = Bench()
    pod = ours()
    b.cache.assume_pod(b.cache.snapshot.shapes.pod_info(pod), "n1")
    b.handlers.delete_pod(pod, False)
    assert b.counted_on(pod) is None
    assert b.heard == [("ears", "web", "")]


# --- nominations -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "node", "heard"),
    [
        pytest.param("", "n1", "", False, id="a promise is made"),
        pytest.param("n1", "n1", "", False, id="a promise stays"),
        pytest.param("n1", "", "", True, id="a promise is taken back"),
        pytest.param("n1", "n2", "", True, id="a promise moves"),
        pytest.param("n1", "n1", "n1", False, id="a promise is kept"),
        pytest.param("n1", "", "n2", True, id="the pod goes elsewhere"),
    ],
)
@pytest.mark.parametrize("assumed", [False, True], ids=["waiting", "assumed"])
def test_a_nomination_changes(before: str, after: str, node: str, heard: bool, assumed: bool) -> None:
    b = Bench()
    b.listener("important", priority=9)
    old = version(ours(priority=5, nominated_node_name=before), "1")
    new = version(ours(priority=5, nominated_node_name=after, node_name=node), "2")
    if assumed:
        b.cache.assume_pod(b.cache.snapshot.shapes.pod_info(old).on_node("n2"), "n2")
    else:
        b.handlers.add_pod(old)
    b.handlers.update_pod(old, new)
    # Only pods of the same priority or lower counted the promise against themselves.
    assert (("ears", "web", "") in b.heard) is heard
    assert ("important", "web", "") not in b.heard


def test_hints_see_a_promise_that_the_informer_does_not_know_yet() -> None:
    b = Bench()
    seen: list[str] = []
    b.hear = lambda pod, old, new: seen.append(old.status.nominated_node_name) or QueueingHint.SKIP  # type: ignore[method-assign, func-returns-value]
    hooks = ProfileHooks(lambda pod: None, [Hint("Ears", on(EventResource.WILDCARD, Action.ALL, hint=b.hear))])
    b.queue._hooks_of = lambda pod: hooks
    pod = ours(priority=5)
    b.handlers.add_pod(pod)
    b.queue.nominator.add(b.cache.snapshot.shapes.pod_info(pod), "n7")
    b.handlers.delete_pod(pod, False)
    assert seen == ["n7"]


# --- nodes -------------------------------------------------------------------------------------------------------


def test_a_node_is_in_the_cache_before_anybody_hears_of_it_and_until_everybody_heard_that_it_is_gone() -> None:
    b = Bench()
    b.handlers.add_node(make_node("n1"))
    b.handlers.delete_node(make_node("n1"), False)
    assert b.heard == [("ears", "", "n1"), ("ears", "n1", "")]
    assert b.cached_nodes == [1, 1]
    assert b.cache.node_count() == 0


def conditions(node: Node, *pairs: tuple[str, str]) -> Node:
    made = tuple(Condition(type=kind, status=status) for kind, status in pairs)
    return replace(node, status=replace(node.status, conditions=made))


@pytest.mark.parametrize(
    ("change", "labels"),
    [
        pytest.param(lambda n: make_node("n", cpu="8"), ["NodeAllocatableChange"], id="allocatable"),
        pytest.param(lambda n: make_node("n", labels={"a": "b"}), ["NodeLabelChange"], id="labels"),
        pytest.param(lambda n: make_node("n", taints=[taint("a")]), ["NodeTaintChange"], id="taints"),
        pytest.param(lambda n: make_node("n", annotations={"a": "b"}), ["NodeAnnotationChange"], id="annotations"),
        pytest.param(lambda n: make_node("n", declared_features=["x"]), ["NodeDeclaredFeatureChange"], id="features"),
        pytest.param(lambda n: conditions(n, ("Ready", "True")), ["NodeConditionChange"], id="conditions"),
        pytest.param(lambda n: make_node("n", unschedulable=True), [], id="cordoned: nobody gets better off"),
        pytest.param(lambda n: make_node("n", resource_version="7"), [], id="a heartbeat"),
        pytest.param(
            lambda n: make_node("n", cpu="8", labels={"a": "b"}),
            ["NodeAllocatableChange", "NodeLabelChange"],
            id="two changes are two events",
        ),
    ],
)
def test_what_changed_in_a_node(change: Callable[[Node], Node], labels: list[str]) -> None:
    old = make_node("n")
    assert [event.label for event in node_update_events(old, change(old))] == labels


def test_a_node_that_is_uncordoned_is_a_taint_change() -> None:
    events = node_update_events(make_node("n", unschedulable=True), make_node("n"))
    assert [event.action for event in events] == [Action.UPDATE_NODE_TAINT]


# --- everything else ---------------------------------------------------------------------------------------------


def test_objects_of_other_kinds_only_wake_pods() -> None:
    b = Bench()
    add, update, delete = b.handlers.others("StorageClass")
    first, second = make_node("fast", resource_version="1"), make_node("fast", resource_version="2")
    add(first)
    update(first, first)
    update(first, second)
    delete(second, False)
    assert b.heard == [("ears", "", "fast"), ("ears", "fast", "fast"), ("ears", "fast", "")]
