"""What the server does to pods: defaults, admission, binding, deletion, eviction."""

import pytest

from simulator.apiserver import ApiError
from tests.fixtures_apiserver import pod

PODS = "/api/v1/namespaces/default/pods"
NOT_READY = {
    "key": "node.kubernetes.io/not-ready",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 300,
}
UNREACHABLE = {**NOT_READY, "key": "node.kubernetes.io/unreachable"}


async def post(http, path, body):
    async with http.post(path, json=body) as response:
        return response.status, await response.json()


async def delete(http, path, **options):
    async with http.delete(path, json=options or None) as response:
        return response.status, await response.json()


# --- defaults and admission ------------------------------------------------------------------------------------------


async def test_a_pod_gets_its_defaults(api_server):
    spec = {
        "hostNetwork": True,
        "containers": [
            {
                "name": "c",
                "image": "repo:5000/app",
                "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
            }
        ],
    }
    created = api_server.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    assert created["spec"] == {
        "hostNetwork": True,
        "containers": [
            {
                "name": "c",
                "image": "repo:5000/app",
                "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
                "resources": {
                    "limits": {"cpu": "1", "memory": "1Gi"},
                    "requests": {"cpu": "500m", "memory": "1Gi"},
                },
                "imagePullPolicy": "Always",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "enableServiceLinks": True,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "tolerations": [NOT_READY, UNREACHABLE],
        "serviceAccountName": "default",
        "serviceAccount": "default",
    }
    assert created["status"] == {"phase": "Pending", "qosClass": "Burstable"}


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        pytest.param({}, "BestEffort", id="nothing asked for"),
        pytest.param({"requests": {"cpu": "1"}}, "Burstable", id="something asked for"),
        pytest.param({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed", id="limits for both"),
        pytest.param({"limits": {"cpu": "1"}}, "Burstable", id="a limit for one"),
    ],
)
async def test_quality_of_service(api_server, resources, quality):
    spec = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
    created = api_server.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    assert created["status"]["qosClass"] == quality


@pytest.mark.parametrize(
    ("given", "added"),
    [
        pytest.param([], [NOT_READY, UNREACHABLE], id="both are added"),
        pytest.param([{"operator": "Exists"}], [], id="a pod that tolerates everything needs none"),
        pytest.param([{"operator": "Exists", "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE], id="another effect"),
        pytest.param([{**NOT_READY, "tolerationSeconds": 5}], [UNREACHABLE], id="an own one stays"),
    ],
)
async def test_default_tolerations(api_server, given, added):
    assert api_server.create(pod("p", tolerations=given))["spec"]["tolerations"] == given + added


def priority_class(name, value, **more):
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


@pytest.mark.parametrize(
    ("spec", "name", "value", "policy"),
    [
        pytest.param({"priorityClassName": "high"}, "high", 1000, "Never", id="by name"),
        pytest.param({}, "usual", 5, "PreemptLowerPriority", id="the global default"),
        pytest.param(
            {"priorityClassName": "system-node-critical"},
            "system-node-critical",
            2000001000,
            "PreemptLowerPriority",
            id="a built-in class",
        ),
    ],
)
async def test_priority(api_server, spec, name, value, policy):
    api_server.create(priority_class("high", 1000, preemptionPolicy="Never"))
    api_server.create(priority_class("usual", 5, globalDefault=True))
    created = api_server.create(pod("p", **spec))["spec"]
    assert (created["priorityClassName"], created["priority"], created["preemptionPolicy"]) == (name, value, policy)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"priorityClassName": "none"}, "no PriorityClass with name none was found", id="unknown class"),
        pytest.param({"priority": 7}, "the integer value of priority (7) must not be provided", id="a bare number"),
    ],
)
async def test_priorities_that_are_refused(api_server, spec, message):
    with pytest.raises(ApiError) as refused:
        api_server.create(pod("p", **spec))
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
    assert refused.value.message.startswith(f'pods "p" is forbidden: {message}')


async def test_a_gated_pod_says_so(api_server):
    created = api_server.create(pod("p", schedulingGates=[{"name": "example.com/wait"}]))
    (condition,) = created["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert (condition["reason"], condition["message"]) == (
        "SchedulingGated",
        "Scheduling is blocked due to non-empty scheduling gates",
    )


async def test_match_label_keys_become_requirements(api_server):
    selector = {"matchLabels": {"app": "web"}}
    term = {
        "labelSelector": selector,
        "topologyKey": "zone",
        "matchLabelKeys": ["pod-template-hash"],
        "mismatchLabelKeys": ["tenant", "absent"],
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
        "matchLabelKeys": ["pod-template-hash"],
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    labels = {"app": "web", "pod-template-hash": "abc", "tenant": "t1"}
    spec = api_server.create(pod("p", labels=labels, affinity=affinity, topologySpreadConstraints=[spread]))["spec"]
    same = {"key": "pod-template-hash", "operator": "In", "values": ["abc"]}
    other = {"key": "tenant", "operator": "NotIn", "values": ["t1"]}
    (merged,) = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert merged["labelSelector"] == {**selector, "matchExpressions": [same, other]}
    assert spec["topologySpreadConstraints"][0]["labelSelector"] == {**selector, "matchExpressions": [same]}


async def test_a_pod_needs_its_namespace(http):
    status, refusal = await post(http, "/api/v1/namespaces/nowhere/pods", pod("p", "nowhere"))
    assert (status, refusal["message"]) == (404, 'namespaces "nowhere" not found')


# --- binding ---------------------------------------------------------------------------------------------------------


def binding(**metadata):
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


@pytest.mark.parametrize("path", [PODS + "/p/binding", "/api/v1/namespaces/default/bindings"])
async def test_binding_sets_node_condition_and_annotations(http, api_server, path):
    before = api_server.create(pod("p"))
    api_server.patch("pods", "p", {"status": {"nominatedNodeName": "n1"}}, status=True)
    api_server.patch("pods", "p", {"metadata": {"annotations": {"a": "1", "b": "1"}}})
    status, answer = await post(http, path, binding(uid=before["metadata"]["uid"], annotations={"b": "2"}))
    assert (status, answer) == (
        201,
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201},
    )
    bound = api_server.get("pods", "p")
    assert bound["spec"] == {**before["spec"], "nodeName": "n1"}
    assert bound["metadata"]["annotations"] == {"a": "1", "b": "2"}
    assert "nominatedNodeName" not in bound["status"]
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


async def test_the_condition_of_a_failed_attempt_is_replaced(api_server):
    api_server.create(pod("p"))
    failed = [{"type": "PodScheduled", "status": "False"}, {"type": "Other", "status": "True"}]
    api_server.patch("pods", "p", {"status": {"conditions": failed}}, status=True)
    api_server.bind("p", "n1")
    states = {c["type"]: c["status"] for c in api_server.get("pods", "p")["status"]["conditions"]}
    assert states == {"PodScheduled": "True", "Other": "True"}


async def test_a_pod_is_bound_once(http, api_server):
    api_server.create(pod("p"))
    api_server.bind("p", "n2")
    status, refusal = await post(http, PODS + "/p/binding", binding())
    assert (status, refusal["reason"]) == (409, "Conflict")
    assert refusal["message"] == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n2"'
    )
    assert api_server.get("pods", "p")["spec"]["nodeName"] == "n2"


