"""podium end to end over real HTTP: from the first list to the bind, in virtual time."""

from __future__ import annotations

import aiohttp
import pytest

from podium.http import HttpServer, PortError
from simulator.apiserver import ApiServer
from simulator.apiserver.faults import Answer
from tests.fixtures_apiserver import node, pod
from tests.podium.harness import condition, configured, events_of, node_of, podium, until

pytestmark = pytest.mark.looptime


def ours(name: str, cpu: str = "", **spec: object) -> dict[str, object]:
    """A pod that names podium."""
    made = pod(name, schedulerName="podium", **spec)
    if cpu:
        made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


async def test_a_pod_that_names_podium_is_bound_to_the_node_that_fits(api_server: ApiServer) -> None:
    api_server.create(node("small", cpu="1"))
    api_server.create(node("large", cpu="8"))
    async with podium(api_server):
        api_server.create(ours("web", cpu="4"))
        await until(lambda: node_of(api_server, "web") == "large", "web is bound to large")
        assert condition(api_server, "web")["status"] == "True"


async def test_pods_that_were_pending_before_the_start_are_bound_in_order_of_priority(api_server: ApiServer) -> None:
    api_server.create(node("n1", cpu="1"))
    api_server.create(ours("low", cpu="800m"))
    api_server.create(ours("high", cpu="800m", priorityClassName="system-cluster-critical"))
    async with podium(api_server) as service:
        await until(lambda: bool(condition(api_server, "low")), "low was tried")
        assert node_of(api_server, "high") == "n1"
        assert node_of(api_server, "low") == ""
        assert service.scheduler.queue.lengths()["unschedulable"] == 1


async def test_the_pods_of_other_schedulers_are_left_alone_but_their_room_is_counted(api_server: ApiServer) -> None:
    api_server.create(node("n1", cpu="1"))
    api_server.create(pod("theirs"))
    async with podium(api_server) as service:
        api_server.create(ours("mine", cpu="950m"))
        await until(lambda: node_of(api_server, "mine") == "n1", "mine is bound while theirs waits")
        api_server.delete("pods", "mine", grace_seconds=0)
        api_server.bind("theirs", "n1")
        await until(lambda: len(service.cache.pods) == 1, "theirs is counted")
        api_server.create(ours("mine-again", cpu="950m"))
        await until(lambda: bool(condition(api_server, "mine-again")), "mine-again was tried")
        assert node_of(api_server, "mine-again") == ""


async def test_a_pod_that_fits_nowhere_gets_the_full_text_as_condition_and_event(api_server: ApiServer) -> None:
    api_server.create(node("n1", cpu="1"))
    api_server.create(node("n2", cpu="1", unschedulable=True))
    async with podium(api_server) as service:
        api_server.create(ours("big", cpu="4"))
        await until(lambda: bool(condition(api_server, "big")), "big has a condition")
        await service.recorder.flush()
        said = condition(api_server, "big")
        text = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
        assert (said["status"], said["reason"]) == ("False", "Unschedulable")
        assert said["message"].startswith(text)
        [event] = events_of(api_server, "big")
        assert (event["reason"], event["type"], event["action"]) == ("FailedScheduling", "Warning", "Scheduling")
        assert event["note"].startswith(text)
        assert event["reportingController"] == "podium"


