"""HTTP extenders over real HTTP: filter, prioritize, preempt and bind, their errors, and what they are sent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from podium.wiring import Service
from simulator.apiserver import ApiServer
from tests.fixtures_apiserver import node, pod
from tests.podium import extender_server
from tests.podium.extender_server import ExtenderServer, only, serving
from tests.podium.harness import condition, configured, events_of, node_of, podium, until

virtual = pytest.mark.looptime

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
extenders:
"""


def extender(server: ExtenderServer, **fields: Any) -> str:
    """An entry of the configuration's list, with verbs for what the server answers."""
    verbs = {f"{verb}Verb": verb for verb in server.verbs}
    if "prioritize" in server.verbs:
        fields.setdefault("weight", 1)
    return "- " + json.dumps({"urlPrefix": server.url, "nodeCacheCapable": True, **verbs, **fields}) + "\n"


@asynccontextmanager
async def scheduling(api_server: ApiServer, *entries: str) -> AsyncIterator[Service]:
    """podium with these extenders."""
    async with podium(api_server, configured(CONFIGURATION + "".join(entries))) as service:
        yield service


def ours(name: str, cpu: str = "", **spec: Any) -> dict[str, Any]:
    """A pod that names podium."""
    made = pod(name, schedulerName="podium", **spec)
    if cpu:
        made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


async def tried(api_server: ApiServer, name: str) -> str:
    """The message of the pod's condition, once it has one."""
    await until(lambda: bool(condition(api_server, name)), f"{name} was tried")
    return str(condition(api_server, name)["message"])


async def bound(api_server: ApiServer, name: str) -> str:
    """The node of a pod, once it has one."""
    await until(lambda: bool(node_of(api_server, name)), f"{name} is bound")
    return node_of(api_server, name)


def three_nodes(api_server: ApiServer) -> None:
    """n1, n2, n3."""
    for name in ("n1", "n2", "n3"):
        api_server.create(node(name))


# --- filter ------------------------------------------------------------------------------------------------------


@virtual
@pytest.mark.parametrize(
    "node_cache_capable", [pytest.param(True, id="asked by name"), pytest.param(False, id="sent complete nodes")]
)
async def test_an_extender_decides_where_a_pod_goes(api_server: ApiServer, node_cache_capable: bool) -> None:
    three_nodes(api_server)
    async with serving(ExtenderServer(filter=only("n2"))) as server:
        entry = extender(server, nodeCacheCapable=node_cache_capable)
        async with scheduling(api_server, entry):
            api_server.create(ours("web"))
            assert await bound(api_server, "web") == "n2"
    [body] = server.bodies("filter")
    assert set(body) == {"Pod", "Nodes", "NodeNames"}
    if node_cache_capable:
        assert (body["Nodes"], sorted(body["NodeNames"])) == (None, ["n1", "n2", "n3"])
    else:
        assert body["NodeNames"] is None
        assert sorted(each["metadata"]["name"] for each in body["Nodes"]["items"]) == ["n1", "n2", "n3"]


@virtual
async def test_extenders_get_complete_objects_though_podium_reads_only_part_of_them(api_server: ApiServer) -> None:
    api_server.create(node("n1", providerID="cloud://n1"))
    made = ours("web", dnsPolicy="ClusterFirst", serviceAccountName="builder")
    made["spec"]["containers"][0]["env"] = [{"name": "COLOUR", "value": "green"}]
    async with (
        serving(ExtenderServer(filter=only("n1"))) as server,
        scheduling(api_server, extender(server, nodeCacheCapable=False)),
    ):
        api_server.create(made)
        await bound(api_server, "web")
    [body] = server.bodies("filter")
    assert body["Pod"]["spec"]["containers"][0]["env"] == [{"name": "COLOUR", "value": "green"}]
    assert body["Pod"]["spec"]["serviceAccountName"] == "builder"
    assert body["Pod"]["metadata"]["uid"] == api_server.get("pods", "web")["metadata"]["uid"]
    [sent] = body["Nodes"]["items"]
    assert sent["spec"]["providerID"] == "cloud://n1"


