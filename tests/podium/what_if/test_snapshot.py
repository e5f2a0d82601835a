"""Dumps: read as they were written, and without names they decide the same."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kube.client.auth import Credentials
from kube.client.rest import Client
from podium.cli import main
from podium.what_if.from_cluster import read_with
from podium.what_if.snapshot import Anonymiser, dump, plain_objects
from simulator.apiserver import ApiServer
from simulator.load import load
from tests.recorded import DECISIONS, as_list, clusters


def simulated(path: str, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    """Per pod, in order: how many nodes fit, the scores without names, and the number of victims."""
    assert main(["simulate", "-f", path, "--alone", "-o", "json"]) == 0
    found = []
    for pod in json.loads(capsys.readouterr().out)["pods"]:
        scores = sorted(sorted(parts.items()) for parts in pod["scores"].values())
        codes = sorted((r["plugin"], r["code"]) for r in pod["reasons"].values())
        found.append((len(pod["feasible"]), scores, codes, len(pod["victims"])))
    return found


RECORDED = [c for c in clusters(DECISIONS / "generated.jsonl.gz") if c["theme"] != "plain"][::12]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda c: f"{c['theme']} {c['seed']}")
def test_without_names_it_decides_the_same(recorded: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    original, hidden = tmp_path / "a.json", tmp_path / "b.json.gz"
    pods = [{**p["pod"], "apiVersion": "v1", "kind": "Pod"} for p in recorded["pods"]]
    original.write_text(as_list([*recorded["objects"], *pods]))
    assert main(["snapshot", "-f", str(original), "--anonymise", "-o", str(hidden)]) == 0
    assert simulated(str(hidden), capsys) == simulated(str(original), capsys)


def test_names_are_gone() -> None:
    pod = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "payroll-7", "namespace": "acme", "labels": {"team": "acme", "tier": "1"},
                     "annotations": {"owner": "jane"}},
        "status": {"phase": "Pending", "nominatedNodeName": "acme-1", "message": "acme is full"},
        "spec": {"nodeName": "acme-1", "containers": [{"name": "payroll", "image": "acme.example/payroll:7"}],
                 "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                     {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"team": "acme"}}}]}}},
    }  # fmt: skip
    hidden = Anonymiser().object(pod)
    text = json.dumps(hidden)
    assert not [name for name in ("acme", "payroll", "jane", "team", "tier") if name in text]
    assert hidden["status"] == {"phase": "Pending", "nominatedNodeName": hidden["spec"]["nodeName"]}
    term = hidden["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"].items() <= hidden["metadata"]["labels"].items()


def test_the_same_objects_make_the_same_bytes(tmp_path: Path) -> None:
    recorded = clusters(DECISIONS / "generated.jsonl.gz")[0]
    file = tmp_path / "a.json"
    file.write_text(as_list(recorded["objects"]))
    first, second = (dump(plain_objects(load([str(file)]))) for _ in range(2))
    assert first == second
    assert json.loads(gzip.decompress(first))["kind"] == "List"


async def test_a_live_cluster_is_read_without_finished_pods(api_server: ApiServer, tmp_path: Path) -> None:
    for name, phase in (("running", "Running"), ("done", "Succeeded")):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
               "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "x"}]}}  # fmt: skip
        api_server.update({**api_server.create(pod), "status": {"phase": phase}}, status=True)
    api_server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    async with Client(Credentials(api_server.url), qps=-1, burst=0) as client:
        objects = await read_with(client)
    assert [pod.metadata.name for pod in objects.pods] == ["running"]
    file = tmp_path / "dump.json.gz"
    file.write_bytes(dump(plain_objects(objects)))
    assert [node.metadata.name for node in load([str(file)]).nodes] == ["n1"]