async def test_a_bound_pod_gets_a_scheduled_event(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    async with podium(api_server) as service:
        api_server.create(ours("web"))
        await until(lambda: node_of(api_server, "web") == "n1", "web is bound")
        await service.recorder.flush()
        [event] = events_of(api_server, "web")
        assert (event["reason"], event["action"]) == ("Scheduled", "Binding")
        assert event["note"] == "Successfully assigned default/web to n1"


async def test_a_pending_pod_is_bound_when_a_node_that_fits_appears(api_server: ApiServer) -> None:
    async with podium(api_server):
        api_server.create(ours("web"))
        api_server.create(node("late"))
        await until(lambda: node_of(api_server, "web") == "late", "web is bound to the late node")


async def test_a_pending_pod_is_bound_when_another_pod_leaves(api_server: ApiServer) -> None:
    api_server.create(node("n1", cpu="1"))
    async with podium(api_server):
        api_server.create(ours("first", cpu="800m"))
        await until(lambda: node_of(api_server, "first") == "n1", "first is bound")
        api_server.create(ours("second", cpu="800m"))
        await until(lambda: bool(condition(api_server, "second")), "second was tried")
        api_server.delete("pods", "first", grace_seconds=0)
        await until(lambda: node_of(api_server, "second") == "n1", "second takes its place")


async def test_a_gated_pod_is_not_tried_until_its_gates_are_gone(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    async with podium(api_server) as service:
        api_server.create(ours("held", schedulingGates=[{"name": "example.com/hold"}]))
        await until(lambda: service.scheduler.queue.lengths()["gated"] == 1, "held is gated")
        assert condition(api_server, "held")["reason"] == "SchedulingGated"
        api_server.patch("pods", "held", {"spec": {"schedulingGates": None}})
        await until(lambda: node_of(api_server, "held") == "n1", "held is bound")


async def test_the_gauges_say_in_which_pool_each_pending_pod_is(api_server: ApiServer) -> None:
    api_server.create(node("n1", cpu="1"))
    async with podium(api_server) as service:
        api_server.create(pod("gated", schedulerName="podium", schedulingGates=[{"name": "later"}]))
        for i in range(2):
            big = pod(f"big-{i}", schedulerName="podium")
            big["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "9"}}
            api_server.create(big)
        await until(lambda: bool(condition(api_server, "big-1")), "they were refused")
        forbidden = api_server.faults.add(Answer(500), path="/binding$", count=None)
        api_server.create(pod("fails", schedulerName="podium"))
        await until(lambda: forbidden.hits > 3, "its bind fails again and again")
        await until(lambda: service.scheduler.queue.lengths()["backoff"] == 1, "it waits for its backoff")
        service.scheduler.update_gauges()
        sample = service.metrics.registry.get_sample_value
        pools = ("active", "backoff", "unschedulable", "gated")
        assert [sample("scheduler_pending_pods", {"queue": pool}) for pool in pools] == [0, 1, 2, 1]


async def test_each_profile_schedules_the_pods_that_name_it(api_server: ApiServer) -> None:
    text = """
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    leaderElection: {leaderElect: false}
    profiles:
    - schedulerName: spread
    - schedulerName: pack
      pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
    """
    api_server.create(node("empty", cpu="8"))
    api_server.create(node("used", cpu="8"))
    load = ours("load", cpu="2", nodeName="used")
    load["spec"]["containers"][0]["resources"]["requests"]["memory"] = "4Gi"
    api_server.create(load)
    async with podium(api_server, configured(text)):
        for name in ("spread", "pack"):
            made = ours(f"by-{name}", cpu="1")
            made["spec"]["schedulerName"] = name
            api_server.create(made)
        await until(lambda: all(node_of(api_server, f"by-{name}") for name in ("spread", "pack")), "both are bound")
        assert node_of(api_server, "by-spread") == "empty"
        assert node_of(api_server, "by-pack") == "used"


async def test_the_endpoints_of_a_running_service(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    async with podium(api_server) as service, HttpServer(service, "127.0.0.1", 0) as endpoints:
        api_server.create(ours("web"))
        await until(lambda: node_of(api_server, "web") == "n1", "web is bound")
        async with aiohttp.ClientSession(f"http://127.0.0.1:{endpoints.port}") as http:
            for path in ("/healthz", "/livez", "/readyz"):
                async with http.get(path) as answer:
                    assert (answer.status, await answer.text()) == (200, "ok")
            async with http.get("/metrics") as answer:
                text = await answer.text()
            async with http.get("/configz") as answer:
                configuration = await answer.json()
        assert 'scheduler_schedule_attempts_total{profile="podium",result="scheduled"} 1.0' in text
        assert 'scheduler_pending_pods{queue="active"} 0.0' in text
        assert 'scheduler_cache_size{type="nodes"} 1.0' in text
        labels = 'extension_point="Filter",plugin="NodeResourcesFit",profile="podium"'
        assert f"scheduler_plugin_evaluation_total{{{labels}}} 1.0" in text
        assert configuration["componentconfig"]["profiles"][0]["schedulerName"] == "podium"


async def test_a_port_in_use_is_one_clear_line(api_server: ApiServer) -> None:
    async with podium(api_server) as service, HttpServer(service, "127.0.0.1", 0) as first:
        with pytest.raises(PortError, match=f"cannot listen on 127.0.0.1:{first.port}: "):
            await HttpServer(service, "127.0.0.1", first.port).__aenter__()


async def test_the_leader_schedules_and_the_standby_takes_over_when_it_stops(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    async with podium(api_server, leader_elect=True, identity="one") as one:
        await until(lambda: one.elector is not None and one.elector.is_leader, "one leads")
        async with podium(api_server, leader_elect=True, identity="two") as two:
            api_server.create(ours("first"))
            await until(lambda: node_of(api_server, "first") == "n1", "first is bound")
            assert len(two.scheduler.decisions) == 0
            one.stop()
            await until(lambda: two.elector is not None and two.elector.is_leader, "two leads")
            api_server.create(ours("second"))
            await until(lambda: node_of(api_server, "second") == "n1", "second is bound")
            assert [d.name for d in two.scheduler.decisions] == ["second"]
