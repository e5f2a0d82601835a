"""Workload files: that they read, that each runs on the engine, and what is said about a bad one."""

import msgspec
import pytest

from benchmarks.engine import EngineRun
from benchmarks.objects import Maker, Names
from benchmarks.workload import CreatePods, load, select

SHORT = select(load(), "short")
#: kube-scheduler's own suite, by name and the numbers of its largest size: nodes, measured pods
SUITE = {
    "SchedulingBasic": (5000, 50_000),
    "SchedulingDaemonset": (15_001, 30_000),
    "SchedulingWithMixedChurn": (5000, 10_000),
    "Unschedulable": (5000, 10_000),
    "PreemptionAsync": (5000, 5000),
    "PreemptionBasic": (1000, 1000),
    "SchedulingWhileGated": (1, 20_000),
    "SchedulingDeletedPodsWithFinalizers": (5000, 5000),
    "SchedulingWithExtendedResource": (5000, 5000),
    "TopologySpreading": (5000, 5000),
    "PreferredTopologySpreading": (5000, 5000),
    "DefaultTopologySpreading": (5000, 50_000),
    "SchedulingWithNodeInclusionPolicy": (5000, 4000),
    "SchedulingPodAntiAffinity": (5000, 2000),
    "SchedulingPodMatchingAntiAffinity": (5000, 5000),
    "SchedulingPodAffinity": (5000, 5000),
    "SchedulingPreferredPodAffinity": (5000, 5000),
    "SchedulingPreferredPodAntiAffinity": (5000, 5000),
    "SchedulingNodeAffinity": (5000, 10_000),
    "MixedSchedulingBasePod": (5000, 5000),
    "SchedulingRequiredPodAntiAffinityWithNSSelector": (6000, 2000),
    "SchedulingPreferredAntiAffinityWithNSSelector": (5000, 2000),
    "SchedulingRequiredPodAffinityWithNSSelector": (5000, 2000),
    "SchedulingPreferredAffinityWithNSSelector": (5000, 5000),
    "SchedulingGatedPodsWithPodAffinityImpactForThroughput": (1, 20_000),
    "SchedulingSecrets": (5000, 10_000),
    "SchedulingInTreePVs": (5000, 2000),
    "SchedulingMigratedInTreePVs": (5000, 5000),
    "SchedulingCSIPVs": (5000, 5000),
}


@pytest.mark.parametrize("name", SUITE)
def test_each_workload_of_kube_schedulers_suite_is_there_in_its_size(name):
    sizes = [w for w in load() if w.name == name and "performance" in w.labels]
    largest = max(sizes, key=lambda w: w.measure.pods.count)
    assert (largest.nodes, largest.measure.pods.count) == SUITE[name]


@pytest.mark.parametrize("workload", SHORT, ids=lambda w: w.name)
def test_the_engine_places_every_measured_pod_of_a_short_workload(workload):
    cost = EngineRun(workload).run()
    assert (cost.bound, cost.failed) == (len(cost.times), 0)


def test_each_pod_of_a_preemption_workload_takes_three_victims():
    [workload] = select(SHORT, "short", "PreemptionBasic")
    cost = EngineRun(workload).run()
    assert cost.victims == 3 * cost.bound


def test_a_search_in_vain_looks_at_every_node_and_evicts_nobody():
    [workload] = load(sizes={"PreemptionInVain": {"nodes": 20, "staying": 20, "low": 60, "pods": 3}})
    run = EngineRun(workload)
    run.set_up()
    [first, *_] = run.pods(workload.measure.pods)
    attempt = run.engine.schedule(first)
    assert attempt.message().endswith(" preemption: 0/20 nodes are available: 20 Insufficient cpu.")
    assert EngineRun(workload).run().victims == 0


def test_an_object_carries_the_names_that_its_operation_gives_it():
    [workload] = select(SHORT, "short", "CSIPVs")
    maker = Maker(workload)
    for operation in workload.set_up:
        made = list(maker.make(operation, Names("nobody")))
    volume, claim, pod = (msgspec.json.decode(one.body) for one in made[3:6])
    assert isinstance(operation, CreatePods)
    assert volume["spec"]["claimRef"] == {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "claim-pods1-1"
    }  # fmt: skip
    assert claim["metadata"]["name"] == "claim-pods1-1"
    assert pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "claim-pods1-1"
    assert pod["spec"]["nodeName"] == "node-1"


@pytest.mark.parametrize(
    ("step", "message"),
    [
        pytest.param("createPod: {count: 1}", "no operation 'createPod'", id="an operation that does not exist"),
        pytest.param("createPods: {counts: 1}", "unknown field `counts`", id="a field that does not exist"),
        pytest.param("createPods: {count: $many}", "'many'", id="a number that the size does not give"),
        pytest.param("createPods: {count: 1, template: x}", "no template 'x'", id="a template that does not exist"),
    ],
)
def test_a_bad_workload_is_named_with_its_file_and_step(tmp_path, step, message):
    (tmp_path / "templates.yaml").write_text("pod: {apiVersion: v1, kind: Pod, spec: {}}")
    (tmp_path / "own.yaml").write_text(
        f"workloads:\n  Own:\n    about: x\n    steps: [{{measure: [{step}]}}]\n    sizes: {{s: {{labels: []}}}}\n"
    )
    with pytest.raises(ValueError, match=r"own.yaml: Own/s") as caught:
        load(tmp_path)
    assert message in str(caught.value)
