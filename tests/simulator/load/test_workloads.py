"""Workloads become the pods that their controllers would create."""

from __future__ import annotations

import pytest

NODES = """
apiVersion: v1
kind: Node
metadata: {name: a, labels: {pool: x}}
---
apiVersion: v1
kind: Node
metadata: {name: b, labels: {pool: y}}
spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}
---
apiVersion: v1
kind: Node
metadata: {name: c, labels: {pool: x}}
spec: {taints: [{key: gpu, effect: NoSchedule}]}
"""
TEMPLATE = "template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c}]}}"


def workload(kind, spec, *, version="apps/v1", name="web", extra=""):
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n  {spec}\n  {extra or TEMPLATE}\n"


def owned_pod(name, owner_kind, owner, phase="Running", node="a"):
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, ownerReferences: [{{apiVersion: apps/v1, "
        f"kind: {owner_kind}, name: {owner}, uid: u, controller: true}}]}}\n"
        f"spec: {{nodeName: '{node}', containers: [{{name: c}}]}}\nstatus: {{phase: {phase}}}\n"
    )


def names(pods):
    return [pod.metadata.name for pod in pods]


@pytest.mark.parametrize(
    ("texts", "pods"),
    [
        pytest.param([workload("ReplicaSet", "replicas: 2")], ["web-0", "web-1"], id="a replica set"),
        pytest.param([workload("ReplicaSet", "selector: {}")], ["web-0"], id="one replica where none is named"),
        pytest.param([workload("ReplicaSet", "replicas: 0")], [], id="no replicas"),
        pytest.param([workload("ReplicationController", "replicas: 1", version="v1")], ["web-0"],
                     id="a replication controller"),
        pytest.param([workload("ReplicaSet", "replicas: 1", version="extensions/v1beta1")], ["web-0"],
                     id="a replica set of the old group"),
        pytest.param([workload("StatefulSet", "replicas: 2")], ["web-0", "web-1"], id="a stateful set"),
        pytest.param([workload("StatefulSet", "{replicas: 2, ordinals: {start: 5}, " + TEMPLATE + "}", extra=" ")],
                     ["web-5", "web-6"], id="a stateful set that starts elsewhere"),
        pytest.param([workload("Job", "parallelism: 3", version="batch/v1")], ["web-0", "web-1", "web-2"],
                     id="a job in parallel"),
        pytest.param([workload("Job", "{parallelism: 3, completions: 2, " + TEMPLATE + "}", extra=" ",
                               version="batch/v1")], ["web-0", "web-1"], id="no more pods than completions"),
        pytest.param([workload("Job", "suspend: true", version="batch/v1")], [], id="a suspended job"),
        pytest.param([workload("Job", "completions: 1", version="batch/v1")
                      + "status: {conditions: [{type: Complete, status: 'True'}]}"], [], id="a finished job"),
        pytest.param([workload("CronJob", "jobTemplate: {spec: {" + TEMPLATE + "}}", extra=" ", version="batch/v1")],
                     ["web-0-0"], id="the next job of a cron job"),
        pytest.param([workload("CronJob", "{suspend: true, jobTemplate: {spec: {" + TEMPLATE + "}}}", extra=" ",
                               version="batch/v1")], [], id="a suspended cron job"),
        pytest.param([f"apiVersion: v1\nkind: PodTemplate\nmetadata: {{name: t}}\n{TEMPLATE}"], ["t-0"],
                     id="a bare template"),
        pytest.param([workload("Job", "replicas: 2", version="batch.volcano.sh/v1alpha1")], [],
                     id="another group's job is not ours to expand"),
        pytest.param([workload("ReplicaSet", "replicas: 2"), workload("ReplicaSet", "replicas: 1")], ["web-0"],
                     id="the later of two equal names counts"),
    ],
)  # fmt: skip
def test_pods_are_named(cluster_of, texts, pods):
    assert names(cluster_of(*texts).pending) == pods


@pytest.mark.parametrize(
    ("texts", "pending"),
    [
        pytest.param([workload("ReplicaSet", "replicas: 3"), owned_pod("web-0", "ReplicaSet", "web")],
                     ["web-1", "web-2"], id="running replicas count"),
        pytest.param([workload("ReplicaSet", "replicas: 1"), owned_pod("z", "ReplicaSet", "web", "Failed")], ["web-0"],
                     id="failed replicas do not"),
        pytest.param([workload("StatefulSet", "replicas: 2"), owned_pod("web-0", "StatefulSet", "web")], ["web-1"],
                     id="a running member keeps its number"),
        pytest.param([workload("Job", "completions: 1", version="batch/v1"), owned_pod("z", "Job", "web", "Succeeded")],
                     [], id="a completed pod completes the job"),
        pytest.param([workload("Job", "{completions: 3, parallelism: 2, " + TEMPLATE + "}", extra=" ",
                               version="batch/v1"), owned_pod("z", "Job", "web", "Succeeded")], ["web-0", "web-1"],
                     id="a completed pod leaves its place to another"),
        pytest.param([workload("DaemonSet", "selector: {}") + "---" + NODES, owned_pod("z", "DaemonSet", "web")],
                     ["web-b"], id="a node that has its daemon gets no other"),
        pytest.param([workload("Deployment", "replicas: 2"),
                      "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web-1, ownerReferences: [{kind: "
                      f"Deployment, name: web}}]}}\nspec:\n  replicas: 1\n  {TEMPLATE}\n"], ["web-1-0"],
                     id="a deployment's replica sets stand for it"),
    ],
)  # fmt: skip
def test_only_what_is_missing_is_made(cluster_of, texts, pending):
    assert names(cluster_of(*texts).pending) == pending


def test_a_deployment_makes_a_replica_set_that_selects_its_pods(cluster_of):
    cluster = cluster_of(workload("Deployment", "replicas: 2"))
    [replica_set] = cluster.of_kind("ReplicaSet")
    mark = replica_set.metadata.labels["pod-template-hash"]
    assert replica_set.metadata.name == f"web-{mark}"
    assert replica_set.spec.selector.match_labels == {"app": "web", "pod-template-hash": mark}
    assert names(cluster.pods) == [f"web-{mark}-0", f"web-{mark}-1"]
    for pod in cluster.pods:
        assert pod.metadata.labels == {"app": "web", "pod-template-hash": mark}
        [owner] = pod.metadata.owner_references
        assert (owner.kind, owner.name, owner.uid) == ("ReplicaSet", f"web-{mark}", replica_set.metadata.uid)
        assert owner.controller
    assert cluster.pods[0].spec is cluster.pods[1].spec


def test_the_template_hash_depends_on_the_template_alone(cluster_of):
    def hash_of(text):
        return cluster_of(text).pods[0].metadata.labels["pod-template-hash"]

    same = hash_of(workload("Deployment", "replicas: 2"))
    assert hash_of(workload("Deployment", "replicas: 5", name="other")) == same
    assert hash_of(workload("Deployment", "replicas: 2").replace("name: c", "name: d")) != same


def test_a_stateful_set_makes_a_claim_for_each_member(cluster_of):
    claims = "volumeClaimTemplates: [{metadata: {name: data}, spec: {resources: {requests: {storage: 1Gi}}}}]"
    mounted = TEMPLATE.replace("containers", "volumes: [{name: data, emptyDir: {}}, {name: tmp}], containers")
    cluster = cluster_of(workload("StatefulSet", f"replicas: 2\n  {claims}", extra=mounted))
    assert [claim.metadata.name for claim in cluster.of_kind("PersistentVolumeClaim")] == ["data-web-0", "data-web-1"]
    assert cluster.of_kind("PersistentVolumeClaim")[0].spec.resources.requests == {"storage": "1Gi"}
    for number, pod in enumerate(cluster.pods):
        volumes = {volume.name: volume.persistent_volume_claim for volume in pod.spec.volumes}
        assert list(volumes) == ["data", "tmp"]
        assert volumes["data"].claim_name == f"data-web-{number}"
        assert pod.metadata.labels["apps.kubernetes.io/pod-index"] == str(number)


def test_a_claim_that_exists_is_not_made_again(cluster_of):
    claims = "volumeClaimTemplates: [{metadata: {name: data}, spec: {resources: {requests: {storage: 1Gi}}}}]"
    existing = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data-web-0}\nspec: {volumeName: pv}\n"
    cluster = cluster_of(workload("StatefulSet", claims), existing)
    assert [claim.spec.volume_name for claim in cluster.of_kind("PersistentVolumeClaim")] == ["pv"]


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        pytest.param("{}", ["web-a", "web-b"], id="every node whose taints are tolerated, a cordoned one too"),
        pytest.param("{tolerations: [{operator: Exists}]}", ["web-a", "web-b", "web-c"], id="all with a toleration"),
        pytest.param("{nodeSelector: {pool: y}}", ["web-b"], id="those that the node selector takes"),
        pytest.param("{nodeName: a}", ["web-a"], id="the one it is fixed to"),
        pytest.param(
            "{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
            "[{matchExpressions: [{key: pool, operator: In, values: [x]}]}]}}}}",
            ["web-a"],
            id="those that node affinity takes",
        ),
    ],
)
def test_a_daemon_set_serves(cluster_of, spec, pods):
    template = f"template: {{spec: {spec[:-1]}{', ' if spec != '{}' else ''}containers: [{{name: c}}]}}}}"
    assert names(cluster_of(NODES, workload("DaemonSet", "selector: {}", extra=template)).pods) == pods


