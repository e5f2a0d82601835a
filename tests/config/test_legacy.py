"""Older versions of the configuration, read as v1."""

from typing import Any

import pytest

from config.decoding import encode
from config.defaults import in_tree_points
from config.load import Loaded, loads
from config.merge import expand
from config.problems import ConfigError
from config.types import ExtensionPoint, Profile

OLD_WEIGHTS = "TaintToleration:1 NodeAffinity:1 InterPodAffinity:1"


def read(version: str, text: str = "") -> Loaded:
    head = f"apiVersion: kubescheduler.config.k8s.io/{version}\nkind: KubeSchedulerConfiguration\n"
    return loads(head + text, file="f.yaml")


def notes(loaded: Loaded) -> list[str]:
    """The warnings beside those about the version itself."""
    return [f"{note.path}: {note.message}" for note in loaded.warnings if note.path != "apiVersion"]


def at(profile: Profile, point: str) -> dict[str, int]:
    entries = expand(profile.plugins, in_tree_points())[ExtensionPoint(point)]
    return {entry.name: entry.weight for entry in entries}


@pytest.mark.parametrize(
    ("version", "weights"),
    [
        ("v1beta3", {"TaintToleration": 3, "NodeAffinity": 2, "InterPodAffinity": 2}),
        ("v1beta2", {"TaintToleration": 1, "NodeAffinity": 1, "InterPodAffinity": 1}),
        ("v1beta1", {"TaintToleration": 1, "NodeAffinity": 1, "InterPodAffinity": 1}),
    ],
)
def test_a_version_keeps_its_default_weights(version: str, weights: dict[str, int]) -> None:
    scores = at(read(version).configuration.profiles[0], "score")
    others = {"NodeResourcesFit": 1, "VolumeBinding": 1, "PodTopologySpread": 2, "DynamicResources": 2,
              "NodeResourcesBalancedAllocation": 1, "ImageLocality": 1}  # fmt: skip
    assert scores == weights | others
    assert list(scores)[:2] == ["TaintToleration", "NodeAffinity"]


@pytest.mark.parametrize(
    ("version", "lines"),
    [
        ("v1beta3", ["kubescheduler.config.k8s.io/v1beta3 is an old version, read as kubescheduler.config.k8s.io/v1"]),
        ("v1beta2", ["kubescheduler.config.k8s.io/v1beta2 is an old version, read as kubescheduler.config.k8s.io/v1",
                     "the default weight 1 of kubescheduler.config.k8s.io/v1beta2 is kept for "
                     "TaintToleration, NodeAffinity, InterPodAffinity"]),
    ],
)  # fmt: skip
def test_an_old_version_says_how_it_is_read(version: str, lines: list[str]) -> None:
    assert [str(note) for note in read(version).warnings] == [f"f.yaml:1: apiVersion: {line}" for line in lines]


def test_a_weight_that_the_file_gives_wins_over_the_old_default() -> None:
    text = "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: 9}]}}}]"
    scores = at(read("v1beta2", text).configuration.profiles[0], "score")
    assert (scores["NodeAffinity"], scores["TaintToleration"]) == (9, 1)


def test_addresses_to_listen_on_are_dropped_with_a_warning() -> None:
    loaded = read("v1beta3", "healthzBindAddress: 0.0.0.0:10251\nmetricsBindAddress: ''\n")
    assert notes(loaded) == ["healthzBindAddress: has no effect: the command line says where podium listens"]


