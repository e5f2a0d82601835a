"""DefaultPreemption as a plugin: what it registers, counts and says; and preemption with extenders (facts 1.2, 1.5)."""

import pytest

from kube.api.core import PodSchedulingGroup
from kube.client.errors import Unreachable
from plugins.default_preemption import WAITING, DefaultPreemption, some_pod_is_gone
from plugins.registry import Registry
from scheduler.framework.cluster_event import Action, EventResource, QueueingHint
from scheduler.framework.status import Code
from tests.builders import make_node, make_pod
from tests.fixtures_apiserver import api_server, node, pod
from tests.podium.harness import condition, events_of, node_of, podium, until
from tests.scheduler.framework.preempting import Cluster, on

__all__ = ["api_server"]

VIP = make_pod("vip", cpu="2", priority=1000, uid="vip")


def test_it_takes_part_in_post_filter_and_pre_enqueue():
    assert Registry()["DefaultPreemption"] == {"postFilter", "podGroupPostFilter", "preEnqueue"}


def test_a_deleted_pod_is_an_event_but_no_reason_to_try_again():
    ((registered),) = DefaultPreemption.events
    assert (registered.event.resource, registered.event.action) == (EventResource.POD, Action.DELETE)
    assert some_pod_is_gone(VIP, on("n", "gone"), None) is QueueingHint.SKIP


def test_every_attempt_is_counted_helpful_or_not():
    cluster = Cluster([make_node("n", cpu="2")], [on("n", "high", cpu="2", priority=2000)])
    cluster.attempt(VIP)
    cluster.attempt(make_pod("fits"))
    assert cluster.metrics == ["attempt"]


def test_success_has_no_message_and_a_refusal_says_where_it_comes_from():
    cluster = Cluster([make_node("n", cpu="2")], [on("n", "low", cpu="2", priority=1)])
    attempt = cluster.attempt(VIP)
    result, status = cluster.framework.run_post_filter(attempt.state, VIP, attempt.diagnosis)
    assert result is not None
    assert (result.nominated_node_name, status.ok, status.message) == ("n", True, "")
    assert cluster.message(make_pod("never", cpu="2", priority=1000, preemption_policy="Never")) == (
        "preemption: not eligible due to preemptionPolicy=Never."
    )


def test_while_one_member_of_a_group_waits_for_its_victims_none_is_tried():
    cluster = Cluster([make_node("n", cpu="2")])
    (plugin,) = [plugin for plugin in cluster.framework.post_filter if isinstance(plugin, DefaultPreemption)]
    plugin.evaluator.executor.preempting["default/g"] += 1
    member = make_pod("p", scheduling_group=PodSchedulingGroup(pod_group_name="g"))
    assert plugin.pre_enqueue(member).reasons == (WAITING,)
    assert plugin.pre_enqueue(make_pod("other")) is None


# --- extenders ---------------------------------------------------------------------------------------------------


class Extender:
    """An extender that answers a preemption with `answer(victims)`."""

    name = "extender"
    weight = 1

    def __init__(self, answer, *, ignorable=False, interested=True, supports=True):
        self.answer = answer
        self.ignorable = ignorable
        self.interested = interested
        self.supports = supports
        self.seen = []

    def is_interested(self, pod):
        return self.interested

    def supports_preemption(self):
        return self.supports

    async def process_preemption(self, pod, victims):
        self.seen.append({name: ([v.uid for v in pods], violations) for name, (pods, violations) in victims.items()})
        return self.answer(victims)


def unreachable(victims):
    raise Unreachable("connection refused", maybe_applied=False)


def without(*names):
    return lambda victims: {name: each for name, each in victims.items() if name not in names}


def emptied(name):
    return lambda victims: {**victims, name: ([], 0)}


async def ask(*extenders):
    """The best node is n1; then n2, then n3."""
    nodes = [make_node(f"n{i}", cpu="2") for i in (1, 2, 3)]
    running = [on(f"n{i}", f"p{i}", cpu="2", priority=i) for i in (1, 2, 3)]
    cluster = Cluster(nodes, running, extenders=extenders)
    attempt = cluster.attempt(VIP)
    return await cluster.framework.run_post_filter_with_extenders(attempt.state, VIP, attempt.diagnosis)


