"""The pages for operators, word for word: their blocks of shell are run as they stand there, on a clean cluster."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.conformance.api import Json
from tests.conformance.find import Binaries
from tests.deploy.rendering import DEPLOY
from tests.operate.cluster import Operator, operated
from tests.operate.test_operator import workload

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(400)]
DOCS = Path(__file__).parents[2] / "docs"


def block(page: str, heading: str) -> str:
    """The first block of shell below a heading."""
    text = (DOCS / f"{page}.md").read_text()
    below = text.split(f"\n## {heading}\n", 1)[1]
    found = re.search(r"^```sh\n(.*?)^```", below, re.DOTALL | re.MULTILINE)
    assert found is not None, heading
    return found[1]


def brought(me: Operator) -> str:
    """What an operator has: deploy/; and the folder in it for a server of this age."""
    shutil.copytree(DEPLOY, me.folder / "deploy", symlinks=True)
    return "deploy/overlays/kubernetes-1.20" if me.plane.version < (1, 21) else "deploy/base"


def controller(kind: str, name: str, version: str = "apps/v1") -> str:
    """A second and third kind of workload for the page on moving a namespace."""
    made: Json = yaml.safe_load(workload(name, 1, "default-scheduler"))
    spec = {key: made["spec"][key] for key in ("selector", "template")}
    if kind == "CronJob":
        spec["template"]["spec"]["restartPolicy"] = "Never"
        del spec["selector"]
        spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": spec}}
    elif kind == "StatefulSet":
        spec["serviceName"] = name
    return yaml.safe_dump({**made, "apiVersion": version, "kind": kind, "spec": spec})


def scheduler_of(item: Json) -> str:
    spec = item["spec"].get("jobTemplate", item)["spec"]
    return str(spec["template"]["spec"]["schedulerName"])


async def test_install_place_move_upgrade_and_uninstall_as_the_pages_say(binaries: Binaries, tmp_path: Path) -> None:
    async with operated(binaries, tmp_path, "pages") as me:
        base = brought(me)
        await me.shell(
            block("install", "With kustomize").replace("deploy/base", base).replace("REGISTRY", "reg.example")
        )
        deployment = await me.api.get("/apis/apps/v1/namespaces/kube-system/deployments/podium")
        assert deployment["spec"]["template"]["spec"]["containers"][0]["image"].startswith("reg.example/podium:")

        first, events = block("install", "Place a first pod").splitlines()
        await me.shell(first)
        await me.placed("default", 1)
        await asyncio.sleep(1)
        assert re.search(r"Scheduled +pod/web .*default/web to node-", await me.shell(events))

        await moved(me)
        said = await me.shell(
            "kubectl get nodes,pods,pvc,pv,storageclasses -A -o json | podium simulate -f - -o json > simulated.json"
        )
        assert "Traceback" not in said

        await me.shell(re.findall(r"`(kubectl [^`]*rollout restart[^`]*)`", (DOCS / "upgrade.md").read_text())[0])
        await me.kubectl("-n kube-system rollout status deployment podium --timeout=120s")

        await me.shell(block("install", "Uninstall"))
        async with asyncio.timeout(60):
            while await me.leftovers():
                await asyncio.sleep(0.5)
        await me.until(lambda: not me.podiums, "every podium has ended")


async def moved(me: Operator) -> None:
    """A namespace of four kinds of workload, over and back."""
    cron = "batch/v1beta1" if me.plane.version < (1, 21) else "batch/v1"
    await me.kubectl("create namespace shop")
    for body in (
        workload("web", 2, "default-scheduler"),
        controller("StatefulSet", "db"),
        controller("DaemonSet", "agent"),
        controller("CronJob", "NAME".lower(), cron),
    ):
        await me.kubectl("apply -f -", body)
    lines = block("beside-default", "Move a namespace over").replace("NAME", "name")
    for scheduler in ("podium", "default-scheduler"):
        await me.shell(lines.replace("podium", scheduler))
        items = []
        for path in (
            "apps/v1/{}/deployments",
            "apps/v1/{}/statefulsets",
            "apps/v1/{}/daemonsets",
            cron + "/{}/cronjobs",
        ):
            items += (await me.api.get("/apis/" + path.format("namespaces/shop")))["items"]
        assert [scheduler_of(item) for item in items] == [scheduler] * 4
        await me.replaced("shop", 2, scheduler)
        await me.placed("shop", 2)


@pytest.mark.parametrize("overlay", ["laptop", "node-pool"])
async def test_another_overlay_comes_up_and_places(binaries: Binaries, tmp_path: Path, overlay: str) -> None:
    async with operated(binaries, tmp_path, f"overlay-{overlay}") as me:
        base = brought(me)
        if base != "deploy/base" and overlay != "laptop":
            # What overlays/kubernetes-1.20 changes, on top of this one; the laptop's has no budget to change.
            file = tmp_path / base / "kustomization.yaml"
            file.write_text(file.read_text().replace("../../base", f"../{overlay}"))
            overlay = Path(base).name
        await me.shell(
            "kubectl label node node-0 node-1 pool=podium && kubectl taint node node-0 node-1 pool=podium:NoSchedule"
        )
        await me.shell(f"kubectl apply -k deploy/overlays/{overlay}")
        await me.kubectl("-n kube-system rollout status deployment podium --timeout=90s")
        tolerant: Json = yaml.safe_load(workload("web", 4))
        tolerant["spec"]["template"]["spec"]["tolerations"] = [{"key": "pool", "operator": "Exists"}]
        await me.kubectl("create namespace shop")
        await me.kubectl("apply -f -", yaml.safe_dump(tolerant))
        pods = await me.placed("shop", 4)
        used = {pod["spec"]["nodeName"] for pod in pods["items"]}
        assert used == ({"node-0", "node-1", "node-2"} if overlay == "laptop" else {"node-0", "node-1"})
