"""All objects of the input as one cluster."""

from __future__ import annotations

import json

import pytest

from kube.api.core import Pod
from simulator.load import ClusterObjects, load, load_pods


def pod(name, spec="", status="", meta=""):
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, {meta}}}\n"
        f"spec: {{containers: [{{name: c}}], {spec}}}\nstatus: {{{status}}}\n"
    )


NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {capacity: {cpu: 4}}\n"
REPLICA_SET = """
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: rs}
spec: {replicas: 2, template: {spec: {containers: [{name: c}]}}}
"""


def names(objects):
    return [item.metadata.name for item in objects]


def test_pods_are_told_apart_by_their_node(cluster_of):
    cluster = cluster_of(
        pod("running", "nodeName: n1"), pod("new"), pod("promised", status="nominatedNodeName: n1"), NODE
    )
    assert names(cluster.nodes) == ["n1"]
    assert names(cluster.running) == ["running"]
    assert names(cluster.pending) == ["new", "promised"]
    assert names(cluster.nominated) == ["promised"]


@pytest.mark.parametrize(
    ("status", "kept"),
    [
        pytest.param("phase: Succeeded", [], id="a finished pod is gone"),
        pytest.param("phase: Failed", [], id="a failed pod is gone"),
        pytest.param("phase: Running", ["x"], id="a running pod is there"),
        pytest.param("phase: Unknown", ["x"], id="a pod that nobody has heard of is there"),
        pytest.param("", ["x"], id="a pod without status is there"),
    ],
)
def test_the_phase_decides_whether_a_pod_counts(cluster_of, status, kept):
    assert names(cluster_of(pod("x", "nodeName: n1", status)).pods) == kept


def test_a_terminating_pod_still_counts(cluster_of):
    meta = "deletionTimestamp: 2026-01-01T00:00:00Z"
    [terminating] = cluster_of(pod("x", "nodeName: n1", meta=meta)).pods
    assert terminating.metadata.deletion_timestamp == "2026-01-01T00:00:00Z"


def test_pods_keep_the_order_of_the_input_replicas_in_the_place_of_their_workload(cluster_of):
    assert names(cluster_of(pod("z"), REPLICA_SET, pod("a")).pods) == ["z", "rs-0", "rs-1", "a"]


def test_a_later_object_replaces_an_earlier_one_of_its_name(cluster_of, tmp_path):
    cluster = cluster_of(pod("x"), pod("y"), pod("x", "nodeName: n1"))
    assert names(cluster.pods) == ["y", "x"]
    assert cluster.warnings == (
        f"{tmp_path}/2.yaml: document 1 (Pod default/x): replaces the one of {tmp_path}/0.yaml: document 1",
    )


def test_the_same_object_twice_is_worth_no_word(cluster_of):
    cluster = cluster_of(pod("x"), pod("x"), REPLICA_SET, REPLICA_SET)
    assert names(cluster.pods) == ["x", "rs-0", "rs-1"]
    assert cluster.warnings == ()


def test_names_are_taken_within_a_namespace_and_a_kind_only(cluster_of):
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: x}\n"
    cluster = cluster_of(pod("x"), pod("x", meta="namespace: other"), service)
    assert [p.key for p in cluster.pods] == ["default/x", "other/x"]
    assert names(cluster.of_kind("Service")) == ["x"]


def test_a_namespace_with_pods_exists(cluster_of):
    cluster = cluster_of(
        pod("x", meta="namespace: team"), "apiVersion: v1\nkind: Namespace\nmetadata: {name: own, labels: {a: b}}\n",
        pod("y", meta="namespace: own"),
    )  # fmt: skip
    assert {space.metadata.name: space.metadata.labels for space in cluster.of_kind("Namespace")} == {
        "own": {"a": "b", "kubernetes.io/metadata.name": "own"},
        "team": {"kubernetes.io/metadata.name": "team"},
    }


def test_priority_classes_hold_for_the_whole_input(cluster_of):
    gold = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 9\n"
    assert cluster_of(pod("x", "priorityClassName: gold"), gold).pods[0].spec.priority == 9


def test_what_podium_does_not_read_is_counted(cluster_of):
    cluster = cluster_of(
        pod("x"),
        "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: x}\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n---\napiVersion: v1\nkind: ConfigMap\n",
    )
    assert cluster.of_kind("Service") == ()
    assert cluster.ignored == {"Service (serving.knative.dev/v1)": 1, "ConfigMap (v1)": 2}


def test_an_older_version_of_a_group_is_read(cluster_of):
    cluster = cluster_of("apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: b}\n")
    assert names(cluster.of_kind("PodDisruptionBudget")) == ["b"]


def test_a_version_that_nobody_knows_is_skipped_with_a_word(cluster_of, tmp_path):
    cluster = cluster_of("apiVersion: policy/v9\nkind: PodDisruptionBudget\nmetadata: {name: b}\n")
    assert cluster.of_kind("PodDisruptionBudget") == ()
    assert cluster.warnings == (
        f"{tmp_path}/0.yaml: document 1 (PodDisruptionBudget default/b): apiVersion policy/v9 is not read, skipped",
    )


def test_a_placeholder_for_a_count_stands_for_one(cluster_of, tmp_path):
    cluster = cluster_of(REPLICA_SET.replace("2", "REPLICAS"))
    assert names(cluster.pods) == ["rs-0"]
    assert cluster.warnings == (
        f"{tmp_path}/0.yaml: document 1 (ReplicaSet default/rs): spec.replicas: 'REPLICAS': expected a whole number, "
        "1 is assumed",
    )


