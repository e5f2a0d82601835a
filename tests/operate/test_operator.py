"""A new operator's first day, from docs/install.md and docs/troubleshoot.md: install, place, scrape, lose the leader,
change the configuration, uninstall; by kustomize, and by Helm. Each leaves a transcript."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from pathlib import Path

import pytest
import yaml

from tests.conformance.api import Json
from tests.conformance.find import Binaries
from tests.conformance.start import ADMIN
from tests.deploy.rendering import CHART, DEPLOY
from tests.deploy.test_monitoring import DASHBOARD, PROMTOOL, families, names, promtool
from tests.operate.cluster import Operator, operated

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(400)]


def workload(name: str, replicas: int, scheduler: str = "podium", namespace: str = "shop") -> str:
    """A Deployment that asks for podium."""
    container = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "100m"}}}
    labels = {"app": name}
    return yaml.safe_dump(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "replicas": replicas,
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"schedulerName": scheduler, "containers": [container]},
                },
            },
        }
    )


def schedulers(events: Json) -> set[str]:
    """Who says that it placed pods."""
    placed = [event for event in events["items"] if event["reason"] == "Scheduled"]
    # The default scheduler of 1.20 still says it in the older field.
    return {e.get("reportingController") or (e.get("deprecatedSource") or {}).get("component", "") for e in placed}


async def placing(me: Operator) -> None:
    """A first workload."""
    await me.kubectl("create namespace shop")
    await me.kubectl("apply -f -", workload("web", 6))
    pods = await me.placed("shop", 6)
    assert len({pod["spec"]["nodeName"] for pod in pods["items"]}) == 3
    # Both replicas of podium see the pods; the one that leads binds them.
    await me.kubectl("-n shop get pods -o wide")
    events = await me.api.wait_until(
        "/apis/events.k8s.io/v1/namespaces/shop/events", "told", lambda body: len(body["items"]) >= 6
    )
    assert schedulers(events) == {"podium"}


async def moving_over_and_back(me: Operator) -> None:
    """docs/beside-default.md: a workload of the default scheduler becomes podium's, and again the other one's."""
    await me.kubectl("create namespace moved")
    await me.kubectl("apply -f -", workload("old", 2, "default-scheduler", "moved"))
    for scheduler in ("default-scheduler", "podium", "default-scheduler"):
        if await placed_by(me) not in ({scheduler}, set()):
            change = {"spec": {"template": {"spec": {"schedulerName": scheduler}}}}
            words = ["-n", "moved", "patch", "deployment.apps/old", "--type", "merge", "-p"]
            await me.kubectl(" ".join([*words, json.dumps(change, separators=(",", ":"))]))
            await me.replaced("moved", 2, scheduler)
        await me.placed("moved", 2)
        assert await placed_by(me) == {scheduler}
    columns = "REPORTER:.reportingComponent,MESSAGE:.message"
    chosen = "--field-selector reason=Scheduled --sort-by=.metadata.creationTimestamp"
    await me.kubectl(f"-n moved get events {chosen} -o custom-columns={columns}")
    await me.kubectl("delete namespace moved --wait=false")


async def placed_by(me: Operator) -> set[str]:
    """Who placed the pods that are there now."""
    pods = {p["metadata"]["uid"] for p in (await me.api.get("/api/v1/namespaces/moved/pods"))["items"]}
    events = (await me.api.get("/apis/events.k8s.io/v1/namespaces/moved/events"))["items"]
    return schedulers({"items": [event for event in events if event["regarding"]["uid"] in pods]})


async def scraping(me: Operator) -> None:
    """Prometheus' account reads the metrics, nobody else does."""
    await me.kubectl("-n kube-system create serviceaccount scraper")
    await me.kubectl(
        "create clusterrolebinding scraper --clusterrole=podium-viewer --serviceaccount=kube-system:scraper"
    )
    token = (await me.kubectl("-n kube-system create token scraper")).strip()
    leader = await me.holder()
    code, text = await me.agent.fetch(leader, "/metrics", token)
    me.note("curl -k -H 'Authorization: Bearer …' https://podium:10259/metrics | grep attempts_total", "\n".join(
        line for line in text.splitlines() if line.startswith("scheduler_schedule_attempts_total")))  # fmt: skip
    assert code == 200
    assert 'scheduler_schedule_attempts_total{profile="podium",result="scheduled"} ' in text
    assert 'leader_election_master_status{name="podium"} 1.0' in text
    assert await me.agent.status(leader, "/metrics") == 403
    assert await me.agent.status(leader, "/metrics", "made-up") == 401
    assert await me.agent.status(leader, "/debug/state", token) == 403
    (me.folder / "token").write_text(token)
    trust = f"--token-file {me.folder}/token --insecure-skip-tls-verify"
    said = await me.podium(f"explain --server https://127.0.0.1:{leader.port} {trust} -n shop")
    assert "no pod is pending" in said
    drawn = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    missing = {series for query in drawn for series in names(query)} - families(text)
    me.note("deploy/components/monitoring/podium.json: are its series scraped?", f"{len(drawn)} queries, all of them")
    assert missing == set()
    if PROMTOOL is not None:
        promtool(me.folder, "check", "metrics", text=text)
        me.note("promtool check metrics", "(no objection)")
    await me.kubectl("delete clusterrolebinding scraper")
    await me.kubectl("-n kube-system delete serviceaccount scraper")


