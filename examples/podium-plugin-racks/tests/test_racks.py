"""The plugins as an operator meets them: through `podium simulate`, with a configuration file and manifests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from podium.cli import main

FOLDER = Path(__file__).parent
CONFIG = FOLDER.parent / "config.yaml"


def pod(name: str, **labels: str) -> dict[str, Any]:
    """A small pod for podium."""
    container = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {key.replace("_", "-"): value for key, value in labels.items()}},
        "spec": {"schedulerName": "podium", "containers": [container]},
    }


class Simulated:
    """What `podium simulate -o json` said."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.pods = {each["name"]: each for each in document["pods"]}

    def nodes(self) -> list[str]:
        """Where the pods went, in the order in which they were scheduled."""
        return [each["node"] for each in self.pods.values()]


@pytest.fixture
def simulate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Schedule pods on the cluster of cluster.yaml."""

    def run(*pods: dict[str, Any], config: Path = CONFIG) -> Simulated:
        file = tmp_path / "pods.yaml"
        file.write_text(yaml.safe_dump_all(pods))
        words = ["simulate", "-f", str(FOLDER / "cluster.yaml"), str(file), "--config", str(config), "--seed", "1"]
        assert main([*words, "-o", "json"]) == 0
        return Simulated(json.loads(capsys.readouterr().out))

    return run


def test_green_power_is_preferred(simulate: Any) -> None:
    done = simulate(pod("web"))
    assert done.nodes() == ["a1"]
    scores = {node: each["GreenPower"] for node, each in done.pods["web"]["scores"].items()}
    # Weighted by 5.
    assert scores == {"a1": 500, "a2": 100, "b1": 300, "loose": 0}


def test_a_pod_may_insist_on_green_power(simulate: Any) -> None:
    insisting = pod("web") | {"metadata": {"name": "web", "labels": {"example.com/green-power-only": "true"}}}
    done = simulate(insisting)
    assert done.pods["web"]["feasible"] == ["a1"]
    assert done.pods["web"]["reasons"]["b1"] == {
        "plugin": "GreenPower",
        "code": "UnschedulableAndUnresolvable",
        "messages": ["node(s) did not run on green power alone"],
    }


def test_a_full_rack_takes_no_more(simulate: Any) -> None:
    done = simulate(*(pod(f"p{i}") for i in range(8)))
    racks = [node[0] for node in done.nodes()]
    assert (racks.count("a"), racks.count("b"), racks.count("l")) == (3, 3, 2)
    last = done.pods["p7"]["reasons"]
    assert set(last) == {"a1", "a2", "b1"}
    assert [each["messages"] for each in last.values()] == [["node(s) were in a full rack"]] * 3


def test_wrong_arguments_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.read_text().replace("maxPods: 3", "maxPods: 0"))
    assert main(["simulate", "-f", str(FOLDER / "cluster.yaml"), "--config", str(config)]) == 2
    assert (
        capsys.readouterr().err == "plugin RackRoom cannot be set up: ValueError: maxPods: expected at least 1, not 0\n"
    )
