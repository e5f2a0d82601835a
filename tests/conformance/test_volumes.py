"""Claims that wait for their first consumer, on the real API server with the real volume controller: podium chooses,
the controller binds, and only then is the pod bound."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from tests.conformance.api import Api, Json
from tests.conformance.controller_manager import VOLUMES, controller_manager
from tests.conformance.find import NotFoundError
from tests.conformance.podium_process import PodiumProcess, create_namespace, create_nodes, pod
from tests.conformance.server import Server
from tests.conformance.start import ControlPlane

pytestmark = pytest.mark.conformance

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
PROVISIONER = "disks.example.com"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"


@pytest_asyncio.fixture
async def volume_controller(control_plane: ControlPlane) -> AsyncIterator[Server]:
    try:
        async with controller_manager(control_plane, VOLUMES) as server:
            yield server
    except NotFoundError as error:
        pytest.skip(str(error))


@contextmanager
def explained(*servers: Server) -> Iterator[None]:
    """What the servers said last, where a wait was in vain."""
    try:
        yield
    except Exception as error:
        for server in servers:
            error.add_note(f"{server.name}: {server.log.read_text(errors='replace')[-1500:]}")
        raise


async def create_class(api: Api, name: str, provisioner: str) -> None:
    await api.post(
        CLASSES,
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )


def claim(name: str, namespace: str, class_name: str, size: str = "1Gi") -> Json:
    spec = {
        "storageClassName": class_name,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
    }
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def volume(name: str, class_name: str, node: str, size: str = "1Gi") -> Json:
    """A disk of one node."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    spec = {
        "storageClassName": class_name,
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": size},
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": f"/disks/{name}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def consumer(name: str, prefix: str, claim_name: str) -> Json:
    return pod(name, prefix, volumes=[{"name": "disk", "persistentVolumeClaim": {"claimName": claim_name}}])


async def test_claims_that_wait_get_the_volumes_that_suit_and_their_pods_the_nodes_these_are_on(
    api: Api, podium_kubeconfig: Path, volume_controller: Server, tmp_path: Path
) -> None:
    """Three nodes, two of them with one disk each, and two pods: no volume is given twice, no pod goes to the third."""
    names = await create_nodes(api, "disks", 3)
    pods = await create_namespace(api, "disks")
    claims = pods.replace("/pods", "/persistentvolumeclaims")
    await create_class(api, "disks-static", "kubernetes.io/no-provisioner")
    for name in names[:2]:
        await api.post("/api/v1/persistentvolumes", volume(f"disk-of-{name}", "disks-static", name))
    async with PodiumProcess(podium_kubeconfig, tmp_path / "log") as podium:
        for i in range(2):
            await api.post(claims, claim(f"data-{i}", "disks", "disks-static"))
            await api.post(pods, consumer(f"web-{i}", "disks", f"data-{i}"))
        with explained(volume_controller):
            done = await api.wait_until(
                pods, "bound", lambda body: all(p["spec"].get("nodeName") for p in body["items"])
            )
            bound = await api.wait_until(
                claims, "bound", lambda body: all(c["status"].get("phase") == "Bound" for c in body["items"])
            )
        assert "Traceback" not in podium.log
    given = {c["metadata"]["name"]: c["spec"]["volumeName"] for c in bound["items"]}
    assert sorted(given.values()) == [f"disk-of-{name}" for name in names[:2]]
    for each in done["items"]:
        used = each["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
        assert given[used] == f"disk-of-{each['spec']['nodeName']}"


async def test_a_pod_whose_class_has_no_volume_left_waits_and_goes_on_when_one_is_made(
    api: Api, podium_kubeconfig: Path, volume_controller: Server, tmp_path: Path
) -> None:
    [name] = await create_nodes(api, "late-disk", 1)
    pods = await create_namespace(api, "late-disk")
    await create_class(api, "late-disk", "kubernetes.io/no-provisioner")
    await api.post(pods.replace("/pods", "/persistentvolumeclaims"), claim("data", "late-disk", "late-disk"))
    async with PodiumProcess(podium_kubeconfig, tmp_path / "log") as podium:
        await api.post(pods, consumer("web", "late-disk", "data"))
        refused = await api.wait_until(f"{pods}/web", "refused", lambda body: body["status"].get("conditions"))
        assert (
            "node(s) didn't find available persistent volumes to bind" in refused["status"]["conditions"][0]["message"]
        )
        await api.post("/api/v1/persistentvolumes", volume("late-disk", "late-disk", name))
        with explained(volume_controller):
            await api.wait_until(f"{pods}/web", "bound", lambda body: body["spec"].get("nodeName") == name)
        assert await podium.metric("scheduler_pod_scheduled_after_flush_total") == 0


class Provisioner:
    """An external provisioner as small as can be: it makes a disk on the node that podium has chosen.

    Once, it says that it cannot: by taking the choice off the claim.
    """

    def __init__(self, api: Api, claims: str) -> None:
        self._api = api
        self._claims = claims
        self.refused: list[str] = []
        self.made: dict[str, str] = {}

    async def run(self) -> None:
        while True:
            for each in (await self._api.get(self._claims))["items"]:
                annotations = each["metadata"].get("annotations", {})
                chosen = annotations.get(SELECTED_NODE)
                if (
                    chosen
                    and annotations.get(STORAGE_PROVISIONER) == PROVISIONER
                    and not each["spec"].get("volumeName")
                ):
                    await self._answer(each, chosen)
            await asyncio.sleep(0.1)

    async def _answer(self, wanted: Json, node: str) -> None:
        meta = wanted["metadata"]
        if not self.refused:
            self.refused.append(node)
            path = f"{self._claims}/{meta['name']}"
            await self._api.patch(path, {"metadata": {"annotations": {SELECTED_NODE: None}}})
            return
        name = f"pvc-{meta['uid']}"
        if name in self.made:
            return
        self.made[name] = node
        made = volume(name, wanted["spec"]["storageClassName"], node)
        made["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": PROVISIONER}
        made["spec"]["claimRef"] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            **{key: meta[key] for key in ("namespace", "name", "uid")},
        }
        await self._api.post("/api/v1/persistentvolumes", made)


@asynccontextmanager
async def provisioning(api: Api, claims: str) -> AsyncIterator[Provisioner]:
    made = Provisioner(api, claims)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(made.run())
        yield made
        running.cancel()


async def test_a_claim_is_provisioned_on_the_chosen_node_and_again_after_the_provisioner_refused(
    api: Api, podium_kubeconfig: Path, volume_controller: Server, tmp_path: Path
) -> None:
    await create_nodes(api, "made", 3)
    pods = await create_namespace(api, "made")
    claims = pods.replace("/pods", "/persistentvolumeclaims")
    await create_class(api, "made", PROVISIONER)
    async with PodiumProcess(podium_kubeconfig, tmp_path / "log") as podium, provisioning(api, claims) as provisioner:
        await api.post(claims, claim("data", "made", "made"))
        await api.post(pods, consumer("web", "made", "data"))
        with explained(volume_controller):
            web = await api.wait_until(f"{pods}/web", "bound", lambda body: body["spec"].get("nodeName"))
        data = await api.get(f"{claims}/data")
        assert data["status"]["phase"] == "Bound"
        assert provisioner.refused
        assert list(provisioner.made.items()) == [(data["spec"]["volumeName"], web["spec"]["nodeName"])]
        assert data["metadata"]["annotations"][SELECTED_NODE] == web["spec"]["nodeName"]
        assert "Traceback" not in podium.log
