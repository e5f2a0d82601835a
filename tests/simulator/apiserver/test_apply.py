"""Server-side apply: who owns what, what goes when it is no longer applied, and when another owner is in the way.

What kubectl shows of it is compared with the real server in `tests/kubectl/transcripts/server_side_apply.txt`.
"""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.apiserver import ApiError, ApiServer
from simulator.apiserver.field_sets import field_set, from_fields, spell, to_fields
from simulator.apiserver.resources import Resource
from simulator.apiserver.schema import message
from simulator.apiserver.verbs import Write
from tests.fixtures_apiserver import pod

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}},
    },
}


def wanted(**changes):
    obj = copy.deepcopy(DEPLOYMENT)
    for path, value in changes.items():
        *steps, last = path.split("__")
        place = obj
        for step in steps:
            place = place[int(step) if step.isdigit() else step]
        place[last] = value
    return obj


def applied(server, obj, manager, force=False, name=None):
    resource = server.registry.by_kind(obj["apiVersion"], obj["kind"])
    key = ("default" if resource.namespaced else "", name or obj["metadata"]["name"])
    write = Write(manager=manager, force=force)
    return server.verbs.apply(resource, key, copy.deepcopy(obj), write=write)[0].obj


def owners(obj):
    return {entry["manager"]: entry["operation"] for entry in obj["metadata"].get("managedFields", ())}


@pytest.fixture
def server():
    return ApiServer(window=64)


def test_what_is_no_longer_applied_goes_unless_another_wants_it(server):
    applied(server, wanted(metadata__labels={"mine": "1", "ours": "2"}, spec__minReadySeconds=5), "a")
    applied(server, wanted(metadata__labels={"ours": "2"}), "b")
    left = applied(server, wanted(), "a")
    assert left["metadata"]["labels"] == {"ours": "2"}
    assert "minReadySeconds" not in left["spec"]
    assert left["spec"]["replicas"] == 1  # a default is nobody's


def test_items_of_a_list_have_owners_of_their_own(server):
    applied(server, wanted(), "a")
    side = wanted(spec__template__spec__containers=[{"name": "side", "image": "side:1", "env": [{"name": "X"}]}])
    both = applied(server, side, "b")
    assert [one["name"] for one in both["spec"]["template"]["spec"]["containers"]] == ["main", "side"]
    side["spec"]["template"]["spec"]["containers"][0] = {"name": "other", "image": "other:1"}
    changed = applied(server, side, "b")
    assert {one["name"] for one in changed["spec"]["template"]["spec"]["containers"]} == {"other", "main"}


def test_another_owner_is_in_the_way_until_force_is_used(server):
    applied(server, wanted(spec__replicas=2), "a")
    with pytest.raises(ApiError) as refusal:
        applied(server, wanted(spec__replicas=3), "b")
    assert (refusal.value.code, refusal.value.reason) == (409, "Conflict")
    assert refusal.value.details["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "a"', "field": ".spec.replicas"}
    ]
    assert server.get("deployments", "web")["spec"]["replicas"] == 2
    forced = applied(server, wanted(spec__replicas=3), "b", force=True)
    assert forced["spec"]["replicas"] == 3
    assert applied(server, wanted(), "a")["spec"]["replicas"] == 3


def test_who_wants_the_same_shares_the_field(server):
    applied(server, wanted(spec__replicas=2), "a")
    applied(server, wanted(spec__replicas=2), "b")
    assert applied(server, wanted(), "a")["spec"]["replicas"] == 2
    # `remove` alone would leave nothing, so a default takes its place.
    assert applied(server, wanted(), "b")["spec"]["replicas"] == 1


def test_an_update_takes_the_fields_that_it_changes(server):
    applied(server, wanted(spec__replicas=2, spec__paused=True), "a")
    server.patch("deployments", "web", {"spec": {"replicas": 5}})
    with pytest.raises(ApiError, match=r'conflict with "unknown" using apps/v1: .spec.replicas'):
        applied(server, wanted(spec__replicas=2, spec__paused=True), "a")
    changed = applied(server, wanted(spec__paused=True), "a")
    assert (changed["spec"]["replicas"], owners(changed)) == (5, {"a": "Apply", "unknown": "Update"})


def test_nothing_is_written_when_nothing_changes(server):
    first = applied(server, wanted(spec__replicas=2), "a")
    assert applied(server, wanted(spec__replicas=2), "a") is first


