"""The Kubernetes documentation's tutorial "Configure Multiple Schedulers", step by step, podium as the second one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.conformance.find import Binaries
from tests.operate.cluster import Operator, operated

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]
SECOND = (Path(__file__).parent / "multiple_schedulers.yaml").read_text()

#: the tutorial's three pods: one says nothing, one names the default scheduler, one the second
PODS = {
    "no-annotation": "",
    "annotation-default-scheduler": "default-scheduler",
    "annotation-second-scheduler": "my-scheduler",
}


def pod(name: str, scheduler: str) -> str:
    container = {"name": "pod-with-annotation-container", "image": "registry.k8s.io/pause:3.8"}
    spec = {"containers": [container], **({"schedulerName": scheduler} if scheduler else {})}
    meta = {"name": name, "labels": {"name": "multischeduler-example"}}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


async def missing_reads(me: Operator) -> None:
    """The role system:kube-scheduler of 1.20 lacks what today's has: namespaces, and some of storage."""
    if me.plane.version >= (1, 24):
        return
    rules = [
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
        {
            "apiGroups": ["storage.k8s.io"],
            "resources": ["csidrivers", "csistoragecapacities", "volumeattachments"],
            "verbs": ["get", "list", "watch"],
        },
    ]
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": "newer"}, "rules": rules}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "newer"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "newer"},
        "subjects": [{"kind": "ServiceAccount", "name": "my-scheduler", "namespace": "kube-system"}],
    }
    await me.kubectl("apply -f -", yaml.safe_dump_all([role, binding]))


async def test_configure_multiple_schedulers(binaries: Binaries, tmp_path: Path) -> None:
    async with operated(binaries, tmp_path, "tutorial") as me:
        await missing_reads(me)

        # "Run the second scheduler in the cluster"
        await me.kubectl("create -f -", SECOND)
        await me.kubectl("-n kube-system rollout status deployment my-scheduler --timeout=90s")
        said = await me.kubectl("get pods --namespace=kube-system")
        assert re.search(r"^my-scheduler-\S+ +1/1 +Running +0 ", said, re.MULTILINE)

        # "Specify schedulers for pods"
        for name, scheduler in PODS.items():
            await me.kubectl("create -f -", pod(name, scheduler))
        await me.placed("default", 3)
        await me.kubectl("get pods")

        # "Verifying that the pods were scheduled using the desired schedulers"
        events = await me.api.wait_until(
            "/apis/events.k8s.io/v1/namespaces/default/events", "three", lambda body: len(placed_by(body)) == 3
        )
        assert placed_by(events) == {name: scheduler or "default-scheduler" for name, scheduler in PODS.items()}
        said = await me.kubectl("get events -o wide")
        assert re.search(r"Scheduled +pod/annotation-second-scheduler .*my-scheduler", said)
        assert "forbidden" not in me.podiums[0].log.read_text()


async def test_the_third_pod_stays_pending_without_the_second_scheduler(binaries: Binaries, tmp_path: Path) -> None:
    async with operated(binaries, tmp_path, "tutorial-without") as me:
        for name, scheduler in PODS.items():
            await me.kubectl("create -f -", pod(name, scheduler))
        path = "/api/v1/namespaces/default/pods"
        body = await me.api.wait_until(
            path, "two bound", lambda body: sum(bool(p["spec"].get("nodeName")) for p in body["items"]) == 2
        )
        waiting = [p["metadata"]["name"] for p in body["items"] if not p["spec"].get("nodeName")]
        assert waiting == ["annotation-second-scheduler"]
        await me.kubectl("get pods -o wide")


async def test_the_tutorials_leader_election(binaries: Binaries, tmp_path: Path) -> None:
    """Its last part: three fields of the configuration, and the name of the Lease in the role."""
    async with operated(binaries, tmp_path, "tutorial-leader") as me:
        await missing_reads(me)
        role = await me.api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/system:kube-scheduler")
        for rule in role["rules"]:
            if "leases" in rule["resources"] and "resourceNames" in rule:
                rule["resourceNames"].append("my-scheduler")
        await me.api.put("/apis/rbac.authorization.k8s.io/v1/clusterroles/system:kube-scheduler", role)
        me.note("kubectl edit clusterrole system:kube-scheduler", "clusterrole.rbac.authorization.k8s.io edited")
        elected = "leaderElect: true\n      resourceNamespace: kube-system\n      resourceName: my-scheduler"
        await me.kubectl(
            "create -f -", SECOND.replace("leaderElect: false", elected).replace("replicas: 1", "replicas: 2")
        )
        await me.kubectl("-n kube-system rollout status deployment my-scheduler --timeout=90s")
        await me.kubectl("create -f -", pod("annotation-second-scheduler", "my-scheduler"))
        await me.placed("default", 1)
        assert await me.holder("my-scheduler") in me.podiums
        await me.kubectl("-n kube-system get lease my-scheduler")
        await me.kubectl("get pods -o wide")


def placed_by(events: dict[str, list[dict[str, object]]]) -> dict[str, object]:
    """Pod -> who said that it placed it."""
    found = {}
    for event in events["items"]:
        if event["reason"] == "Scheduled":
            source = event.get("deprecatedSource") or {}
            about: dict[str, str] = event["regarding"]  # type: ignore[assignment]
            found[about["name"]] = event.get("reportingController") or source.get("component")  # type: ignore[attr-defined]
    return found
