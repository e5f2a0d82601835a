"""What an absent value stands for."""

from typing import Any

import msgspec
import pytest

from config.defaults import default_configuration, default_multi_point, in_tree_points
from config.feature_gates import DEFAULT_GATES, parse
from config.load import loads
from config.merge import expand
from config.types import PLUGIN_ARGS, Configuration, ExtensionPoint

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def effective(text: str = "", gates: str = "") -> Configuration:
    return loads(HEAD + text, gates=parse(gates)[0]).configuration


def look_up(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = value[int(step)] if step.isdigit() else getattr(value, step)
    return value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("parallelism", 16),
        ("leader_election.leader_elect", True),
        ("leader_election.lease_duration.seconds", 15),
        ("leader_election.renew_deadline.seconds", 10),
        ("leader_election.retry_period.seconds", 2),
        ("leader_election.resource_lock", "leases"),
        ("leader_election.resource_namespace", "kube-system"),
        ("leader_election.resource_name", "podium"),
        ("client_connection.kubeconfig", ""),
        ("client_connection.content_type", "application/vnd.kubernetes.protobuf"),
        ("client_connection.qps", 50.0),
        ("client_connection.burst", 100),
        ("enable_profiling", True),
        ("enable_contention_profiling", True),
        ("percentage_of_nodes_to_score", 0),
        ("pod_initial_backoff_seconds", 1),
        ("pod_max_backoff_seconds", 10),
        ("delay_cache_until_active", False),
        ("extenders", ()),
        ("profiles.0.scheduler_name", "podium"),
        ("profiles.0.percentage_of_nodes_to_score", None),
        ("profiles.0.node_selector", {}),
    ],
)
def test_an_empty_file_has_the_defaults(path: str, value: object) -> None:
    assert look_up(effective(), path) == value


@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        ("DefaultPreemption", {"min_candidate_nodes_percentage": 10, "min_candidate_nodes_absolute": 100}),
        ("InterPodAffinity", {"hard_pod_affinity_weight": 1, "ignore_preferred_terms_of_existing_pods": False}),
        ("NodeAffinity", {"added_affinity": None}),
        ("NodeResourcesFit", {"ignored_resources": (), "ignored_resource_groups": ()}),
        ("PodTopologySpread", {"default_constraints": (), "defaulting_type": "System"}),
        ("VolumeBinding", {"bind_timeout_seconds": 600, "shape": ()}),
    ],
)
def test_a_plugin_has_its_default_arguments(plugin: str, args: dict[str, Any]) -> None:
    found = msgspec.structs.asdict(effective().profiles[0].args(plugin))
    assert {name: found[name] for name in args} == args


def test_scoring_of_resources_counts_cpu_and_memory_alike() -> None:
    profile = effective().profiles[0]
    strategy = profile.args("NodeResourcesFit").scoring_strategy
    assert strategy.type == "LeastAllocated"
    for resources in (strategy.resources, profile.args("NodeResourcesBalancedAllocation").resources):
        assert [(resource.name, resource.weight) for resource in resources] == [("cpu", 1), ("memory", 1)]


@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        ("NodeResourcesFit", "{scoringStrategy: {resources: [{name: cpu, weight: 0}, {name: memory, weight: 3}]}}"),
        ("NodeResourcesBalancedAllocation", "{resources: [{name: cpu, weight: 0}, {name: memory}]}"),
    ],
)
def test_a_resource_with_a_weight_of_0_has_none_and_weighs_1(plugin: str, args: str) -> None:
    profile = effective(f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]").profiles[0]
    found = profile.args(plugin)
    resources = found.scoring_strategy.resources if plugin == "NodeResourcesFit" else found.resources
    assert (resources[0].name, resources[0].weight) == ("cpu", 1)


def test_devices_have_ten_seconds_to_be_found_and_ten_minutes_to_be_bound() -> None:
    args = effective().profiles[0].args("DynamicResources")
    assert (args.filter_timeout.seconds, args.binding_timeout.seconds) == (10, 600)


def test_without_their_gates_device_timeouts_are_absent() -> None:
    gates = "DRASchedulerFilterTimeout=false,DRADeviceBindingConditions=false"
    args = effective(gates=gates).profiles[0].args("DynamicResources")
    assert (args.filter_timeout, args.binding_timeout) == (None, None)


def test_storage_scoring_prefers_nodes_with_more_free_storage() -> None:
    args = effective(gates="StorageCapacityScoring=true").profiles[0].args("VolumeBinding")
    assert [(point.utilization, point.score) for point in args.shape] == [(0, 10), (100, 0)]


def test_no_file_and_an_empty_configuration_are_the_same() -> None:
    assert default_configuration(DEFAULT_GATES) == effective()


