"""The overlays: each hangs together, is valid in each version of Kubernetes it is for, and does what its name says."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
import yaml

from config.load import loads
from tests.deploy.rendering import OVERLAYS, charted, configuration, kustomized, pod_spec, the

Json = dict[str, Any]
OPERATORS = "monitoring.coreos.com/v1"
MONITORED = {"monitoring": {"podMonitor": True, "rules": True, "dashboard": True}}


@pytest.mark.parametrize("version", ["1.27", "1.30", "1.34", "1.37"])
@pytest.mark.parametrize("folder", [each for each in OVERLAYS if "1.20" not in each])
def test_each_object_is_valid_without_a_field_too_many(folder: str, version: str) -> None:
    for item in kustomized(folder):
        if item["apiVersion"] != OPERATORS:
            kubernetes_validate.validate(item, version, strict=True)


@pytest.mark.parametrize("version", ["1.27", "1.37"])
def test_each_object_of_the_chart_is_valid_without_a_field_too_many(version: str) -> None:
    for item in charted(MONITORED):
        if item["apiVersion"] != OPERATORS:
            kubernetes_validate.validate(item, version, strict=True)


@pytest.mark.parametrize("folder", OVERLAYS)
def test_podium_reads_the_configuration_of_each_and_has_nothing_to_say(folder: str) -> None:
    loaded = loads(yaml.safe_dump(configuration(kustomized(folder))))
    assert loaded.warnings == ()
    assert [profile.scheduler_name for profile in loaded.configuration.profiles] == ["podium"]


@pytest.mark.parametrize("folder", OVERLAYS)
def test_the_deployment_mounts_the_configuration_that_is_rendered_with_it(folder: str) -> None:
    objects = kustomized(folder)
    (volume,) = pod_spec(objects)["volumes"]
    assert volume["configMap"]["name"] == the(objects, "ConfigMap", "podium-config")["metadata"]["name"]


def test_a_laptop_runs_one_replica_without_lease_or_budget() -> None:
    objects = kustomized("overlays/laptop")
    deployment = the(objects, "Deployment")
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    assert configuration(objects)["leaderElection"] == {"leaderElect": False}
    assert "PodDisruptionBudget" not in {item["kind"] for item in objects}
    assert {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"} in pod_spec(objects)["tolerations"]


def test_high_availability_keeps_the_replicas_apart_and_limits_whom_they_call() -> None:
    objects = kustomized("overlays/high-availability")
    affinity = pod_spec(objects)["affinity"]["podAntiAffinity"]
    (apart,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert the(objects, "Deployment")["spec"]["replicas"] == 2
    policy = the(objects, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert sorted({port["port"] for rule in policy["egress"] for port in rule["ports"]}) == [53, 443, 6443]
    assert {"PodMonitor", "PrometheusRule"} <= {item["kind"] for item in objects}


def test_a_node_pool_is_all_that_its_podium_knows_and_where_it_runs() -> None:
    objects = kustomized("overlays/node-pool")
    (profile,) = configuration(objects)["profiles"]
    assert profile["nodeSelector"] == pod_spec(objects)["nodeSelector"] == {"pool": "podium"}


def test_before_1_21_only_the_budget_differs() -> None:
    old, new = kustomized("overlays/kubernetes-1.20"), kustomized("base")
    differing = [(a["apiVersion"], b["apiVersion"]) for a, b in zip(old, new, strict=True) if a != b]
    assert differing == [("policy/v1beta1", "policy/v1")]


def test_the_account_of_the_scraper_may_read_pages_and_nothing_else() -> None:
    objects = kustomized("overlays/high-availability")
    binding = the(objects, "ClusterRoleBinding", "podium-scraper")
    assert (binding["roleRef"]["name"], binding["subjects"][0]["name"]) == ("podium-viewer", "podium-scraper")
    viewer = the(objects, "ClusterRole", "podium-viewer")
    assert all(set(rule) == {"nonResourceURLs", "verbs"} and rule["verbs"] == ["get"] for rule in viewer["rules"])
    endpoint = the(objects, "PodMonitor")["spec"]["podMetricsEndpoints"][0]
    assert (
        endpoint["authorization"]["credentials"]["name"] == the(objects, "Secret", "podium-scraper")["metadata"]["name"]
    )
    assert endpoint["port"] == pod_spec(objects)["containers"][0]["ports"][0]["name"]
