"""Jobs in virtual time, from the first pod to the condition that ends them."""

import asyncio
from itertools import pairwise

import pytest

from simulator.cluster import Cluster, make_node_template
from simulator.controllers.job_tally import INDEX
from tests.simulator.virtual import job, names, template

pytestmark = pytest.mark.looptime


def running(code="0", seconds="30", **spec):
    annotations = {"podium.io/run-seconds": seconds, "podium.io/exit-code": code}
    return template("work", annotations=annotations, **{"restartPolicy": "Never", **spec})


async def finished(cluster, body, seconds=3600):
    """The Job's status once it has ended, and the most pods that were active at once."""
    cluster.add_nodes(make_node_template(), 2)
    cluster.server.create(body)
    most = 0
    for _ in range(seconds):
        await asyncio.sleep(1)
        status = cluster.server.get("jobs.batch", "j")["status"]
        most = max(most, status.get("active", 0))
        if any(c["type"] in ("Complete", "Failed") for c in status.get("conditions", ())):
            break
    return status, most


@pytest.mark.parametrize(
    ("spec", "succeeded", "most"),
    [
        pytest.param({}, 1, 1, id="by default one pod runs once"),
        pytest.param({"completions": 5, "parallelism": 2}, 5, 2, id="five in all, two at a time"),
        pytest.param({"completions": 2, "parallelism": 9}, 2, 2, id="never more at a time than are still needed"),
        pytest.param({"parallelism": 3}, 3, 3, id="without completions the first success ends it, all may finish"),
        pytest.param({"completions": 4, "parallelism": 4, "completionMode": "Indexed"}, 4, 4, id="indexed"),
    ],
)
async def test_a_job_completes(cluster: Cluster, spec, succeeded, most):
    status, active = await finished(cluster, job("j", running(), **spec))
    assert (status["conditions"][-1]["type"], status["succeeded"], active) == ("Complete", succeeded, most)
    assert status["completionTime"] > status["startTime"]
    assert status.get("completedIndexes", "0-3") == "0-3"
    assert all("finalizers" not in pod["metadata"] for pod in cluster.server.list("pods"))


async def test_a_job_gives_up_after_its_backoff_limit(cluster: Cluster):
    times = []

    def on_pod(event):
        if event.type == "ADDED":
            times.append(asyncio.get_running_loop().time())

    cluster.server.store.listen("pods", on_pod)
    status, _ = await finished(cluster, job("j", running(code="1", seconds="1"), backoffLimit=3))
    condition = status["conditions"][-1]
    assert (condition["type"], condition["reason"], status["failed"]) == ("Failed", "BackoffLimitExceeded", 4)
    waits = [round((later - earlier) / 10) * 10 for earlier, later in pairwise(times)]
    assert waits == [10, 20, 40]


async def test_a_kubelet_that_restarts_containers_counts_against_the_limit(cluster: Cluster):
    pod = running(code="1", seconds="5", restartPolicy="OnFailure")
    status, _ = await finished(cluster, job("j", pod, backoffLimit=2))
    assert status["conditions"][-1]["reason"] == "BackoffLimitExceeded"


async def test_a_deadline_ends_a_job_and_its_pods(cluster: Cluster):
    status, _ = await finished(cluster, job("j", running(seconds="9999"), activeDeadlineSeconds=60))
    assert status["conditions"][-1]["reason"] == "DeadlineExceeded"
    await asyncio.sleep(5)
    assert names(cluster.server) == []


