"""Whatever a client sends, the answer is a refusal with a reason, never a failure of the server."""

import copy

import msgspec.json
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.apiserver import ApiError, ApiServer
from simulator.apiserver.verbs import Write

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "b"}, "annotations": {}, "finalizers": ["x/y"], "ownerReferences": []},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "ports": [{"containerPort": 80}],
                "env": [{"name": "X", "value": "1"}],
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
                "readinessProbe": {"periodSeconds": 1},
            }
        ],
        "initContainers": [],
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}],
        "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "z", "matchLabelKeys": ["a"], "labelSelector": {"matchExpressions": []}}
                ],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {}}],
            }
        },
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}],
        "priority": 0,
        "overhead": {"cpu": "1m"},
    },
    "status": {},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
    "status": {"capacity": {"cpu": "1"}, "allocatable": {"cpu": "1"}, "conditions": [], "addresses": []},
}
JUNK = [None, True, 7, -1.5, "", "x", [], ["x"], [None], [[]], {}, {"x": None}, {"x": {"y": []}}]


def paths(value, path=()):
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield from paths(child, (*path, key))


def with_junk(obj, path, junk):
    changed = copy.deepcopy(obj)
    parent = changed
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = copy.deepcopy(junk)
    return changed


def outcome(call):
    """Tell how the server took it: the code of a refusal, 200, or the exception that should not be."""
    try:
        call()
    except ApiError as error:
        return error.code
    except Exception as error:
        return error
    return 200


@pytest.mark.parametrize("obj", [POD, DEPLOYMENT, NODE], ids=lambda obj: obj["kind"])
def test_junk_anywhere_in_an_object_is_accepted_or_refused(obj):
    server = ApiServer(window=16)
    resource = server.resource(obj["kind"])
    failed = []
    for path in paths(obj):
        for junk in JUNK:
            body = with_junk(obj, path, junk)
            took = outcome(lambda body=body: server.verbs.create(resource, "default", body, Write(dry_run=True)))
            if took not in (200, 400, 403, 422):
                failed.append((path, junk, took))
    assert failed == []


@settings(max_examples=200, deadline=None)
@given(
    place=st.sampled_from(list(paths(POD))),
    junk=st.sampled_from(JUNK),
    content_type=st.sampled_from(["application/merge-patch+json", "application/strategic-merge-patch+json"]),
    status=st.booleans(),
)
def test_junk_in_a_patch_is_accepted_or_refused(place, junk, content_type, status):
    server = ApiServer(window=16)
    server.create(POD)
    before = msgspec.json.encode(server.get("pods", "p"))
    resource = server.resource("pods")
    patch = with_junk(POD, place, junk)
    took = outcome(lambda: server.verbs.patch(resource, ("default", "p"), patch, content_type, status=status))
    assert took in (200, 400, 409, 422)
    if took != 200:
        assert msgspec.json.encode(server.get("pods", "p")) == before
