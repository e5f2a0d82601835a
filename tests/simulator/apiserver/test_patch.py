"""The three patch formats, as tables, and patches over HTTP."""

import pytest

from simulator.apiserver import ApiError
from simulator.apiserver.patch import json_patch, merge_patch, strategic_merge
from tests.fixtures_apiserver import pod

POD = "/api/v1/namespaces/default/pods/p"
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
MERGE = {"Content-Type": "application/merge-patch+json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        # The examples of RFC 7386, appendix A.
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="replace"),
        pytest.param({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, id="add"),
        pytest.param({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}, id="null removes"),
        pytest.param({"a": ["b"]}, {"a": "c"}, {"a": "c"}, id="a list gives way to a word"),
        pytest.param({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}, id="objects merge"),
        pytest.param({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}, id="lists are replaced"),
        pytest.param({"e": None}, {"a": 1}, {"e": None, "a": 1}, id="null in the target stays"),
        pytest.param({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}, id="nulls are not added"),
    ],
)
def test_merge_patch(target, patch, result):
    assert merge_patch(target, patch) == result


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        pytest.param([{"op": "add", "path": "/b", "value": 1}], {"a": [1, 2], "b": 1}, id="add a member"),
        pytest.param([{"op": "add", "path": "/a/1", "value": 9}], {"a": [1, 9, 2]}, id="add into a list"),
        pytest.param([{"op": "add", "path": "/a/-", "value": 9}], {"a": [1, 2, 9]}, id="add to the end"),
        pytest.param([{"op": "add", "path": "/a/2", "value": 9}], {"a": [1, 2, 9]}, id="add behind the last"),
        pytest.param([{"op": "remove", "path": "/a/0"}], {"a": [2]}, id="remove from a list"),
        pytest.param([{"op": "replace", "path": "/a", "value": {}}], {"a": {}}, id="replace"),
        pytest.param([{"op": "move", "from": "/a", "path": "/b"}], {"b": [1, 2]}, id="move"),
        pytest.param([{"op": "copy", "from": "/a/1", "path": "/a/0"}], {"a": [2, 1, 2]}, id="copy"),
        pytest.param(
            [{"op": "test", "path": "/a/0", "value": 1}, {"op": "remove", "path": "/a"}], {}, id="test passes"
        ),
        pytest.param(
            [{"op": "add", "path": "/x~1y~0z", "value": 1}], {"a": [1, 2], "x/y~z": 1}, id="escapes in the path"
        ),
    ],
)
def test_json_patch(operations, result):
    document = {"a": [1, 2]}
    assert json_patch(document, operations) == result
    assert document == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        pytest.param({"op": "test", "path": "/a/0", "value": 2}, 422, id="a test that fails"),
        pytest.param({"op": "remove", "path": "/b"}, 422, id="remove what is not there"),
        pytest.param({"op": "replace", "path": "/a/2", "value": 1}, 422, id="replace behind the end"),
        pytest.param({"op": "replace", "path": "/a/-", "value": 1}, 422, id="replace the end mark"),
        pytest.param({"op": "add", "path": "/b/c", "value": 1}, 422, id="add below nothing"),
        pytest.param({"op": "add", "path": "/b"}, 400, id="no value"),
        pytest.param({"op": "invent", "path": "/b"}, 400, id="unknown operation"),
        pytest.param({"op": "add", "path": "b", "value": 1}, 400, id="a path without a slash"),
        pytest.param("add", 400, id="no object"),
    ],
)
def test_json_patches_that_fail(operation, code):
    with pytest.raises(ApiError) as refused:
        json_patch({"a": [1, 2]}, [operation])
    assert refused.value.code == code


def conditions(**states):
    return [{"type": kind, "status": status} for kind, status in states.items()]


