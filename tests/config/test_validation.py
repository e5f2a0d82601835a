"""Every rule of validation: the path in the file and the sentence it is reported with."""

import pytest

from config.feature_gates import parse
from config.load import loads
from config.problems import ConfigError
from config.types import ExtensionPoint

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def problems(text: str, gates: str = "") -> list[str]:
    """The problems of a configuration, each as `path: message`."""
    try:
        loads(HEAD + text, gates=parse(gates)[0])
    except ConfigError as error:
        return [f"{problem.path}: {problem.message}" for problem in error.problems]
    return []


def affinity(expression: str) -> str:
    """Arguments of NodeAffinity with one required expression."""
    return f"{{addedAffinity: {{{R}: {{nodeSelectorTerms: [{{matchExpressions: [{expression}]}}]}}}}}}"


def args(plugin: str, text: str) -> str:
    return f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {text}}}]}}]"


A = "profiles[0].pluginConfig[0].args"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("parallelism: 0", ["parallelism: Invalid value: 0: must be greater than 0"]),
        ("percentageOfNodesToScore: 101", ["percentageOfNodesToScore: Invalid value: 101: must be in 0..100"]),
        ("podInitialBackoffSeconds: 0", ["podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"]),
        (
            "podMaxBackoffSeconds: 4\npodInitialBackoffSeconds: 5",
            ["podMaxBackoffSeconds: Invalid value: 4: must be podInitialBackoffSeconds (5) or more"],
        ),
        ("clientConnection: {burst: -1}", ["clientConnection.burst: Invalid value: -1: must be 0 or more"]),
        (
            "leaderElection: {leaseDuration: 10s}",
            ['leaderElection.leaseDuration: Invalid value: "10s": must be greater than renewDeadline (10s)'],
        ),
        (
            "leaderElection: {renewDeadline: 2.4s}",
            ['leaderElection.renewDeadline: Invalid value: "2.4s": must be greater than 1.2 times retryPeriod (2s)'],
        ),
        ("leaderElection: {renewDeadline: 2401ms}", []),
        (
            "leaderElection: {retryPeriod: -1s}",
            ['leaderElection.retryPeriod: Invalid value: "-1s": must be greater than 0'],
        ),
        (
            "leaderElection: {resourceLock: endpoints}",
            ['leaderElection.resourceLock: Unsupported value: "endpoints": supported values: "leases"'],
        ),
        ("leaderElection: {leaderElect: false, leaseDuration: 1s, resourceLock: none}", []),
    ],
)
def test_process_wide_fields(text: str, expected: list[str]) -> None:
    assert problems(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("profiles: [{schedulerName: a}, {schedulerName: a}]",
                     ['profiles[1].schedulerName: Duplicate value: "a"'], id="two profiles of one name"),
        pytest.param("profiles: [{schedulerName: a}, {}]",
                     ["profiles[1].schedulerName: Required value: every one of several profiles needs a name"],
                     id="one of several profiles without a name"),
        pytest.param("profiles: [{percentageOfNodesToScore: -1}]",
                     ["profiles[0].percentageOfNodesToScore: Invalid value: -1: must be in 0..100"],
                     id="a percentage out of range"),
        pytest.param("profiles: [{nodeSelector: {pool: -gpu}}]",
                     ['profiles[0].nodeSelector.pool: Invalid value: "-gpu": must be at most 63 letters, digits, '
                      "'-', '_' or '.', beginning and ending with a letter or digit"], id="no label value"),
        pytest.param("profiles: [{nodeSelector: {example.com/pool: gpu}}]", [], id="podium's own node selector"),
        pytest.param("profiles: [{plugins: {score: {enabled: [{name: Nope}]}}}]",
                     ['profiles[0].plugins.score.enabled[0].name: Invalid value: "Nope": there is no such plugin'],
                     id="an unknown plugin"),
        pytest.param("profiles: [{plugins: {score: {enabled: [{weight: 1}]}}}]",
                     ["profiles[0].plugins.score.enabled[0].name: Required value: the name of a plugin"],
                     id="a plugin without a name"),
        pytest.param("profiles: [{plugins: {score: {disabled: [{}]}}}]",
                     ["profiles[0].plugins.score.disabled[0].name: Required value: "
                      'the name of a plugin, or "*" for all'],
                     id="a disabled plugin without a name"),
        pytest.param("profiles: [{plugins: {score: {enabled: [{name: NodeName}]}}}]",
                     ['profiles[0].plugins.score.enabled[0].name: Invalid value: "NodeName": '
                      "the plugin does not implement the extension point score"], id="a plugin at a wrong point"),
        pytest.param("profiles: [{plugins: {multiPoint: {enabled: [{name: ImageLocality}, {name: ImageLocality}]}}}]",
                     ['profiles[0].plugins.multiPoint.enabled[1].name: Duplicate value: "ImageLocality"'],
                     id="a plugin twice in multiPoint"),
        pytest.param("profiles: [{plugins: {filter: {enabled: [{name: NodeName}, {name: NodeName}]}}}]",
                     ['profiles[0].plugins.filter.enabled[1].name: Duplicate value: "NodeName"'],
                     id="a plugin twice at a point"),
        pytest.param("profiles: [{plugins: {score: {enabled: [{name: ImageLocality, weight: -1}]}}}]",
                     ["profiles[0].plugins.score.enabled[0].weight: Invalid value: -1: must be in 0..2147483647"],
                     id="a negative weight"),
        pytest.param("profiles: [{plugins: {bind: {disabled: [{name: '*'}]}}}]",
                     ["profiles[0].plugins.bind: Required value: at least one bind plugin"], id="nobody binds"),
        pytest.param("profiles: [{plugins: {queueSort: {disabled: [{name: '*'}]}}}]",
                     ["profiles[0].plugins.queueSort: Required value: exactly one queue sort plugin, found none"],
                     id="nobody sorts the queue"),
        pytest.param("profiles: [{pluginConfig: [{name: Nope, args: {}}]}]",
                     ['profiles[0].pluginConfig[0].name: Invalid value: "Nope": there is no such plugin'],
                     id="arguments of an unknown plugin"),
        pytest.param("profiles: [{pluginConfig: [{args: {}}]}]",
                     ["profiles[0].pluginConfig[0].name: Required value: the name of a plugin"],
                     id="arguments of no plugin"),
        pytest.param("profiles: [{pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}]}]",
                     ['profiles[0].pluginConfig[1].name: Duplicate value: "NodeAffinity"'],
                     id="arguments twice for one plugin"),
    ],
)  # fmt: skip
def test_profiles(text: str, expected: list[str]) -> None:
    assert problems(text) == expected