@virtual
async def test_a_node_that_changed_is_sent_as_it_is_now(api_server: ApiServer) -> None:
    for i in range(30):  # more than are read one by one
        api_server.create(node(f"n{i}"))
    names = [f"n{i}" for i in range(30)]
    async with (
        serving(ExtenderServer(filter=only(*names))) as server,
        scheduling(api_server, extender(server, nodeCacheCapable=False)) as service,
    ):
        api_server.create(ours("first"))
        await bound(api_server, "first")
        api_server.patch("nodes", "n7", {"spec": {"providerID": "cloud://seven"}})
        version = api_server.get("nodes", "n7")["metadata"]["resourceVersion"]
        shown = service.debugger._nodes.get
        await until(lambda: shown("n7").metadata.resource_version == version, "the informer shows it")
        before = api_server.requests
        api_server.create(ours("second"))
        await bound(api_server, "second")
        assert api_server.requests - before < 10, "nodes that did not change are not read again"
    sent = {each["metadata"]["name"]: each for each in server.bodies("filter")[1]["Nodes"]["items"]}
    assert len(sent) == 30
    assert sent["n7"]["spec"]["providerID"] == "cloud://seven"


def failing(body: Any) -> web.Response:
    """An answer that is none."""
    return web.Response(status=500, text="out of order")


@virtual
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(
            lambda body: {"NodeNames": [], "FailedNodes": {"n1": "no licence", "n2": "no licence"}},
            "0/3 nodes are available: 2 no licence. ",
            id="failed nodes are counted by their reasons, nodes left out silently by none",
        ),
        pytest.param(
            lambda body: {
                "NodeNames": None,
                "FailedNodes": {"n1": "busy", "n2": "busy"},
                "FailedAndUnresolvableNodes": {"n1": "gone for good"},
            },
            "0/3 nodes are available: 1 busy, 1 gone for good. ",
            id="a null list leaves nothing, and unresolvable beats failed",
        ),
        pytest.param(lambda body: {"NodeNames": []}, "0/3 nodes are available: ", id="left out without a word"),
        pytest.param(
            lambda body: {"nodenames": [], "failednodes": dict.fromkeys(body["NodeNames"], "lower")},
            "0/3 nodes are available: 3 lower. ",
            id="keys are read whatever their case",
        ),
    ],
)
async def test_a_pod_that_no_extender_wants_waits_and_any_event_wakes_it(
    api_server: ApiServer, answer: Any, message: str
) -> None:
    three_nodes(api_server)
    async with serving(ExtenderServer(filter=answer)) as server, scheduling(api_server, extender(server)) as service:
        api_server.create(ours("web"))
        assert (await tried(api_server, "web")).startswith(message)
        assert condition(api_server, "web")["reason"] == "Unschedulable"
        [(item, pool)] = service.scheduler.queue.pending_pods()
        assert (item.unschedulable_plugins, pool) == ({"Extender"}, "unschedulable")
        server.verbs["filter"] = only("n3")
        api_server.patch("nodes", "n1", {"metadata": {"annotations": {"any": "change"}}})
        assert await bound(api_server, "web") == "n3"


@virtual
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(failing, "answered with code 500", id="a status other than 200"),
        pytest.param(lambda body: web.Response(status=302, headers={"Location": "/ext/x"}), "302", id="a redirect"),
        pytest.param(lambda body: {"Error": "licence server is down"}, "licence server is down", id="its own error"),
        pytest.param(
            lambda body: {"NodeNames": ["n1", "elsewhere"]},
            'claims a filtered node "elsewhere" which is not found in the input node list',
            id="a node that was not sent",
        ),
        pytest.param(lambda body: web.Response(text="<html>"), "answered no JSON", id="an answer that is no JSON"),
        pytest.param(lambda body: [1], "expected a JSON object", id="an answer of another shape"),
        pytest.param(lambda body: {"NodeNames": 7}, "expected NodeNames to be a list", id="names that are no list"),
    ],
)
async def test_an_extenders_error_fails_the_attempt_and_the_pod_is_retried(
    api_server: ApiServer, answer: Any, message: str
) -> None:
    three_nodes(api_server)
    async with serving(ExtenderServer(filter=answer)) as server, scheduling(api_server, extender(server)):
        api_server.create(ours("web"))
        said = await tried(api_server, "web")
        assert said.startswith("extender http://127.0.0.1:")
        assert message in said
        assert condition(api_server, "web")["reason"] == "SchedulerError"
        server.verbs["filter"] = only("n1")
        assert await bound(api_server, "web") == "n1"


@virtual
async def test_an_extender_that_does_not_answer_in_time_is_an_error(api_server: ApiServer) -> None:
    three_nodes(api_server)
    async with serving(ExtenderServer(filter=only("n1"))) as server:
        server.delay = 60.0
        async with scheduling(api_server, extender(server, httpTimeout="2s")):
            api_server.create(ours("web"))
            assert "did not answer in time" in await tried(api_server, "web")
            server.delay = 0.0
            assert await bound(api_server, "web") == "n1"


