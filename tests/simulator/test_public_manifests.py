"""Every pod template of well-known projects' public manifests, on twenty simulated nodes: placed, or refused for the
right reason. The expected outcomes were checked by hand against each manifest and are kept in public_manifests.yaml."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import yaml

from config.defaults import default_configuration
from config.feature_gates import DEFAULT_GATES
from kube.api import codec
from kube.api.core import Node
from plugins.registry import Registry
from simulator.load import load
from simulator.offline import Simulation
from tests.builders import make_node, taint
from tests.recorded import plain, recorded_data

EXPECTED = Path(__file__).with_name("public_manifests.yaml")
CONTROL_PLANE = taint("node-role.kubernetes.io/control-plane", "", "NoSchedule")


def nodes() -> list[Node]:
    """Three tainted control-plane nodes, thirteen workers in three zones, two with GPUs, one Windows, one arm64."""
    made = []
    for i in range(20):
        name = f"n{i:02d}"
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "windows" if i == 18 else "linux",
            "kubernetes.io/arch": "arm64" if i == 19 else "amd64",
            "topology.kubernetes.io/zone": f"zone-{i % 3}",
        }
        if i < 3:
            labels["node-role.kubernetes.io/control-plane"] = ""
        extra = {"nvidia.com/gpu": "4"} if i in (16, 17) else {}
        taints = [CONTROL_PLANE] if i < 3 else []
        made.append(make_node(name, cpu="8", memory="32Gi", pods="110", labels=labels, taints=taints, extra=extra))
    return made


def judged(file: Path, nodes_file: Path) -> dict[str, int]:
    """What the pods of a file are told -> how many pods; `placed` for those that found a node."""
    cluster = load([str(nodes_file), str(file)])
    simulation = Simulation(cluster, default_configuration(DEFAULT_GATES), Registry(), DEFAULT_GATES.as_dict())
    return dict(Counter("placed" if result.node else plain(result.message) for result in simulation.run()))


def test_every_pod_template_is_placed_or_refused_for_the_right_reason(tmp_path: Path) -> None:
    nodes_file = tmp_path / "nodes.json"
    nodes_file.write_bytes(b'{"apiVersion":"v1","kind":"List","items":[%s]}' % b",".join(map(codec.encode, nodes())))
    found = {file.name: judged(file, nodes_file) for file in sorted(recorded_data("data", "manifests").glob("*.yaml"))}
    assert len(found) == 67
    assert found == yaml.safe_load(EXPECTED.read_text())
