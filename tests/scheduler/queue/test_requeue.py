"""Where a refused pod goes: the requeue decision, the replay of what happened in flight, own updates (facts 2.8)."""

import asyncio
from collections.abc import Callable, Iterable

import pytest

from benchmarks.counts import CallCounter
from kube.api.core import Pod
from scheduler.framework.cluster_event import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    WILDCARD_EVENT,
    Action,
    ClusterEvent,
    EventResource,
    QueueingHint,
    on,
)
from scheduler.framework.status import Status, unresolvable
from scheduler.queue import in_flight
from tests.builders import exists, make_node, make_pod
from tests.scheduler.queue.harness import Bench

TAINT = ClusterEvent(EventResource.NODE, Action.UPDATE_NODE_TAINT, "NodeTaintChange")
CUSTOM = ClusterEvent("quotas.v1.example.com", Action.UPDATE_OTHER, "QuotaUpdate")


def yes(pod: Pod, old: object, new: object) -> QueueingHint:
    return QueueingHint.QUEUE


def no(pod: Pod, old: object, new: object) -> QueueingHint:
    return QueueingHint.SKIP


def raises(pod: Pod, old: object, new: object) -> QueueingHint:
    raise RuntimeError("a hint with a bug")


def own_update(pod: Pod, old: Pod, new: Pod) -> QueueingHint:
    return QueueingHint.QUEUE if pod.metadata.uid == new.metadata.uid else QueueingHint.SKIP


PLUGINS = {
    "Yes": [on(EventResource.NODE, Action.ADD, hint=yes)],
    "No": [on(EventResource.NODE, Action.ADD, hint=no)],
    "Raises": [on(EventResource.NODE, Action.ADD, hint=raises)],
    "NoHint": [on(EventResource.NODE, Action.ADD)],
    "Taints": [on(EventResource.NODE, Action.UPDATE_NODE_TAINT)],
    "Updates": [on(EventResource.NODE, Action.UPDATE)],
    "Pods": [on(EventResource.POD, Action.ADD)],
    "AssignedPods": [on(EventResource.ASSIGNED_POD, Action.ADD)],
    "Everything": [on(EventResource.WILDCARD, Action.ALL)],
    "Quota": [on("quotas.v1.example.com", Action.UPDATE)],
    "Never": [],
    "Labels": [on(EventResource.POD, Action.UPDATE_POD_LABEL, hint=own_update)],
    "Tolerations": [on(EventResource.POD, Action.UPDATE_POD_TOLERATION, hint=own_update)],
}


def bench() -> Bench:
    return Bench(PLUGINS, any_event=["Extender"])


DECISIONS = [
    pytest.param(["Yes"], [], NODE_ADD, "backoff", id="a hint that says Queue ends the wait, not the backoff"),
    pytest.param(["No"], [], NODE_ADD, "unschedulable", id="a hint that says QueueSkip leaves the pod where it is"),
    pytest.param(["NoHint"], [], NODE_ADD, "backoff", id="no hint function means Queue"),
    pytest.param(["Raises"], [], NODE_ADD, "backoff", id="a hint that fails means Queue"),
    pytest.param(["No", "Yes"], [], NODE_ADD, "backoff", id="one plugin that says Queue is enough"),
    pytest.param(["Taints"], [], NODE_ADD, "unschedulable", id="an event the plugin did not register for is not its"),
    pytest.param(["Never"], [], NODE_ADD, "unschedulable", id="a plugin that registered nothing is woken by nothing"),
    pytest.param(["Stranger"], [], NODE_ADD, "unschedulable", id="only the plugins that refused the pod are asked"),
    pytest.param(["Updates"], [], TAINT, "backoff", id="a registration for Update matches the narrow updates"),
    pytest.param(["Pods"], [], ASSIGNED_POD_ADD, "backoff", id="a registration for Pod matches assigned pods"),
    pytest.param(["AssignedPods"], [], ASSIGNED_POD_ADD, "backoff", id="and so does one for AssignedPod"),
    pytest.param(["Pods"], [], ASSIGNED_POD_DELETE, "unschedulable", id="the action must match too"),
    pytest.param(["Everything"], [], CUSTOM, "backoff", id="a wildcard registration matches every resource"),
    pytest.param(["Quota"], [], CUSTOM, "backoff", id="custom resources are plain names"),
    pytest.param(["Extender"], [], TAINT, "backoff", id="any event concerns a pod refused by an extender"),
    pytest.param(["Never"], [], WILDCARD_EVENT, "backoff", id="the wildcard event asks nobody"),
    pytest.param([], ["Yes"], NODE_ADD, "active", id="Pending skips the backoff"),
    pytest.param(["Yes"], ["No"], NODE_ADD, "backoff", id="but only if the pending plugin itself says Queue"),
    pytest.param(["Yes"], ["NoHint"], NODE_ADD, "active", id="Pending wins over a refusal that says Queue as well"),
    pytest.param([], ["Extender"], TAINT, "active", id="a pending plugin without events waits for any event"),
    pytest.param([], ["No"], NODE_ADD, "unschedulable", id="Pending with QueueSkip stays"),
]