@virtual
async def test_an_ignorable_extender_is_asked_last_and_its_failure_costs_nothing(api_server: ApiServer) -> None:
    three_nodes(api_server)
    async with (
        serving(ExtenderServer(filter=failing)) as broken,
        serving(ExtenderServer(filter=only("n3"))) as sound,
        scheduling(api_server, extender(broken, ignorable=True), extender(sound)),
    ):
        api_server.create(ours("web"))
        assert await bound(api_server, "web") == "n3"
    assert broken.bodies("filter")[0]["NodeNames"] == ["n3"]


@virtual
async def test_only_pods_that_ask_for_a_managed_resource_are_sent(api_server: ApiServer) -> None:
    for name in ("n1", "n2"):
        made = node(name)
        made["status"]["allocatable"] = made["status"]["capacity"] = {
            **made["status"]["capacity"],
            "example.com/fpga": "4",
        }
        api_server.create(made)
    wants = ours("wants")
    wants["spec"]["containers"][0]["resources"] = {
        "requests": {"example.com/fpga": "1"},
        "limits": {"example.com/fpga": "1"},
    }
    async with serving(ExtenderServer(filter=only("n2"))) as server:
        entry = extender(server, managedResources=[{"name": "example.com/fpga"}])
        async with scheduling(api_server, entry):
            api_server.create(ours("plain"))
            await bound(api_server, "plain")
            assert server.asked == []
            api_server.create(wants)
            assert await bound(api_server, "wants") == "n2"
            assert len(server.asked) == 1


# --- prioritize --------------------------------------------------------------------------------------------------


@virtual
async def test_scores_are_weighted_and_brought_to_the_range_of_the_plugins(api_server: ApiServer) -> None:
    """By the plugins the empty n1 leads by some 50 points; 10 of 10 are 100 there, one is 10."""
    api_server.create(node("n1"))
    api_server.create(node("n2"))
    api_server.create(ours("load", cpu="2", nodeName="n2"))
    async with (
        serving(ExtenderServer(prioritize=lambda body: [{"Host": "n2", "Score": 10}])) as server,
        scheduling(api_server, extender(server, weight=1)) as service,
    ):
        api_server.create(ours("web"))
        assert await bound(api_server, "web") == "n2"
        assert sorted(server.bodies("prioritize")[0]["NodeNames"]) == ["n1", "n2"]
        assert len(service.scheduler.decisions) == 1


@virtual
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(failing, id="an error"),
        pytest.param(lambda body: None, id="null"),
        pytest.param(lambda body: [{"Host": "nowhere", "Score": 10}], id="an unknown host"),
        pytest.param(lambda body: [{"Host": "n2", "Score": "much"}], id="a score that is no number"),
    ],
)
async def test_what_cannot_be_used_of_an_extenders_scores_is_left_out(api_server: ApiServer, answer: Any) -> None:
    api_server.create(node("n1"))
    api_server.create(node("n2"))
    api_server.create(ours("load", cpu="2", nodeName="n2"))
    async with serving(ExtenderServer(prioritize=answer)) as server, scheduling(api_server, extender(server)):
        api_server.create(ours("web"))
        assert await bound(api_server, "web") == "n1"


@virtual
async def test_one_feasible_node_is_taken_without_scores(api_server: ApiServer) -> None:
    api_server.create(node("n1"))
    async with serving(ExtenderServer(prioritize=lambda body: [])) as server, scheduling(api_server, extender(server)):
        api_server.create(ours("web"))
        await bound(api_server, "web")
    assert server.asked == []


# --- preempt -----------------------------------------------------------------------------------------------------