CONTAINERS = [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "1"}]


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        pytest.param(
            {"status": {"conditions": conditions(Ready="True", PodScheduled="False")}},
            {"status": {"conditions": conditions(PodScheduled="True")}},
            {"status": {"conditions": conditions(Ready="True", PodScheduled="True")}},
            id="conditions merge by type",
        ),
        pytest.param(
            {"spec": {"containers": CONTAINERS}},
            {"spec": {"containers": [{"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}]}]}},
            {
                "spec": {
                    "containers": [
                        {
                            "name": "a",
                            "image": "2",
                            "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}],
                        },
                        CONTAINERS[1],
                    ]
                }
            },
            id="containers and env merge by name",
        ),
        pytest.param(
            {"spec": {"containers": CONTAINERS}},
            {"spec": {"containers": [{"name": "b", "$patch": "delete"}]}},
            {"spec": {"containers": CONTAINERS[:1]}},
            id="one item is deleted",
        ),
        pytest.param(
            {"spec": {"containers": CONTAINERS}},
            {"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}]}},
            {"spec": {"containers": [{"name": "c"}]}},
            id="a list is replaced",
        ),
        pytest.param(
            {"spec": {"containers": CONTAINERS}},
            {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
            {"spec": {"containers": CONTAINERS[::-1]}},
            id="a list is put in order",
        ),
        pytest.param(
            {"spec": {"tolerations": [{"key": "a"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            id="tolerations are replaced",
        ),
        pytest.param(
            {"spec": {"taints": [{"key": "a"}]}},
            {"spec": {"taints": [{"key": "b"}]}},
            {"spec": {"taints": [{"key": "b"}]}},
            id="taints are replaced",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]}},
            {"metadata": {"finalizers": ["b", "c"]}},
            id="finalizers are a set",
        ),
        pytest.param(
            {"metadata": {"ownerReferences": [{"uid": "1", "kind": "ReplicaSet"}]}},
            {"metadata": {"ownerReferences": [{"uid": "1", "controller": True}, {"uid": "2"}]}},
            {"metadata": {"ownerReferences": [{"uid": "1", "kind": "ReplicaSet", "controller": True}, {"uid": "2"}]}},
            id="owners merge by uid",
        ),
        pytest.param(
            {"kind": "Service", "spec": {"ports": [{"port": 80, "name": "http"}]}},
            {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}},
            {"kind": "Service", "spec": {"ports": [{"port": 80, "name": "http", "targetPort": 8080}]}},
            id="a service's ports merge by port",
        ),
        pytest.param(
            {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}},
            {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
            {"spec": {"strategy": {"type": "Recreate"}}},
            id="only the keys named are retained",
        ),
        pytest.param(
            {"spec": {"affinity": {"nodeAffinity": {"x": 1}}}},
            {"spec": {"affinity": {"$patch": "replace", "podAffinity": {}}}},
            {"spec": {"affinity": {"podAffinity": {}}}},
            id="an object is replaced",
        ),
        pytest.param(
            {"status": {"nominatedNodeName": "n"}}, {"status": {"nominatedNodeName": None}}, {"status": {}}, id="null"
        ),
    ],
)
def test_strategic_merge(target, patch, result):
    assert strategic_merge(target, patch) == result


def test_a_strategic_patch_of_a_keyed_list_must_name_the_key():
    with pytest.raises(ApiError, match="does not contain declared merge key: name"):
        strategic_merge({"spec": {"containers": CONTAINERS}}, {"spec": {"containers": [{"image": "2"}]}})


async def patched(http, path, patch, headers):
    async with http.patch(path, json=patch, headers=headers) as response:
        return response.status, await response.json()


@pytest.mark.parametrize(
    ("patch", "headers"),
    [
        pytest.param([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}], JSON_PATCH, id="JSON patch"),
        pytest.param({"metadata": {"labels": {"a": "b"}}}, MERGE, id="merge patch"),
        pytest.param({"metadata": {"labels": {"a": "b"}}}, STRATEGIC, id="strategic merge patch"),
    ],
)
async def test_every_format_over_http(http, api_server, patch, headers):
    api_server.create(pod("p"))
    status, changed = await patched(http, POD, patch, headers)
    assert (status, changed["metadata"]["labels"]) == (200, {"a": "b"})
    assert api_server.get("pods", "p") == changed


@pytest.mark.parametrize("key", ["uid", "resourceVersion"])
async def test_a_patch_that_names_another_object_or_version_is_a_conflict(http, api_server, key):
    api_server.create(pod("p"))
    status, refusal = await patched(http, POD, {"metadata": {key: "1", "labels": {"a": "b"}}}, STRATEGIC)
    assert (status, refusal["reason"]) == (409, "Conflict")


async def test_a_status_patch_changes_status_alone(http, api_server):
    before = api_server.create(pod("p"))
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/0 nodes"}
    patch = {"status": {"conditions": [condition], "nominatedNodeName": "n"}, "spec": {"schedulerName": "x"}}
    _, changed = await patched(http, POD + "/status", patch, STRATEGIC)
    assert changed["status"]["conditions"] == [condition]
    assert changed["spec"] == before["spec"]
    assert changed["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        pytest.param("application/xml", 415, id="nothing known is no patch"),
        pytest.param("application/json", 415, id="plain JSON is no patch"),
    ],
)
async def test_other_formats_are_refused(http, api_server, content_type, status):
    api_server.create(pod("p"))
    answer, refusal = await patched(http, POD, {}, {"Content-Type": content_type})
    assert (answer, refusal["reason"]) == (status, "UnsupportedMediaType")


async def test_a_patch_of_nothing_is_not_found(http):
    status, refusal = await patched(http, POD, {}, MERGE)
    assert (status, refusal["details"]) == (404, {"name": "p", "kind": "pods"})


async def test_a_patch_cannot_rename(http, api_server):
    api_server.create(pod("p"))
    assert (await patched(http, POD, {"metadata": {"name": "q"}}, MERGE))[0] == 400