async def losing_the_leader(me: Operator) -> None:
    """Killed without a word, as with a node; the other one goes on, and the Deployment makes a third."""
    leader = await me.holder()
    me.note(f"kill -9 (the process of {leader.name}, which leads)", "")
    leader.process.send_signal(signal.SIGKILL)
    await leader.process.wait()
    await me.kubectl(f"-n kube-system delete pod {leader.name} --grace-period=0 --force")
    await me.kubectl("-n shop scale deployment web --replicas=12")
    await me.placed("shop", 12)
    await me.kubectl("-n shop get deployment web -o jsonpath={.status.replicas}")
    assert (await me.holder()).name != leader.name
    await me.kubectl("-n kube-system get lease podium -o jsonpath={.spec.holderIdentity}")
    await me.kubectl("-n kube-system rollout status deployment podium --timeout=90s")


async def uninstalled(me: Operator) -> None:
    """Nothing of podium is left, neither object nor process; pods that it placed stay where they are."""
    async with asyncio.timeout(60):
        while left := await me.leftovers():
            await asyncio.sleep(0.5)
    me.note("kubectl get (every kind there is) -A | grep podium", "\n".join(left) or "(nothing)")
    await me.until(lambda: not me.podiums, "every podium has ended")
    await me.placed("shop", 12)


async def test_a_first_day_with_kustomize(binaries: Binaries, tmp_path: Path) -> None:
    async with operated(binaries, tmp_path, "kustomize") as me:
        mine = tmp_path / "deploy"
        shutil.copytree(DEPLOY, mine, symlinks=True)
        overlay = mine / "overlays" / ("kubernetes-1.20" if me.plane.version < (1, 21) else "node-pool/../../base")
        await me.kubectl(f"apply -k {overlay}")
        await me.kubectl("-n kube-system rollout status deployment podium --timeout=90s")
        await placing(me)
        await moving_over_and_back(me)
        await scraping(me)
        await losing_the_leader(me)

        # Another configuration is another ConfigMap: the Deployment rolls by itself.
        config = mine / "base" / "config.yaml"
        config.write_text(config.read_text() + "  - schedulerName: podium-batch\n")
        me.note("echo '  - schedulerName: podium-batch' >> deploy/base/config.yaml", "")
        await me.kubectl(f"apply -k {overlay}")
        await me.kubectl("-n kube-system rollout status deployment podium --timeout=120s")
        await me.kubectl("apply -f -", workload("batch", 3, "podium-batch"))
        await me.placed("shop", 15)
        await me.kubectl("-n shop delete deployment batch")
        await me.replaced("shop", 12, "podium")

        await me.kubectl(f"delete -k {overlay}")
        await me.kubectl(
            "-n kube-system delete configmaps,leases,events -l app.kubernetes.io/name=podium --ignore-not-found"
        )
        await me.kubectl("-n kube-system delete lease podium --ignore-not-found")
        await uninstalled(me)


async def test_a_first_day_with_helm(binaries: Binaries, tmp_path: Path) -> None:
    helm = pytest.importorskip("helm_python", reason="no Helm: install the wheel helm-python-sdk")
    async with operated(binaries, tmp_path, "helm") as me:
        with helm.Config(kubeconfig_path=me.plane.kubeconfig(ADMIN), namespace="kube-system") as release:
            made = await asyncio.to_thread(release.install, str(CHART), "podium", namespace="kube-system")
            me.note(
                "helm install podium deploy/helm/podium -n kube-system",
                str(made.get("notes") or made.get("info") or ""),
            )
            await me.kubectl("-n kube-system rollout status deployment podium --timeout=90s")
            await placing(me)
            await scraping(me)
            await losing_the_leader(me)

            profiles = [{"schedulerName": "podium"}, {"schedulerName": "podium-batch"}]
            values = {"config": {"profiles": profiles}}
            await asyncio.to_thread(release.upgrade, str(CHART), "podium", values, namespace="kube-system")
            me.note("helm upgrade podium deploy/helm/podium -n kube-system -f values.yaml", yaml.safe_dump(values))
            await me.kubectl("-n kube-system rollout status deployment podium --timeout=120s")
            await me.kubectl("apply -f -", workload("batch", 3, "podium-batch"))
            await me.placed("shop", 15)
            await me.kubectl("-n shop delete deployment batch")
            await me.replaced("shop", 12, "podium")

            await asyncio.to_thread(release.uninstall, "podium")
            me.note("helm uninstall podium -n kube-system", "")
        await me.kubectl("-n kube-system delete lease podium --ignore-not-found")
        await uninstalled(me)