@pytest.mark.parametrize(
    ("spec", "metadata", "message"),
    [
        pytest.param({}, {"uid": "other"}, "Precondition failed: UID in precondition: other", id="another pod"),
        pytest.param({}, {"resourceVersion": "1"}, "ResourceVersion in precondition: 1", id="another version"),
        pytest.param(
            {"schedulingGates": [{"name": "g"}]}, {}, "pod p has non-empty .spec.schedulingGates", id="a gated pod"
        ),
    ],
)
async def test_bindings_that_conflict(http, api_server, spec, metadata, message):
    api_server.create(pod("p", **spec))
    status, refusal = await post(http, PODS + "/p/binding", binding(**metadata))
    assert (status, refusal["reason"]) == (409, "Conflict")
    assert message in refusal["message"]
    assert "nodeName" not in api_server.get("pods", "p")["spec"]


async def test_a_pod_that_is_going_is_not_bound(http, api_server):
    api_server.create({**pod("p"), "metadata": {"name": "p", "finalizers": ["example.com/hold"]}})
    assert api_server.delete("pods", "p") is False
    status, refusal = await post(http, PODS + "/p/binding", binding())
    assert status == 409
    assert refusal["message"].endswith("pod p is being deleted, cannot be assigned to a host")


async def test_a_binding_of_nothing_is_not_found(http):
    status, refusal = await post(http, PODS + "/p/binding", binding())
    assert (status, refusal["details"]) == (404, {"name": "p", "kind": "pods"})