#: behind a gate, or for those who enable them
OPTIONAL = {"GangScheduling", "Coscheduling"}


def test_every_argument_type_belongs_to_a_default_plugin_or_to_an_optional_one() -> None:
    assert {entry.name for entry in effective().profiles[0].plugin_config} == set(PLUGIN_ARGS) - OPTIONAL


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        pytest.param("leaderElection: {leaseDuration: 0s}", "leader_election.lease_duration.seconds", 15,
                     id="a lease of no length is the default lease"),
        pytest.param("leaderElection: {resourceName: ''}", "leader_election.resource_name", "podium",
                     id="an empty lease name is podium's, not kube-scheduler's"),
        pytest.param("clientConnection: {qps: 0}", "client_connection.qps", 50.0, id="no rate is the default one"),
        pytest.param("clientConnection: {qps: -1}", "client_connection.qps", -1.0, id="a negative rate is no limit"),
        pytest.param("parallelism: null", "parallelism", 16, id="null is absent"),
        pytest.param("profiles: []", "profiles.0.scheduler_name", "podium", id="an empty list of profiles has one"),
        pytest.param("profiles: [{percentageOfNodesToScore: 5}]", "profiles.0.scheduler_name", "podium",
                     id="a single profile without a name never takes over default-scheduler"),
        pytest.param("profiles: [{schedulerName: default-scheduler}]", "profiles.0.scheduler_name", "default-scheduler",
                     id="who wants to be the default scheduler says so"),
        pytest.param("extenders: [{urlPrefix: http://x}]", "extenders.0.http_timeout.seconds", 5,
                     id="an extender has five seconds"),
        pytest.param("extenders: [{httpTimeout: 0s}]", "extenders.0.http_timeout.seconds", 5,
                     id="no time for an extender is the default time"),
    ],
)  # fmt: skip
def test_an_empty_value_stands_for_the_default(text: str, path: str, value: object) -> None:
    assert look_up(effective(text), path) == value


def test_an_extenders_own_resources_replace_the_ignored_ones() -> None:
    configuration = effective("""
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {ignoredResources: [example.com/old]}
extenders:
- managedResources:
  - {name: example.com/gpu, ignoredByScheduler: true}
  - {name: example.com/nic}
""")
    assert configuration.profiles[0].args("NodeResourcesFit").ignored_resources == ("example.com/gpu",)


@pytest.mark.parametrize(
    ("gates", "added", "removed"),
    [
        pytest.param("NodeDeclaredFeatures=false", set(), {"NodeDeclaredFeatures"}, id="declared features off"),
        pytest.param("GangScheduling=true", {"GangScheduling"}, set(), id="gangs on"),
        pytest.param("TopologyAwareWorkloadScheduling=true", {"TopologyPlacementGenerator", "PodGroupPodsCount"}, set(),
                     id="topology placements on"),
    ],
)  # fmt: skip
def test_a_gate_brings_its_plugins(gates: str, added: set[str], removed: set[str]) -> None:
    default = {plugin.name for plugin in default_multi_point(DEFAULT_GATES).enabled}
    found = {plugin.name for plugin in default_multi_point(parse(gates)[0]).enabled}
    assert (found - default, default - found) == (added, removed)


@pytest.mark.parametrize(
    ("point", "names"),
    [
        ("preEnqueue", "SchedulingGates DynamicResources DefaultPreemption"),
        ("queueSort", "PrioritySort"),
        ("preFilter", "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding "
                      "VolumeZone PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures"),
        ("filter", "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit "
                   "VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity "
                   "DynamicResources NodeDeclaredFeatures"),
        ("postFilter", "DynamicResources DefaultPreemption"),
        ("preScore", "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity "
                     "NodeResourcesBalancedAllocation"),
        ("score", "TaintToleration:3 NodeAffinity:2 NodeResourcesFit:1 VolumeBinding:1 PodTopologySpread:2 "
                  "InterPodAffinity:2 DynamicResources:2 NodeResourcesBalancedAllocation:1 ImageLocality:1"),
        ("placementScore", "NodeResourcesFit:1"),
        ("reserve", "VolumeBinding DynamicResources"),
        ("permit", ""),
        ("preBind", "VolumeBinding DynamicResources"),
        ("bind", "DefaultBinder"),
        ("postBind", ""),
    ],
)  # fmt: skip
def test_the_default_profile_runs_these_plugins(point: str, names: str) -> None:
    entries = expand(effective().profiles[0].plugins, in_tree_points())[ExtensionPoint(point)]
    assert " ".join(f"{entry.name}:{entry.weight}" if entry.weight else entry.name for entry in entries) == names