@pytest.mark.parametrize(("refused_by", "pending", "event", "pool"), DECISIONS)
def test_an_event_after_the_attempt(refused_by: list[str], pending: list[str], event: ClusterEvent, pool: str) -> None:
    b = bench()
    pod = make_pod("web")
    b.refuse(b.popped(pod), *refused_by, pending=pending)
    assert b.pool(pod) == "unschedulable"
    b.happens(event, make_node("n1"), make_node("n1"))
    assert b.pool(pod) == pool


@pytest.mark.parametrize(("refused_by", "pending", "event", "pool"), DECISIONS)
def test_the_same_event_during_the_attempt(
    refused_by: list[str], pending: list[str], event: ClusterEvent, pool: str
) -> None:
    b = bench()
    pod = make_pod("web")
    item = b.popped(pod)
    b.happens(event, make_node("n1"), make_node("n1"))
    b.refuse(item, *refused_by, pending=pending)
    assert b.pool(pod) == pool
    assert b.queue.in_flight_events() == 0


def test_an_event_before_the_pop_is_not_replayed() -> None:
    b = bench()
    other, pod = make_pod("other"), make_pod("web")
    b.add(other, pod)
    b.pop_item()
    b.happens(NODE_ADD)
    b.refuse(b.pop_item(), "Yes")
    assert b.pool(pod) == "unschedulable"


def test_events_are_kept_until_the_last_pod_that_needs_them_is_done() -> None:
    b = bench()
    b.add(make_pod("first"), make_pod("second"))
    first, second = b.pop_item(), b.pop_item()
    b.happens(NODE_ADD)
    b.queue.done(first.uid)
    assert b.queue.in_flight_events() == 1
    b.refuse(second, "Yes")
    assert b.pool(second.pod) == "backoff"
    assert b.queue.in_flight_events() == 0


def test_when_more_happens_than_can_be_kept_the_pod_counts_as_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight, "MAX_EVENTS", 3)
    b = bench()
    item = b.popped(make_pod("web"))
    b.happens(NODE_ADD)
    for _ in range(5):
        b.happens(CUSTOM)
    assert (b.queue.in_flight_events(), b.queue.dropped_events()) == (3, 3)
    b.refuse(item, "Taints")
    assert b.pool(item.pod) == "backoff"


def test_a_pod_that_fails_after_done_is_retried_since_no_events_were_kept_for_it() -> None:
    b = bench()
    item = b.popped(make_pod("web"))
    b.queue.done(item.uid)
    b.happens(NODE_ADD)
    b.refuse(item, "Yes")
    assert b.pool(item.pod) == "backoff"


def test_a_pod_that_no_plugin_refused_is_retried_by_backoff_alone() -> None:
    b = bench()
    item = b.popped(make_pod("web"))
    b.refuse(item)
    assert b.pool(item.pod) == "backoff"


def test_an_event_after_the_backoff_leads_straight_to_the_active_queue() -> None:
    b = bench()
    item = b.popped(make_pod("web"))
    b.refuse(item, "Yes")
    b.now += 2
    b.happens(NODE_ADD)
    assert b.pool(item.pod) == "active"
    assert b.counted[-1] == ("active", "NodeAdd")