@pytest.mark.parametrize("lock", ["endpoints", "configmaps", "endpointsleases", "configmapsleases"])
def test_an_old_lock_becomes_a_lease(lock: str) -> None:
    loaded = read("v1beta1", f"leaderElection: {{resourceLock: {lock}}}")
    assert loaded.configuration.leader_election.resource_lock == "leases"
    assert notes(loaded) == [f'leaderElection.resourceLock: "{lock}" exists no more: a Lease is used']


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("NodeResourcesMostAllocated", {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}]}),
        ("NodeResourcesLeastAllocated", {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 3}]}),
        (
            "RequestedToCapacityRatio",
            {
                "type": "RequestedToCapacityRatio",
                "resources": [{"name": "cpu", "weight": 3}],
                "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 10}]},
            },
        ),
    ],
)
def test_a_scoring_plugin_becomes_a_strategy(name: str, strategy: dict[str, Any]) -> None:
    shape = ", shape: [{utilization: 0, score: 10}]" if name == "RequestedToCapacityRatio" else ""
    loaded = read(
        "v1beta1",
        f"""
profiles:
- plugins:
    score:
      disabled: [{{name: NodeResourcesLeastAllocated}}]
      enabled: [{{name: {name}, weight: 5}}]
  pluginConfig:
  - name: {name}
    args: {{apiVersion: kubescheduler.config.k8s.io/v1beta1, resources: [{{name: cpu, weight: 3}}]{shape}}}
  - name: NodeResourcesFit
    args: {{ignoredResources: [example.com/x]}}
""",
    )
    profile = loaded.configuration.profiles[0]
    assert encode(profile.args("NodeResourcesFit")) == {
        "ignoredResources": ["example.com/x"],
        "scoringStrategy": strategy,
    }
    assert at(profile, "score")["NodeResourcesFit"] == 5
    assert notes(loaded) == [
        f"profiles[0].plugins: {name} is NodeResourcesFit with the scoring strategy {strategy['type']} now"
    ]


def test_of_two_scoring_plugins_the_chosen_one_stays() -> None:
    enabled = "[{name: NodeResourcesLeastAllocated}, {name: NodeResourcesMostAllocated}]"
    loaded = read("v1beta1", f"profiles: [{{plugins: {{score: {{enabled: {enabled}}}}}}}]")
    assert loaded.configuration.profiles[0].args("NodeResourcesFit").scoring_strategy.type == "MostAllocated"
    assert notes(loaded)[1] == (
        "profiles[0].plugins: NodeResourcesLeastAllocated is dropped: a profile has one scoring strategy, MostAllocated"
    )


@pytest.mark.parametrize(
    ("version", "disabled", "told"),
    [
        pytest.param("v1beta1", "[]", True, id="the default scored, too"),
        pytest.param("v1beta1", "[{name: NodeResourcesLeastAllocated}]", False, id="it was switched off"),
        pytest.param("v1beta1", "[{name: '*'}]", False, id="all were switched off"),
        pytest.param("v1beta2", "[{name: NodeResourcesFit}]", False, id="it had another name since v1beta2"),
    ],
)
def test_a_strategy_that_scored_beside_the_chosen_one_is_not_dropped_in_silence(
    version: str, disabled: str, told: bool
) -> None:
    score = f"{{disabled: {disabled}, enabled: [{{name: NodeResourcesMostAllocated, weight: 3}}]}}"
    loaded = read(version, f"profiles: [{{plugins: {{score: {score}}}}}]")
    profile = loaded.configuration.profiles[0]
    assert (at(profile, "score")["NodeResourcesFit"], profile.args("NodeResourcesFit").scoring_strategy.type) == (
        3,
        "MostAllocated",
    )
    dropped = "profiles[0].plugins: LeastAllocated, the default, is dropped: a profile has one scoring strategy"
    assert (dropped in notes(loaded)) is told


def test_without_its_scoring_plugin_free_resources_are_not_scored() -> None:
    text = "profiles: [{plugins: {score: {disabled: [{name: NodeResourcesLeastAllocated}]}}}]"
    profile = read("v1beta1", text).configuration.profiles[0]
    assert "NodeResourcesFit" not in at(profile, "score")
    assert "NodeResourcesFit" in at(profile, "filter")


def test_arguments_of_the_default_scoring_plugin_move_to_the_strategy() -> None:
    text = "profiles: [{pluginConfig: [{name: NodeResourcesLeastAllocated, args: {resources: [{name: memory}]}}]}]"
    strategy = read("v1beta1", text).configuration.profiles[0].args("NodeResourcesFit").scoring_strategy
    assert (strategy.type, [resource.name for resource in strategy.resources]) == ("LeastAllocated", ["memory"])


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("NodePreferAvoidPods", "taint the nodes instead"),
        ("SelectorSpread", "PodTopologySpread spreads the pods of a service or workload by default"),
        ("ServiceAffinity", "give the pods inter-pod affinity instead; "
                            "nothing keeps a service's pods together now"),
        ("EBSLimits", "NodeVolumeLimits counts the volumes of every CSI driver"),
    ],
)  # fmt: skip
def test_a_plugin_that_is_gone_is_dropped_with_a_warning(name: str, instead: str) -> None:
    loaded = read("v1beta2", f"profiles: [{{plugins: {{score: {{enabled: [{{name: {name}}}]}}}}}}]")
    assert notes(loaded) == [f"profiles[0].plugins: {name} exists no more: {instead}"]
    assert name not in at(loaded.configuration.profiles[0], "score")


