"""The control plane itself: what the real API server answers, so that the embedded one and podium can be held to it."""

from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest
import yaml

from tests.conformance.api import STRATEGIC_MERGE_PATCH, Api, Json
from tests.conformance.find import Binaries
from tests.conformance.manifests import deploy_objects
from tests.conformance.start import KUBE_SCHEDULER, NOBODY, ControlPlane, kube_scheduler

pytestmark = pytest.mark.conformance

PODS = "/api/v1/namespaces/default/pods"


async def create_node(api: Api, name: str) -> Json:
    """A node without a kubelet: its status is given through the subresource."""
    await api.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    size = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    status = {"allocatable": size, "capacity": size, "conditions": [ready]}
    return await api.patch(f"/api/v1/nodes/{name}/status", {"status": status}, STRATEGIC_MERGE_PATCH)


async def create_pod(api: Api, name: str, scheduler: str = "podium", cpu: str = "100m") -> Json:
    container = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": scheduler, "containers": [container]}
    return await api.post(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def binding(name: str, node: str) -> Json:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


async def test_a_nodes_status_is_written_only_through_its_subresource(api: Api) -> None:
    node = await create_node(api, "sized")
    assert node["status"]["allocatable"] == {"cpu": "4", "memory": "8Gi", "pods": "110"}

    await api.patch("/api/v1/nodes/sized", {"status": {"allocatable": {"cpu": "8"}}})

    assert (await api.get("/api/v1/nodes/sized"))["status"]["allocatable"]["cpu"] == "4"


async def test_a_pod_is_bound_once_by_post_and_never_again(api: Api) -> None:
    await create_node(api, "first")
    await create_node(api, "second")
    pod = await create_pod(api, "bound-once")
    assert pod["status"]["phase"] == "Pending"

    bound = await api.request("POST", f"{PODS}/bound-once/binding", binding("bound-once", "first"))
    assert (bound.status, bound.body["status"]) == (201, "Success")

    again = await api.request("POST", f"{PODS}/bound-once/binding", binding("bound-once", "second"))
    assert (again.status, again.reason) == (409, "Conflict")
    assert 'pod bound-once is already assigned to node "first"' in again.body["message"]

    stored = await api.get(f"{PODS}/bound-once")
    assert stored["spec"]["nodeName"] == "first"
    (condition,) = stored["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        pytest.param("PATCH", f"{PODS}/odd/binding", 405, "MethodNotAllowed", id="a binding cannot be patched"),
        pytest.param("GET", f"{PODS}/odd/binding", 405, "MethodNotAllowed", id="a binding cannot be read"),
        pytest.param("GET", f"{PODS}/never-made", 404, "NotFound", id="a pod that never was is not found"),
        pytest.param("POST", f"{PODS}/never-made/binding", 404, "NotFound", id="a pod that never was cannot be bound"),
    ],
)
async def test_what_the_server_refuses(api: Api, method: str, path: str, status: int, reason: str) -> None:
    name = path.split("/")[6]
    body = binding(name, "nowhere") if method != "GET" else None
    answer = await api.request(method, path, body, STRATEGIC_MERGE_PATCH if method == "PATCH" else "")
    assert (answer.status, answer.reason) == (status, reason)


async def test_a_stale_update_is_a_conflict(api: Api) -> None:
    pod = await create_pod(api, "stale")
    await api.patch(f"{PODS}/stale", {"metadata": {"labels": {"seen": "yes"}}})
    answer = await api.request("PUT", f"{PODS}/stale", pod)
    assert (answer.status, answer.reason) == (409, "Conflict")


async def test_events_k8s_io_v1_takes_an_event(api: Api) -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "placed.1", "namespace": "default"},
        "eventTime": "2024-01-01T00:00:00.000000Z",
        "reportingController": "podium",
        "reportingInstance": "podium-0",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "placed"},
        "note": "Successfully assigned default/placed to first",
        "type": "Normal",
    }
    created = await api.post("/apis/events.k8s.io/v1/namespaces/default/events", event)
    assert created["note"] == event["note"]


