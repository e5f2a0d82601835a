"""What a hollow kubelet does with pods, rule by rule, in virtual time: admission, ends, restarts, stopping, failing."""

import asyncio

import pytest

from simulator.apiserver import ApiServer
from simulator.kubelet.hollow import HollowKubelet
from tests.fixtures_apiserver import node, pod
from tests.simulator.virtual import virtual_clock

pytestmark = pytest.mark.looptime


@pytest.fixture
def server():
    server = ApiServer(clock=virtual_clock())
    server.create(node("n1", cpu="2", memory="4Gi", pods="3"))
    return server


@pytest.fixture
async def kubelet(server):
    kubelet = HollowKubelet(server, start_delay=1.0, stop_delay=5.0)
    kubelet.start()
    yield kubelet
    kubelet.stop()


def a_pod(name, *, cpu="100m", memory="0", annotations=None, ports=(), **spec):
    made = pod(name, nodeName="n1", **spec)
    container = made["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": cpu, "memory": memory}}
    container["ports"] = [{"containerPort": 80, "hostPort": port} for port in ports]
    made["metadata"]["annotations"] = annotations or {}
    return made


def status(server, name="p"):
    return server.get("pods", name)["status"]


def container(server, name="p"):
    return status(server, name)["containerStatuses"][0]


@pytest.mark.parametrize(
    ("running", "new", "reason"),
    [
        pytest.param([], a_pod("p", cpu="2"), "", id="a pod that just fits"),
        pytest.param([a_pod("q", cpu="1500m")], a_pod("p", cpu="501m"), "OutOfcpu", id="too much cpu"),
        pytest.param([a_pod("q", memory="4Gi")], a_pod("p", memory="1"), "OutOfmemory", id="too much memory"),
        pytest.param([a_pod(n) for n in "qrs"], a_pod("p"), "OutOfpods", id="too many pods"),
        pytest.param([], a_pod("p", nodeSelector={"disk": "ssd"}), "NodeAffinity", id="not the node it wants"),
        pytest.param([a_pod("q", ports=[80])], a_pod("p", ports=[80]), "NodePorts", id="a host port that is taken"),
        pytest.param([a_pod("q", ports=[80])], a_pod("p", ports=[81]), "", id="another host port"),
    ],
)
async def test_admission(server, kubelet, running, new, reason):
    for one in running:
        server.create(one)
    server.create(new)
    await asyncio.sleep(2)
    got = status(server)
    assert (got["phase"], got.get("reason", "")) == (("Failed", reason) if reason else ("Running", ""))


async def test_what_an_ended_pod_took_is_free_again(server, kubelet):
    server.create(a_pod("q", cpu="2", restartPolicy="Never", annotations={"podium.io/run-seconds": "10"}))
    await asyncio.sleep(20)
    server.create(a_pod("p", cpu="2"))
    await asyncio.sleep(2)
    assert (status(server, "q")["phase"], status(server)["phase"]) == ("Succeeded", "Running")


@pytest.mark.parametrize(
    ("policy", "code", "phase", "restarts"),
    [
        pytest.param("Never", "0", "Succeeded", 0, id="Never, and it did well"),
        pytest.param("Never", "3", "Failed", 0, id="Never, and it failed"),
        pytest.param("OnFailure", "0", "Succeeded", 0, id="OnFailure, and it did well"),
        pytest.param("OnFailure", "3", "Running", 4, id="OnFailure, and it failed: again and again"),
        pytest.param("Always", "0", "Running", 4, id="Always: again and again"),
    ],
)
async def test_how_a_pod_ends(server, kubelet, policy, code, phase, restarts):
    annotations = {"podium.io/run-seconds": "10", "podium.io/exit-code": code}
    server.create(a_pod("p", restartPolicy=policy, annotations=annotations))
    # Runs from 1, 11 (at once), 31 (10 s later), 61 (20 s later), 111 (40 s later).
    await asyncio.sleep(115)
    assert (status(server)["phase"], container(server)["restartCount"]) == (phase, restarts)
    conditions = {c["type"]: c["status"] for c in status(server)["conditions"]}
    assert conditions["Ready"] == ("True" if phase == "Running" else "False")
    ended = container(server)["lastState" if restarts else "state"]["terminated"]
    assert ended["exitCode"] == int(code)


async def test_between_restarts_a_container_waits_in_crash_loop_back_off(server, kubelet):
    annotations = {"podium.io/run-seconds": "10", "podium.io/exit-code": "1"}
    server.create(a_pod("p", annotations=annotations))
    await asyncio.sleep(25)
    assert container(server)["state"] == {"waiting": {"reason": "CrashLoopBackOff"}}
    assert status(server)["phase"] == "Running"