def test_what_was_there_before_the_first_apply_belongs_to_that_time(server):
    server.create(wanted(spec__replicas=2))
    assert "managedFields" not in server.get("deployments", "web")["metadata"]
    with pytest.raises(ApiError, match='conflict with "before-first-apply" using apps/v1'):
        applied(server, wanted(spec__replicas=3), "a")
    assert owners(applied(server, wanted(spec__replicas=2), "a")) == {"a": "Apply", "before-first-apply": "Update"}


def test_client_side_apply_gives_way(server):
    last = json.dumps(wanted(spec__replicas=2))
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": last}
    server.create(wanted(spec__replicas=2, metadata__annotations=annotations))
    changed = applied(server, wanted(spec__replicas=3), "kubectl")
    assert changed["spec"]["replicas"] == 3
    noted = json.loads(changed["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"])
    assert noted["spec"]["replicas"] == 3


def test_finalizers_are_a_set(server):
    applied(server, wanted(metadata__finalizers=["x/a", "x/b"]), "a")
    applied(server, wanted(metadata__finalizers=["x/b", "x/c"]), "b")
    left = applied(server, wanted(metadata__finalizers=["x/a"]), "a")
    assert set(left["metadata"]["finalizers"]) == {"x/a", "x/b", "x/c"}
    assert set(applied(server, wanted(), "b")["metadata"]["finalizers"]) == {"x/a"}


def test_a_selector_is_one_value(server):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    applied(server, {**service, "spec": {"ports": [{"port": 80}], "selector": {"a": "1", "b": "2"}}}, "a")
    replaced = applied(server, {**service, "spec": {"ports": [{"port": 80}], "selector": {"a": "1"}}}, "a")
    assert replaced["spec"]["selector"] == {"a": "1"}


def test_a_custom_resource_is_taken_apart_but_its_lists_are_not(server):
    server.registry.register(Resource("example.com", "v1", "Gadget", "gadgets", strategic_merge=False))
    gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    applied(server, {**gadget, "spec": {"size": {"x": 1, "y": 2}, "tags": ["a", "b"]}}, "a")
    merged = applied(server, {**gadget, "spec": {"size": {"x": 1}, "tags": ["c"]}}, "a")
    assert merged["spec"] == {"size": {"x": 1}, "tags": ["c"]}


def test_status_is_applied_through_its_own_door(server):
    server.create(pod("p"))
    resource = server.resource("pods")
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"message": "so"}}
    write = Write(manager="kubelet", subresource="status")
    changed = server.verbs.apply(resource, ("default", "p"), body, status=True, write=write)[0].obj
    assert changed["status"]["message"] == "so"
    assert changed["metadata"]["managedFields"][0]["subresource"] == "status"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        pytest.param({"metadata": {"name": "web"}}, "says its apiVersion and kind", id="no kind"),
        pytest.param(wanted(metadata__name="db"), "does not match the URL", id="another name"),
        pytest.param(wanted(metadata__managedFields=[{}]), "managedFields must be nil", id="owners of its own"),
        pytest.param([], "a JSON object is expected", id="no object"),
    ],
)
def test_what_cannot_be_applied(server, body, told):
    with pytest.raises(ApiError, match=told):
        server.verbs.apply(server.resource("deployments"), ("default", "web"), copy.deepcopy(body))


# --- sets of fields ------------------------------------------------------------------------------------------------


def test_a_set_of_fields_is_spelled_as_the_api_spells_it():
    obj = wanted(metadata__labels={"x": "y"}, metadata__uid="1", spec__replicas=0, status={"replicas": 1})
    fields = field_set(message("Deployment"), obj)
    container = 'k:{"name":"main"}'
    assert to_fields(fields) == {
        "f:metadata": {"f:labels": {"f:x": {}}},
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:template": {
                "f:metadata": {"f:labels": {"f:a": {}}},
                "f:spec": {"f:containers": {container: {".": {}, "f:name": {}, "f:image": {}}}},
            },
        },
    }
    assert from_fields(to_fields(fields)) == fields
    path = ("f:spec", "f:template", "f:spec", "f:containers", container, "f:image")
    assert spell(path) == '.spec.template.spec.containers[name="main"].image'


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("PQ"), LABELS), max_size=6))
def test_an_object_is_what_its_managers_last_applied(steps):
    """With force the last word counts, and takes a field from whoever wanted it otherwise."""
    server, last = ApiServer(window=64), {}
    for manager, labels in steps:
        result = applied(server, wanted(metadata__labels=labels), manager, force=True)
        for other in set(last) - {manager}:
            last[other] = {key: value for key, value in last[other].items() if labels.get(key, value) == value}
        last[manager] = labels
        merged = {key: value for each in last.values() for key, value in each.items()}
        assert result["metadata"].get("labels", {}) == merged
        assert applied(server, wanted(metadata__labels=labels), manager) is result