@pytest.mark.parametrize(
    ("target", "field"),
    [
        pytest.param({"kind": "Node"}, "target.name", id="no node"),
        pytest.param({"kind": "Pod", "name": "n"}, "target.kind", id="not a node"),
    ],
)
async def test_bindings_to_nowhere(http, api_server, target, field):
    api_server.create(pod("p"))
    status, refusal = await post(http, PODS + "/p/binding", {**binding(), "target": target})
    assert (status, refusal["details"]["causes"][0]["field"]) == (422, field)


async def test_a_binding_cannot_be_patched(http, api_server):
    api_server.create(pod("p"))
    async with http.patch(PODS + "/p/binding", json={}) as response:
        assert response.status == 405


# --- deletion --------------------------------------------------------------------------------------------------------


async def test_a_pod_without_a_node_goes_at_once(http, api_server):
    api_server.create(pod("p"))
    status, answer = await delete(http, PODS + "/p")
    assert (status, answer["kind"]) == (200, "Pod")
    assert api_server.list("pods") == []


async def test_a_bound_pod_waits_for_its_kubelet(http, api_server):
    api_server.create(pod("p", nodeName="n1", terminationGracePeriodSeconds=20))
    status, answer = await delete(http, PODS + "/p")
    assert (status, answer["metadata"]["deletionGracePeriodSeconds"]) == (200, 20)
    assert answer["metadata"]["generation"] == 2
    marked = api_server.get("pods", "p")
    assert marked["metadata"]["deletionTimestamp"] == answer["metadata"]["deletionTimestamp"]
    _, again = await delete(http, PODS + "/p")
    assert again["metadata"]["resourceVersion"] == answer["metadata"]["resourceVersion"]
    _, shorter = await delete(http, PODS + "/p", gracePeriodSeconds=5)
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    _, longer = await delete(http, PODS + "/p", gracePeriodSeconds=60)
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 5
    await delete(http, PODS + "/p", gracePeriodSeconds=0)
    assert api_server.list("pods") == []


async def test_the_grace_may_stand_in_the_url(http, api_server):
    api_server.create(pod("p", nodeName="n1"))
    async with http.delete(PODS + "/p?gracePeriodSeconds=0") as response:
        assert response.status == 200
    assert api_server.list("pods") == []


async def test_a_finished_pod_goes_at_once(api_server):
    api_server.create(pod("p", nodeName="n1"))
    api_server.patch("pods", "p", {"status": {"phase": "Succeeded"}}, status=True)
    assert api_server.delete("pods", "p") is True


async def test_finalizers_hold_until_they_are_gone(api_server):
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "finalizers": ["a/b", "c/d"]}}
    api_server.create(obj)
    assert api_server.delete("configmaps", "c") is False
    held = api_server.get("configmaps", "c")["metadata"]
    assert held["deletionGracePeriodSeconds"] == 0
    directive = "$deleteFromPrimitiveList/finalizers"
    api_server.patch("configmaps", "c", {"metadata": {directive: ["a/b"]}})
    assert api_server.get("configmaps", "c")["metadata"]["finalizers"] == ["c/d"]
    api_server.patch("configmaps", "c", {"metadata": {directive: ["c/d"]}})
    assert api_server.list("configmaps") == []


@pytest.mark.parametrize("precondition", ["uid", "resourceVersion"])
async def test_delete_preconditions(http, api_server, precondition):
    created = api_server.create(pod("p"))
    status, refusal = await delete(http, PODS + "/p", preconditions={precondition: "1"})
    assert (status, refusal["reason"]) == (409, "Conflict")
    wanted = {precondition: created["metadata"][precondition]}
    status, _ = await delete(http, PODS + "/p", preconditions=wanted)
    assert status == 200


