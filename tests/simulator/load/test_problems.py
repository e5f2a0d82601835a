"""Bad input: one exact line for each problem, all of them at once, never a traceback."""

from __future__ import annotations

import copy

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.load import LoadError, load


def pod(spec="containers: [{name: c}]", meta="name: web"):
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{{meta}}}\nspec: {{{spec}}}\n"


def container(fields):
    return pod(f"containers: [{{name: c, {fields}}}]")


def workload(kind, spec):
    version = "batch/v1" if "Job" in kind else "apps/v1"
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: web}}\nspec: {{{spec}}}\n"


def object_(version, kind, rest):
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n{rest}\n"


POD, NODE = "(Pod default/web): ", "(Node x): "
DEVICES = "resource.k8s.io/v1"
NO_QUANTITY = "not a quantity: expected a number with an optional suffix, such as 500m or 1.5Gi"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(container("resources: {requests: {cpu: 1x}}"),
                     POD + 'spec.containers[0].resources.requests.cpu: "1x": ' + NO_QUANTITY, id="no quantity"),
        pytest.param(container("resources: {limits: {memory: -1}}").replace("limits", "requests"),
                     POD + 'spec.containers[0].resources.requests.memory: "-1": expected zero or more', id="negative"),
        pytest.param(container("resources: {requests: {cpu: 2}, limits: {cpu: 1500m}}"),
                     POD + 'spec.containers[0].resources.requests.cpu: "2": expected no more than the limit "1500m"',
                     id="more than the limit"),
        pytest.param(container("resources: {requests: {cpu: [1]}}"),
                     POD + "spec.containers[0].resources.requests.cpu: expected a string, got a list",
                     id="a list for a quantity"),
        pytest.param(pod("initContainers: [{resources: {requests: {a/b: x}}}], containers: [{name: c}]"),
                     POD + 'spec.initContainers[0].resources.requests.a/b: "x": ' + NO_QUANTITY, id="init containers"),
        pytest.param(pod("overhead: {cpu: abc}, containers: [{name: c}]"),
                     POD + 'spec.overhead.cpu: "abc": ' + NO_QUANTITY, id="overhead"),
        pytest.param(pod("resources: {requests: {cpu: abc}}, containers: [{name: c}]"),
                     POD + 'spec.resources.requests.cpu: "abc": ' + NO_QUANTITY, id="pod-level requests"),
        pytest.param(container("ports: [{containerPort: 70000}]"),
                     POD + "spec.containers[0].ports[0].containerPort: 70000: expected a port from 1 to 65535",
                     id="a port out of range"),
        pytest.param(container("ports: [{containerPort: http}]"),
                     POD + "spec.containers[0].ports[0].containerPort: expected a whole number, got 'http'",
                     id="a name for a port number"),
        pytest.param(container("ports: [{containerPort: 1, protocol: tcp}]"),
                     POD + 'spec.containers[0].ports[0].protocol: "tcp": expected one of TCP, UDP, SCTP',
                     id="a protocol in small letters"),
        pytest.param(pod(meta="name: web, labels: {version: 1}"),
                     POD + "metadata.labels.version: expected a string, got 1 (quote it)", id="a number for a label"),
        pytest.param(pod(meta="name: web, labels: {on: yes}"),
                     POD + "metadata.labels.on: expected a string, got true (quote it)", id="a yes for a label"),
        pytest.param(pod("hostNetwork: 'true', containers: [{name: c}]"),
                     POD + "spec.hostNetwork: expected true or false, got 'true'", id="a text for a switch"),
        pytest.param(pod("containers: {name: c}"), POD + "spec.containers: expected a list, got a mapping",
                     id="a mapping for a list"),
        pytest.param(pod(""), POD + "spec.containers: expected at least one container", id="no container"),
        pytest.param(pod(meta=""), "(Pod): metadata.name: expected a name", id="no name"),
        pytest.param(pod("tolerations: [{key: a, operator: In}], containers: [{name: c}]"),
                     POD + 'spec.tolerations[0].operator: "In": expected one of Equal, Exists, Gt, Lt',
                     id="an operator that tolerations lack"),
        pytest.param(pod("tolerations: [{value: a}], containers: [{name: c}]"),
                     POD + "spec.tolerations[0].operator: expected Exists where key is empty", id="no key to tolerate"),
        pytest.param(pod("tolerations: [{key: a, effect: Never}], containers: [{name: c}]"),
                     POD + 'spec.tolerations[0].effect: "Never": expected one of NoSchedule, PreferNoSchedule, '
                     "NoExecute", id="an unknown effect"),
        pytest.param(pod("topologySpreadConstraints: [{maxSkew: 0, topologyKey: z, whenUnsatisfiable: DoNotSchedule}], "
                         "containers: [{name: c}]"),
                     POD + "spec.topologySpreadConstraints[0].maxSkew: 0: expected 1 or more", id="no skew at all"),
        pytest.param(pod("topologySpreadConstraints: [{maxSkew: 1, topologyKey: z}], containers: [{name: c}]"),
                     POD + 'spec.topologySpreadConstraints[0].whenUnsatisfiable: "": expected one of DoNotSchedule, '
                     "ScheduleAnyway", id="hard or soft is left open"),
        pytest.param(pod("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms:"
                         " [{matchExpressions: [{key: a, operator: in, values: [b]}]}]}}}, containers: [{name: c}]"),
                     POD + "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
                     '[0].matchExpressions[0].operator: "in": expected one of In, NotIn, Exists, DoesNotExist, Gt, Lt',
                     id="a node selector operator"),
        pytest.param(pod("affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: "
                         "{}}]}}, containers: [{name: c}]"),
                     POD + "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: "
                     "expected a node label", id="affinity to nowhere"),
        pytest.param(pod("affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, "
                         "podAffinityTerm: {topologyKey: z, labelSelector: {matchExpressions: [{key: a, operator: In}]}"
                         "}}]}}, containers: [{name: c}]"),
                     POD + "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]."
                     "podAffinityTerm.labelSelector.matchExpressions[0].values: expected at least one value with In",
                     id="In without values"),
        pytest.param(object_("v1", "Node", "status: {allocatable: {cpu: four}}"),
                     NODE + 'status.allocatable.cpu: "four": ' + NO_QUANTITY, id="a node's quantity"),
        pytest.param(object_("v1", "Node", "spec: {taints: [{key: a}]}"),
                     NODE + 'spec.taints[0].effect: "": expected one of NoSchedule, PreferNoSchedule, NoExecute',
                     id="a taint without effect"),
        pytest.param(object_("v1", "Node", "spec: []"), NODE + "spec: expected a mapping", id="a list for a spec"),
        pytest.param(object_("v1", "PersistentVolume", "spec: {capacity: {storage: big}}"),
                     '(PersistentVolume x): spec.capacity.storage: "big": ' + NO_QUANTITY, id="a volume's capacity"),
        pytest.param(object_("v1", "PersistentVolumeClaim", "spec: {resources: {requests: {storage: big}}}"),
                     '(PersistentVolumeClaim default/x): spec.resources.requests.storage: "big": ' + NO_QUANTITY,
                     id="a claim's size"),
        pytest.param(object_("storage.k8s.io/v1", "CSIStorageCapacity", "storageClassName: s\ncapacity: big"),
                     '(CSIStorageCapacity default/x): capacity: "big": ' + NO_QUANTITY, id="what storage is left"),
        pytest.param(pod() + "status: {containerStatuses: [{name: c, resources: {requests: {cpu: big}}}]}\n",
                     POD + 'status.containerStatuses[0].resources.requests.cpu: "big": ' + NO_QUANTITY,
                     id="what a container has"),
        pytest.param(pod() + "status: {initContainerStatuses: [{name: c, allocatedResources: {cpu: big}}]}\n",
                     POD + 'status.initContainerStatuses[0].allocatedResources.cpu: "big": ' + NO_QUANTITY,
                     id="what a sidecar was given"),
        pytest.param(pod() + "status: {resources: {requests: {cpu: big}}}\n",
                     POD + 'status.resources.requests.cpu: "big": ' + NO_QUANTITY, id="what a pod has as a whole"),
        pytest.param(pod("containers: [{name: c}], priority: 3000000000"),
                     POD + "spec.priority: 3000000000: expected a whole number of 32 bits", id="a priority too high"),
        pytest.param(object_(DEVICES, "ResourceSlice", "spec: {devices: [{name: a, capacity: {mem: {value: big}}}]}"),
                     '(ResourceSlice x): spec.devices[0].capacity.mem.value: "big": ' + NO_QUANTITY,
                     id="a device's capacity"),
        pytest.param(object_(DEVICES, "ResourceSlice", "spec: {devices: [{name: a, capacity: {mem: {value: 1, "
                             "requestPolicy: {validRange: {min: 1, step: big}}}}}]}"),
                     '(ResourceSlice x): spec.devices[0].capacity.mem.requestPolicy.validRange.step: "big": '
                     + NO_QUANTITY, id="in what steps a device may be shared"),
        pytest.param(object_(DEVICES, "ResourceSlice", "spec: {sharedCounters: [{counters: {c: {value: big}}}]}"),
                     '(ResourceSlice x): spec.sharedCounters[0].counters.c.value: "big": ' + NO_QUANTITY,
                     id="a shared counter"),
        pytest.param(object_(DEVICES, "ResourceClaim", "spec: {devices: {requests: [{firstAvailable: [{name: s, "
                             "capacity: {requests: {mem: big}}}]}]}}"),
                     '(ResourceClaim default/x): spec.devices.requests[0].firstAvailable[0].capacity.requests.mem: '
                     '"big": ' + NO_QUANTITY, id="what a claim asks of a device"),
        pytest.param(object_(DEVICES, "ResourceClaimTemplate", "spec: {spec: {devices: {requests: [{name: r, exactly: "
                             "{capacity: {requests: {mem: big}}}}]}}}"),
                     '(ResourceClaimTemplate default/x): spec.spec.devices.requests[0].exactly.capacity.requests.mem: '
                     '"big": ' + NO_QUANTITY, id="what a claim's template asks of a device"),
        pytest.param(workload("Deployment", "replicas: -1, template: {spec: {containers: [{name: c}]}}"),
                     "(Deployment default/web): spec.replicas: -1: expected a whole number from 0 to 1000000",
                     id="fewer replicas than none"),
        pytest.param(workload("Deployment", "replicas: 2"),
                     "(Deployment default/web): spec.template.spec: expected the spec of a pod", id="no template"),
        pytest.param(workload("Deployment", "replicas: 2, template: {spec: {containers: [{resources: {limits: {cpu: x}}"
                              "}]}}"),
                     '(Deployment default/web): spec.template.spec.containers[0].resources.requests.cpu: "x": '
                     + NO_QUANTITY, id="a template's quantity, once for all replicas"),
        pytest.param(workload("DaemonSet", "template: {spec: {tolerations: {a: b}}}"),
                     "(DaemonSet default/web): spec.template.spec.tolerations: expected a list, got a mapping",
                     id="a template's type"),
        pytest.param(workload("CronJob", "jobTemplate: {spec: {template: {metadata: {labels: {a: 1}}, spec: {}}}}"),
                     "(CronJob default/web): spec.jobTemplate.spec.template.metadata.labels.a: expected a string, "
                     "got 1 (quote it)", id="a cron job's template"),
    ],
)  # fmt: skip
def test_a_problem_is_one_exact_line(tmp_path, text, line):
    path = tmp_path / "in.yaml"
    path.write_text("---\n---\n" + text)
    with pytest.raises(LoadError) as caught:
        load([str(path)])
    lines = str(caught.value).splitlines()
    assert f"{path}: document 2 {line}" in lines
    assert len(lines) == (2 if "limits: {cpu: x}" in text else 1)


