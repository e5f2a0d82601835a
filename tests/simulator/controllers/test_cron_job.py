"""CronJobs in virtual time, which begins at midnight: when Jobs are made, how many at once, what is kept of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simulator.apiserver import ApiError, ApiServer
from simulator.cluster import Cluster, make_node_template
from tests.simulator.virtual import names, template

pytestmark = pytest.mark.looptime
MINUTE = 60.0
START = 1_767_225_600 // 60  # the first minute of 2026


def cron(schedule: str = "*/10 * * * *", *, seconds: str = "30", code: str = "0", **spec: Any) -> dict[str, Any]:
    """A CronJob whose pods run for so long."""
    annotations = {"podium.io/run-seconds": seconds, "podium.io/exit-code": code}
    pods = template("tick", annotations=annotations, restartPolicy="Never")
    body = {"schedule": schedule, "jobTemplate": {"spec": {"template": pods, "backoffLimit": 0}}, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": body}


def jobs(cluster: Cluster) -> list[int]:
    """For which minutes there are Jobs."""
    return [int(name.removeprefix("c-")) - START for name in names(cluster.server, "jobs.batch")]


async def test_a_job_is_made_whenever_one_is_due_and_three_are_kept(cluster: Cluster) -> None:
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(cron())
    await asyncio.sleep(9 * MINUTE)
    assert jobs(cluster) == []
    await asyncio.sleep(2 * MINUTE)
    assert jobs(cluster) == [10]
    status = cluster.server.get("cronjobs.batch", "c")["status"]
    assert (status["lastScheduleTime"], status["lastSuccessfulTime"][:16]) == (
        "2026-01-01T00:10:00Z",
        "2026-01-01T00:10",
    )
    assert "active" not in status
    await asyncio.sleep(50 * MINUTE)
    assert jobs(cluster) == [40, 50, 60]


async def test_a_failed_job_is_kept_apart_from_those_that_succeeded(cluster: Cluster) -> None:
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(cron(code="1", failedJobsHistoryLimit=2, successfulJobsHistoryLimit=0))
    await asyncio.sleep(55 * MINUTE)
    assert jobs(cluster) == [40, 50]


@pytest.mark.parametrize(
    ("policy", "active"),
    [
        pytest.param("Allow", [10, 20, 30], id="allowed beside each other"),
        pytest.param("Forbid", [10], id="none while one runs"),
        pytest.param("Replace", [30], id="the new one in place of the old one"),
    ],
)
async def test_what_happens_while_a_job_still_runs(cluster: Cluster, policy: str, active: list[int]) -> None:
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(cron(seconds="9999", concurrencyPolicy=policy))
    await asyncio.sleep(35 * MINUTE)
    assert jobs(cluster) == active
    listed = cluster.server.get("cronjobs.batch", "c")["status"]["active"]
    assert [one["name"] for one in listed] == [f"c-{START + minute}" for minute in active]


async def test_of_missed_times_only_the_last_is_made_up_for(cluster: Cluster) -> None:
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(cron(suspend=True))
    await asyncio.sleep(45 * MINUTE)
    assert jobs(cluster) == []
    cluster.server.patch("cronjobs.batch", "c", {"spec": {"suspend": False}})
    await asyncio.sleep(MINUTE)
    assert jobs(cluster) == [40]


async def test_a_time_that_was_missed_by_too_much_is_let_go(cluster: Cluster) -> None:
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(cron(suspend=True, startingDeadlineSeconds=60))
    await asyncio.sleep(45 * MINUTE)
    cluster.server.patch("cronjobs.batch", "c", {"spec": {"suspend": False}})
    await asyncio.sleep(MINUTE)
    assert jobs(cluster) == []
    await asyncio.sleep(5 * MINUTE)
    assert jobs(cluster) == [50]


async def test_a_schedule_is_read_in_its_time_zone(cluster: Cluster) -> None:
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(cron("30 1 * * *", timeZone="Europe/Berlin"))
    await asyncio.sleep(31 * MINUTE)
    assert jobs(cluster) == [30]


async def test_jobs_go_with_their_cron_job(cluster: Cluster) -> None:
    cluster.add_nodes(make_node_template(), 1)
    cluster.server.create(cron())
    await asyncio.sleep(11 * MINUTE)
    cluster.server.delete("cronjobs.batch", "c")
    await asyncio.sleep(MINUTE)
    assert jobs(cluster) == []
    assert names(cluster.server) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param({"schedule": "every day"}, 'spec.schedule: Invalid value: "every day": five fields', id="words"),
        pytest.param({"schedule": "* * * * * *"}, "spec.schedule: Invalid value", id="seconds"),
        pytest.param({"schedule": ""}, "spec.schedule: Required value", id="nothing"),
        pytest.param({"timeZone": "Moon/Base"}, "spec.timeZone: Invalid value", id="a time zone nobody knows"),
        pytest.param({"concurrencyPolicy": "Maybe"}, "spec.concurrencyPolicy: Unsupported value", id="a policy"),
    ],
)
async def test_what_is_no_cron_job_is_told(changes: dict[str, Any], told: str) -> None:
    made = cron()
    made["spec"] |= changes
    with pytest.raises(ApiError, match=told):
        ApiServer().create(made)
