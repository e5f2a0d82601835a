"""Create, get, update: names, versions, generations, and what is refused."""

import asyncio

import pytest

from simulator.apiserver import ApiError
from tests.fixtures_apiserver import node, pod

PODS = "/api/v1/namespaces/default/pods"


async def body_of(response):
    async with response:
        return response.status, await response.json()


async def test_a_created_object_gets_identity_version_and_generation(http):
    status, created = await body_of(await http.post(PODS, json=pod("p")))
    assert status == 201
    metadata = created["metadata"]
    assert metadata["namespace"] == "default"
    assert metadata["generation"] == 1
    assert len(metadata["uid"]) == 36
    assert metadata["creationTimestamp"].endswith("Z")
    assert list(created)[:2] == ["kind", "apiVersion"]
    assert await body_of(await http.get(PODS + "/p")) == (200, created)


async def test_versions_grow_across_all_resources(api_server):
    versions = [int(api_server.create(obj)["metadata"]["resourceVersion"]) for obj in (pod("a"), node("n"), pod("b"))]
    assert versions == [versions[0], versions[0] + 1, versions[0] + 2]


async def test_the_second_of_two_writers_with_the_same_version_gets_a_conflict(http):
    _, created = await body_of(await http.post(PODS, json=pod("p")))
    created["metadata"]["labels"] = {"writer": "first"}
    status, updated = await body_of(await http.put(PODS + "/p", json=created))
    assert (status, updated["metadata"]["labels"]) == (200, {"writer": "first"})
    status, refusal = await body_of(await http.put(PODS + "/p", json=created))
    assert status == 409
    assert refusal["reason"] == "Conflict"
    assert refusal["details"] == {"name": "p", "kind": "pods"}
    assert refusal["message"] == (
        'Operation cannot be fulfilled on pods "p": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


async def test_of_many_concurrent_writers_exactly_one_wins(http):
    _, created = await body_of(await http.post(PODS, json=pod("p")))

    async def write(i):
        changed = {**created, "metadata": {**created["metadata"], "labels": {"writer": str(i)}}}
        status, _ = await body_of(await http.put(PODS + "/p", json=changed))
        return status

    statuses = await asyncio.gather(*(write(i) for i in range(10)))
    assert sorted(statuses) == [200] + [409] * 9


async def test_an_update_without_a_version_is_unconditional(api_server):
    created = api_server.create(pod("p"))
    del created["metadata"]["resourceVersion"]
    created["metadata"]["labels"] = {"a": "b"}
    assert api_server.update(created)["metadata"]["labels"] == {"a": "b"}


async def test_a_lease_is_never_updated_without_a_version(api_server):
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
    api_server.create(lease)
    with pytest.raises(ApiError, match="must be specified for an update") as refused:
        api_server.update(lease)
    assert refused.value.code == 422


async def test_an_update_that_changes_nothing_makes_no_new_version(api_server):
    created = api_server.create(pod("p"))
    assert api_server.update(created)["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def test_another_uid_is_a_conflict(api_server):
    created = api_server.create(pod("p"))
    created["metadata"]["uid"] = "another"
    with pytest.raises(ApiError, match="Precondition failed: UID in precondition: another") as refused:
        api_server.update(created)
    assert refused.value.code == 409


@pytest.mark.parametrize(
    ("change", "generation"),
    [
        pytest.param({"spec": {"replicas": 5}}, 2, id="a change of spec counts"),
        pytest.param({"metadata": {"labels": {"a": "b"}}}, 1, id="a change of labels does not"),
    ],
)
async def test_generation(api_server, change, generation):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    api_server.create({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r"}, "spec": spec})
    assert api_server.patch("replicasets", "r", change)["metadata"]["generation"] == generation


async def test_status_is_only_written_through_its_subresource(http):
    status_part = {"phase": "Running", "qosClass": "Burstable"}
    await body_of(await http.post(PODS, json={**pod("p"), "status": {"phase": "Running"}}))
    _, created = await body_of(await http.get(PODS + "/p"))
    assert created["status"] == {"phase": "Pending", "qosClass": "Burstable"}
    _, updated = await body_of(await http.put(PODS + "/p", json={**created, "status": status_part}))
    assert updated["status"]["phase"] == "Pending"
    changed = {**created, "spec": {**created["spec"], "schedulerName": "other"}, "status": status_part}
    status, updated = await body_of(await http.put(PODS + "/p/status", json=changed))
    assert (status, updated["status"]) == (200, status_part)
    assert updated["spec"] == created["spec"]
    assert updated["metadata"]["generation"] == 1


async def test_a_node_brings_its_status_with_it(api_server):
    created = api_server.create(node("n", cpu="8"))
    assert created["status"]["allocatable"]["cpu"] == "8"
    assert "generation" not in created["metadata"]


async def test_generated_names_are_different(api_server):
    obj = pod("x")
    obj["metadata"] = {"generateName": "web-"}
    names = {api_server.create(obj)["metadata"]["name"] for _ in range(50)}
    assert len(names) == 50
    assert all(name.startswith("web-") and len(name) == 9 for name in names)


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        pytest.param({}, "usual", id="a claim that names no class gets the default"),
        pytest.param({"storageClassName": ""}, "", id="one that wants none gets none"),
        pytest.param({"storageClassName": "other"}, "other", id="one that names a class keeps it"),
    ],
)
async def test_the_storage_class_of_a_claim(api_server, spec, found):
    for name, default in (("other", "false"), ("usual", "true")):
        annotations = {"storageclass.kubernetes.io/is-default-class": default}
        meta = {"name": name, "annotations": annotations}
        api_server.create(
            {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": meta, "provisioner": "p"}
        )
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": size | spec}
    assert api_server.create(claim)["spec"]["storageClassName"] == found


async def test_dry_run_stores_nothing(http, api_server):
    status, created = await body_of(await http.post(PODS + "?dryRun=All", json=pod("p")))
    assert (status, created["spec"]["restartPolicy"]) == (201, "Always")
    assert api_server.list("pods") == []


async def test_what_a_caller_does_to_its_object_does_not_reach_the_store(api_server):
    mine = pod("p")
    given = api_server.create(mine)
    mine["spec"]["containers"][0]["image"] = given["spec"]["containers"][0]["image"] = "changed"
    assert api_server.get("pods", "p")["spec"]["containers"][0]["image"] == "registry.example/app:1"


async def test_restore_keeps_status_and_identity(api_server):
    dumped = pod("p", nodeName="n1")
    dumped["metadata"] |= {"uid": "u-1", "creationTimestamp": "2020-01-01T00:00:00Z", "resourceVersion": "77"}
    dumped["status"] = {"phase": "Running"}
    restored = api_server.restore(dumped)
    assert restored["metadata"]["uid"] == "u-1"
    assert restored["metadata"]["creationTimestamp"] == "2020-01-01T00:00:00Z"
    assert restored["metadata"]["resourceVersion"] == str(api_server.store.version)
    assert restored["status"] == {"phase": "Running"}


CONTAINER = {"name": "c", "image": "i"}


@pytest.mark.parametrize(
    ("name", "spec", "causes"),
    [
        pytest.param(
            "p", {"containers": []}, [("FieldValueRequired", "spec.containers")], id="a pod needs a container"
        ),
        pytest.param(
            "p",
            {"containers": [{"image": "i"}, {"name": "B"}]},
            [
                ("FieldValueRequired", "spec.containers[0].name"),
                ("FieldValueInvalid", "spec.containers[1].name"),
                ("FieldValueRequired", "spec.containers[1].image"),
            ],
            id="all problems are told at once",
        ),
        pytest.param(
            "p",
            {"containers": [CONTAINER, CONTAINER]},
            [("FieldValueDuplicate", "spec.containers[1].name")],
            id="two containers of one name",
        ),
        pytest.param(
            "Upper", {"containers": [CONTAINER]}, [("FieldValueInvalid", "metadata.name")], id="a name in capitals"
        ),
        pytest.param(
            "p",
            {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]},
            [("FieldValueInvalid", "spec.containers[0].resources.requests")],
            id="a request above its limit",
        ),
        pytest.param(
            "p",
            {"containers": [{**CONTAINER, "resources": {"requests": {"memory": "-1Gi"}}}]},
            [("FieldValueInvalid", "spec.containers[0].resources.requests[memory]")],
            id="a negative request",
        ),
        pytest.param(
            "p",
            {"containers": [{**CONTAINER, "resources": {"limits": {"example.com/gpu": "500m"}}}]},
            [("FieldValueInvalid", "spec.containers[0].resources.limits[example.com/gpu]")] * 1
            + [("FieldValueInvalid", "spec.containers[0].resources.requests[example.com/gpu]")],
            id="half an extended resource",
        ),
        pytest.param(
            "p",
            {"containers": [{**CONTAINER, "ports": [{"containerPort": 80, "hostPort": 70000}]}]},
            [("FieldValueInvalid", "spec.containers[0].ports[0].hostPort")],
            id="a port number too high",
        ),
        pytest.param(
            "p",
            {"containers": [CONTAINER], "restartPolicy": "Sometimes"},
            [("FieldValueNotSupported", "spec.restartPolicy")],
            id="an unknown word",
        ),
        pytest.param(
            "p",
            {"containers": [CONTAINER], "tolerations": [{"operator": "Equal"}]},
            [("FieldValueInvalid", "spec.tolerations[0].operator")],
            id="a toleration of everything needs Exists",
        ),
        pytest.param(
            "p",
            {"containers": [CONTAINER], "nodeName": "n", "schedulingGates": [{"name": "g"}]},
            [("FieldValueForbidden", "spec.nodeName")],
            id="a gated pod cannot have a node",
        ),
    ],
)
async def test_invalid_pods_are_refused_with_the_fields(http, name, spec, causes):
    status, refusal = await body_of(await http.post(PODS, json={"metadata": {"name": name}, "spec": spec}))
    assert status == 422
    assert refusal["reason"] == "Invalid"
    assert [(cause["reason"], cause["field"]) for cause in refusal["details"]["causes"]] == causes
    assert refusal["message"].startswith(f'Pod "{name}" is invalid: ')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("{", "not JSON", id="broken JSON"),
        pytest.param("[]", "a JSON object is expected", id="a list"),
        pytest.param('{"kind": "Node", "apiVersion": "v1"}', "must be of type Pod", id="an object of another kind"),
        pytest.param(
            '{"metadata": {"name": "p", "labels": {"a": 1}}}', "metadata.labels", id="a label that is no string"
        ),
        pytest.param(
            '{"metadata": {"name": "p", "namespace": "other"}}', "does not match the namespace", id="another namespace"
        ),
        pytest.param(
            '{"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"requests": {"cpu": "1 Gi"}}}]}}',
            "quantities must match",
            id="a quantity that is none",
        ),
    ],
)
async def test_bodies_that_cannot_be_decoded_are_bad_requests(http, text, message):
    headers = {"Content-Type": "application/json"}
    status, refusal = await body_of(await http.post(PODS, data=text, headers=headers))
    assert (status, refusal["reason"]) == (400, "BadRequest")
    assert message in refusal["message"]