def test_disabling_a_plugin_that_is_gone_is_silent() -> None:
    text = "profiles: [{plugins: {score: {disabled: [{name: NodePreferAvoidPods}, {name: SelectorSpread}]}}}]"
    assert notes(read("v1beta1", text)) == []


def test_node_label_becomes_affinity_that_every_pod_has() -> None:
    loaded = read("v1beta1", """
profiles:
- plugins: {filter: {enabled: [{name: NodeLabel}]}, score: {enabled: [{name: NodeLabel}]}}
  pluginConfig:
  - name: NodeLabel
    args: {presentLabels: [zone], absentLabels: [retiring], presentLabelsPreference: [ssd]}
""")  # fmt: skip
    affinity = loaded.configuration.profiles[0].args("NodeAffinity").added_affinity
    (term,) = affinity.required_during_scheduling_ignored_during_execution.node_selector_terms
    assert [(item.key, item.operator) for item in term.match_expressions] == [
        ("zone", "Exists"),
        ("retiring", "DoesNotExist"),
    ]
    assert notes(loaded) == [
        "profiles[0].plugins: NodeLabel is addedAffinity of NodeAffinity now",
        "profiles[0].plugins: NodeLabel's label preferences are dropped: use preferred terms of addedAffinity",
    ]


def test_a_version_before_profiles_becomes_one_profile() -> None:
    loaded = read("v1alpha1", """
schedulerName: batch
algorithmSource: {provider: ClusterAutoscalerProvider}
hardPodAffinitySymmetricWeight: 7
bindTimeoutSeconds: 60
disablePreemption: true
leaderElection: {lockObjectName: batch, lockObjectNamespace: scheduling}
""")  # fmt: skip
    configuration = loaded.configuration
    (profile,) = configuration.profiles
    assert profile.scheduler_name == "batch"
    assert profile.args("InterPodAffinity").hard_pod_affinity_weight == 7
    assert profile.args("VolumeBinding").bind_timeout_seconds == 60
    assert profile.args("NodeResourcesFit").scoring_strategy.type == "MostAllocated"
    assert "DefaultPreemption" not in at(profile, "postFilter")
    assert configuration.leader_election.resource_name == "batch"
    assert configuration.leader_election.resource_namespace == "scheduling"
    assert notes(loaded) == ["algorithmSource.provider: ClusterAutoscalerProvider is read as a profile of its plugins"]


def test_the_default_provider_changes_nothing() -> None:
    provider = read("v1alpha1", "algorithmSource: {provider: DefaultProvider}").configuration
    assert provider == read("v1alpha1").configuration


@pytest.mark.parametrize(
    ("source", "line"),
    [
        pytest.param("{provider: Magic}",
                     'f.yaml:3: algorithmSource.provider: Unsupported value: "Magic": supported values: '
                     '"DefaultProvider", "ClusterAutoscalerProvider"', id="an unknown provider"),
        pytest.param("{policy: {file: {path: p.json}}}",
                     "f.yaml:3: algorithmSource: Forbidden: give podium the Policy itself with --config: "
                     "its file, or its ConfigMap as YAML", id="a Policy in another file"),
    ],
)  # fmt: skip
def test_an_algorithm_source_that_cannot_be_followed_is_refused(source: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read("v1alpha1", f"algorithmSource: {source}")
    assert str(caught.value) == line


def test_problems_of_an_old_version_name_its_own_lines() -> None:
    with pytest.raises(ConfigError) as caught:
        read("v1beta2", "profiles:\n- schedulerName: a\n  plugins:\n    scores: {}\nparallelism: 0\n")
    assert str(caught.value).splitlines() == [
        "f.yaml:6: profiles[0].plugins.scores: unknown field",
        "f.yaml:7: parallelism: Invalid value: 0: must be greater than 0",
    ]
