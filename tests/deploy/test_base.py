"""The kustomize base: what an operator applies hangs together, asks for no more than it needs, and runs confined."""

from typing import Any

import pytest
import yaml

from config.load import load
from kube.api.resources import RESOURCES
from tests.conformance.manifests import DEPLOY, deploy_objects
from tests.deploy.rendering import kustomized

Json = dict[str, Any]
READ = {"get", "list", "watch"}


def the(kind: str, name: str = "podium") -> Json:
    (found,) = (item for item in deploy_objects() if (item["kind"], item["metadata"]["name"]) == (kind, name))
    return found


def config() -> Json:
    loaded: Json = yaml.safe_load((DEPLOY / "config.yaml").read_text())
    return loaded


@pytest.fixture(scope="module")
def rendered() -> list[Json]:
    """What `kubectl apply -k deploy/base` would send."""
    return kustomized("base")


def test_every_manifest_in_the_folder_is_part_of_the_base() -> None:
    listed = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    written = {file.name for file in DEPLOY.glob("*.yaml")} - {"kustomization.yaml", "config.yaml"}
    assert (set(listed), len(listed)) == (written, len(written))


# --- rights ---------------------------------------------------------------------------------------------------------


def test_podium_writes_only_what_a_scheduler_writes() -> None:
    written = {
        (group, resource, verb)
        for rule in the("ClusterRole")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in set(rule["verbs"]) - READ
    }
    assert written == {
        ("", "pods/binding", "create"),
        ("", "pods/status", "patch"),
        ("", "pods", "delete"),
        ("events.k8s.io", "events", "create"),
        ("events.k8s.io", "events", "patch"),
        ("", "persistentvolumeclaims", "patch"),
        ("", "persistentvolumes", "patch"),
        ("resource.k8s.io", "resourceclaims", "patch"),
        ("resource.k8s.io", "resourceclaims", "create"),
        ("resource.k8s.io", "resourceclaims", "delete"),
        ("resource.k8s.io", "resourceclaims/status", "patch"),
        ("resource.k8s.io", "resourceclaims/binding", "patch"),
        ("scheduling.k8s.io", "podgroups/status", "patch"),
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    }


def test_what_podium_reads_is_listed_by_name_and_holds_no_secrets() -> None:
    read = {resource for rule in the("ClusterRole")["rules"] for resource in rule["resources"]}
    assert "*" not in read
    assert read.isdisjoint({"secrets", "configmaps", "serviceaccounts", "pods/exec", "pods/log"})


def test_podium_may_read_just_the_kinds_that_it_watches() -> None:
    read = {
        (group, resource)
        for rule in the("ClusterRole")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if "watch" in rule["verbs"]
    }
    # Events and the Lease are written; the admission of pods has looked at priority classes and claim templates.
    not_watched = {"events", "leases", "priorityclasses", "resourceclaimtemplates"}
    known = {(r.group, r.plural) for r in RESOURCES if r.plural not in not_watched}
    assert read == known


def test_no_resource_is_granted_twice() -> None:
    granted = [
        (group, resource, verb)
        for rule in the("ClusterRole")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
    assert len(granted) == len(set(granted))


def test_every_binding_gives_a_role_to_podiums_own_account() -> None:
    account = {"kind": "ServiceAccount", "name": "podium", "namespace": "kube-system"}
    bindings = [item for item in deploy_objects() if item["kind"].endswith("Binding")]
    assert [binding["subjects"] for binding in bindings] == [[account]] * 3
    assert sorted((binding["roleRef"]["kind"], binding["roleRef"]["name"]) for binding in bindings) == [
        ("ClusterRole", "podium"),
        ("Role", "extension-apiserver-authentication-reader"),
        ("Role", "podium-leader-election"),
    ]


def test_the_one_lease_that_may_be_written_is_the_one_of_the_configuration() -> None:
    election, role = config()["leaderElection"], the("Role", "podium-leader-election")
    create, keep = role["rules"]
    assert create == {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]}
    assert (keep["resourceNames"], keep["verbs"]) == ([election["resourceName"]], ["get", "update"])
    assert role["metadata"]["namespace"] == election["resourceNamespace"]


