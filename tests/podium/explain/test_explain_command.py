"""`podium explain` on files: what is printed, and what is said where there is nothing to explain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from podium.cli import main
from podium.explain.documents import Explanation

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
}


def pod(name: str, cpu: str, *, on: str = "", namespace: str = "default") -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **({"nodeName": on} if on else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    file = tmp_path / "cluster.yaml"
    objects = [NODE, pod("batch", "3", on="n1"), pod("web", "1500m"), pod("small", "1", namespace="shop")]
    file.write_text(yaml.safe_dump_all(objects))
    return str(file)


SCREEN = """\
default/web  unschedulable  priority 0, profile podium
  It does not fit on the only node: 1500m CPU requested, 1 free on n1 (4 allocatable, 3 requested): 500m short; it would
  fit on n1 if you request 1 CPU instead of 1500m.

Refused by (of 1 node)
  NODES  PLUGIN            BECAUSE
      1  NodeResourcesFit  1500m CPU requested, 1 free on n1 (4 allocatable, 3 requested): 500m short  n1

Nearest nodes
  n1  500m CPU short; fits without pod default/batch (priority 0); or request 1 CPU instead of 1500m

Would help (each checked against all filters)
  n1  request 1 CPU instead of 1500m

Preemption
  no node has pods of lower priority (below 0) whose eviction would help

Tried again when
  NodeResourcesFit  a pod is deleted, pod requests shrink, a node is added, node allocatable grows, a DeviceClass is
                    added, a DeviceClass changes, node taints change

Message
  0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for
  incoming pod.
"""


def test_the_screen(cluster: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["explain", "web", "-f", cluster]) == 0
    printed = capsys.readouterr().out
    assert [line.rstrip() for line in printed.splitlines()] == SCREEN.splitlines()


def test_json_is_the_document(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "web", "-f", cluster, "-o", "json"]) == 0
    document = msgspec.json.decode(capsys.readouterr().out, type=Explanation)
    assert document.causes[0].gap is not None
    assert (document.causes[0].gap.short, document.causes[0].gap.free) == ("500m", "1")


@pytest.mark.parametrize("name", ["shop/small", "pod/small"])
def test_names_as_people_write_them(name: str, cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", name, "-n", "shop", "-f", cluster, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "It fits on n1, the only node."


def test_every_pending_pod(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-f", cluster, "-o", "json"]) == 0
    pods = json.loads(capsys.readouterr().out)["pods"]
    assert [(pod["name"], pod["state"]) for pod in pods] == [("web", "unschedulable"), ("small", "fits")]


@pytest.mark.parametrize(
    ("args", "code", "line"),
    [
        (["small"], 1, "there is no pod default/small (finished pods are not looked at); did you mean shop/small?"),
        (["weeb"], 1, "there is no pod default/weeb (finished pods are not looked at); did you mean default/web?"),
        (["web", "--server", "http://127.0.0.1:1"], 1, "no podium answers at http://127.0.0.1:1: "),
        (["web", "--kubeconfig", "/nowhere/config"], 2, "kubeconfig /nowhere/config: "),
    ],
)
def test_nothing_to_explain(
    args: list[str], code: int, line: str, cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    offline = ["-f", cluster] if len(args) == 1 else []
    assert main(["explain", *args, *offline]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(line)
    assert len(printed.err.splitlines()) == 1