def test_a_retried_pod_goes_behind_its_priority_peers() -> None:
    b = bench()
    first = b.popped(make_pod("first"))
    b.now += 1
    b.add(make_pod("second"))
    b.now += 1
    b.refuse(first, "Yes")
    b.queue.activate(["default/first"])
    b.add(make_pod("important", priority=1))
    assert [b.pop(), b.pop(), b.pop()] == ["important", "second", "first"]


# --- own updates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refused_by", "labels", "tolerations", "pool"),
    [
        pytest.param("Labels", {"a": "b"}, [], "backoff", id="own labels changed and the plugin looks at labels"),
        pytest.param("Tolerations", {"a": "b"}, [], "unschedulable", id="own labels changed and it does not"),
        pytest.param("Tolerations", {}, [exists("x")], "backoff", id="own tolerations changed"),
        pytest.param("Tolerations", {"a": "b"}, [exists("x")], "backoff", id="both changed, one helps"),
    ],
)
@pytest.mark.parametrize("in_flight", [pytest.param(False, id="in the pool"), pytest.param(True, id="in flight")])
def test_an_own_update(
    refused_by: str, labels: dict[str, str], tolerations: Iterable[object], pool: str, in_flight: bool
) -> None:
    b = bench()
    old = make_pod("web", uid="u")
    new = make_pod("web", uid="u", labels=labels, tolerations=tolerations)  # type: ignore[arg-type]
    item = b.popped(old)
    if in_flight:
        b.queue.update(old, b.info(new))
        b.refuse(item, refused_by)
    else:
        b.refuse(item, refused_by)
        b.queue.update(old, b.info(new))
        assert item.pod == new
    assert b.pool(new) == pool


def test_an_update_of_another_pod_wakes_nobody() -> None:
    b = bench()
    item = b.popped(make_pod("web"))
    b.refuse(item, "Labels")
    old = make_pod("other", uid="other")
    b.add(old)
    b.queue.update(old, b.info(make_pod("other", uid="other", labels={"a": "b"})))
    assert b.pool(item.pod) == "unschedulable"


@pytest.mark.parametrize("pool", ["active", "backoff"])
def test_a_pod_that_waits_for_its_turn_is_replaced_in_place(pool: str) -> None:
    b = bench()
    old, new = make_pod("web", uid="u"), make_pod("web", uid="u", labels={"a": "b"})
    b.add(old, make_pod("next"))
    if pool == "backoff":
        b.refuse(b.pop_item())
    b.queue.update(old, b.info(new))
    assert b.pool(new) == pool
    if pool == "backoff":
        b.queue.activate(["default/web"])
        b.pop()
    assert b.pop_item().pod == new


def test_a_changed_priority_changes_the_place() -> None:
    b = bench()
    old = make_pod("web", uid="u")
    b.add(make_pod("first", priority=5), old)
    b.queue.update(old, b.info(make_pod("web", uid="u", priority=9)))
    assert [b.pop(), b.pop(), b.pop()] == ["web", "first", None]


def test_an_update_of_an_unknown_pod_adds_it() -> None:
    b = bench()
    pod = make_pod("web")
    b.queue.update(pod, b.info(pod))
    assert b.pool(pod) == "active"


# --- gated pods --------------------------------------------------------------------------------------------------


def gate(pod: Pod) -> Status | None:
    names = [each.name for each in pod.spec.scheduling_gates]
    return unresolvable(f"waiting for {names}").by("Gates") if names else None


def gated_bench() -> Bench:
    gates = [on(EventResource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, hint=own_update)]
    return Bench({**PLUGINS, "Gates": gates}, gate=gate)


def test_a_gated_pod_waits_outside_the_active_queue() -> None:
    b = gated_bench()
    pod = make_pod("web", scheduling_gates=["a"])
    b.add(pod)
    assert b.pop() is None
    assert b.pool(pod) == "gated"
    assert b.queue.lengths() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
    assert b.counted == [("gated", "UnscheduledPodAdd")]


