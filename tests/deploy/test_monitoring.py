"""Dashboard and alerts ask for series that a running podium has, and say what they mean to say."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from kube.client.auth import Credentials
from kube.client.rest import Client
from podium.http import HttpServer
from podium.serving.client_metrics import ClientMetrics
from podium.serving.more_metrics import register
from podium.wiring import Options, Service
from scheduler.metrics import Metrics
from simulator.apiserver import ApiServer
from tests.deploy.rendering import DEPLOY
from tests.fixtures_apiserver import node, pod
from tests.podium.harness import effective, node_of, until

Json = dict[str, Any]
FOLDER = DEPLOY / "components" / "monitoring"
PROMTOOL = shutil.which("promtool")
DASHBOARD: Json = json.loads((FOLDER / "podium.json").read_text())
RULES: Json = yaml.safe_load((FOLDER / "prometheusrule.yaml").read_text())["spec"]

#: what dashboards and alerts made for kube-scheduler ask for, whatever else they draw
KUBE_SCHEDULER_QUERIES = """
sum(rate(scheduler_schedule_attempts_total{job="kube-scheduler"}[5m])) by (result)
histogram_quantile(0.99, sum(rate(scheduler_scheduling_attempt_duration_seconds_bucket[5m])) by (le))
histogram_quantile(0.99, sum(rate(scheduler_scheduling_algorithm_duration_seconds_bucket[5m])) by (le))
histogram_quantile(0.99, sum(rate(scheduler_pod_scheduling_sli_duration_seconds_bucket[5m])) by (le))
sum(scheduler_pending_pods) by (queue)
sum(rate(rest_client_requests_total{code=~"5.."}[5m])) by (code)
histogram_quantile(0.99, sum(rate(rest_client_request_duration_seconds_bucket{verb="POST"}[5m])) by (verb, le))
process_resident_memory_bytes
rate(process_cpu_seconds_total[5m])
max(leader_election_master_status)
"""


def queries() -> list[str]:
    """Every expression of the dashboard, the rules and those made for kube-scheduler."""
    drawn = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    ruled = [rule["expr"] for group in RULES["groups"] for rule in group["rules"]]
    return [*drawn, *ruled, *KUBE_SCHEDULER_QUERIES.strip().splitlines()]


def names(query: str) -> set[str]:
    """The series that a query asks for: words with an underscore that are no function, label or recorded rule."""
    bare = re.sub(r'\{[^}]*\}|\[[^\]]*\]|"[^"]*"|\b(?:by|without)\s*\([^)]*\)', " ", query)
    words = re.findall(r"[a-zA-Z_:][\w:]*", bare)
    return {word for word in words if "_" in word and ":" not in word} - {"histogram_quantile"}


@pytest.fixture(scope="module")
def scraped() -> str:
    """/metrics of a podium that has placed one pod and refused another."""
    return asyncio.run(_scrape())


async def _scrape() -> str:
    metrics = Metrics()
    async with ApiServer() as server:
        server.create(node("n1", cpu="1"))
        observer = ClientMetrics(metrics.registry).observer(server.url)
        async with Client(Credentials(server.url), qps=-1, burst=0, on_answer=observer) as client:
            service = Service(client, effective(), Options(seed=0), metrics)
            register(metrics.registry, "podium", lambda: service.elector)
            await service.build()
            async with asyncio.TaskGroup() as group:
                running = group.create_task(service.run())
                server.create(pod("web", schedulerName="podium"))
                wide = pod("wide", schedulerName="podium")
                wide["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "64"}}
                server.create(wide)
                waiting = service.scheduler.queue
                await until(lambda: node_of(server, "web") == "n1", "web is bound", 30.0)
                await until(lambda: waiting.lengths()["unschedulable"] == 1, "wide was refused", 30.0)
                async with (
                    HttpServer(service, "127.0.0.1", 0) as endpoints,
                    aiohttp.ClientSession(f"http://127.0.0.1:{endpoints.port}") as http,
                    http.get("/metrics") as answer,
                ):
                    text = await answer.text()
                service.stop()
                await running
    return text


def families(text: str) -> set[str]:
    """Names as queries use them."""
    return {
        name
        for family in text_string_to_metric_families(text)
        for name in (family.name, f"{family.name}_total", *(sample.name for sample in family.samples))
    } | {
        f"{f.name}_{end}"
        for f in text_string_to_metric_families(text)
        if f.type == "histogram"
        for end in ("bucket", "sum", "count")
    }


@pytest.mark.parametrize("query", queries())
def test_every_query_asks_for_series_that_podium_has(query: str, scraped: str) -> None:
    asked = names(query)
    assert asked or "podium:" in query or "up{" in query
    assert asked - families(scraped) == set()


def test_labels_that_queries_choose_by_are_those_of_the_series(scraped: str) -> None:
    samples = {s.name: s.labels for f in text_string_to_metric_families(scraped) for s in f.samples}
    assert set(samples["rest_client_requests_total"]) == {"code", "host", "method"}
    assert set(samples["rest_client_request_duration_seconds_bucket"]) == {"verb", "host", "le"}
    assert samples["leader_election_master_status"] == {"name": "podium"}
    assert set(samples["scheduler_schedule_attempts_total"]) == {"result", "profile"}
    assert samples["podium_unschedulable_reason"] == {"plugin": "NodeResourcesFit", "reason": "insufficient_cpu"}


def test_panels_have_titles_and_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert panel["title"]
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def promtool(folder: Path, *words: str, text: str | None = None) -> str:
    """Its words on stdout and stderr; fails the test where it finds fault."""
    if PROMTOOL is None:
        pytest.skip("no promtool: install Debian's package prometheus")
    done = subprocess.run(
        [PROMTOOL, *words], input=text, cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def test_the_rules_are_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(RULES))
    count = sum(len(group["rules"]) for group in RULES["groups"])
    assert f"SUCCESS: {count} rules found" in promtool(tmp_path, "check", "rules", "rules.yaml")


def test_the_alerts_fire_when_they_should_and_not_else(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(RULES))
    shutil.copy(Path(__file__).parent / "rules_test.yaml", tmp_path)
    assert "SUCCESS" in promtool(tmp_path, "test", "rules", "rules_test.yaml")


def test_what_is_scraped_can_be_read_by_prometheus(tmp_path: Path, scraped: str) -> None:
    promtool(tmp_path, "check", "metrics", text=scraped)