async def test_a_suspended_job_waits_until_it_may_run(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(job("j", running(), suspend=True))
    await asyncio.sleep(30)
    assert names(cluster.server) == []
    cluster.server.patch("jobs.batch", "j", {"spec": {"suspend": False}})
    await asyncio.sleep(60)
    assert cluster.server.get("jobs.batch", "j")["status"]["succeeded"] == 1


async def test_a_pod_that_is_deleted_is_counted_and_replaced(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(job("j", running(seconds="60")))
    await asyncio.sleep(10)
    (name,) = names(cluster.server)
    cluster.server.delete("pods", name)
    await asyncio.sleep(40)
    assert name not in names(cluster.server)
    assert cluster.server.get("jobs.batch", "j")["status"]["failed"] == 1
    await asyncio.sleep(90)
    assert cluster.server.get("jobs.batch", "j")["status"]["succeeded"] == 1


async def test_a_finished_job_goes_after_its_time_to_live(cluster: Cluster):
    await finished(cluster, job("j", running(), ttlSecondsAfterFinished=100))
    await asyncio.sleep(90)
    assert names(cluster.server, "jobs.batch") == ["j"]
    await asyncio.sleep(20)
    assert names(cluster.server, "jobs.batch") == names(cluster.server) == []


# --- policies ------------------------------------------------------------------------------------------------------


def on_exit(action, *codes, operator="In"):
    rule = {"action": action, "onExitCodes": {"operator": operator, "values": list(codes)}}
    return {"rules": [rule]}


@pytest.mark.parametrize(
    ("policy", "reason", "failed"),
    [
        pytest.param(on_exit("FailJob", 42), "PodFailurePolicy", 1, id="a rule that fails the job"),
        pytest.param(on_exit("FailJob", 1, 2), "BackoffLimitExceeded", 3, id="a rule about other codes"),
        pytest.param(on_exit("FailJob", 0, operator="NotIn"), "PodFailurePolicy", 1, id="any code but these"),
        pytest.param(on_exit("Count", 42), "BackoffLimitExceeded", 3, id="a rule that says what happens anyway"),
    ],
)
async def test_a_failure_policy_decides_by_exit_code(cluster: Cluster, policy, reason, failed):
    status, _ = await finished(cluster, job("j", running(code="42"), backoffLimit=2, podFailurePolicy=policy))
    condition = status["conditions"][-1]
    assert (condition["type"], condition["reason"], status["failed"]) == ("Failed", reason, failed)
    if reason == "PodFailurePolicy":
        assert "failed with exit code 42 matching FailJob rule at index 0" in condition["message"]


async def test_pods_that_were_disrupted_do_not_count_where_the_policy_says_so(cluster: Cluster):
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    cluster.add_nodes(make_node_template(), 1)
    body = job("j", running(seconds="60"), backoffLimit=0, podFailurePolicy={"rules": [ignored]})
    cluster.server.create(body)
    await asyncio.sleep(10)
    (name,) = names(cluster.server)
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    cluster.server.patch("pods", name, {"status": {"conditions": [disrupted]}}, status=True)
    cluster.server.delete("pods", name)
    await asyncio.sleep(120)
    status = cluster.server.get("jobs.batch", "j")["status"]
    assert (status.get("failed", 0), status["succeeded"]) == (0, 1)


def fail(cluster, index):
    """The pod of an index ends badly."""
    pods = [p for p in cluster.server.list("pods") if p["metadata"]["annotations"].get(INDEX) == str(index)]
    (pod,) = [p for p in pods if p["status"]["phase"] == "Running"]
    cluster.server.patch("pods", pod["metadata"]["name"], {"status": {"phase": "Failed"}}, status=True)


async def test_an_index_that_fails_too_often_is_given_up_and_the_others_go_on(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
    cluster.server.create(job("j", running(seconds="300"), **spec))
    await asyncio.sleep(10)
    fail(cluster, 1)
    await asyncio.sleep(30)
    fail(cluster, 1)
    await asyncio.sleep(30)
    status = cluster.server.get("jobs.batch", "j")["status"]
    assert (status["failedIndexes"], status["active"], status["failed"]) == ("1", 2, 2)
    await asyncio.sleep(300)
    status = cluster.server.get("jobs.batch", "j")["status"]
    assert (status["completedIndexes"], status["failedIndexes"]) == ("0,2", "1")
    assert status["conditions"][-1]["reason"] == "FailedIndexes"


async def test_too_many_failed_indexes_end_a_job_at_once(cluster: Cluster):
    cluster.add_nodes(make_node_template(), 1)
    policy = on_exit("FailIndex", 42)
    spec = {"completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimitPerIndex": 5}
    body = job("j", running(code="42"), **spec, maxFailedIndexes=1, podFailurePolicy=policy)
    status, _ = await finished(cluster, body, seconds=300)
    assert status["conditions"][-1]["reason"] == "MaxFailedIndexesExceeded"
    assert status["failedIndexes"] == "0-3"