@pytest.mark.parametrize(
    ("left", "pool"),
    [
        pytest.param([], "active", id="the last gate goes and the pod is active at once"),
        pytest.param(["b"], "gated", id="one gate is left and the pod stays"),
    ],
)
def test_gates_are_removed_by_an_own_update(left: list[str], pool: str) -> None:
    b = gated_bench()
    old, new = make_pod("web", uid="u", scheduling_gates=["a", "b"]), make_pod("web", uid="u", scheduling_gates=left)
    b.add(old)
    b.queue.update(old, b.info(new))
    assert b.pool(new) == pool


@pytest.mark.parametrize("how", ["event", "activate", "flush"])
def test_nothing_else_opens_a_gate(how: str) -> None:
    b = gated_bench()
    pod = make_pod("web", scheduling_gates=["a"])
    b.add(pod)
    b.now += 301
    if how == "event":
        b.happens(WILDCARD_EVENT)
    elif how == "activate":
        b.queue.activate(["default/web"])
    else:
        b.queue.flush_unschedulable_leftover()
    assert b.pool(pod) == "gated"
    assert b.queue.validate() == []


def test_a_pod_can_be_gated_again_after_an_attempt() -> None:
    closed: list[bool] = []
    b = Bench(PLUGINS, gate=lambda pod: unresolvable("closed").by("Door") if closed else None)
    item = b.popped(make_pod("web"))
    closed.append(True)
    b.refuse(item, "Yes")
    b.happens(NODE_ADD)
    assert b.pool(item.pod) == "gated"
    closed.clear()
    b.happens(WILDCARD_EVENT)
    assert b.pool(item.pod) == "backoff"


# --- activate, flush, delete -------------------------------------------------------------------------------------


@pytest.mark.parametrize("plugins", [pytest.param(["Never"], id="from the pool"), pytest.param([], id="from backoff")])
def test_activate_moves_a_pod(plugins: list[str]) -> None:
    b = bench()
    item = b.popped(make_pod("web"))
    b.refuse(item, *plugins)
    b.queue.activate(["default/web", "default/unknown"])
    assert b.pool(item.pod) == "active"
    assert b.counted[-1] == ("active", "ForceActivate")


@pytest.mark.parametrize("named", [pytest.param("web", id="itself"), pytest.param("other", id="another")])
def test_a_hint_that_activates_a_pod_leaves_each_in_one_pool(named: str) -> None:
    """The pool is being gone through at that moment, and the other pod is alone in its group."""

    def wakes_by_itself(pod: Pod, old: object, new: object) -> QueueingHint:
        b.queue.activate([f"default/{named}"])
        return QueueingHint.QUEUE

    b = Bench({"Odd": [on(EventResource.NODE, Action.ADD, hint=wakes_by_itself)], "NoHint": PLUGINS["NoHint"]})
    web, other = b.popped(make_pod("web")), b.popped(make_pod("other"))
    b.refuse(web, "Odd")
    b.refuse(other, "NoHint")
    b.happens(NODE_ADD)
    assert b.queue.validate() == []
    assert sorted(item.pod.metadata.name for item, _ in b.queue.pending_pods()) == ["other", "web"]
    assert b.pool(web.pod if named == "web" else other.pod) == "active"


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(lambda b: b.queue.activate(["default/web", "default/other"]), id="activated"),
        pytest.param(lambda b: b.queue.flush_unschedulable_leftover(), id="flushed"),
    ],
)
def test_pre_enqueue_that_activates_a_sibling_leaves_each_pod_in_one_pool(how: Callable[[Bench], None]) -> None:
    calls: list[str] = []

    def lets_the_sibling_in(pod: Pod) -> Status | None:
        if len(calls) == 1:
            calls.append("activating")
            b.queue.activate(["default/other"])
        return None

    b = Bench({"Never": []}, gate=lets_the_sibling_in)
    web, other = b.popped(make_pod("web")), b.popped(make_pod("other"))
    b.refuse(web, "Never")
    b.refuse(other, "Never")
    b.now += 600
    calls.append("from now on")
    how(b)
    assert b.queue.validate() == []
    assert b.counted.count(("active", "ForceActivate")) + b.counted.count(("active", "UnschedulableTimeout")) == 2