# --- the workload ---------------------------------------------------------------------------------------------------


def pod_spec() -> Json:
    spec: Json = the("Deployment")["spec"]["template"]["spec"]
    return spec


def container() -> Json:
    (only,) = pod_spec()["containers"]
    return dict(only)


def test_podium_runs_as_nobody_on_a_root_file_system_that_it_cannot_write() -> None:
    assert pod_spec()["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize(
    ("probe", "path"),
    [
        pytest.param("startupProbe", "/livez", id="it has started when it is alive"),
        pytest.param("livenessProbe", "/livez", id="it is restarted when it is no longer alive"),
        pytest.param("readinessProbe", "/readyz", id="it counts as available once its informers have synced"),
    ],
)
def test_the_probes_ask_the_schedulers_own_port(probe: str, path: str) -> None:
    assert container()[probe]["httpGet"] == {"path": path, "port": "https", "scheme": "HTTPS"}
    assert container()["ports"] == [{"name": "https", "containerPort": 10259, "protocol": "TCP"}]


def test_the_configuration_is_mounted_where_the_command_line_reads_it() -> None:
    (mount,) = container()["volumeMounts"]
    assert container()["args"] == ["run", f"--config={mount['mountPath']}/config.yaml"]
    assert mount["readOnly"]


def test_only_the_secure_port_is_let_in() -> None:
    (rule,) = the("NetworkPolicy")["spec"]["ingress"]
    assert rule == {"ports": [{"protocol": "TCP", "port": container()["ports"][0]["containerPort"]}]}
    assert not [argument for argument in container()["args"] if argument.startswith("--port")]


def test_podium_reads_the_configuration_and_has_nothing_to_say_about_it() -> None:
    configuration, warnings = load(DEPLOY / "config.yaml")
    assert warnings == ()
    assert [profile.scheduler_name for profile in configuration.profiles] == ["podium"]
    assert configuration.leader_election.resource_name == "podium"


def test_service_budget_and_spreading_select_podiums_pods() -> None:
    labels = the("Deployment")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        the("Deployment")["spec"]["selector"]["matchLabels"],
        the("Service")["spec"]["selector"],
        the("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        the("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        pod_spec()["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    ]
    assert selectors == [labels] * 5


def test_a_voluntary_disruption_takes_one_of_two() -> None:
    assert the("Deployment")["spec"]["replicas"] == 2
    assert the("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


# --- rendered -------------------------------------------------------------------------------------------------------


def test_kustomize_renders_every_object_and_the_generated_configuration(rendered: list[Json]) -> None:
    names = sorted((item["kind"], item["metadata"]["name"].rpartition("-")[0]) for item in rendered)
    written = [(item["kind"], item["metadata"]["name"].rpartition("-")[0]) for item in deploy_objects()]
    assert names == sorted([*written, ("ConfigMap", "podium-config")])


def test_the_rendered_deployment_mounts_the_configuration_by_its_hashed_name(rendered: list[Json]) -> None:
    (generated,) = (item for item in rendered if item["kind"] == "ConfigMap")
    (deployment,) = (item for item in rendered if item["kind"] == "Deployment")
    (volume,) = deployment["spec"]["template"]["spec"]["volumes"]
    assert volume["configMap"]["name"] == generated["metadata"]["name"] != "podium-config"
    assert yaml.safe_load(generated["data"]["config.yaml"]) == config()
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"].startswith("podium:")


def test_everything_in_a_namespace_is_in_kube_system(rendered: list[Json]) -> None:
    namespaces = {item["kind"]: item["metadata"].get("namespace") for item in rendered}
    cluster_wide = {kind for kind, namespace in namespaces.items() if namespace is None}
    assert cluster_wide == {"ClusterRole", "ClusterRoleBinding"}
    assert set(namespaces.values()) == {None, "kube-system"}
