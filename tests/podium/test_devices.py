"""Devices with everything running: slices, claims from templates, podium, and kubelets that prepare before starting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.cluster import Cluster, make_node_template
from simulator.controllers.device_driver import DEVICES
from tests.podium.harness import condition, node_of, podium, until

Object = dict[str, Any]
CLAIMS = "resourceclaims.resource.k8s.io"
TEMPLATES = "resourceclaimtemplates.resource.k8s.io"
API_VERSION = "resource.k8s.io/v1"


def device_class(name: str, expression: str = 'device.driver == "gpu.example.com"') -> Object:
    """A class by a selector."""
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return {"apiVersion": API_VERSION, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def claim_spec(device_class: str = "gpu", **exactly: Any) -> Object:
    """What asks for devices of a class."""
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": device_class, **exactly}}]}}


def template(name: str, **exactly: Any) -> Object:
    """A template of claims."""
    metadata = {"name": name, "namespace": "default"}
    spec = {"spec": claim_spec(**exactly)}
    return {"apiVersion": API_VERSION, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


def claim(name: str, **exactly: Any) -> Object:
    """A claim of its own."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": API_VERSION, "kind": "ResourceClaim", "metadata": metadata, "spec": claim_spec(**exactly)}


def pod(name: str, **source: str) -> Object:
    """A pod of podium's with one claim."""
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"schedulerName": "podium", "containers": [container], "resourceClaims": [{"name": "gpu", **source}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def add_node(cluster: Cluster, name: str, devices: str) -> None:
    """A node with devices."""
    made = make_node_template()
    cluster.add_node({**made, "metadata": {"annotations": {DEVICES: devices}}}, name)


def devices_of(cluster: Cluster, claim_name: str) -> list[str]:
    """What a claim got, as POOL/DEVICE."""
    status = cluster.server.get(CLAIMS, claim_name)["status"]
    return [f"{one['pool']}/{one['device']}" for one in status["allocation"]["devices"]["results"]]


def claim_of(cluster: Cluster, pod_name: str) -> Object:
    """The claim that was made for a pod."""
    (status,) = cluster.server.get("pods", pod_name)["status"]["resourceClaimStatuses"]
    return cluster.server.get(CLAIMS, status["resourceClaimName"])


def phase(cluster: Cluster, name: str) -> str:
    """A pod's phase, "" where there is none."""
    found = [one for one in cluster.server.list("pods") if one["metadata"]["name"] == name]
    return str(found[0]["status"]["phase"]) if found else ""


async def test_a_pod_with_a_template_gets_a_claim_a_device_and_a_prepared_start() -> None:
    async with Cluster() as cluster, podium(cluster.server):
        cluster.server.create(device_class("gpu"))
        cluster.server.create(template("one"))
        add_node(cluster, "n1", "h100*2:memory=80Gi")
        cluster.server.create(pod("p", resourceClaimTemplateName="one"))
        await until(lambda: phase(cluster, "p") == "Running", "p runs", timeout=30)
        made = claim_of(cluster, "p")
        assert made["metadata"]["name"].startswith("p-gpu-")
        assert made["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
        (user,) = made["status"]["reservedFor"]
        assert user == {"resource": "pods", "name": "p", "uid": cluster.server.get("pods", "p")["metadata"]["uid"]}
        assert devices_of(cluster, made["metadata"]["name"]) == ["n1/gpu-0"]
        (reported,) = made["status"]["devices"]
        assert reported["conditions"][0]["type"] == "Ready"


async def test_a_server_that_has_only_the_version_before_is_used_as_it_is() -> None:
    cluster = Cluster()
    for resource in [one for one in cluster.server.registry if one.group == "resource.k8s.io"]:
        cluster.server.registry.unregister(resource.group, resource.version, resource.plural)
        cluster.server.registry.register(replace(resource, version="v1beta2"))
    async with cluster, podium(cluster.server):
        for body in (device_class("gpu"), template("one")):
            cluster.server.create({**body, "apiVersion": "resource.k8s.io/v1beta2"})
        add_node(cluster, "n1", "h100*2")
        cluster.server.create(pod("p", resourceClaimTemplateName="one"))
        await until(lambda: phase(cluster, "p") == "Running", "p runs", timeout=30)
        assert claim_of(cluster, "p")["apiVersion"] == "resource.k8s.io/v1beta2"


async def test_a_device_that_is_taken_keeps_a_pod_waiting_until_the_other_pod_goes() -> None:
    async with Cluster() as cluster, podium(cluster.server):
        cluster.server.create(device_class("gpu"))
        cluster.server.create(template("one"))
        add_node(cluster, "n1", "h100*1")
        add_node(cluster, "n2", "")
        cluster.server.create(pod("first", resourceClaimTemplateName="one"))
        await until(lambda: phase(cluster, "first") == "Running", "first runs", timeout=30)
        cluster.server.create(pod("second", resourceClaimTemplateName="one"))
        await until(lambda: "message" in condition(cluster.server, "second"), "second is refused", timeout=30)
        assert "cannot allocate all claims" in condition(cluster.server, "second")["message"]
        cluster.server.delete("pods", "first", grace_seconds=0)
        await until(lambda: phase(cluster, "second") == "Running", "second runs", timeout=30)
        assert node_of(cluster.server, "second") == "n1"
        names = [one["metadata"]["name"] for one in cluster.server.list(CLAIMS)]
        assert names == [claim_of(cluster, "second")["metadata"]["name"]]


async def test_pods_share_a_claim_on_the_node_where_its_device_is() -> None:
    async with Cluster() as cluster, podium(cluster.server):
        cluster.server.create(device_class("gpu"))
        cluster.server.create(claim("shared"))
        for name in ("n1", "n2", "n3"):
            add_node(cluster, name, "h100*1")
        for name in ("a", "b", "c"):
            cluster.server.create(pod(name, resourceClaimName="shared"))
        await until(lambda: all(phase(cluster, one) == "Running" for one in "abc"), "all run", timeout=60)
        (device,) = devices_of(cluster, "shared")
        assert {node_of(cluster.server, one) for one in "abc"} == {device.partition("/")[0]}
        assert len(cluster.server.get(CLAIMS, "shared")["status"]["reservedFor"]) == 3
        for name in "abc":
            cluster.server.delete("pods", name, grace_seconds=0)
        await until(lambda: "allocation" not in cluster.server.get(CLAIMS, "shared").get("status", {}), "freed", 30)
        assert "finalizers" not in cluster.server.get(CLAIMS, "shared")["metadata"]


async def test_a_finished_pod_gives_its_devices_back() -> None:
    async with Cluster() as cluster, podium(cluster.server):
        cluster.server.create(device_class("gpu"))
        cluster.server.create(template("both", allocationMode="All"))
        add_node(cluster, "n1", "h100*2")
        short = pod("short", resourceClaimTemplateName="both")
        short["metadata"]["annotations"] = {"podium.io/run-seconds": "0.2"}
        short["spec"]["restartPolicy"] = "Never"
        cluster.server.create(short)
        await until(lambda: phase(cluster, "short") == "Succeeded", "short is over", timeout=30)
        cluster.server.create(pod("next", resourceClaimTemplateName="both"))
        await until(lambda: phase(cluster, "next") == "Running", "next runs", timeout=30)
        assert devices_of(cluster, claim_of(cluster, "next")["metadata"]["name"]) == ["n1/gpu-0", "n1/gpu-1"]


async def test_extended_resources_come_from_devices_of_their_class() -> None:
    async with Cluster() as cluster, podium(cluster.server) as service:
        made = device_class("gpu")
        made["spec"]["extendedResourceName"] = "example.com/gpu"
        cluster.server.create(made)
        add_node(cluster, "n1", "h100*2")
        wants = {"requests": {"example.com/gpu": "2"}, "limits": {"example.com/gpu": "2"}}
        spec = {"schedulerName": "podium", "containers": [{"name": "c", "image": "i", "resources": wants}]}
        cluster.server.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
        await until(lambda: phase(cluster, "p") == "Running", "p runs", timeout=60)
        (made,) = cluster.server.list(CLAIMS)
        assert made["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
        assert devices_of(cluster, made["metadata"]["name"]) == ["n1/gpu-0", "n1/gpu-1"]
        count = service.metrics.registry.get_sample_value
        assert count("scheduler_resourceclaim_creates_total", {"status": "success"}) == 1
        cluster.server.delete("pods", "p", grace_seconds=0)
        await until(lambda: not cluster.server.list(CLAIMS), "the claim goes with its pod", timeout=30)


@pytest.mark.parametrize(
    ("expression", "device"),
    [
        pytest.param('device.attributes["gpu.example.com"].model == "a30"', "n2/gpu-0", id="by an attribute"),
        pytest.param(
            'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0', "n1/gpu-0", id="by capacity"
        ),
    ],
)
async def test_a_class_chooses_by_what_devices_are(expression: str, device: str) -> None:
    async with Cluster() as cluster, podium(cluster.server):
        cluster.server.create(device_class("gpu", expression))
        cluster.server.create(claim("mine"))
        add_node(cluster, "n1", "h100*1:memory=80Gi")
        add_node(cluster, "n2", "a30*1:memory=24Gi")
        cluster.server.create(pod("p", resourceClaimName="mine"))
        await until(lambda: phase(cluster, "p") == "Running", "p runs", timeout=30)
        assert devices_of(cluster, "mine") == [device]


async def test_the_example_of_the_page_on_devices_runs_as_it_says() -> None:
    example = Path(__file__).parents[2] / "docs" / "examples" / "devices.yaml"
    async with Cluster() as cluster, podium(cluster.server):
        add_node(cluster, "node-0001", "h100*2:memory=80Gi")
        add_node(cluster, "node-0002", "h100*1:memory=80Gi, a30*2:memory=24Gi")
        for document in yaml.safe_load_all(example.read_text()):
            cluster.server.create(document)

        def running() -> list[str]:
            return [p["metadata"]["name"] for p in cluster.server.list("pods") if p["status"]["phase"] == "Running"]

        await until(lambda: len(running()) == 4, "all four run", timeout=30)
        assert node_of(cluster.server, "notebook-a") == node_of(cluster.server, "notebook-b")
        cluster.server.patch("deployments.apps", "trainer", {"spec": {"replicas": 3}})
        await until(lambda: len(cluster.server.list("pods")) == 5, "the third trainer is made", timeout=30)
        for name in ("notebook-a", "notebook-b"):
            cluster.server.delete("pods", name, grace_seconds=0)
        await until(lambda: sum(one.startswith("trainer") for one in running()) == 3, "all trainers run", timeout=30)