@pytest.mark.parametrize("name", ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"])
def test_names_that_v1_rejects(name: str) -> None:
    assert problems(f"profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: {name}}}]}}}}}}]") == [
        f'profiles[0].plugins.multiPoint.enabled[0].name: Invalid value: "{name}": '
        "the plugin exists no more; NodeVolumeLimits counts the volumes"
    ]


R = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("plugin", "text", "expected"),
    [
        ("DefaultPreemption", "{minCandidateNodesPercentage: 101}",
         [f"{A}.minCandidateNodesPercentage: Invalid value: 101: must be in 0..100"]),
        ("DefaultPreemption", "{minCandidateNodesAbsolute: -1}",
         [f"{A}.minCandidateNodesAbsolute: Invalid value: -1: must be 0 or more"]),
        ("DefaultPreemption", "{minCandidateNodesAbsolute: 0, minCandidateNodesPercentage: 0}",
         [f"{A}.minCandidateNodesPercentage: Invalid value: 0: cannot be 0 together with minCandidateNodesAbsolute"]),
        ("InterPodAffinity", "{hardPodAffinityWeight: 101}",
         [f"{A}.hardPodAffinityWeight: Invalid value: 101: must be in 0..100"]),
        ("NodeAffinity", f"{{addedAffinity: {{{R}: {{}}}}}}",
         [f"{A}.addedAffinity.{R}.nodeSelectorTerms: Required value: at least one term"]),
        ("NodeAffinity", affinity("{key: a, operator: In}"),
         [f"{A}.addedAffinity.{R}.nodeSelectorTerms[0].matchExpressions[0].values: "
          "Required value: at least one value with operator In"]),
        ("NodeAffinity", affinity("{key: a, operator: Gt, values: [x]}"),
         [f"{A}.addedAffinity.{R}.nodeSelectorTerms[0].matchExpressions[0].values: "
          "Required value: exactly one whole number with operator Gt"]),
        ("NodeAffinity", affinity("{key: a, operator: NotIn, values: [b, c d]}"),
         [f'{A}.addedAffinity.{R}.nodeSelectorTerms[0].matchExpressions[0].values[1]: Invalid value: "c d": must be at '
          "most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit"]),
        ("NodeAffinity", affinity("{key: a, operator: Gt, values: ['-5']}"),
         [f'{A}.addedAffinity.{R}.nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value: "-5": must be at '
          "most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit"]),
        ("NodeAffinity", affinity("{key: a, operator: Like}"),
         [f'{A}.addedAffinity.{R}.nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Like": '
          'supported values: "DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"']),
        ("NodeAffinity", "{addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0}]}}",
         [f"{A}.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: "
          "Invalid value: 0: must be in 1..100"]),
        ("NodeResourcesFit", "{ignoredResources: [-x]}",
         [f'{A}.ignoredResources[0]: Invalid value: "-x": must be 1 to 63 letters, digits, \'-\', \'_\' or \'.\', '
          "beginning and ending with a letter or digit"]),
        ("NodeResourcesFit", "{ignoredResourceGroups: [example.com/x]}",
         [f'{A}.ignoredResourceGroups[0]: Invalid value: "example.com/x": must not contain \'/\'']),
        ("NodeResourcesFit", "{scoringStrategy: {type: Best}}",
         [f'{A}.scoringStrategy.type: Unsupported value: "Best": supported values: '
          '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"']),
        ("NodeResourcesFit", "{scoringStrategy: {resources: [{name: cpu, weight: -1}]}}",
         [f"{A}.scoringStrategy.resources[0].weight: Invalid value: -1: must be in 1..100"]),
        ("NodeResourcesFit", "{scoringStrategy: {resources: [{name: cpu, weight: 100}, {weight: 101}]}}",
         [f"{A}.scoringStrategy.resources[1].name: Required value: the name of a resource",
          f"{A}.scoringStrategy.resources[1].weight: Invalid value: 101: must be in 1..100"]),
        ("NodeResourcesFit", "{scoringStrategy: {type: RequestedToCapacityRatio}}",
         [f"{A}.scoringStrategy.requestedToCapacityRatio: "
          "Required value: a shape for the strategy RequestedToCapacityRatio"]),
        ("NodeResourcesFit", "{scoringStrategy: {requestedToCapacityRatio: {shape: []}}}",
         [f"{A}.scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point"]),
        ("NodeResourcesFit",
         "{scoringStrategy: {requestedToCapacityRatio: {shape: [{utilization: 9, score: 11}, {utilization: 9}]}}}",
         [f"{A}.scoringStrategy.requestedToCapacityRatio.shape[0].score: Invalid value: 11: must be in 0..10",
          f"{A}.scoringStrategy.requestedToCapacityRatio.shape[1].utilization: "
          "Invalid value: 9: must be greater than the point before"]),
        ("NodeResourcesBalancedAllocation", "{resources: [{name: cpu, weight: 2}, {name: cpu}]}",
         [f"{A}.resources[0].weight: Invalid value: 2: must be 1",
          f'{A}.resources[1].name: Duplicate value: "cpu"']),
        ("PodTopologySpread", "{defaultingType: Both}",
         [f'{A}.defaultingType: Unsupported value: "Both": supported values: "System", "List"']),
        ("PodTopologySpread",
         "{defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}",
         [f"{A}.defaultConstraints: Forbidden: must be empty with defaultingType System; "
          "expected defaultingType: List"]),
        ("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{}]}",
         [f"{A}.defaultConstraints[0].maxSkew: Invalid value: 0: must be greater than 0",
          f"{A}.defaultConstraints[0].topologyKey: Required value: a node label's key",
          f"{A}.defaultConstraints[0].whenUnsatisfiable: Required value: one of DoNotSchedule, ScheduleAnyway"]),
        ("PodTopologySpread", "{defaultingType: List, defaultConstraints: "
         "[{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Never, labelSelector: {}, nodeTaintsPolicy: Maybe}]}",
         [f'{A}.defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Never": supported values: '
          '"DoNotSchedule", "ScheduleAnyway"',
          f"{A}.defaultConstraints[0].labelSelector: Forbidden: "
          "a default constraint takes its selector from the pod's owners",
          f'{A}.defaultConstraints[0].nodeTaintsPolicy: Unsupported value: "Maybe": supported values: '
          '"Honor", "Ignore"']),
        ("PodTopologySpread", "{defaultingType: List, defaultConstraints: "
         "[{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}, "
         "{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}",
         [f'{A}.defaultConstraints[1]: Duplicate value: "{{zone, DoNotSchedule}}"']),
        ("VolumeBinding", "{bindTimeoutSeconds: -1}",
         [f"{A}.bindTimeoutSeconds: Invalid value: -1: must be 0 or more"]),
        ("VolumeBinding", "{shape: [{utilization: 0, score: 1}]}",
         [f"{A}.shape: Forbidden: needs the feature gate StorageCapacityScoring"]),
        ("DynamicResources", "{filterTimeout: -1s, bindingTimeout: 500ms}",
         [f'{A}.filterTimeout: Invalid value: "-1s": must be 0 or more',
          f'{A}.bindingTimeout: Invalid value: "500ms": must be 1s or more']),
        ("DynamicResources", "{filterTimeout: 0s, bindingTimeout: 1s}", []),
        ("ImageLocality", "{anything: [goes, 1]}", []),
    ],
)  # fmt: skip
def test_plugin_arguments(plugin: str, text: str, expected: list[str]) -> None:
    assert problems(args(plugin, text)) == expected


