"""What an API server fills in."""

from __future__ import annotations

import copy
import json

import pytest

from simulator.load.defaults import Defaults, Priority
from simulator.load.problems import Problems

CLASSES = [
    Priority("gold", 1000, "Never"),
    Priority("silver", 500, "PreemptLowerPriority", global_default=True),
    Priority("bronze", 100, "PreemptLowerPriority", global_default=True),
]


def filled(body, classes=()):
    body = {"metadata": {"name": "x"}, **copy.deepcopy(body)}
    defaults = Defaults(classes, Problems())
    defaults.apply(body, "here", namespaced=body["kind"] not in ("Node", "PersistentVolume", "StorageClass"))
    once = copy.deepcopy(body)
    defaults.apply(body, "here", namespaced=body["kind"] not in ("Node", "PersistentVolume", "StorageClass"))
    assert body == once, "defaults applied twice changed something"
    return body


def pod_spec(spec, classes=(), **meta):
    return filled({"kind": "Pod", "metadata": {"name": "x", **meta}, "spec": spec}, classes)["spec"]


def requests_of(resources):
    [container] = pod_spec({"containers": [{"name": "c", "resources": resources}]})["containers"]
    return container["resources"].get("requests", {})


@pytest.mark.parametrize(
    ("resources", "requests"),
    [
        pytest.param({"limits": {"cpu": "1"}}, {"cpu": "1"}, id="a limit alone is the request"),
        pytest.param(
            {"limits": {"cpu": "1", "example.com/gpu": 2}, "requests": {"cpu": "100m"}},
            {"cpu": "100m", "example.com/gpu": "2"},
            id="each resource by itself, extended ones too",
        ),
        pytest.param({"limits": {"cpu": "1"}, "requests": {"cpu": "0"}}, {"cpu": "0"}, id="zero is a request"),
        pytest.param({"requests": {"cpu": 2}}, {"cpu": "2"}, id="whole numbers become text"),
        pytest.param({"limits": {"cpu": "1"}, "requests": None}, {"cpu": "1"}, id="null is absent"),
        pytest.param({}, {}, id="nothing from nothing"),
    ],
)
def test_requests_come_from_limits(resources, requests):
    assert requests_of(resources) == requests


@pytest.mark.parametrize(
    ("containers", "resources", "requests"),
    [
        pytest.param([{}], {"limits": {"cpu": "2"}}, {"cpu": "2"}, id="a pod-level limit is the request"),
        pytest.param(
            [{"resources": {"requests": {"cpu": "1"}}}],
            {"limits": {"cpu": "2", "memory": "1Gi"}},
            {"memory": "1Gi"},
            id="unless a container asks for that resource",
        ),
        pytest.param(
            [{"resources": {"limits": {"hugepages-2Mi": "2Mi"}}}],
            {"limits": {"hugepages-2Mi": "4Mi"}},
            {"hugepages-2Mi": "4Mi"},
            id="hugepages always, for they cannot be overcommitted",
        ),
        pytest.param([{}], {"limits": {"example.com/gpu": "1"}}, {}, id="never extended resources"),
    ],
)
def test_pod_level_requests_come_from_pod_level_limits(containers, resources, requests):
    assert pod_spec({"containers": containers, "resources": resources})["resources"].get("requests", {}) == requests