@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        pytest.param({"containers": [{"name": "main", "image": "new"}]}, True, id="the image of a container"),
        pytest.param({"activeDeadlineSeconds": 5}, True, id="the deadline"),
        pytest.param({"nodeName": "n"}, False, id="the node: that is what binding is for"),
        pytest.param({"schedulerName": "other"}, False, id="the scheduler"),
        pytest.param({"nodeSelector": {"a": "b"}}, False, id="the node selector of a pod without gates"),
        pytest.param({"schedulingGates": [{"name": "g"}]}, False, id="new scheduling gates"),
        pytest.param({"tolerations": []}, False, id="fewer tolerations"),
    ],
)
async def test_what_of_a_pods_spec_may_change(api_server, change, allowed):
    api_server.create(pod("p"))
    if allowed:
        assert api_server.patch("pods", "p", {"spec": change})["metadata"]["generation"] == 2
        return
    with pytest.raises(ApiError) as refused:
        api_server.patch("pods", "p", {"spec": change})
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")


async def test_a_gated_pod_may_lose_gates_and_gain_a_node_selector(api_server):
    api_server.create(pod("p", schedulingGates=[{"name": "a"}, {"name": "b"}]))
    change = {"nodeSelector": {"disk": "ssd"}, "schedulingGates": [{"$patch": "delete", "name": "a"}]}
    changed = api_server.patch("pods", "p", {"spec": change})
    assert changed["spec"]["schedulingGates"] == [{"name": "b"}]
    assert changed["spec"]["nodeSelector"] == {"disk": "ssd"}


async def test_events_are_one_store_in_two_forms(http, api_server):
    note = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "Successfully assigned default/p to n",
        "reason": "Scheduled",
        "action": "Binding",
        "type": "Normal",
        "reportingController": "podium",
        "reportingInstance": "podium-1",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    status, created = await body_of(await http.post(path, json=note))
    assert status == 201
    assert (created["apiVersion"], created["note"]) == ("events.k8s.io/v1", note["note"])
    _, listed = await body_of(
        await http.get("/api/v1/events?fieldSelector=involvedObject.name=p,reason=Scheduled,reportingComponent=podium")
    )
    (core,) = listed["items"]
    assert core["message"] == note["note"]
    assert core["involvedObject"] == note["regarding"]
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}
    headers = {"Content-Type": "application/strategic-merge-patch+json"}
    status, patched = await body_of(await http.patch(path + "/e", json=series, headers=headers))
    assert (status, patched["series"], patched["note"]) == (200, series["series"], note["note"])
    assert api_server.get("events", "e")["series"]["count"] == 2
