"""What the real kube-scheduler did with pod groups: recorded scenarios, played to the whole of podium.

Objects are stored as they were recorded, podium runs against the API server over HTTP, and after each step its state
is compared: who runs where, what the others say, the conditions of the groups, and what was bound so far.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from config.feature_gates import parse
from config.load import loads
from plugins.registry import Registry
from podium.configuration import Effective
from simulator.apiserver import ApiServer
from tests.podium.harness import Object, podium
from tests.recorded import DECISIONS, clusters

pytestmark = pytest.mark.looptime

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: default-scheduler}]
"""
SCENARIOS = clusters(DECISIONS / "gangs.jsonl.gz")
#: longer than the longest backoff of a group: it has been tried again since the step
SETTLED = 15.0


def with_gates(text: str) -> Effective:
    """The default profile under kube-scheduler's name, with these gates."""
    gates, _ = parse(text)
    configuration = loads(CONFIGURATION, gates=gates).configuration
    return Effective(configuration, gates.as_dict(), Registry())


class Recorder:
    """The state of the cluster, in the words of the recordings."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.bound: list[str] = []
        server.store.listen("pods", self._on_pod)

    def _on_pod(self, event: Any) -> None:
        before = event.before.obj["spec"].get("nodeName") if event.before is not None else None
        obj = event.revision.obj
        if event.type == "MODIFIED" and obj["spec"].get("nodeName") and not before:
            self.bound.append(f"{obj['metadata']['namespace']}/{obj['metadata']['name']}")

    def pods(self) -> dict[str, Object]:
        """Each pod: its node, or what its condition says; nothing for one that was not tried."""
        return {f"{p['metadata']['namespace']}/{p['metadata']['name']}": _told(p) for p in self.server.list("pods")}

    def pod_groups(self) -> dict[str, Object]:
        """Each condition of each group."""
        return {
            f"{group['metadata']['namespace']}/{group['metadata']['name']}:{condition['type']}": {
                key: condition.get(key, "") for key in ("status", "reason", "message")
            }
            for group in self.server.list("podgroups.scheduling.k8s.io")
            for condition in group.get("status", {}).get("conditions", ())
        }


def _told(pod: Object) -> Object:
    if pod["spec"].get("nodeName"):
        return {"node": pod["spec"]["nodeName"]}
    status = pod.get("status", {})
    told = next(
        ({"reason": c["reason"], "message": c["message"]} for c in status.get("conditions", ())
         if c["type"] == "PodScheduled" and c["reason"] != "SchedulingGated"),
        {},
    )  # fmt: skip
    return told | ({"nominated": status["nominatedNodeName"]} if status.get("nominatedNodeName") else {})


def play(server: ApiServer, step: Object) -> None:
    """Do what a step says."""
    for obj in (*step.get("create", ()), *step.get("update", ())):
        server.restore(obj)
    for path in step.get("delete", ()):
        resource, namespace, name = path.split("/")
        server.delete(resource, name, namespace, grace_seconds=0)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: f"{scenario['name']}: {scenario['title']}")
async def test_podium_does_with_a_group_what_kube_scheduler_did(api_server: ApiServer, scenario: Object) -> None:
    play(api_server, {"create": scenario["objects"]})
    recorder = Recorder(api_server)
    async with podium(api_server, with_gates(",".join(scenario["gates"]))):
        for step, expect in zip(scenario["steps"], scenario["expect"], strict=True):
            play(api_server, step)
            await asyncio.sleep(SETTLED)
            assert recorder.pods() == expect["pods"]
            if not scenario.get("conditionDependsOnTiming"):
                assert recorder.pod_groups() == expect["podGroups"]
            assert sorted(recorder.bound) == sorted(expect["bindingsSoFar"])