# --- --pods ------------------------------------------------------------------------------------------------------


def pods_of(tmp_path, text, cluster=None):
    path = tmp_path / "pods.yaml"
    path.write_text(text)
    return load_pods([str(path)], cluster)


def test_the_pods_to_schedule_keep_their_order(tmp_path):
    pods, cluster = pods_of(tmp_path, "---\n".join((pod("b"), REPLICA_SET, pod("a"))))
    assert names(pods) == ["b", "rs-0", "rs-1", "a"]
    assert cluster.pods == ()
    assert names(cluster.of_kind("ReplicaSet")) == ["rs"]


def test_the_pods_to_schedule_take_the_place_of_the_clusters_own(tmp_path, cluster_of):
    cluster = cluster_of(pod("mine"), pod("other"), pod("runs", "nodeName: n1"), NODE)
    pods, rest = pods_of(tmp_path, pod("mine") + "---\n" + pod("runs"), cluster)
    assert names(pods) == ["mine", "runs"]
    assert names(rest.pods) == ["other"]
    assert rest.nodes == cluster.nodes
    assert rest.warnings == ("Pod default/runs: the one of --pods replaces the cluster's",)


def test_a_pod_that_has_a_node_joins_the_cluster(tmp_path):
    pods, cluster = pods_of(tmp_path, pod("a", "nodeName: n1") + "---\n" + pod("b"))
    assert names(pods) == ["b"]
    assert names(cluster.running) == ["a"]


def test_replicas_to_schedule_come_on_top_of_those_that_run(tmp_path, cluster_of):
    owner = "ownerReferences: [{kind: ReplicaSet, name: rs, controller: true}]"
    cluster = cluster_of(pod("rs-0", "nodeName: n1", meta=owner))
    pods, rest = pods_of(tmp_path, REPLICA_SET, cluster)
    assert names(pods) == ["rs-1", "rs-2"]
    assert names(rest.pods) == ["rs-0"]


def test_classes_and_nodes_of_the_cluster_serve_the_pods(tmp_path, cluster_of):
    gold = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 9\n"
    daemon = REPLICA_SET.replace("ReplicaSet", "DaemonSet").replace("spec: {con", "spec: {priorityClassName: gold, con")
    [made], _ = pods_of(tmp_path, daemon, cluster_of(NODE, gold))
    assert (made.metadata.name, made.spec.priority) == ("rs-n1", 9)


def test_a_dump_and_its_yaml_are_the_same_cluster(tmp_path, cluster_of):
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "uid": "u"}}
    body["spec"] = {"containers": [{"name": "c", "resources": {"limits": {"cpu": "500m"}}}], "nodeName": "n1"}
    (tmp_path / "x.json").write_text(json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [body]}))
    text = pod("x", "nodeName: n1", meta="uid: u").replace("name: c", "name: c, resources: {limits: {cpu: 500m}}")
    assert load([str(tmp_path / "x.json")]).pods == cluster_of(text).pods


def test_an_empty_cluster_has_nothing():
    assert ClusterObjects().of_kind("Pod") == ()
    assert ClusterObjects().of_kind("Node") == ()
    assert isinstance(ClusterObjects(pods=(Pod(),)).pending[0], Pod)


def storage_class(name, created="", default="true"):
    return (
        f"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nprovisioner: p\nmetadata:\n  name: {name}\n"
        f"  annotations: {{storageclass.kubernetes.io/is-default-class: '{default}'}}\n"
        + (f"  creationTimestamp: '{created}'\n" if created else "")
    )


def claim(meta="", spec=""):
    return (
        f"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: c{meta}}}\nspec: {{accessModes: []{spec}}}\n"
    )


@pytest.mark.parametrize(
    ("claim", "classes", "found"),
    [
        pytest.param(claim(), [storage_class("a")], "a", id="a claim that names no class gets the default"),
        pytest.param(claim(spec=", storageClassName: ''"), [storage_class("a")], "", id="one that wants none"),
        pytest.param(claim(spec=", storageClassName: b"), [storage_class("a")], "b", id="a class that is named stays"),
        pytest.param(claim(", annotations: {volume.beta.kubernetes.io/storage-class: b}"), [storage_class("a")], None,
                     id="also where it names it as of old"),
        pytest.param(claim(spec=", volumeName: v"), [storage_class("a")], None, id="one that has its volume is older"),
        pytest.param(claim(), [storage_class("a", default="false")], None, id="no class is the default"),
        pytest.param(claim(), [storage_class("b"), storage_class("a")], "a", id="of two the first by name"),
        pytest.param(claim(), [storage_class("a", "2026-01-01T00:00:00Z"), storage_class("b", "2026-01-02T00:00:00Z")],
                     "b", id="but the newer one before it"),
    ],
)  # fmt: skip
def test_a_claim_without_a_class_gets_the_default_one(cluster_of, claim, classes, found):
    """Wherever in the input the class stands."""
    (typed,) = cluster_of(claim, *classes).of_kind("PersistentVolumeClaim")
    assert typed.spec.storage_class_name == found


def test_the_claims_of_a_stateful_set_get_the_default_class_too(cluster_of):
    stateful = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c}]}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce]}}]
"""
    claims = cluster_of(stateful, storage_class("a")).of_kind("PersistentVolumeClaim")
    assert [each.spec.storage_class_name for each in claims] == ["a", "a"]