@pytest.mark.parametrize(
    ("plugin", "text", "gates", "expected"),
    [
        ("VolumeBinding", "{shape: [{utilization: 101, score: 1}]}", "StorageCapacityScoring=true",
         [f"{A}.shape[0].utilization: Invalid value: 101: must be in 0..100"]),
        ("DynamicResources", "{filterTimeout: 1s}", "DRASchedulerFilterTimeout=false",
         [f"{A}.filterTimeout: Forbidden: needs the feature gate DRASchedulerFilterTimeout"]),
        ("DynamicResources", "{bindingTimeout: 1s}", "DRADeviceBindingConditions=false",
         [f"{A}.bindingTimeout: Forbidden: "
          "needs the feature gates DRADeviceBindingConditions and DRAResourceClaimDeviceStatus"]),
    ],
)  # fmt: skip
def test_plugin_arguments_behind_a_gate(plugin: str, text: str, gates: str, expected: list[str]) -> None:
    assert problems(args(plugin, text), gates) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("[{urlPrefix: http://x, prioritizeVerb: score}]",
                     ["extenders[0].weight: Invalid value: 0: must be greater than 0 with a prioritizeVerb"],
                     id="scores without a weight"),
        pytest.param("[{urlPrefix: http://x, filterVerb: filter}]", [], id="a filter needs no weight"),
        pytest.param("[{filterVerb: filter}]",
                     ["extenders[0].urlPrefix: Required value: the URL that the verbs are called under"],
                     id="a verb without a URL"),
        pytest.param("[{urlPrefix: http://x, bindVerb: bind}, {urlPrefix: http://y, bindVerb: b2}]",
                     ['extenders[1].bindVerb: Invalid value: "b2": only one extender can bind'], id="two that bind"),
        pytest.param("[{managedResources: [{name: cpu}]}]",
                     ['extenders[0].managedResources[0].name: Invalid value: "cpu": must be an extended resource: '
                      "a domain other than kubernetes.io, a slash and a name"], id="a native resource"),
        pytest.param("[{managedResources: [{name: pods.kubernetes.io/x}]}]",
                     ['extenders[0].managedResources[0].name: Invalid value: "pods.kubernetes.io/x": must be an '
                      "extended resource: a domain other than kubernetes.io, a slash and a name"],
                     id="a resource of kubernetes.io"),
        pytest.param("[{managedResources: [{name: a.io/x}]}, {managedResources: [{name: a.io/x}]}]",
                     ['extenders[1].managedResources[0].name: Duplicate value: "a.io/x"'],
                     id="one resource managed by two"),
        pytest.param("[{httpTimeout: -1s}]",
                     ['extenders[0].httpTimeout: Invalid value: "-1s": must be greater than 0'],
                     id="a negative timeout"),
        pytest.param("[{tlsConfig: {insecure: true, caFile: ca.pem}}]",
                     ["extenders[0].tlsConfig.insecure: Forbidden: cannot be true together with caFile or caData"],
                     id="a CA that nobody checks"),
        pytest.param("[{tlsConfig: {certFile: cert.pem}}]",
                     ["extenders[0].tlsConfig: Required value: keyFile or keyData: "
                      "a client certificate and its key come together"], id="a certificate without its key"),
        pytest.param("[{tlsConfig: {certFile: cert.pem, keyData: a2V5}}]", [], id="file and data may be mixed"),
    ],
)  # fmt: skip
def test_extenders(text: str, expected: list[str]) -> None:
    assert problems(f"extenders: {text}") == expected


QUEUE_ORDERS = """
profiles:
- schedulerName: a
  plugins: {bind: {enabled: [{name: Bind}]}}
- schedulerName: b
  plugins: {bind: {enabled: [{name: Bind}]}, queueSort: {enabled: [{name: Sort}], disabled: [{name: PrioritySort}]}}
- schedulerName: c
  plugins: {bind: {enabled: [{name: Bind}]}}
  pluginConfig: [{name: PrioritySort, args: {reverse: true}}]
"""


def test_profiles_share_one_queue_and_so_its_order() -> None:
    sort, bind = frozenset({ExtensionPoint.QUEUE_SORT}), frozenset({ExtensionPoint.BIND})
    with pytest.raises(ConfigError) as caught:
        loads(HEAD + QUEUE_ORDERS, known_plugins={"PrioritySort": sort, "Sort": sort, "Bind": bind})
    assert [f"{problem.path}: {problem.message}" for problem in caught.value.problems] == [
        'profiles[1].plugins.queueSort: Invalid value: "Sort": must be the same in all profiles, '
        "as PrioritySort in the first",
        'profiles[2].pluginConfig: Invalid value: "PrioritySort": '
        "the queue sort plugin's arguments must be the same in all profiles",
    ]
