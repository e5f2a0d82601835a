"""Decoding as Go would, errors of one line, and objects that survive the wire."""

import datetime
import json

import pytest

from kube.api import resources
from kube.api.codec import DecodeError, WatchEvent, convert, decode, decode_list, encode, to_builtins
from kube.api.coordination import Lease, LeaseSpec
from kube.api.core import Binding, Node, PersistentVolumeClaim, Pod, Toleration
from kube.api.meta import (
    ApiObject,
    Condition,
    Object,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    condition_is_true,
    controller_of,
    format_micro_time,
    format_time,
    parse_time,
)
from kube.api.policy import PodDisruptionBudget
from kube.api.storage import CSINode, CSIStorageCapacity
from tests.builders import ZONE, affinity, exists, make_node, make_pod, pod_term, selector, spread


def as_bytes(document):
    return json.dumps(document).encode()


def test_only_what_is_read_is_kept():
    pod = decode(
        b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","managedFields":[{"x":1}]},"spec":{"nodeName":"n1",'
        b'"containers":[{"name":"c","env":[{"name":"A"}],"ports":[{"hostPort":80,"hostIP":"10.0.0.1"}]}]}}',
        Pod,
    )
    assert pod.metadata.name == "web"
    assert pod.spec.node_name == "n1"
    assert pod.spec.containers[0].ports[0].host_ip == "10.0.0.1"
    assert pod.spec.priority is None
    assert pod.status.conditions == ()


def test_null_is_the_zero_value():
    pod = decode(
        b'{"metadata":{"name":"web","creationTimestamp":null,"labels":null,"ownerReferences":null},'
        b'"spec":{"containers":null,"priority":null,"nodeName":null,"tolerations":[null,{"key":"a","value":null}]},"status":null}',
        Pod,
    )
    assert (pod.metadata.labels, pod.metadata.creation_timestamp, pod.spec.containers) == ({}, "", ())
    assert pod.spec.tolerations == (Toleration(key="a"),)
    assert pod.spec.priority is None


def test_a_label_with_a_null_value_is_there_and_empty():
    pod = decode(b'{"metadata":{"labels":{"a":null},"annotations":{"b":null}},"spec":{"nodeName":null}}', Pod)
    assert (pod.metadata.labels, pod.metadata.annotations) == ({"a": ""}, {"b": ""})


def test_numbers_are_quantities_where_quantities_belong():
    requests = {"cpu": 2, "memory": 0.5, "example.com/gpu": None, "pods": "3"}
    pod = convert({"spec": {"containers": [{"resources": {"requests": requests}}], "overhead": {"cpu": 1}}}, Pod)
    assert pod.spec.containers[0].resources.requests == {"cpu": "2", "memory": "0.5", "pods": "3"}
    assert pod.spec.overhead == {"cpu": "1"}
    assert convert({"status": {"allocatable": {"cpu": 4}}}, Node).status.allocatable == {"cpu": "4"}
    assert convert({"capacity": 1000}, CSIStorageCapacity).capacity == "1000"
    driver = {"name": "d", "nodeID": None, "allocatable": {"count": 25}}
    assert convert({"spec": {"drivers": [driver]}}, CSINode).spec.drivers[0].allocatable.count == 25


def test_a_time_that_yaml_read_as_a_date_is_text_again():
    created = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    pod = convert({"metadata": {"creationTimestamp": created, "labels": {"a": "b"}}}, Pod)
    assert pod.metadata.creation_timestamp == "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        pytest.param(
            {"metadata": {"namespace": "shop", "name": "web"}, "spec": {"containers": [{"image": 7}]}},
            "Pod shop/web: spec.containers[0].image: expected `str`, got `int`",
            id="a number for an image",
        ),
        pytest.param(
            {"metadata": {"name": "web", "labels": {"version": 2}}},
            "Pod web: metadata.labels[...]: expected `str`, got `int`",
            id="a number for a label",
        ),
        pytest.param(
            {"spec": {"containers": [{"resources": {"requests": {"cpu": True}}}]}},
            "Pod: spec.containers[0].resources.requests[...]: expected `str`, got `bool`",
            id="a boolean for a quantity",
        ),
        pytest.param([], "Pod: expected `object`, got `array`", id="a list for an object"),
    ],
)
def test_a_bad_object_is_named_with_its_field(document, complaint):
    with pytest.raises(DecodeError) as error:
        decode(as_bytes(document), Pod)
    assert str(error.value) == complaint