def test_problems_of_all_files_are_named_at_once(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(container("resources: {requests: {cpu: 1x, memory: 1y}}"))
    with pytest.raises(LoadError) as caught:
        load([str(tmp_path)])
    where = "document 1 (Pod default/web): spec.containers[0].resources.requests"
    assert caught.value.problems == tuple(
        f'{tmp_path}/{name}.yaml: {where}.{resource}: "{text}": {NO_QUANTITY}'
        for name in ("a", "b")
        for resource, text in (("cpu", "1x"), ("memory", "1y"))
    )


def test_an_item_of_a_list_is_named_by_its_place(tmp_path):
    path = tmp_path / "list.json"
    path.write_text('{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a", "namespace": "b"}}]}')
    with pytest.raises(LoadError) as caught:
        load([str(path)])
    assert str(caught.value) == (
        f"{path}: document 1, item 1 (Pod b/a): spec.containers: expected at least one container"
    )


def test_the_text_stops_after_twenty_lines(tmp_path):
    path = tmp_path / "in.yaml"
    path.write_text("---\n".join(pod("", f"name: p{number}") for number in range(50)))
    with pytest.raises(LoadError) as caught:
        load([str(path)])
    assert len(caught.value.problems) == 50
    lines = str(caught.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "… and 30 more problems"


def test_a_broken_string_deep_in_a_dump_is_one_line(tmp_path):
    path = tmp_path / "in.json"
    path.write_bytes(b'{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "\xff"}}')
    with pytest.raises(LoadError) as caught:
        load([str(path)])
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_nothing_at_all_is_a_problem(tmp_path):
    path = tmp_path / "empty.yaml"
    path.write_text("# nothing here\n")
    with pytest.raises(LoadError) as caught:
        load([str(path)])
    assert str(caught.value) == f"{path}: no Kubernetes objects in there"


# --- any damage at all -------------------------------------------------------------------------------------------

_CONTAINER = {
    "name": "c",
    "ports": [{"containerPort": 1}],
    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": 2}},
}
_TERM = {"topologyKey": "z", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
_RULES = {
    "requiredDuringSchedulingIgnoredDuringExecution": [{**_TERM, "matchLabelKeys": ["a"]}],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": _TERM}],
}
_SPEC = {
    "hostNetwork": True,
    "priorityClassName": "gold",
    "initContainers": [_CONTAINER],
    "containers": [_CONTAINER],
    "resources": {"limits": {"cpu": "2"}},
    "overhead": {"cpu": 1},
    "affinity": {"podAffinity": _RULES, "podAntiAffinity": _RULES},
    "tolerations": [{"key": "a"}],
    "volumes": [{"name": "data"}],
}
_TEMPLATE = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": _SPEC}
_META = {"name": "x", "labels": {"a": "b"}, "ownerReferences": [{"kind": "ReplicaSet", "name": "x"}]}
_CLAIM = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": 1}}}}
SEEDS = [
    {"apiVersion": "v1", "kind": "Pod", "metadata": _META, "spec": _SPEC, "status": {"phase": "Running"}},
    {"apiVersion": "v1", "kind": "Node", "metadata": _META, "spec": {"taints": []}, "status": {"capacity": {"cpu": 1}}},
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 1},
    {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": _META, "spec": {"claimRef": {"uid": "u"}}},
    {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **_CLAIM},
    *(
        {"apiVersion": "apps/v1", "kind": kind, "metadata": _META, "spec": {"replicas": 1, "template": _TEMPLATE}}
        for kind in ("Deployment", "ReplicaSet", "DaemonSet")
    ),
    {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _META,
        "spec": {"template": _TEMPLATE, "ordinals": {"start": 1}, "volumeClaimTemplates": [_CLAIM]},
    },
    {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": _META,
        "spec": {"jobTemplate": {"spec": {"completions": 1, "template": _TEMPLATE}}},
    },
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _META,
        "spec": {"parallelism": 1, "completions": 1, "template": _TEMPLATE},
        "status": {"succeeded": 0, "conditions": [{"type": "Complete", "status": "False"}]},
    },
]
JUNK = st.sampled_from([None, True, -1, 0, 2**70, 1.5, "", "x", [], [[]], [None], [1], {}, {"a": 1}, {"a": None}])


def paths_in(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths_in(item, (*path, key))


def damaged(body, path, junk):
    body = copy.deepcopy(body)
    *parents, last = path
    inner = body
    for step in parents:
        inner = inner[step]
    inner[last] = junk
    return body


PLACES = [(seed, path) for seed in SEEDS for path in paths_in(seed) if path]


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(PLACES), JUNK)
def test_whatever_stands_in_a_field_the_answer_is_a_cluster_or_lines(tmp_path_factory, place, junk):
    seed, path = place
    file = tmp_path_factory.getbasetemp() / "damaged.json"
    others = [other for other in SEEDS if other is not seed]
    # msgspec writes no number beyond 64 bits; the loader has to read one all the same.
    text = msgspec.json.encode([*others, damaged(seed, path, "BIG" if junk == 2**70 else junk)])
    file.write_bytes(text.replace(b'"BIG"', str(2**70).encode()))
    problems: tuple[str, ...] = ()
    try:
        load([str(file)])
    except LoadError as error:
        problems = error.problems
    assert all(line.startswith(str(file)) and "\n" not in line for line in problems)
