"""What only a running podium, or a cluster, can tell: backoff, binds on their way, extenders, and who is asked."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from podium.cli import main
from podium.commands import explain as command
from podium.explain.asking import _ask
from podium.explain.documents import Explanation
from podium.explain.explain import explain
from podium.explain.sources import cluster_of
from podium.http import HttpServer
from podium.page.server import PageServer
from simulator.apiserver import ApiServer
from simulator.apiserver.faults import Answer
from tests.builders import make_node, make_pod
from tests.fixtures_apiserver import node
from tests.podium.explain.asking import simulation_of
from tests.podium.explain.test_endpoints import NODE, pod
from tests.podium.extender_server import ExtenderServer, only, serving
from tests.podium.gangs import store
from tests.podium.harness import configured, podium, until
from tests.podium.test_coscheduling import coscheduling
from tests.podium.test_coscheduling import group as label_group
from tests.podium.test_coscheduling import pod as labelled

EXTENDED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{{schedulerName: podium}}]
extenders:
- urlPrefix: {url}
  filterVerb: filter
  nodeCacheCapable: true
"""


async def ask(page: PageServer, name: str) -> Explanation:
    """The explanation of one pod."""
    (found,) = await _ask(f"http://127.0.0.1:{page.port}", "default", name)
    return found


@pytest.mark.looptime
async def test_a_pod_in_backoff_says_until_when(api_server: ApiServer) -> None:
    api_server.create(NODE)
    api_server.faults.add(Answer(422, message="no"), path="/binding$", verb="create", count=1)
    async with podium(api_server) as service, PageServer(service) as page:
        api_server.create(pod("web", "1"))
        await until(lambda: service.scheduler.queue.lengths()["backoff"] == 1, "the bind failed")
        found = await ask(page, "web")
        assert found.state == "backoff"
        assert found.verdict.startswith("It fits on n1, the only node; it is in backoff after 1 failed attempt, for")
        assert found.queue is not None
        assert found.queue.backoff_until is not None
        assert found.queue.backoff_until.endswith("Z")
        assert 0 < (found.queue.backoff_seconds or 0) <= 2


@pytest.mark.looptime
async def test_a_pod_that_an_extender_refuses_says_who_and_why(api_server: ApiServer) -> None:
    api_server.create(NODE)
    async with serving(ExtenderServer(filter=only())) as extender:
        settings = configured(EXTENDED.format(url=extender.url))
        async with podium(api_server, settings) as service, PageServer(service) as page:
            api_server.create(pod("web", "1"))
            await until(lambda: len(service.scheduler.decisions) >= 1, "it was tried")
            found = await ask(page, "web")
            assert found.verdict == f"It does not fit on the only node: extender {extender.url}: not mine."
            assert found.last_decision is not None
            assert found.last_decision.message.startswith("0/1 nodes are available: 1 not mine.")
            assert found.message == "0/1 nodes are available: 1 not mine."


def test_a_pod_that_is_about_to_be_bound_is_not_judged_against_itself() -> None:
    waiting = make_pod("web", cpu="3")
    simulation = simulation_of([make_node("n1", cpu="4")], [waiting])
    info = simulation.snapshot.shapes.pod_info(waiting)
    simulation.cache.assume_pod(info.on_node("n1"), "n1")
    found = explain(cluster_of(simulation), waiting)
    assert (found.state, found.node) == ("binding", "n1")
    assert found.verdict == "A node was found for it: it is about to be bound to n1."
    assert simulation.cache.is_assumed(info.uid)
    assert simulation.cache.validate() == []


async def run(*words: str) -> int:
    """A command, in a thread: it has an event loop of its own."""
    return await asyncio.to_thread(main, [*words])


@pytest.fixture
def kubeconfig(api_server: ApiServer, tmp_path: Path) -> str:
    for each in (NODE, pod("fits", "1"), pod("large", "8")):
        api_server.create(each)
    return str(api_server.write_kubeconfig(tmp_path / "kubeconfig"))


LARGE = "It does not fit on the only node: 8 CPU requested, more than n1 has (2)."


@pytest.mark.looptime(False)
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--from-cluster",), id="told to read the cluster"),
        pytest.param((), id="where no podium answers"),
    ],
)
async def test_explain_reads_the_cluster(
    words: tuple[str, ...], kubeconfig: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "DEFAULT_SERVER", "http://127.0.0.1:1")
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    assert await run("explain", "large", *words, "-o", "json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["verdict"] == LARGE
    assert ("reading the cluster instead" in printed.err) is (not words)


@pytest.mark.looptime(False)
async def test_the_command_and_the_endpoint_give_the_same_document(
    api_server: ApiServer, kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with podium(api_server) as service, HttpServer(service, "127.0.0.1", 0) as http:
        await until(lambda: len(service.scheduler.decisions) >= 2, "both were tried")
        assert await run("explain", "large", "--server", f"http://127.0.0.1:{http.port}", "-o", "json") == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document["verdict"] == LARGE
    assert document["queue"]["pool"] == "unschedulable"
    assert document["lastDecision"]["result"] == "unschedulable"


@pytest.mark.looptime(False)
async def test_simulate_and_snapshot_read_the_cluster_and_write_nothing(
    api_server: ApiServer, kubeconfig: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = api_server.list("pods")
    assert await run("simulate", "--from-cluster", "--kubeconfig", kubeconfig, "-o", "json") == 0
    pods = {each["name"]: each["node"] for each in json.loads(capsys.readouterr().out)["pods"]}
    assert pods == {"fits": "n1", "large": None}
    dump = str(tmp_path / "dump.json.gz")
    assert await run("snapshot", "--kubeconfig", kubeconfig, "-o", dump) == 0
    assert await run("simulate", "-f", dump, "-o", "json") == 0
    assert {each["name"]: each["node"] for each in json.loads(capsys.readouterr().out)["pods"]} == pods
    assert api_server.list("pods") == before


@pytest.mark.looptime
async def test_members_by_label_say_who_holds_room_and_who_is_missing(api_server: ApiServer) -> None:
    store(api_server, node("n1", cpu="4"), label_group(minMember=4))
    store(api_server, *(labelled(f"p-{i}", "1") for i in range(2)), labelled("p-2", "1", scheduler="nobody"))
    gated = labelled("p-3", "1", schedulingGates=[{"name": "example.com/hold"}])
    async with podium(api_server, coscheduling()) as service, PageServer(service) as page:
        store(api_server, gated)
        await until(lambda: len(service.scheduler.decisions) >= 1, "they were tried")
        found = await ask(page, "p-0")
        assert found.group is not None
        assert [(m.name, m.state, m.text) for m in found.group.members][-1] == (
            "p-3", "gated", "waiting for scheduling gates: example.com/hold",
        )  # fmt: skip
        store(api_server, label_group("h", minMember=3), *(labelled(f"h-{i}", "1", of="h") for i in range(2)))
        store(api_server, labelled("h-2", "1", of="h", scheduler="nobody"))
        await until(lambda: len(service.cache.assumed) == 2, "two of three wait")
        found = await ask(page, "h-0")
        assert found.group is not None
        assert [(m.name, m.state, m.text) for m in found.group.members] == [
            ("h-2", "foreign", 'scheduler "nobody" has to place it'),
            ("h-0", "fits", "holds its room on n1 and waits for the others"),
            ("h-1", "fits", "holds its room on n1 and waits for the others"),
        ]