@pytest.mark.parametrize(
    "body",
    [pytest.param(b'{"metadata":', id="cut off"), pytest.param(b'{"metadata":{"name":1}', id="wrong, then cut off")],
)
def test_malformed_json_is_a_decode_error(body):
    with pytest.raises(DecodeError, match=r"\APod: not valid JSON: .*truncated"):
        decode(body, Pod)


def test_one_bad_item_costs_itself_only():
    page = {
        "metadata": {"resourceVersion": "9", "continue": "next"},
        "items": [{"metadata": {"name": "a"}}, {"spec": 1}, {}],
    }
    meta, pods, errors = decode_list(as_bytes(page), Pod)
    assert (meta.resource_version, meta.continue_token) == ("9", "next")
    assert [pod.metadata.name for pod in pods] == ["a", ""]
    assert [str(error) for error in errors] == ["Pod: spec: expected `object`, got `int`"]


def test_an_empty_list_may_be_null():
    assert decode_list(b'{"metadata":{"resourceVersion":"1"},"items":null}', Pod)[1] == []


def test_a_watch_event_keeps_its_object_for_later():
    event = decode(b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"web"}}}', WatchEvent)
    assert event.type == "ADDED"
    assert decode(event.object, Pod).metadata.name == "web"


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(make_pod("plain"), id="a plain pod"),
        pytest.param(
            make_pod(
                "full",
                cpu="1",
                labels={"app": "web"},
                priority=0,
                tolerations=[exists("a")],
                claims=["data"],
                scheduling_gates=["g"],
                spread=[spread(ZONE, {}, min_domains=2), spread(ZONE)],
                affinity=affinity(
                    anti_required=[pod_term(ZONE, {"app": "web"}, namespace_selector=selector())],
                    pod_preferred=[(5, pod_term(ZONE))],
                ),
            ),
            id="a pod with affinity and spread",
        ),
        pytest.param(make_node("n1", zone="a", images={"nginx": 5}), id="a node"),
    ],
)
def test_an_object_survives_the_wire(obj):
    assert decode(encode(obj), type(obj)) == obj
    assert convert(to_builtins(obj), type(obj)) == obj


def test_nil_and_empty_selectors_stay_apart_on_the_wire():
    document = to_builtins(make_pod("p", affinity=affinity(anti_required=[pod_term(ZONE), pod_term(ZONE, {})])))
    nil, empty = document["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert "labelSelector" not in nil
    assert empty["labelSelector"] == {}


def test_what_is_sent_names_its_kind():
    binding = Binding(metadata=ObjectMeta(name="web"), target=ObjectReference(kind="Node", name="n1"))
    assert encode(binding) == (
        b'{"apiVersion":"v1","kind":"Binding","metadata":{"name":"web"},"target":{"kind":"Node","name":"n1"}}'
    )
    assert to_builtins(Lease(spec=LeaseSpec(holder_identity="me"))) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "spec": {"holderIdentity": "me"},
    }
    assert encode(Lease()) == b'{"apiVersion":"coordination.k8s.io/v1","kind":"Lease"}'
    assert encode({"a": [1]}) == b'{"a":[1]}'


def test_int_or_string_fields_take_both():
    assert convert({"spec": {"minAvailable": 1, "maxUnavailable": "50%"}}, PodDisruptionBudget).spec.min_available == 1