def test_a_daemon_pod_is_pinned_to_its_node_and_bears_its_troubles(cluster_of):
    template = (
        "template: {spec: {hostNetwork: true, containers: [{name: c}], affinity: {podAffinity: {}, nodeAffinity: "
        "{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: "
        "[{key: pool, operator: Exists}]}]}}}}}"
    )
    pod = cluster_of(NODES, workload("DaemonSet", "selector: {}", extra=template)).pods[0]
    [term] = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution.node_selector_terms
    assert term.match_expressions == ()
    [field] = term.match_fields
    assert (field.key, field.operator, field.values) == ("metadata.name", "In", ("a",))
    assert pod.spec.affinity.pod_affinity is not None
    assert [(t.key.removeprefix("node.kubernetes.io/"), t.operator, t.effect) for t in pod.spec.tolerations] == [
        ("not-ready", "Exists", "NoExecute"),
        ("unreachable", "Exists", "NoExecute"),
        ("disk-pressure", "Exists", "NoSchedule"),
        ("memory-pressure", "Exists", "NoSchedule"),
        ("pid-pressure", "Exists", "NoSchedule"),
        ("unschedulable", "Exists", "NoSchedule"),
        ("network-unavailable", "Exists", "NoSchedule"),
    ]


def test_an_indexed_job_numbers_its_pods(cluster_of):
    pods = cluster_of(
        workload("Job", "{parallelism: 2, completionMode: Indexed, " + TEMPLATE + "}", extra=" ", version="batch/v1")
    ).pods
    key = "batch.kubernetes.io/job-completion-index"
    assert [pod.metadata.labels[key] for pod in pods] == ["0", "1"]
    assert {pod.metadata.labels["batch.kubernetes.io/job-name"] for pod in pods} == {"web"}


def test_members_of_a_stateful_set_merge_their_own_labels(cluster_of):
    affinity = (
        "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, "
        "labelSelector: {}, matchLabelKeys: [apps.kubernetes.io/pod-index]}]}}, containers"
    )
    pods = cluster_of(workload("StatefulSet", "replicas: 2", extra=TEMPLATE.replace("containers", affinity))).pods
    terms = [p.spec.affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution[0] for p in pods]
    assert [term.label_selector.match_expressions[0].values for term in terms] == [("0",), ("1",)]
