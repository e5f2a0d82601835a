"""Deleting with and without dependents, dry runs, and what new namespaces, jobs and services are given."""

import pytest

from simulator.apiserver import ApiError, ApiServer
from simulator.apiserver.deletion import DeleteOptions
from simulator.apiserver.field_validation import FieldCheck
from simulator.apiserver.verbs import Write
from tests.fixtures_apiserver import pod

OWNER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "rs"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}


@pytest.fixture
def server():
    return ApiServer(window=64)


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [
        pytest.param({"propagationPolicy": "Foreground"}, ["foregroundDeletion"], id="dependents first"),
        pytest.param({"propagationPolicy": "Orphan"}, ["orphan"], id="dependents stay"),
        pytest.param({"orphanDependents": True}, ["orphan"], id="the old way to say so"),
        pytest.param({"propagationPolicy": "Background"}, None, id="dependents later"),
        pytest.param({"orphanDependents": False}, None, id="the old way to say that"),
        pytest.param({}, None, id="nothing said"),
    ],
)
def test_the_garbage_collector_is_told_by_a_finalizer(server, options, finalizers):
    server.create(OWNER)
    resource = server.resource("replicasets")
    revision, gone = server.verbs.delete(resource, "default", "rs", DeleteOptions.parse(options))
    assert gone is (finalizers is None)
    assert revision.obj["metadata"].get("finalizers") == finalizers


def test_who_waited_for_dependents_can_be_deleted_without(server):
    server.create(OWNER)
    resource = server.resource("replicasets")
    server.verbs.delete(resource, "default", "rs", DeleteOptions(propagation="Foreground"))
    assert server.verbs.delete(resource, "default", "rs", DeleteOptions(propagation="Background"))[1] is True


async def test_the_query_says_it_too_and_nonsense_is_refused(http, api_server):
    path = "/apis/apps/v1/namespaces/default/replicasets/rs"
    api_server.create(OWNER)
    async with http.delete(f"{path}?propagationPolicy=Sideways") as response:
        assert response.status == 400
    async with http.delete(f"{path}?propagationPolicy=Orphan&dryRun=All") as response:
        assert (await response.json())["metadata"]["finalizers"] == ["orphan"]
    assert "finalizers" not in api_server.get("replicasets", "rs")["metadata"]


def test_a_new_namespace_has_an_account_and_pods_run_under_it(server):
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}})
    assert [account["metadata"]["name"] for account in server.list("serviceaccounts", "new")] == ["default"]
    assert server.create(pod("p", "new"))["spec"]["serviceAccountName"] == "default"
    assert server.create(pod("q", "new", serviceAccountName="own"))["spec"]["serviceAccount"] == "own"


def test_a_job_finds_its_pods_by_its_uid(server):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = server.create(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    )
    uid = job["metadata"]["uid"]
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert job["spec"]["template"]["metadata"]["labels"]["job-name"] == "j"


def service(name, kind="ClusterIP", **spec):
    body = {"type": kind, "ports": [{"port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": body}


def test_services_get_addresses_and_ports_that_nobody_else_has(server):
    assert server.get("services", "kubernetes")["spec"]["clusterIP"] == "10.96.0.1"
    first, second = server.create(service("a"))["spec"], server.create(service("b", "NodePort"))["spec"]
    third = server.create(service("c", "LoadBalancer", clusterIP="10.96.7.7"))["spec"]
    addresses = [spec["clusterIP"] for spec in (first, second, third)]
    assert addresses == ["10.96.0.2", "10.96.0.3", "10.96.7.7"]
    assert ["nodePort" in spec["ports"][0] for spec in (first, second, third)] == [False, True, True]
    assert second["ports"][0]["nodePort"] != third["ports"][0]["nodePort"]
    assert server.create(service("d", clusterIP="None"))["spec"]["clusterIPs"] == ["None"]
    assert "clusterIP" not in server.create(service("e", "ExternalName", externalName="x.example"))["spec"]


def test_a_replaced_service_keeps_its_address(server):
    created = server.create(service("a"))
    assert server.update(service("a", ports=[{"port": 81}]))["spec"]["clusterIP"] == created["spec"]["clusterIP"]


# --- unknown fields ------------------------------------------------------------------------------------------------


def misspelled():
    body = pod("p", hostNetwrok=True)
    body["spec"]["containers"][0]["imagePullPolcy"] = "Never"
    return body


def test_unknown_fields_are_dropped_and_told(server):
    check = FieldCheck("Warn")
    created = server.verbs.create(server.resource("pods"), "default", misspelled(), Write(fields=check)).obj
    assert check.warnings == ['unknown field "spec.containers[0].imagePullPolcy"', 'unknown field "spec.hostNetwrok"']
    assert "hostNetwrok" not in created["spec"]
    assert "imagePullPolcy" not in created["spec"]["containers"][0]


def test_strict_refuses_and_ignore_says_nothing(server):
    pods, check = server.resource("pods"), FieldCheck("Ignore")
    with pytest.raises(ApiError, match=r"strict decoding error: unknown field .*imagePullPolcy.*, unknown field"):
        server.verbs.create(pods, "default", misspelled(), Write(fields=FieldCheck("Strict")))
    server.verbs.create(pods, "default", misspelled(), Write(fields=check))
    assert check.warnings == []


async def test_warnings_are_headers(http):
    async with http.post("/api/v1/namespaces/default/pods", json=misspelled()) as response:
        assert response.status == 201
        assert response.headers.getall("Warning") == [
            '299 - "unknown field \\"spec.containers[0].imagePullPolcy\\""',
            '299 - "unknown field \\"spec.hostNetwrok\\""',
        ]
    query = "?fieldValidation=Strict"
    async with http.post(f"/api/v1/namespaces/default/pods{query}", json=misspelled()) as response:
        assert (response.status, (await response.json())["reason"]) == (400, "BadRequest")
    async with http.post("/api/v1/namespaces/default/pods?fieldValidation=Never", json=misspelled()) as response:
        assert response.status == 400


async def test_a_patch_is_checked_too(http, api_server):
    api_server.create(pod("p"))
    headers = {"Content-Type": "application/merge-patch+json"}
    path = "/api/v1/namespaces/default/pods/p?fieldValidation=Strict"
    async with http.patch(path, json={"metadata": {"lables": {}}}, headers=headers) as response:
        assert 'unknown field "metadata.lables"' in (await response.json())["message"]
