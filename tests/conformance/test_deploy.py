"""deploy/ against API servers: every object is accepted, and podium's rights are just those that it needs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.conformance.api import Api
from tests.conformance.embedded import EmbeddedPlane
from tests.conformance.find import Binaries
from tests.conformance.manifests import apply_rbac, deploy_objects
from tests.conformance.podium_process import PodiumProcess, create_namespace, create_nodes, pod
from tests.conformance.start import ADMIN, NOBODY, ControlPlane
from tests.deploy.rendering import KUBECTL, OVERLAYS, charted, kustomized

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

Json = dict[str, Any]
CUSTOM = "monitoring.coreos.com/v1"


# --- accepted ------------------------------------------------------------------------------------------------------


async def applied(kubeconfig: Path, objects: list[Json], folder: Path) -> str:
    """What `kubectl apply --server-side --dry-run=server` says; it fails the test where the server refuses."""
    assert KUBECTL is not None
    file = folder / "objects.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    words = (f"--kubeconfig={kubeconfig}", "apply", "--server-side", "--dry-run=server", "-f", str(file))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(KUBECTL, *words, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    said = (await process.communicate())[0].decode()
    assert process.returncode == 0, said
    return said


def served(objects: list[Json]) -> list[Json]:
    """Without custom resources, whose definitions no test installs."""
    return [item for item in objects if item["apiVersion"] != CUSTOM]


def old(objects: list[Json]) -> list[Json]:
    """As for a server that does not know policy/v1 (overlays/kubernetes-1.20)."""
    return [item | {"apiVersion": item["apiVersion"].replace("policy/v1", "policy/v1beta1")} for item in objects]


@pytest.mark.parametrize("source", [*OVERLAYS, "helm"])
async def test_the_real_server_accepts_every_object(control_plane: ControlPlane, source: str, tmp_path: Path) -> None:
    objects = served(charted() if source == "helm" else kustomized(source))
    if control_plane.version < (1, 21) and "1.20" not in source:
        objects = old(objects)
    said = await applied(control_plane.kubeconfig(ADMIN), objects, tmp_path)
    assert len(said.splitlines()) == len(objects)


#: groups that the embedded server does not serve: it knows no rights and no networks
NOT_EMBEDDED = ("rbac.authorization.k8s.io", "networking.k8s.io")


@pytest.mark.parametrize("source", ["base", "overlays/high-availability", "helm"])
async def test_the_embedded_server_accepts_what_it_knows(source: str, tmp_path: Path) -> None:
    objects = served(charted() if source == "helm" else kustomized(source))
    known = [item for item in objects if not item["apiVersion"].startswith(NOT_EMBEDDED)]
    async with EmbeddedPlane(tmp_path) as plane:
        said = await applied(plane.kubeconfig(), known, tmp_path)
    assert len(said.splitlines()) == len(known) >= 5


# --- just enough rights --------------------------------------------------------------------------------------------


def rules() -> list[Any]:
    """(role, index of the rule) of every rule that podium's account gets, named after what it grants."""
    found = []
    for item in deploy_objects():
        if item["kind"] in {"ClusterRole", "Role"} and item["metadata"]["name"] != "podium-viewer":
            for index, rule in enumerate(item["rules"]):
                name = f"{'/'.join(rule['verbs'])} {rule['apiGroups'][0]} {','.join(rule['resources'])}"
                found.append(pytest.param(item["metadata"]["name"], index, rule, id=name))
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def plane(binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """One whose roles may be taken apart."""
    async with ControlPlane(binaries) as own:
        async with own.api() as api:
            for name in ("local", "made"):
                provisioner = "kubernetes.io/no-provisioner" if name == "local" else "example.com/made"
                await api.post(
                    "/apis/storage.k8s.io/v1/storageclasses",
                    {
                        "metadata": {"name": name},
                        "provisioner": provisioner,
                        "volumeBindingMode": "WaitForFirstConsumer",
                    },
                )
            await api.post("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 1000})
        yield own


async def everything(api: Api, name: str) -> str:
    """Work that takes every right: places, refuses, evicts, binds a volume; the path of the pods."""
    await create_nodes(api, name, 2, cpu="4")
    pods = await create_namespace(api, name)
    claim = {
        "metadata": {"name": "made"},
        "spec": {
            "storageClassName": "made",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    await api.post(f"/api/v1/namespaces/{name}/persistentvolumeclaims", claim)
    await api.post(pods, pod("victim", name, "3", nodeName=f"{name}-1"))
    fits = pod("fits", name)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "of-fits", "uid": "1", "controller": True}
    fits["metadata"]["ownerReferences"] = [owner]
    await api.post(pods, fits)
    await api.post(pods, pod("too-big", name, "64"))
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "made"}}
    await api.post(pods, pod("with-volume", name, volumes=[volume]))
    await api.post(
        pods,
        pod("important", name, "3", priorityClassName="high", nodeSelector={"kubernetes.io/hostname": f"{name}-1"}),
    )
    return pods


async def done(api: Api, name: str) -> bool:
    """Whether all of it happened."""
    pods = {p["metadata"]["name"]: p for p in (await api.get(f"/api/v1/namespaces/{name}/pods"))["items"]}
    claims = await api.get(f"/api/v1/namespaces/{name}/persistentvolumeclaims/made")
    events = await api.get(f"/apis/events.k8s.io/v1/namespaces/{name}/events")
    leases = await api.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{name}")
    return (
        pods["fits"]["spec"].get("nodeName") == f"{name}-0"
        and bool(pods["too-big"]["status"].get("conditions"))
        and "deletionTimestamp" in pods.get("victim", {"metadata": {"deletionTimestamp": ""}})["metadata"]
        and "volume.kubernetes.io/selected-node" in claims["metadata"].get("annotations", {})
        and {"Scheduled", "FailedScheduling", "Preempted"} <= {event["reason"] for event in events["items"]}
        and leases.status == 200
    )


async def forbidden_or_done(api: Api, podium: PodiumProcess, name: str, token: str) -> str:
    """Lines of the log that say forbidden, as soon as there is one; "" once everything is done without."""
    async with asyncio.timeout(60):
        while True:
            lines = [line for line in podium.log.splitlines() if "forbidden" in line.lower()]
            if lines:
                return "\n".join(lines)
            if await done(api, name):
                answer = await podium.secure_status("/metrics", token)
                refused = [line for line in podium.log.splitlines() if "forbidden" in line.lower()]
                # Known, and without a right to it: both reviews were answered.
                assert refused or answer == 403
                return "\n".join(refused)
            await asyncio.sleep(0.1)


async def tried(plane: ControlPlane, name: str, folder: Path, without: tuple[str, int] | None) -> str:
    """Run podium through everything; what it was refused."""
    kubeconfig = await apply_rbac(plane, without=without, lease=name)
    token = yaml.safe_load(plane.kubeconfig(NOBODY).read_text())["users"][0]["user"]["token"]
    async with plane.api() as api:
        await everything(api, name)
        lease = f"--leader-elect-resource-name={name}"
        podium = PodiumProcess(kubeconfig, folder / "log", lease, secure=True)
        await podium.start(wait=False)
        try:
            return await forbidden_or_done(api, podium, name, token)
        finally:
            await podium.kill()


async def test_with_all_its_rights_nothing_is_refused(plane: ControlPlane, tmp_path: Path) -> None:
    assert await tried(plane, "all-rights", tmp_path, None) == ""


@pytest.mark.parametrize(("role", "index", "rule"), rules())
async def test_no_rule_can_be_spared(plane: ControlPlane, role: str, index: int, rule: Json, tmp_path: Path) -> None:
    async with plane.api() as api:
        groups = {group["name"] for group in (await api.get("/apis"))["groups"]} | {""}
        resources = {r["name"] for r in (await api.get("/apis/scheduling.k8s.io/v1"))["resources"]}
    group = rule["apiGroups"][0]
    if group not in groups or (group == "scheduling.k8s.io" and not resources & set(rule["resources"])):
        pytest.skip(f"Kubernetes {'.'.join(map(str, plane.version))} does not serve {group} {rule['resources'][0]}")
    refused = await tried(plane, f"without-{role.rpartition('-')[2]}-{index}", tmp_path, (role, index))
    assert any(f'resource "{resource}"' in refused for resource in rule["resources"]), refused or "nothing was refused"
