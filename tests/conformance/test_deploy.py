"""deploy/ against API servers: every object is accepted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance.embedded import EmbeddedPlane
from tests.conformance.start import ADMIN, ControlPlane
from tests.deploy.rendering import KUBECTL, OVERLAYS, charted, kustomized

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

Json = dict[str, Any]
CUSTOM = "monitoring.coreos.com/v1"


async def applied(kubeconfig: Path, objects: list[Json], folder: Path) -> str:
    """What `kubectl apply --server-side --dry-run=server` says; it fails the test where the server refuses."""
    assert KUBECTL is not None
    file = folder / "objects.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    words = (f"--kubeconfig={kubeconfig}", "apply", "--server-side", "--dry-run=server", "-f", str(file))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(KUBECTL, *words, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    said = (await process.communicate())[0].decode()
    assert process.returncode == 0, said
    return said


def served(objects: list[Json]) -> list[Json]:
    """Without custom resources, whose definitions no test installs."""
    return [item for item in objects if item["apiVersion"] != CUSTOM]


def old(objects: list[Json]) -> list[Json]:
    """As for a server that does not know policy/v1 (overlays/kubernetes-1.20)."""
    return [item | {"apiVersion": item["apiVersion"].replace("policy/v1", "policy/v1beta1")} for item in objects]


@pytest.mark.parametrize("source", [*OVERLAYS, "helm"])
async def test_the_real_server_accepts_every_object(control_plane: ControlPlane, source: str, tmp_path: Path) -> None:
    objects = served(charted() if source == "helm" else kustomized(source))
    if control_plane.version < (1, 21) and "1.20" not in source:
        objects = old(objects)
    said = await applied(control_plane.kubeconfig(ADMIN), objects, tmp_path)
    assert len(said.splitlines()) == len(objects)


#: groups that the embedded server does not serve: it knows no rights and no networks
NOT_EMBEDDED = ("rbac.authorization.k8s.io", "networking.k8s.io")


@pytest.mark.parametrize("source", ["base", "overlays/high-availability", "helm"])
async def test_the_embedded_server_accepts_what_it_knows(source: str, tmp_path: Path) -> None:
    objects = served(charted() if source == "helm" else kustomized(source))
    known = [item for item in objects if not item["apiVersion"].startswith(NOT_EMBEDDED)]
    async with EmbeddedPlane(tmp_path) as plane:
        said = await applied(plane.kubeconfig(), known, tmp_path)
    assert len(said.splitlines()) == len(known) >= 5