@virtual
@pytest.mark.parametrize("node_cache_capable", [pytest.param(True, id="UIDs"), pytest.param(False, id="whole pods")])
async def test_an_extender_takes_a_candidate_of_a_preemption_away(
    api_server: ApiServer, node_cache_capable: bool
) -> None:
    """By the rules n1 would be chosen: its victim's priority is lower."""

    def preempt(body: Any) -> Any:
        form = body["NodeNameToMetaVictims"] or body["NodeNameToVictims"]
        uids = [each.get("UID") or each["metadata"]["uid"] for each in form["n2"]["Pods"]]
        return {"NodeNameToMetaVictims": {"n2": {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}}}

    metadata = {"name": "more"}
    api_server.create({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": 1})
    for name, extra in (("n1", {}), ("n2", {"priorityClassName": "more"})):
        api_server.create(node(name, cpu="1"))
        api_server.create(ours(f"victim-{name}", cpu="900m", nodeName=name, **extra))
    async with (
        serving(ExtenderServer(preempt=preempt)) as server,
        scheduling(api_server, extender(server, nodeCacheCapable=node_cache_capable)),
    ):
        api_server.create(ours("urgent", cpu="900m", priorityClassName="system-cluster-critical"))
        await until(
            lambda: api_server.get("pods", "urgent")["status"].get("nominatedNodeName") == "n2", "n2 is nominated"
        )
        await until(lambda: "deletionTimestamp" in api_server.get("pods", "victim-n2")["metadata"], "its victim leaves")
        assert "deletionTimestamp" not in api_server.get("pods", "victim-n1")["metadata"]
    [body] = server.bodies("preempt")
    assert set(body) == {"Pod", "NodeNameToVictims", "NodeNameToMetaVictims"}
    form = body["NodeNameToMetaVictims" if node_cache_capable else "NodeNameToVictims"]
    assert {name: len(each["Pods"]) for name, each in form.items()} == {"n1": 1, "n2": 1}


@virtual
async def test_an_extender_that_names_a_pod_which_is_not_there_ends_the_preemption(api_server: ApiServer) -> None:
    api_server.create(node("n1", cpu="1"))
    api_server.create(ours("victim", cpu="900m", nodeName="n1"))
    wrong = {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "nobody"}], "NumPDBViolations": 0}}}
    async with serving(ExtenderServer(preempt=lambda body: wrong)) as server, scheduling(api_server, extender(server)):
        api_server.create(ours("urgent", cpu="900m", priorityClassName="system-cluster-critical"))
        assert "claims to preempt pod (UID: nobody)" in await tried(api_server, "urgent")
        assert "deletionTimestamp" not in api_server.get("pods", "victim")["metadata"]


# --- bind --------------------------------------------------------------------------------------------------------


@virtual
async def test_an_extender_binds_in_place_of_the_plugins(api_server: ApiServer) -> None:
    api_server.create(node("n1"))

    def bind(body: Any) -> Any:
        api_server.bind(body["PodName"], body["Node"], body["PodNamespace"])
        return {"Error": ""}

    async with serving(ExtenderServer(bind=bind)) as server, scheduling(api_server, extender(server)) as service:
        api_server.create(ours("web"))
        assert await bound(api_server, "web") == "n1"
        await service.recorder.flush()
        assert [event["reason"] for event in events_of(api_server, "web")] == ["Scheduled"]
    uid = api_server.get("pods", "web")["metadata"]["uid"]
    assert server.bodies("bind") == [{"PodName": "web", "PodNamespace": "default", "PodUID": uid, "Node": "n1"}]


@virtual
async def test_a_bind_of_which_the_answer_was_lost_counts_as_done(api_server: ApiServer) -> None:
    api_server.create(node("n1"))

    def bind(body: Any) -> Any:
        api_server.bind(body["PodName"], body["Node"], body["PodNamespace"])
        return failing(body)

    async with serving(ExtenderServer(bind=bind)) as server, scheduling(api_server, extender(server)) as service:
        api_server.create(ours("web"))
        await bound(api_server, "web")
        await until(lambda: service.scheduler.idle, "nothing is in flight")
        assert service.metrics.schedule_attempts.labels("scheduled", "podium")._value.get() == 1
    assert len(server.asked) == 1


@virtual
@pytest.mark.parametrize("ignorable", [pytest.param(True, id="ignorable"), pytest.param(False, id="not ignorable")])
async def test_where_an_extender_cannot_bind_the_plugins_do_only_if_it_does_not_matter(
    api_server: ApiServer, ignorable: bool
) -> None:
    api_server.create(node("n1"))
    async with (
        serving(ExtenderServer(bind=lambda body: {"Error": "no hands free"})) as server,
        scheduling(api_server, extender(server, ignorable=ignorable)),
    ):
        api_server.create(ours("web"))
        if ignorable:
            assert await bound(api_server, "web") == "n1"
        else:
            assert "no hands free" in await tried(api_server, "web")
            assert node_of(api_server, "web") == ""


# --- the world goes on while an extender thinks --------------------------------------------------------------------