async def test_every_object_of_deploy_is_accepted_by_the_real_server(api: Api, control_plane: ControlPlane) -> None:
    refused, unknown = [], set()
    for item in deploy_objects():
        collection = await api.collection_path(item)
        if collection is None:
            unknown.add(f"{item['apiVersion']} {item['kind']}")
            continue
        answer = await api.request("POST", f"{collection}?dryRun=All", item)
        # 409: another test has created it for good.
        if answer.status not in {201, 409}:
            refused.append(answer.body.get("message"))
    assert refused == []
    assert unknown == ({"policy/v1 PodDisruptionBudget"} if control_plane.version < (1, 21) else set())


def _token(kubeconfig: Path) -> str:
    return str(yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"])


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        pytest.param("GET", "/api/v1/pods", None, 200, id="may list pods everywhere"),
        pytest.param("GET", "/apis/storage.k8s.io/v1/csinodes", None, 200, id="may list CSI nodes"),
        pytest.param("POST", f"{PODS}/absent/binding", binding("absent", "n"), 404, id="may bind, if there is a pod"),
        pytest.param("DELETE", f"{PODS}/absent", None, 404, id="may delete a victim, if there is one"),
        pytest.param("GET", "/api/v1/secrets", None, 403, id="may not read secrets"),
        pytest.param("GET", "/api/v1/configmaps", None, 403, id="may not read everybody's ConfigMaps"),
        pytest.param("DELETE", "/api/v1/nodes/absent", None, 403, id="may not delete nodes"),
        pytest.param("POST", PODS, {"apiVersion": "v1", "kind": "Pod"}, 403, id="may not create pods"),
        pytest.param(
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/podium",
            None,
            404,
            id="may read its own Lease, if there is one",
        ),
        pytest.param(
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler",
            None,
            403,
            id="may not read another scheduler's Lease",
        ),
    ],
)
async def test_the_service_account_of_deploy(
    control_plane: ControlPlane, podium_kubeconfig: Path, method: str, path: str, body: Json | None, status: int
) -> None:
    async with Api(control_plane.url, control_plane.ca, _token(podium_kubeconfig)) as podium:
        assert (await podium.request(method, path, body)).status == status


async def test_nobody_may_do_nothing_and_strangers_not_even_that(control_plane: ControlPlane) -> None:
    async with control_plane.api(NOBODY) as nobody:
        assert (await nobody.request("GET", "/api/v1/pods")).status == 403
    async with Api(control_plane.url, control_plane.ca, "wrong") as stranger:
        assert (await stranger.request("GET", "/api/v1/pods")).status == 401
    assert _token(control_plane.kubeconfig(KUBE_SCHEDULER)) != _token(control_plane.kubeconfig(NOBODY))


async def test_what_was_written_outlives_the_api_server_and_etcd(own_control_plane: ControlPlane) -> None:
    plane = own_control_plane
    async with plane.api() as api:
        await create_pod(api, "survivor")
        for server, signal in ((plane.api_server, SIGKILL), (plane.api_server, SIGTERM), (plane.etcd, SIGKILL)):
            before = server.pid
            await server.stop(signal)
            assert not server.running
            server.start()
            await plane.wait_ready()
            assert server.pid != before
            assert (await api.get(f"{PODS}/survivor"))["metadata"]["name"] == "survivor"


async def test_the_real_kube_scheduler_places_a_pod(own_control_plane: ControlPlane, binaries: Binaries) -> None:
    if binaries.kube_scheduler is None:
        pytest.skip(f"{binaries.origin} has no kube-scheduler")
    async with own_control_plane.api() as api:
        await create_node(api, "only")
        async with kube_scheduler(own_control_plane, "peer"):
            await create_pod(api, "fits", "peer")
            await create_pod(api, "too-big", "peer", cpu="5")
            await api.wait_until(f"{PODS}/fits", "bound", lambda pod: pod["spec"].get("nodeName") == "only")
            refused = await api.wait_until(f"{PODS}/too-big", "refused", lambda pod: pod["status"].get("conditions"))
    (condition,) = refused["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == (
        "Unschedulable",
        "0/1 nodes are available: 1 Insufficient cpu.",
    )
