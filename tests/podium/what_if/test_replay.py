"""Record a running podium, and decide the recording again."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kube.client.auth import Credentials
from kube.client.rest import Client
from podium.cli import main
from podium.configuration import Effective
from podium.recording import SEGMENTS, Recorder, RecordingError
from podium.what_if.replay import Redecided, Replay, segments_of
from podium.wiring import Options, Service
from simulator.apiserver import ApiServer
from simulator.apiserver.faults import Answer
from simulator.load import LoadError
from tests.podium.extender_server import ExtenderServer, only, serving
from tests.podium.harness import configured, effective, node_of, until

PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: podium
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""

EXTENDED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{{schedulerName: podium}}]
extenders:
- urlPrefix: {url}
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 10
  nodeCacheCapable: true
"""


def node(name: str, cpu: str = "4") -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "20"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": amounts}}


def pod(name: str, cpu: str = "500m", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta,
            "spec": {"schedulerName": "podium", "containers": [container], **spec}}  # fmt: skip


@asynccontextmanager
async def recorded(
    server: ApiServer, directory: Path, limit: int = 2**24, configuration: Effective | None = None
) -> AsyncIterator[Service]:
    """A podium that is recorded from its start to its end."""
    async with Client(Credentials(server.url), qps=-1, burst=0) as client:
        service = Service(client, configuration or effective(), Options(leader_elect=False, seed=7))
        await service.build()
        with Recorder(service, str(directory), limit):
            async with asyncio.TaskGroup() as group:
                running = group.create_task(service.run())
                await service.synced.wait()
                yield service
                service.stop()
                await running


async def settle(service: Service, decisions: int) -> None:
    def is_settled() -> bool:
        return len(service.scheduler.decisions) >= decisions and service.scheduler.idle

    await until(is_settled, f"{decisions} decisions", 20)


async def a_day(server: ApiServer, directory: Path, limit: int = 2**24) -> None:
    """Pods come, one fits nowhere, a node comes, one pod preempts another, a node goes."""
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}
    for each in (high, node("n1"), node("n2"), *(pod(f"web-{i}") for i in range(6))):
        server.create(each)
    async with recorded(server, directory, limit) as service:
        await settle(service, 6)
        server.create(pod("large", cpu="3500m"))
        await settle(service, 7)
        server.create(node("n3"))
        await until(lambda: node_of(server, "large") == "n3", "the large pod on the new node", 20)
        server.create(pod("vip", cpu="3", priorityClassName="high"))
        await settle(service, 9)
        server.delete("nodes", "n2")
        server.create(pod("late", cpu="100m"))
        await settle(service, 10)


def replayed(directory: Path) -> list[Redecided]:
    return list(Replay(None).run(segments_of(str(directory))))


async def test_the_same_configuration_decides_the_same(api_server: ApiServer, tmp_path: Path) -> None:
    await a_day(api_server, tmp_path)
    decisions = replayed(tmp_path)
    assert len(decisions) >= 10
    assert {each.outcome for each in decisions} <= {"same", "tie"}
    assert any(each.victims_after for each in decisions)
    assert decisions == replayed(tmp_path)


async def test_another_configuration_shows_what_would_be_different(
    api_server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await a_day(api_server, tmp_path / "r")
    config = tmp_path / "packed.yaml"
    config.write_text(PACKED)
    assert main(["replay", str(tmp_path / "r"), "--config", str(config), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["different"] == len(document["differences"]) > 0
    first = document["differences"][0]
    assert first["before"] != first["after"]
    assert first["score_after"] > first["score_before"]


async def test_a_recording_stays_within_its_limit_and_each_segment_stands_alone(
    api_server: ApiServer, tmp_path: Path
) -> None:
    await a_day(api_server, tmp_path, limit=8)
    segments = segments_of(str(tmp_path))
    assert len(segments) == SEGMENTS
    assert int(segments[0].name[10:16]) > 1
    assert [each for each in replayed(tmp_path) if each.outcome not in ("same", "tie")] == []


async def test_a_segment_that_ends_in_the_middle_counts_as_far_as_it_goes(
    api_server: ApiServer, tmp_path: Path
) -> None:
    await a_day(api_server, tmp_path)
    whole = len(replayed(tmp_path))
    (segment,) = segments_of(str(tmp_path))
    segment.write_bytes(segment.read_bytes()[:-200])
    assert 0 < len(replayed(tmp_path)) <= whole


async def test_a_bind_that_failed_leaves_no_pod_behind(api_server: ApiServer, tmp_path: Path) -> None:
    """The room is free again for the next pod: in the replay, too."""
    api_server.create(node("n1", cpu="1"))
    api_server.faults.add(Answer(422, message="no"), path="/binding$", verb="create", count=1)
    async with recorded(api_server, tmp_path):
        api_server.create(pod("first", cpu="1"))
        await until(lambda: node_of(api_server, "first") == "n1", "the second try", 30)
    decisions = replayed(tmp_path)
    assert [(each.before, each.outcome) for each in decisions] == [("n1", "same"), ("n1", "same")]
    with gzip.open(segments_of(str(tmp_path))[0]) as lines:
        assert [json.loads(line)["k"] for line in lines].count("forget") == 1


async def test_what_extenders_said_is_replayed_without_asking_them(api_server: ApiServer, tmp_path: Path) -> None:
    """One takes nodes away and prefers one of those that are left; it is gone when the recording is decided again."""
    for each in (node("n1"), node("n2"), node("n3")):
        api_server.create(each)

    def scores(body: Any) -> Any:
        return [{"Host": name, "Score": 10 if name == "n3" else 0} for name in body["NodeNames"]]

    async with serving(ExtenderServer(filter=only("n2", "n3"), prioritize=scores)) as extender:
        text = EXTENDED.format(url=extender.url)
        async with recorded(api_server, tmp_path, configuration=configured(text)) as service:
            for i in range(4):
                api_server.create(pod(f"web-{i}"))
            await settle(service, 4)
            extender.verbs["filter"] = only()
            api_server.create(pod("nowhere"))
            await settle(service, 5)
    decisions = await asyncio.to_thread(replayed, tmp_path)
    outcomes = [(each.pod, each.before, each.outcome) for each in decisions]
    assert outcomes[:4] == [(f"default/web-{i}", "n3", "same") for i in range(4)]
    assert set(outcomes[4:]) == {("default/nowhere", "", "same")}
    assert decisions[-1].message_after == decisions[-1].message_before
    assert "3 not mine" in decisions[-1].message_after


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(RecordingError, match="cannot be written"):
        Recorder(None, str(file))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("prepare", "line"),
    [
        pytest.param(lambda path: None, "no recording in there", id="nothing there"),
        pytest.param(
            lambda path: (path / "recording-000001.jsonl.gz").write_bytes(gzip.compress(b"{}\n")),
            "not a segment of a recording",
            id="something else",
        ),
        pytest.param(
            lambda path: (path / "recording-000001.jsonl.gz").write_bytes(
                gzip.compress(b'{"k":"segment","t":0,"v":{"recording":9}}\n')
            ),
            "a recording of version 9, expected 1",
            id="of a later podium",
        ),
    ],
)
def test_what_is_no_recording(tmp_path: Path, prepare: Callable[[Path], Any], line: str) -> None:
    prepare(tmp_path)
    with pytest.raises(LoadError, match=line):
        replayed(tmp_path)
