"""The Helm chart holds what the kustomize base holds, and refuses values that it does not know."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.load import loads
from tests.deploy.rendering import CHART, charted, configuration, kustomized, pod_spec, the

helm = pytest.importorskip("helm_python", reason="no Helm: install the wheel helm-python-sdk")
Json = dict[str, Any]
MONITORED = {"monitoring": {"podMonitor": True, "rules": True, "dashboard": True}}
PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def bare(item: Any) -> Any:
    """Without labels, the hash in a name, and what belongs to one of the two tools."""
    if isinstance(item, list):
        return [bare(each) for each in item]
    if not isinstance(item, dict):
        return "podium-config" if isinstance(item, str) and item.startswith("podium-config") else item
    left_out = {"labels", "annotations", "imagePullPolicy", "app.kubernetes.io/instance"}
    return {key: bare(value) for key, value in item.items() if key not in left_out}


def by_name(objects: list[Json]) -> dict[tuple[str, str], Json]:
    made = {}
    for item in map(bare, objects):
        if item["kind"] == "ConfigMap":
            item["data"] = {name: yaml.safe_load(text) for name, text in item["data"].items()}
        made[item["kind"], item["metadata"]["name"]] = item
    return made


@pytest.mark.parametrize(
    ("values", "folder"),
    [pytest.param({}, "base", id="the base")],
)
def test_by_default_the_chart_is_the_base(values: Json, folder: str) -> None:
    assert by_name(charted(values)) == by_name(kustomized(folder))


def test_with_monitoring_it_holds_the_same_monitors_rules_and_dashboard_as_the_component() -> None:
    charts, bases = by_name(charted(MONITORED)), by_name(kustomized("overlays/high-availability"))
    ours = {key for key in bases if key not in by_name(kustomized("base"))}
    assert ours == set(charts) - set(by_name(charted()))
    assert {key: charts[key] for key in ours} == {key: bases[key] for key in ours}


def test_nothing_that_helm_lints_is_wrong() -> None:
    report = helm.lint(CHART, strict=True, namespace="kube-system")
    assert [m for m in report["messages"] if m["severity"] > 1] == []
    assert report["errors"] == []


def test_chart_and_program_have_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == PROJECT["version"]
    (container,) = pod_spec(charted())["containers"]
    assert container["image"] == f"podium:{PROJECT['version']}"


def test_two_releases_do_not_touch_each_other() -> None:
    names = [
        {(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in charted(name=n, namespace=ns)}
        for n, ns in (("podium", "kube-system"), ("batch", "scheduling"), ("podium-batch", "scheduling"))
    ]
    assert names[0].isdisjoint(names[1])
    assert names[0].isdisjoint(names[2])


def test_a_release_in_a_namespace_of_its_own_keeps_its_lease_there() -> None:
    values = {"config": {"leaderElection": {"resourceName": "batch"}, "profiles": [{"schedulerName": "batch"}]}}
    objects = charted(values, "batch", "scheduling")
    election = loads(yaml.safe_dump(configuration_of(objects))).configuration.leader_election
    assert (election.resource_namespace, election.resource_name) == ("scheduling", "batch")
    role = the(objects, "Role", "podium-batch")
    assert (role["metadata"]["namespace"], role["rules"][1]["resourceNames"]) == ("scheduling", ["batch"])
    reader = the(objects, "RoleBinding", "podium-batch-authentication-reader")
    assert (reader["metadata"]["namespace"], reader["subjects"][0]["namespace"]) == ("kube-system", "scheduling")


def configuration_of(objects: list[Json]) -> Json:
    loaded: Json = yaml.safe_load(the(objects, "ConfigMap", "podium-batch-config")["data"]["config.yaml"])
    return loaded


def test_what_is_set_reaches_the_container() -> None:
    values = {
        "tls": {"secretName": "podium-tls"},
        "extraArgs": ["-v=4"],
        "tolerations": [{"operator": "Exists"}],
        "image": {"repository": "registry.example/podium", "tag": "1.2"},
    }
    spec = pod_spec(charted(values))
    (container,) = spec["containers"]
    assert container["image"] == "registry.example/podium:1.2"
    assert container["args"][2:] == [
        "--tls-cert-file=/etc/podium-tls/tls.crt",
        "--tls-private-key-file=/etc/podium-tls/tls.key",
        "-v=4",
    ]
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert [v.get("secret", {}).get("secretName") for v in spec["volumes"]] == [None, "podium-tls"]


def test_another_configuration_rolls_the_deployment() -> None:
    def checksum(values: Json) -> str:
        template = the(charted(values), "Deployment")["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    assert checksum({}) == checksum({"replicas": 3})
    assert checksum({}) != checksum({"config": {"podMaxBackoffSeconds": 30}})
    assert configuration(charted({"config": {"podMaxBackoffSeconds": 30}}))["podMaxBackoffSeconds"] == 30


@pytest.mark.parametrize(
    ("values", "place"),
    [
        pytest.param({"replica": 2}, "additional properties 'replica'", id="a name that is not known"),
        pytest.param({"replicas": "two"}, "/replicas", id="a value of another type"),
        pytest.param(
            {"image": {"tag": "1", "pullPolicy": "Sometimes"}}, "/image/pullPolicy", id="a policy there is not"
        ),
        pytest.param({"config": {"kind": "Policy"}}, "/config", id="the kind is the chart's business"),
        pytest.param(
            {"config": {"leaderElection": {"resourceName": "kube-scheduler"}}},
            "/config/leaderElection/resourceName",
            id="the default scheduler's lease",
        ),
        pytest.param({"config": {"profiles": []}}, "/config/profiles", id="no profile"),
        pytest.param({"extraArgs": ["v=4"]}, "/extraArgs/0", id="an option without a dash"),
    ],
)
def test_wrong_values_are_refused_with_their_place(values: Json, place: str) -> None:
    with pytest.raises(helm.HelmError, match=place):
        charted(values)