async def test_other_objects_go_with_a_status(http, api_server):
    created = api_server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    _, answer = await delete(http, "/api/v1/namespaces/default/configmaps/c")
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "c", "kind": "configmaps", "uid": created["metadata"]["uid"]}


async def test_delete_collection_takes_what_the_selector_matches(http, api_server):
    for name, app in (("a", "web"), ("b", "db"), ("c", "web")):
        api_server.create(pod(name, labels={"app": app}))
    async with http.delete(PODS + "?labelSelector=app%3Dweb") as response:
        answer = await response.json()
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "c"]
    assert [item["metadata"]["name"] for item in api_server.list("pods")] == ["b"]


async def test_a_namespace_goes_after_what_is_in_it(api_server):
    api_server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    api_server.create(pod("waiting", "team"))
    api_server.create(pod("running", "team", nodeName="n1"))
    api_server.delete("namespaces", "team")
    assert api_server.get("namespaces", "team")["status"]["phase"] == "Terminating"
    assert [obj["metadata"]["name"] for obj in api_server.list("pods", "team")] == ["running"]
    with pytest.raises(ApiError, match="because it is being terminated") as refused:
        api_server.create(pod("late", "team"))
    assert refused.value.code == 403
    api_server.delete("pods", "running", "team", grace_seconds=0)
    with pytest.raises(ApiError, match='namespaces "team" not found'):
        api_server.get("namespaces", "team")


async def test_the_system_s_namespaces_stay(api_server):
    with pytest.raises(ApiError, match="this namespace may not be deleted"):
        api_server.delete("namespaces", "default")


# --- eviction and scale ----------------------------------------------------------------------------------------------


def budget(**spec):
    metadata = {"name": "b"}
    spec = {"selector": {"matchLabels": {"app": "web"}}, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def run_pods(server, count):
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for i in range(count):
        server.create(pod(f"p{i}", labels={"app": "web"}, nodeName="n1"))
        server.patch("pods", f"p{i}", {"status": ready}, status=True)


async def evict(http, name):
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return await post(http, f"{PODS}/{name}/eviction", eviction)


@pytest.mark.parametrize(
    ("limits", "evicted"),
    [
        pytest.param({"minAvailable": 3}, 1, id="three of four must stay"),
        pytest.param({"minAvailable": "50%"}, 2, id="half must stay"),
        pytest.param({"maxUnavailable": 3}, 3, id="three may be away"),
        pytest.param({"maxUnavailable": 0}, 0, id="none may be away"),
    ],
)
async def test_evictions_stop_at_the_budget(http, api_server, limits, evicted):
    run_pods(api_server, 4)
    api_server.create(budget(**limits))
    answers = [await evict(http, f"p{i}") for i in range(4)]
    assert [status for status, _ in answers] == [201] * evicted + [429] * (4 - evicted)
    refusal = answers[-1][1]
    assert refusal["reason"] == "TooManyRequests"
    assert refusal["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert refusal["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert sum("deletionTimestamp" in obj["metadata"] for obj in api_server.list("pods")) == evicted


async def test_a_pod_that_does_not_run_costs_no_budget(http, api_server):
    api_server.create(pod("p0", labels={"app": "web"}))
    api_server.create(budget(maxUnavailable=0))
    assert (await evict(http, "p0"))[0] == 201
    assert api_server.list("pods") == []


async def test_scale(http, api_server):
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("x")["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    api_server.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
    path = "/apis/apps/v1/namespaces/default/deployments/d/scale"
    async with http.get(path) as response:
        scale = await response.json()
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {"replicas": 2}, "app=web")
    async with http.put(path, json={**scale, "spec": {"replicas": 5}}) as response:
        assert (await response.json())["spec"] == {"replicas": 5}
    async with http.put(path, json=scale) as response:
        assert response.status == 409
    headers = {"Content-Type": "application/merge-patch+json"}
    async with http.patch(path, json={"spec": {"replicas": 1}}, headers=headers) as response:
        assert response.status == 200
    changed = api_server.get("deployments", "d")
    assert (changed["spec"]["replicas"], changed["metadata"]["generation"]) == (1, 3)