@pytest.mark.parametrize(
    ("host_network", "port", "becomes"),
    [
        pytest.param(False, {"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}, id="TCP by default"),
        pytest.param(False, {"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "UDP"},
                     id="a protocol stays"),
        pytest.param(True, {"containerPort": 80}, {"containerPort": 80, "hostPort": 80, "protocol": "TCP"},
                     id="on the host's network every port is a host port"),
        pytest.param(True, {"containerPort": 80, "hostPort": 81}, {"containerPort": 80, "hostPort": 81,
                     "protocol": "TCP"}, id="a host port stays"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_ports(field, host_network, port, becomes):
    spec = pod_spec({"hostNetwork": host_network, field: [{"name": "c", "ports": [port]}]})
    assert spec[field][0]["ports"] == [becomes]


@pytest.mark.parametrize(
    ("spec", "classes", "priority", "policy"),
    [
        pytest.param({}, (), 0, "PreemptLowerPriority", id="zero without any class"),
        pytest.param({"priorityClassName": "gold"}, CLASSES, 1000, "Never", id="value and policy of the class"),
        pytest.param({"priorityClassName": "gold", "preemptionPolicy": "PreemptLowerPriority"}, CLASSES, 1000,
                     "PreemptLowerPriority", id="the pod's own policy stays"),
        pytest.param({"priority": 7, "priorityClassName": "gold"}, CLASSES, 7, None, id="an admitted pod stays"),
        pytest.param({"priority": 0}, CLASSES, 0, None, id="zero is a priority"),
        pytest.param({}, CLASSES, 100, "PreemptLowerPriority", id="of two global defaults the lower"),
        pytest.param({"priorityClassName": "system-node-critical"}, (), 2_000_001_000, "PreemptLowerPriority",
                     id="the node-critical class exists everywhere"),
        pytest.param({"priorityClassName": "system-cluster-critical"}, (), 2_000_000_000, "PreemptLowerPriority",
                     id="the cluster-critical class exists everywhere"),
        pytest.param({"priorityClassName": "lost"}, (), 0, "PreemptLowerPriority", id="zero for an unknown class"),
    ],
)  # fmt: skip
def test_priority(spec, classes, priority, policy):
    found = pod_spec(spec, classes)
    assert (found["priority"], found.get("preemptionPolicy")) == (priority, policy)


def test_an_unknown_priority_class_is_a_warning_once():
    problems = Problems()
    defaults = Defaults((), problems)
    for name in ("a", "b"):
        defaults.apply({"kind": "Pod", "metadata": {"name": name}, "spec": {"priorityClassName": "lost"}}, name)
    assert problems.warnings == ("a: spec.priorityClassName: no PriorityClass lost in the input, priority 0",)


@pytest.mark.parametrize(
    ("term", "expressions"),
    [
        pytest.param(
            {"matchLabelKeys": ["rev"], "labelSelector": {}},
            [{"key": "rev", "operator": "In", "values": ["7"]}],
            id="a match key narrows to the pod's own value",
        ),
        pytest.param(
            {"mismatchLabelKeys": ["tenant"], "labelSelector": {"matchExpressions": [{"key": "a"}]}},
            [{"key": "a"}, {"key": "tenant", "operator": "NotIn", "values": ["t1"]}],
            id="a mismatch key shuts the pod's own value out",
        ),
        pytest.param({"matchLabelKeys": ["none"], "labelSelector": {}}, None, id="a label the pod lacks says nothing"),
        pytest.param({"matchLabelKeys": ["rev"]}, None, id="without a selector there is nothing to narrow"),
    ],
)
@pytest.mark.parametrize("side", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("required", [True, False])
def test_label_keys_are_merged_into_the_selector_of_a_new_pod(side, required, term, expressions):
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    rules = {field: [term]}
    if not required:
        field = "preferredDuringSchedulingIgnoredDuringExecution"
        rules = {field: [{"weight": 1, "podAffinityTerm": term}]}
    spec = pod_spec({"affinity": {side: rules}}, labels={"rev": "7", "tenant": "t1"})
    merged = spec["affinity"][side][field][0]
    merged = merged if required else merged["podAffinityTerm"]
    assert merged.get("labelSelector", {}).get("matchExpressions") == expressions


def test_label_keys_of_a_running_pod_are_left_as_the_server_stored_them():
    term = {"matchLabelKeys": ["rev"], "labelSelector": {}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert pod_spec({"nodeName": "n1", "affinity": affinity}, labels={"rev": "7"})["affinity"] == affinity


@pytest.mark.parametrize(
    ("body", "path", "value"),
    [
        pytest.param({"kind": "Pod"}, "metadata.namespace", "default", id="objects live in the namespace default"),
        pytest.param({"kind": "Node"}, "metadata.namespace", None, id="nodes live in none"),
        pytest.param({"kind": "Pod"}, "spec.schedulerName", "default-scheduler", id="the default scheduler"),
        pytest.param({"kind": "Pod"}, "spec.restartPolicy", "Always", id="pods restart"),
        pytest.param({"kind": "Pod"}, "status.phase", "Pending", id="a new pod is pending"),
        pytest.param({"kind": "Pod", "spec": {"tolerations": [{"key": "a"}]}}, "spec.tolerations", [{"key": "a"}],
                     id="tolerations stay as they are, no operator means Equal"),
        pytest.param({"kind": "Pod", "spec": {"overhead": {"cpu": 1}}}, "spec.overhead", {"cpu": "1"},
                     id="overhead in whole numbers"),
        pytest.param({"kind": "Node", "status": {"capacity": {"cpu": 4}}}, "status.allocatable", {"cpu": "4"},
                     id="all of a node is allocatable"),
        pytest.param({"kind": "Node", "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}},
                     "status.allocatable", {"cpu": "3"}, id="unless it says otherwise"),
        pytest.param({"kind": "Namespace"}, "metadata.labels", {"kubernetes.io/metadata.name": "x"},
                     id="a namespace carries its name as a label"),
        pytest.param({"kind": "PersistentVolumeClaim"}, "spec.volumeMode", "Filesystem", id="claims want files"),
        pytest.param({"kind": "PersistentVolumeClaim", "spec": {"volumeMode": "Block"}}, "spec.volumeMode", "Block",
                     id="or a block device"),
        pytest.param({"kind": "PersistentVolumeClaim"}, "spec.storageClassName", None, id="no default class"),
        pytest.param({"kind": "PersistentVolume"}, "spec.volumeMode", "Filesystem", id="volumes hold a file system"),
        pytest.param({"kind": "PersistentVolume"}, "status.phase", "Available", id="a volume without a claim is free"),
        pytest.param({"kind": "PersistentVolume", "spec": {"claimRef": {"uid": "u"}}}, "status.phase", "Bound",
                     id="a volume with a claim is bound"),
        pytest.param({"kind": "StorageClass"}, "volumeBindingMode", "Immediate", id="classes bind at once"),
        pytest.param({"kind": "StorageClass", "volumeBindingMode": "WaitForFirstConsumer"}, "volumeBindingMode",
                     "WaitForFirstConsumer", id="or wait for the first pod"),
        pytest.param({"kind": "ReplicaSet", "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}},
                     "spec.selector", {"matchLabels": {"a": "b"}}, id="a selector from the template's labels"),
        pytest.param({"kind": "ReplicationController", "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}},
                     "spec.selector", {"a": "b"}, id="the old form of selector for replication controllers"),
    ],
)  # fmt: skip
def test_a_field_that_is_left_out(body, path, value):
    found = filled(body)
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    assert found == value


def test_generated_names_count_up_and_uids_follow_the_name():
    defaults = Defaults((), Problems())
    pods = [{"kind": "Pod", "metadata": {"generateName": "job-"}} for _ in range(2)]
    for pod in pods:
        defaults.apply(pod, "here")
    assert [pod["metadata"]["name"] for pod in pods] == ["job-0", "job-1"]
    assert len({pod["metadata"]["uid"] for pod in pods}) == 2
    again = json.loads(json.dumps({"kind": "Pod", "metadata": {"name": "job-0"}}))
    Defaults((), Problems()).apply(again, "there")
    assert again["metadata"]["uid"] == pods[0]["metadata"]["uid"]