def test_activate_reaches_a_pod_in_flight_when_its_attempt_fails_and_only_then() -> None:
    b = bench()
    item = b.popped(make_pod("web"))
    b.queue.activate(["default/web"])
    b.refuse(item, "Never")
    assert b.pool(item.pod) == "active"
    b.refuse(b.pop_item(), "Never")
    assert b.pool(item.pod) == "unschedulable"


def test_after_five_minutes_in_the_pool_a_pod_is_tried_without_any_event() -> None:
    b = bench()
    item = b.popped(make_pod("web"))
    b.refuse(item, "Never")
    b.now += 300
    b.queue.flush_unschedulable_leftover()
    assert b.pool(item.pod) == "unschedulable"
    b.now += 1
    b.queue.flush_unschedulable_leftover()
    assert b.pool(item.pod) == "active"
    assert b.counted[-1] == ("active", "UnschedulableTimeout")
    assert item.flushed


def test_a_flushed_pod_that_fails_again_and_is_then_woken_by_an_event_was_not_flushed() -> None:
    b = bench()
    item = b.popped(make_pod("web"))
    b.refuse(item, "Yes")
    b.now += 301
    b.queue.flush_unschedulable_leftover()
    b.refuse(b.pop_item(), "Yes")
    assert not item.flushed


@pytest.mark.parametrize("pool", ["active", "backoff", "unschedulable"])
def test_a_deleted_pod_is_in_no_pool_and_nominated_nowhere(pool: str) -> None:
    b = bench()
    pod = make_pod("web", nominated_node_name="n1")
    b.add(pod)
    if pool != "active":
        b.refuse(b.pop_item(), *(["Never"] if pool == "unschedulable" else []))
    assert b.pool(pod) == pool
    b.queue.delete(pod.metadata.uid)
    assert b.pool(pod) is None
    assert b.pop() is None
    assert b.queue.nominator.node_of(pod.metadata.uid) == ""


def test_events_with_a_check_move_only_the_pods_that_pass_it() -> None:
    b = bench()
    low, high = make_pod("low", priority=1), make_pod("high", priority=9)
    for pod in (low, high):
        b.refuse(b.popped(pod), "NoHint")
    b.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None, lambda info: info.priority <= 5)
    assert (b.pool(low), b.pool(high)) == ("backoff", "unschedulable")


# --- waiting for work --------------------------------------------------------------------------------------------


@pytest.mark.looptime
async def test_pop_waits_for_a_pod_and_close_ends_the_wait() -> None:
    b = bench()
    async with asyncio.TaskGroup() as group:
        popping = group.create_task(b.queue.pop())
        await asyncio.sleep(1)
        assert not popping.done()
        b.add(make_pod("web"))
        await asyncio.sleep(1)
        item = popping.result()
        assert item is not None
        waiting = group.create_task(b.queue.pop())
        await asyncio.sleep(1)
        b.queue.close()
    assert waiting.result() is None


def test_validate_names_a_pod_that_is_in_two_pools() -> None:
    b = bench()
    item = b.popped(make_pod("web", uid="u"))
    b.queue._active.push(item.uid, item)
    assert b.queue.validate() == ["pod u is in active and in in flight"]


@pytest.mark.parametrize(
    ("event", "grows"),
    [
        pytest.param(TAINT, False, id="not where it helps none of them"),
        pytest.param(NODE_ADD, True, id="where it may help them"),
    ],
)
def test_an_event_costs_by_the_number_of_pods_that_wait(event, grows):
    calls = []
    for pods in (3, 30):
        bench = Bench(PLUGINS)
        for number in range(pods):
            bench.refuse(bench.popped(make_pod(f"p{number}")), "No")
        bench.happens(event)
        with CallCounter() as counter:
            bench.happens(event)
        calls.append(counter.python)
        assert bench.queue.lengths()["unschedulable"] == pods
    assert (calls[1] > calls[0]) == grows