@virtual
async def test_the_chosen_node_is_looked_at_again_after_the_extenders_were_asked(api_server: ApiServer) -> None:
    """While it thinks n1 goes, n2 is filled, a new node takes n1's row; the extender's word about n3 still counts."""
    three_nodes(api_server)
    async with serving(ExtenderServer(filter=only("n1", "n2", "n3"), prioritize=lambda body: [])) as server:
        server.delay = 1.0
        async with scheduling(api_server, extender(server)) as service:
            api_server.create(ours("web", cpu="3"))
            await until(lambda: bool(server.asked), "the extender is asked")
            api_server.delete("nodes", "n1")
            api_server.create(node("new"))
            api_server.create(ours("load", cpu="3", nodeName="n2"))
            assert await bound(api_server, "web") == "n3"
            assert [decision.result for decision in service.scheduler.decisions] == ["scheduled"]
            assert service.metrics.schedule_attempts.labels("error", "podium")._value.get() == 0
            assert service.metrics.bind_rechecks._value.get() == 0


@virtual
async def test_a_pod_that_goes_away_while_an_extender_thinks_is_forgotten(api_server: ApiServer) -> None:
    three_nodes(api_server)
    async with serving(ExtenderServer(filter=only("n1"))) as server:
        server.delay = 1.0
        async with scheduling(api_server, extender(server)) as service:
            api_server.create(ours("gone"))
            api_server.create(ours("theirs"))
            await until(lambda: len(server.asked) == 1, "the extender is asked about the first")
            api_server.delete("pods", "gone", grace_seconds=0)
            await until(lambda: len(server.asked) == 2, "the extender is asked about the second")
            api_server.bind("theirs", "n3")
            await until(lambda: service.scheduler.idle, "nothing is in flight")
            assert node_of(api_server, "theirs") == "n3"
            assert list(service.cache.assumed) == []
            assert service.scheduler.queue.pending_pods() == []


# --- a process of its own ----------------------------------------------------------------------------------------


@contextmanager
def process(folder: Path, *certificates: Path) -> Iterator[str]:
    """The URL of an extender that runs elsewhere, and prefers n2."""
    port_file = folder / "url"
    command = [sys.executable, extender_server.__file__, str(port_file), *map(str, certificates)]
    running = subprocess.Popen(command, env={**os.environ, "PYTHONWARNINGS": ""})
    try:
        while not port_file.exists():
            assert running.poll() is None
            running_for_a_moment()
        yield port_file.read_text()
    finally:
        running.terminate()
        running.wait(10)


def running_for_a_moment() -> None:
    """Give another process the time to start."""
    os.sched_yield()


async def test_an_extender_process(api_server: ApiServer, tmp_path: Path) -> None:
    three_nodes(api_server)
    with process(tmp_path) as url:
        entry = {"urlPrefix": url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1}
        async with scheduling(api_server, "- " + json.dumps(entry) + "\n"):
            api_server.create(ours("web"))
            assert await bound(api_server, "web") == "n2"


@pytest.mark.parametrize(
    "trusted", [pytest.param(True, id="whose CA is known"), pytest.param(False, id="whose CA is another")]
)
async def test_an_extender_process_over_tls_with_client_certificates(
    api_server: ApiServer, tmp_path: Path, trusted: bool
) -> None:
    three_nodes(api_server)
    authority, other = trustme.CA(), trustme.CA()
    server, client = tmp_path / "server.pem", tmp_path / "client.pem"
    for path, name in ((server, "extender.example"), (client, "podium.example")):
        certificate = authority.issue_cert(name)
        path.write_bytes(certificate.private_key_and_cert_chain_pem.bytes())
    for path, each in ((tmp_path / "ca.pem", authority), (tmp_path / "other.pem", other)):
        each.cert_pem.write_to_path(path)
    with process(tmp_path, server, tmp_path / "ca.pem") as url:
        text = textwrap.dedent(f"""
        - urlPrefix: {url}
          filterVerb: filter
          enableHTTPS: true
          tlsConfig:
            serverName: extender.example
            caFile: {tmp_path / ("ca.pem" if trusted else "other.pem")}
            certFile: {client}
            keyFile: {client}
        """)
        async with scheduling(api_server, text):
            api_server.create(ours("web"))
            if trusted:
                assert await bound(api_server, "web") == "n2"
            else:
                assert "CERTIFICATE_VERIFY_FAILED" in await tried(api_server, "web")
