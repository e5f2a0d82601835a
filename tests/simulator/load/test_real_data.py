"""Real manifests and dumps, the decision cases and the recorded decisions of this repository: everything loads."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
import yaml

from simulator.load import load, load_pods

DATA = os.environ.get("PODIUM_TEST_DATA")
TESTS = Path(__file__).parents[2]
CASES = [path for path in sorted((TESTS / "cases").glob("*/case.yaml")) if "kind: schedule\n" in path.read_text()]

needs_data = pytest.mark.skipif(DATA is None, reason="PODIUM_TEST_DATA names no directory with data/")


def files(folder, pattern):
    return sorted(Path(DATA, "data", folder).glob(pattern)) if DATA else []


@needs_data
@pytest.mark.parametrize("path", files("manifests", "*.yaml"), ids=lambda path: path.stem)
def test_a_public_manifest_loads(path):
    cluster = load([str(path)])
    # Where there are no nodes there are no daemons.
    assert cluster.pods or cluster.others or "kind: DaemonSet" in path.read_text()
    assert not cluster.ignored


@needs_data
def test_the_public_manifests_expand_on_the_nodes_of_the_dumps():
    dumps = str(Path(DATA, "data", "dumps"))
    nodes = load([dumps])
    assert len(nodes.nodes) == 17
    assert len(nodes.warnings) == 1
    assert "virt-launcher.json: document 1: not a Kubernetes object, skipped" in nodes.warnings[0]
    pods, cluster = load_pods([str(Path(DATA, "data", "manifests"))], nodes)
    owners = {owner.kind for pod in pods for owner in pod.metadata.owner_references}
    assert owners == {"ReplicaSet", "StatefulSet", "DaemonSet", "Job"}
    assert len(cluster.of_kind("PersistentVolumeClaim")) == 18
    assert all(pod.spec.priority is not None for pod in pods)


@needs_data
@pytest.mark.parametrize("path", files("dumps", "*/*.json"), ids=lambda path: path.stem[:60])
def test_a_public_dump_loads(path):
    if "virt-launcher" in path.name:
        pytest.skip("a line of a log that found its way into the dump")
    cluster = load([str(path)])
    ended = path.parent.name == "troubleshoot" and "jobs" in path.name
    assert cluster.nodes or cluster.pods or cluster.others or cluster.ignored or ended or "pod" in path.name


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.parent.name)
def test_a_decision_case_loads(path, tmp_path):
    case = yaml.safe_load(path.read_text())
    (tmp_path / "cluster.json").write_text(json.dumps(case["objects"], default=str))
    (tmp_path / "pods.json").write_text(json.dumps(case["schedule"], default=str))
    pods, cluster = load_pods([str(tmp_path / "pods.json")], load([str(tmp_path / "cluster.json")]))
    assert [pod.metadata.name for pod in pods] == [body["metadata"]["name"] for body in case["schedule"]]
    assert cluster.nodes


@pytest.mark.parametrize("name", ["generated", "dra"])
def test_recorded_clusters_load_whole(name, tmp_path):
    with gzip.open(TESTS / "decisions" / f"{name}.jsonl.gz", "rt") as lines:
        for number, line in enumerate(lines):
            if number % 10 == 0:
                assert_loads_whole(json.loads(line), tmp_path)


def assert_loads_whole(recorded, folder):
    (folder / "cluster.json").write_text(json.dumps(recorded["objects"]))
    (folder / "pods.json").write_text(json.dumps([item["pod"] for item in recorded["pods"]]))
    pods, cluster = load_pods([str(folder / "pods.json")], load([str(folder / "cluster.json")]))
    assert [pod.metadata.name for pod in pods] == [item["pod"]["metadata"]["name"] for item in recorded["pods"]]
    live = [
        body["metadata"]["name"]
        for body in recorded["objects"]
        if body["kind"] == "Pod" and body["status"]["phase"] not in ("Succeeded", "Failed")
    ]
    assert [pod.metadata.name for pod in cluster.pods] == live
    assert len(cluster.nodes) == sum(body["kind"] == "Node" for body in recorded["objects"])
    assert cluster.warnings == ()