@pytest.mark.parametrize(
    ("extenders", "node"),
    [
        pytest.param([], "n1", id="without extenders the best node"),
        pytest.param([Extender(without("n1"))], "n2", id="a node taken away is not chosen"),
        pytest.param([Extender(without("n1")), Extender(without("n2"))], "n3", id="each sees what the former left"),
        pytest.param([Extender(without("n1"), interested=False)], "n1", id="an extender that does not care"),
        pytest.param([Extender(without("n1"), supports=False)], "n1", id="an extender without the verb"),
        pytest.param([Extender(unreachable, ignorable=True)], "n1", id="an ignorable one that fails changes nothing"),
        pytest.param(
            [Extender(emptied("n1"), ignorable=True)], "n2", id="an ignorable one that empties a node drops it"
        ),
    ],
)
async def test_extenders_take_candidates_away(extenders, node):
    result, status = await ask(*extenders)
    assert status.ok
    assert result is not None
    assert result.nominated_node_name == node


@pytest.mark.parametrize(
    ("extender", "code", "message"),
    [
        pytest.param(
            Extender(unreachable), Code.ERROR, "preemption: Unreachable: connection refused", id="one that fails"
        ),
        pytest.param(
            Extender(emptied("n2")),
            Code.ERROR,
            'preemption: expected at least one victim pod on node "n2"',
            id="one that leaves a node without victims",
        ),
        pytest.param(
            Extender(without("n1", "n2", "n3")),
            Code.UNSCHEDULABLE,
            "preemption: no candidate node for preemption",
            id="one that leaves nothing",
        ),
    ],
)
async def test_extenders_end_a_preemption(extender, code, message):
    result, status = await ask(extender, Extender(without()))
    assert result is None
    assert (status.code, status.message) == (code, message)


async def test_an_extender_sees_all_candidates_with_their_victims():
    extender = Extender(without())
    await ask(extender)
    assert extender.seen == [{"n1": (["p1"], 0), "n2": (["p2"], 0), "n3": (["p3"], 0)}]


# --- in a running service ----------------------------------------------------------------------------------------


def ours(name, **spec):
    made = pod(name, schedulerName="podium", **spec)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    return made


@pytest.mark.looptime
async def test_over_http_the_victim_is_told_and_leaves_and_the_preemptor_takes_its_place(api_server):
    api_server.create(node("n1", cpu="2"))
    async with podium(api_server) as service:
        victim = api_server.create(ours("victim"))
        await until(lambda: node_of(api_server, "victim") == "n1", "the victim is bound")
        urgent = api_server.create(ours("urgent", priorityClassName="system-cluster-critical"))
        await until(lambda: bool(condition(api_server, "victim", "DisruptionTarget")), "the victim is told")
        await until(lambda: "deletionTimestamp" in api_server.get("pods", "victim")["metadata"], "the victim leaves")
        await until(lambda: bool(condition(api_server, "urgent")), "the preemptor waits")
        assert api_server.get("pods", "urgent")["status"]["nominatedNodeName"] == "n1"
        told = condition(api_server, "victim", "DisruptionTarget")
        assert (told["status"], told["reason"]) == ("True", "PreemptionByScheduler")
        assert told["message"] == "podium: preempting to accommodate a higher priority pod"
        api_server.delete("pods", "victim", grace_seconds=0)
        await until(lambda: node_of(api_server, "urgent") == "n1", "the preemptor is bound")
        registry = service.metrics.registry
        assert registry.get_sample_value("scheduler_preemption_attempts_total") == 1
        assert registry.get_sample_value("scheduler_preemption_victims_sum") == 1
        done = registry.get_sample_value("scheduler_preemption_goroutines_execution_total", {"result": "success"})
        assert done == 1
    (event,) = [each for each in events_of(api_server, "victim") if each["reason"] == "Preempted"]
    assert event["note"] == f"Preempted by pod {urgent['metadata']['uid']} on node n1"
    assert (event["action"], event["type"], event["regarding"]["uid"]) == (
        "Preempting",
        "Normal",
        victim["metadata"]["uid"],
    )
    assert event["related"]["name"] == "urgent"
