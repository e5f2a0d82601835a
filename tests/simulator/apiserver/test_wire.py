"""Discovery, health, authentication, and the answers to requests that make no sense."""

import io

import aiohttp
import pytest
import yaml

from simulator.apiserver import ApiServer
from simulator.apiserver.resources import Resource
from tests.fixtures_apiserver import pod


async def ask(http, method, path, **options):
    async with http.request(method, path, **options) as response:
        return response.status, await response.json()


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        pytest.param("GET", "/", 404, "NotFound", id="the root"),
        pytest.param("GET", "/api/v1/gadgets", 404, "NotFound", id="an unknown resource"),
        pytest.param("GET", "/api/v2", 404, "NotFound", id="an unknown version"),
        pytest.param("GET", "/apis/example.com", 404, "NotFound", id="an unknown group"),
        pytest.param("GET", "/api/v1/pods/p", 404, "NotFound", id="a pod without namespace"),
        pytest.param("GET", "/api/v1/namespaces/default/nodes", 404, "NotFound", id="a node in a namespace"),
        pytest.param("GET", "/api/v1/namespaces/default/pods/p/logs", 404, "NotFound", id="an unknown subresource"),
        pytest.param("GET", "/api/v1/namespaces/default/bindings", 405, "MethodNotAllowed", id="a list of bindings"),
        pytest.param("POST", "/api/v1/pods", 405, "MethodNotAllowed", id="create in all namespaces"),
        pytest.param("POST", "/version", 405, "MethodNotAllowed", id="create a version"),
        pytest.param("PUT", "/api/v1/nodes", 405, "MethodNotAllowed", id="replace a collection"),
    ],
)
async def test_requests_that_lead_nowhere(http, method, path, status, reason):
    answer = await ask(http, method, path)
    assert (answer[0], answer[1]["kind"], answer[1]["reason"], answer[1]["code"]) == (status, "Status", reason, status)


async def test_a_missing_object_is_named(http):
    status, refusal = await ask(http, "GET", "/apis/apps/v1/namespaces/default/replicasets/r")
    assert status == 404
    assert refusal == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'replicasets.apps "r" not found',
        "reason": "NotFound",
        "details": {"name": "r", "group": "apps", "kind": "replicasets"},
        "code": 404,
    }


async def test_what_is_neither_json_nor_yaml_nor_protobuf_is_refused(http):
    headers = {"Content-Type": "application/xml"}
    status, refusal = await ask(http, "POST", "/api/v1/namespaces/default/pods", data=b"<pod/>", headers=headers)
    assert (status, refusal["reason"]) == (415, "UnsupportedMediaType")


async def test_a_body_has_a_limit(http):
    body = io.BytesIO(b'{"metadata": {"name": "c"}, "data": {"x": "' + b"x" * 4_000_000 + b'"}}')
    status, refusal = await ask(http, "POST", "/api/v1/namespaces/default/configmaps", data=body)
    assert (status, refusal["reason"]) == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health(http, path):
    async with http.get(path) as response:
        assert (response.status, await response.text()) == (200, "ok")


async def test_discovery_tells_names_verbs_and_subresources(http):
    _, core = await ask(http, "GET", "/api/v1")
    entries = {entry["name"]: entry for entry in core["resources"]}
    assert core["groupVersion"] == "v1"
    assert entries["pods"] == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["po"],
        "categories": ["all"],
    }
    assert entries["nodes"]["namespaced"] is False
    assert entries["pods/binding"]["verbs"] == ["create"]
    assert (entries["pods/eviction"]["group"], entries["pods/eviction"]["kind"]) == ("policy", "Eviction")


async def test_every_group_leads_to_its_resources(http):
    _, groups = await ask(http, "GET", "/apis")
    names = {group["name"] for group in groups["groups"]}
    assert {"apps", "batch", "coordination.k8s.io", "events.k8s.io", "policy", "storage.k8s.io"} <= names
    for group in groups["groups"]:
        assert (await ask(http, "GET", f"/apis/{group['name']}"))[1]["name"] == group["name"]
        version = group["preferredVersion"]["groupVersion"]
        _, listed = await ask(http, "GET", f"/apis/{version}")
        assert listed["groupVersion"] == version
        plurals = [entry["name"] for entry in listed["resources"] if "/" not in entry["name"]]
        for plural in plurals:
            assert (await ask(http, "GET", f"/apis/{version}/{plural}"))[0] == 200


async def test_openapi_tells_that_the_server_validates(http):
    _, index = await ask(http, "GET", "/openapi/v3")
    assert index["paths"]["apis/apps/v1"] == {"serverRelativeURL": "/openapi/v3/apis/apps/v1"}
    for root, path in (("api/v1", "nodes/{name}"), ("apis/apps/v1", "namespaces/{namespace}/deployments/{name}")):
        _, document = await ask(http, "GET", index["paths"][root]["serverRelativeURL"])
        operation = document["paths"][f"/{root}/{path}"]["patch"]
        assert {parameter["name"] for parameter in operation["parameters"]} == {"dryRun", "fieldValidation"}


async def test_a_resource_can_be_added_and_taken_away(http, api_server):
    api_server.registry.register(Resource("example.com", "v1", "Gadget", "gadgets", strategic_merge=False))
    path = "/apis/example.com/v1/namespaces/default/gadgets"
    status, created = await ask(http, "POST", path, json={"metadata": {"name": "g"}, "spec": {"any": ["thing"]}})
    assert (status, created["kind"], created["spec"]) == (201, "Gadget", {"any": ["thing"]})
    strategic = {"Content-Type": "application/strategic-merge-patch+json"}
    assert (await ask(http, "PATCH", path + "/g", json={}, headers=strategic))[0] == 415
    merge = {"Content-Type": "application/merge-patch+json"}
    assert (await ask(http, "PATCH", path + "/g", json={"spec": None}, headers=merge))[0] == 200
    api_server.registry.unregister("example.com", "v1", "gadgets")
    assert (await ask(http, "GET", path))[0] == 404


async def test_a_token_is_asked_for(tmp_path):
    async with ApiServer(token="secret") as server, aiohttp.ClientSession(server.url) as session:
        assert (await ask(session, "GET", "/api/v1/pods"))[0] == 401
        wrong = {"Authorization": "Bearer guess"}
        status, refusal = await ask(session, "GET", "/api/v1/pods", headers=wrong)
        assert (status, refusal["reason"]) == (401, "Unauthorized")
        path = server.write_kubeconfig(tmp_path / "config")
        config = yaml.safe_load(path.read_text())
        token = config["users"][0]["user"]["token"]
        assert config["clusters"][0]["cluster"]["server"] == server.url
        assert path.stat().st_mode & 0o077 == 0
        right = {"Authorization": f"Bearer {token}"}
        assert (await ask(session, "GET", "/api/v1/pods", headers=right))[0] == 200


async def test_a_taken_port_is_an_os_error(api_server):
    port = int(api_server.url.rpartition(":")[2])
    with pytest.raises(OSError, match="address already in use"):
        await ApiServer(port).start()


async def test_in_process_and_http_see_the_same(http, api_server):
    created = api_server.create(pod("p"))
    assert (await ask(http, "GET", "/api/v1/namespaces/default/pods/p"))[1] == created