@pytest.mark.parametrize(
    ("grace", "stop", "seconds", "code"),
    [
        pytest.param(30, None, 5, 0, id="it stops by itself within its grace period"),
        pytest.param(2, None, 2, 137, id="it is killed when the grace period is over"),
        pytest.param(30, "12", 12, 0, id="it says how long it takes"),
    ],
)
async def test_a_pod_stops(server, kubelet, grace, stop, seconds, code):
    codes = []

    def on_pod(event):
        for one in event.revision.obj["status"].get("containerStatuses", ()):
            codes.extend([one["state"]["terminated"]["exitCode"]] if "terminated" in one["state"] else [])

    server.store.listen("pods", on_pod)
    server.create(a_pod("p", annotations={"podium.io/stop-seconds": stop} if stop else None))
    await asyncio.sleep(5)
    server.delete("pods", "p", grace_seconds=grace)
    await asyncio.sleep(seconds - 0.1)
    assert len(server.list("pods")) == 1
    await asyncio.sleep(0.2)
    assert (server.list("pods"), set(codes)) == ([], {code})


async def test_a_second_deletion_shortens_the_grace(server, kubelet):
    server.create(a_pod("p", annotations={"podium.io/stop-seconds": "100"}))
    await asyncio.sleep(5)
    server.delete("pods", "p", grace_seconds=60)
    await asyncio.sleep(10)
    server.delete("pods", "p", grace_seconds=3)
    await asyncio.sleep(3.1)
    assert server.list("pods") == []


async def test_a_pod_becomes_ready_once_its_readiness_gates_are_open(server, kubelet):
    server.create(a_pod("p", readinessGates=[{"conditionType": "example.com/load-balanced"}]))
    await asyncio.sleep(5)
    ready = [c for c in status(server)["conditions"] if c["type"] == "Ready"]
    assert (ready[0]["status"], ready[0]["reason"]) == ("False", "ReadinessGatesNotReady")
    gate = {"type": "example.com/load-balanced", "status": "True"}
    server.patch("pods", "p", {"status": {"conditions": [gate]}}, status=True)
    await asyncio.sleep(1)
    assert [c["status"] for c in status(server)["conditions"] if c["type"] == "Ready"] == ["True"]


async def test_a_failed_node_does_nothing_until_it_is_back(server, kubelet):
    server.create(a_pod("old"))
    await asyncio.sleep(5)
    kubelet.fail("n1")
    server.create(a_pod("new"))
    server.delete("pods", "old")
    await asyncio.sleep(600)
    assert status(server, "new")["phase"] == "Pending"
    assert "deletionTimestamp" in server.get("pods", "old")["metadata"]
    kubelet.recover("n1")
    await asyncio.sleep(6)
    assert [one["metadata"]["name"] for one in server.list("pods")] == ["new"]
    assert status(server, "new")["phase"] == "Running"


async def test_a_pod_that_was_forced_away_while_its_node_had_failed_leaves_nothing_behind(server, kubelet):
    server.create(a_pod("p", cpu="2"))
    await asyncio.sleep(5)
    kubelet.fail("n1")
    server.delete("pods", "p", grace_seconds=0)
    server.create(a_pod("next", cpu="2"))
    kubelet.recover("n1")
    await asyncio.sleep(5)
    assert status(server, "next")["phase"] == "Running"


async def test_init_containers_are_done_once_the_pod_runs(server, kubelet):
    server.create(a_pod("p", initContainers=[{"name": "setup", "image": "setup:1"}]))
    await asyncio.sleep(2)
    (setup,) = status(server)["initContainerStatuses"]
    assert setup["state"]["terminated"]["reason"] == "Completed"


async def test_leases_are_renewed_and_a_status_posted_in_time(server):
    kubelet = HollowKubelet(server, heartbeat=10.0, status_interval=300.0)
    kubelet.start()
    leases, statuses = [], []
    server.store.listen("leases.coordination.k8s.io", leases.append)
    server.store.listen("nodes", statuses.append)
    await asyncio.sleep(3000)
    kubelet.stop()
    assert 300 <= len(leases) <= 302
    assert 10 <= len(statuses) <= 12


# --- deadlines -----------------------------------------------------------------------------------------------------


async def test_a_pod_that_runs_for_longer_than_it_may_is_stopped_and_failed(server, kubelet):
    server.create(a_pod("p", activeDeadlineSeconds=60))
    await asyncio.sleep(59)
    assert status(server)["phase"] == "Running"
    await asyncio.sleep(8)
    found = status(server)
    assert (found["phase"], found["reason"]) == ("Failed", "DeadlineExceeded")
    assert "terminated" in container(server)["state"]
    server.create(a_pod("q", cpu="2"))
    await asyncio.sleep(2)
    assert status(server, "q")["phase"] == "Running", "its room is free again"
    server.delete("pods", "p")
    await asyncio.sleep(40)
    assert [one["metadata"]["name"] for one in server.list("pods")] == ["q"]


async def test_a_deadline_may_be_set_while_the_pod_runs(server, kubelet):
    server.create(a_pod("p"))
    await asyncio.sleep(100)
    server.patch("pods", "p", {"spec": {"activeDeadlineSeconds": 30}})
    await asyncio.sleep(10)
    assert status(server)["reason"] == "DeadlineExceeded"


async def test_a_kubelet_that_starts_again_gives_no_address_twice(server, kubelet):
    server.create(a_pod("old"))
    await asyncio.sleep(2)
    kubelet.stop()
    again = HollowKubelet(server)
    again.start()
    server.create(a_pod("new"))
    await asyncio.sleep(2)
    assert status(server, "old")["podIP"] == "10.128.0.1"
    assert status(server, "new")["podIP"] == "10.128.0.2"
    again.stop()