def test_a_claim_without_class_differs_from_the_default_class():
    assert convert({"spec": {"storageClassName": ""}}, PersistentVolumeClaim).spec.storage_class_name == ""
    assert convert({"spec": {}}, PersistentVolumeClaim).spec.storage_class_name is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("1970-01-01T00:00:10Z", 10.0, id="metav1.Time"),
        pytest.param("1970-01-01T00:00:10.250000Z", 10.25, id="MicroTime"),
        pytest.param("1970-01-01T01:00:00+01:00", 0.0, id="with an offset"),
    ],
)
def test_times(text, seconds):
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "yesterday", "1970-01-01", "1970-01-01T00:00:00", "1970-01-01 00:00:00Z"])
def test_what_is_no_rfc_3339_time_is_refused(text):
    with pytest.raises(ValueError, match="expected an RFC 3339 time"):
        parse_time(text)


def test_times_are_written_in_utc():
    assert format_time(10.9) == "1970-01-01T00:00:10Z"
    assert format_micro_time(10.25) == "1970-01-01T00:00:10.250000Z"
    assert format_micro_time(10.9999996) == "1970-01-01T00:00:11.000000Z"
    assert format_micro_time(1_767_366_245.000007) == "2026-01-02T15:04:05.000007Z"


def test_conditions_owners_and_keys():
    ready = Condition(type="Ready", status="True")
    assert condition_is_true((ready,), "Ready")
    assert not condition_is_true((ready,), "Other")
    owner = OwnerReference(kind="ReplicaSet", name="r", controller=True)
    assert controller_of(ObjectMeta(owner_references=(OwnerReference(name="x"), owner))) == owner
    assert (make_pod("p").key, make_node("n").key) == ("default/p", "n")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (resources.PODS.path(), "/api/v1/pods"),
        (resources.PODS.path("shop", "web", "binding"), "/api/v1/namespaces/shop/pods/web/binding"),
        (resources.NODES.path(name="n1"), "/api/v1/nodes/n1"),
        (resources.NODES.path("ignored", "n1"), "/api/v1/nodes/n1"),
        (
            resources.LEASES.path("kube-system", "podium"),
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/podium",
        ),
        (resources.POD_DISRUPTION_BUDGETS.at_version("v1beta1").path(), "/apis/policy/v1beta1/poddisruptionbudgets"),
    ],
)
def test_paths(path, expected):
    assert path == expected


def test_every_resource_is_found_by_kind_plural_and_type():
    for resource in resources.RESOURCES:
        assert resources.by_kind(resource.type.API_VERSION, resource.kind) is resource
        assert resources.by_plural(resource.plural, resource.group) is resource
        assert resources.by_type(resource.type) is resource
        assert resource.api_version == resource.type.API_VERSION
    assert resources.by_kind("policy/v1beta1", "PodDisruptionBudget") is resources.POD_DISRUPTION_BUDGETS
    assert resources.by_kind("v1", "ConfigMap") is None
    assert resources.POD_DISRUPTION_BUDGETS.group_resource == "poddisruptionbudgets.policy"


def all_types(base):
    for type_ in base.__subclasses__():
        yield type_
        yield from all_types(type_)


def test_every_type_is_frozen_camel_cased_and_out_of_the_collectors_sight():
    types = [type_ for type_ in all_types(Object) if type_.__module__.startswith("kube.api")]
    assert len(types) > 80
    for type_ in types:
        config = type_.__struct_config__
        assert (config.frozen, config.gc, config.omit_defaults) == (True, False, True), type_
        assert not any("_" in name for name in type_.__struct_encode_fields__), type_
    assert set(all_types(ApiObject)) >= {resource.type for resource in resources.RESOURCES}


@pytest.mark.parametrize(
    "wrong", ["hostIp", "podIp", "podCidr", "providerId", "volumeId", "nodeId", "clusterIp", "diskUri"]
)
def test_acronyms_keep_their_capitals(wrong):
    names = {name for type_ in all_types(Object) for name in type_.__struct_encode_fields__}
    assert wrong not in names
