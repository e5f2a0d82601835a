"""From a file to a configuration: what is read, and the line that says what is wrong."""

import contextlib
import copy
import string
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from config.decoding import encode
from config.defaults import in_tree_points
from config.feature_gates import DEFAULT_GATES
from config.load import load, loads
from config.problems import ConfigError
from config.types import ExtensionPoint

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

EVERY_FIELD = (
    HEAD
    + """\
parallelism: 8
leaderElection:
  leaderElect: true
  leaseDuration: 1m30s
  renewDeadline: 20s
  retryPeriod: 500ms
  resourceLock: leases
  resourceName: batch
  resourceNamespace: scheduling
clientConnection:
  kubeconfig: /etc/kubeconfig
  acceptContentTypes: application/json
  contentType: application/json
  qps: 12.5
  burst: 30
enableProfiling: no
enableContentionProfiling: false
percentageOfNodesToScore: 70
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
delayCacheUntilActive: true
profiles:
- schedulerName: batch
  percentageOfNodesToScore: 100
  nodeSelector: {pool: batch}
  plugins:
    preEnqueue: {enabled: [{name: Mine}]}
    queueSort: {}
    placementGenerate: {disabled: [{name: '*'}]}
    preFilter:
    filter: {disabled: [{name: NodePorts}]}
    postFilter: {disabled: [{name: '*'}]}
    podGroupPostFilter: {}
    preScore: {}
    score: {enabled: [{name: Mine, weight: 7}]}
    placementScore: {}
    reserve: {}
    permit: {}
    preBind: {}
    bind: {}
    postBind: {}
    multiPoint: {disabled: [{name: ImageLocality}]}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      ignoredResourceGroups: [example.com]
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: nvidia.com/gpu, weight: 5}, {name: cpu}]
        requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, minDomains: 3}]
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [batch]}]}]
  - name: DynamicResources
    args: {filterTimeout: 3s}
  - name: Mine
    args: {knobs: [1, {deep: true}], when: 2020-01-01}
extenders:
- urlPrefix: https://extender:8443
  filterVerb: filter
  preemptVerb: preempt
  prioritizeVerb: prioritize
  bindVerb: bind
  weight: 3
  enableHTTPS: true
  tlsConfig: {serverName: extender, certData: Y2VydA==, keyData: a2V5, caFile: ca.pem}
  httpTimeout: 2s
  nodeCacheCapable: true
  managedResources: [{name: example.com/gpu, ignoredByScheduler: true}]
  ignorable: true
"""
)
KNOWN = {
    "Mine": frozenset({ExtensionPoint.PRE_ENQUEUE, ExtensionPoint.SCORE}),
}


def test_every_field_of_the_file_is_read() -> None:
    configuration, warnings = loads(EVERY_FIELD, known_plugins=in_tree_points() | KNOWN)
    assert warnings == ()
    expected = yaml.load(EVERY_FIELD, yaml.BaseLoader)
    found = encode(configuration)
    profile, extender = found["profiles"][0], found["extenders"][0]
    assert found["leaderElection"] == expected["leaderElection"] | {"leaderElect": True}
    assert found["clientConnection"] == expected["clientConnection"] | {"qps": 12.5, "burst": 30}
    assert (found["parallelism"], found["enableProfiling"], found["delayCacheUntilActive"]) == (8, False, True)
    assert (found["podInitialBackoffSeconds"], found["podMaxBackoffSeconds"]) == (2, 20)
    assert (found["percentageOfNodesToScore"], profile["percentageOfNodesToScore"]) == (70, 100)
    assert profile["nodeSelector"] == {"pool": "batch"}
    assert profile["plugins"]["score"] == {"enabled": [{"name": "Mine", "weight": 7}]}
    assert profile["plugins"]["filter"] == {"disabled": [{"name": "NodePorts"}]}
    args = {entry["name"]: entry.get("args") for entry in profile["pluginConfig"]}
    assert args["NodeResourcesFit"] == {
        "ignoredResources": ["example.com/gpu"],
        "ignoredResourceGroups": ["example.com"],
        "scoringStrategy": {
            "type": "RequestedToCapacityRatio",
            "resources": [{"name": "nvidia.com/gpu", "weight": 5}, {"name": "cpu", "weight": 1}],
            "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]},
        },
    }
    assert args["PodTopologySpread"]["defaultConstraints"] == [
        {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 3}
    ]
    assert args["DynamicResources"] == {"filterTimeout": "3s", "bindingTimeout": "10m0s"}
    assert args["Mine"] == {"knobs": [1, {"deep": True}], "when": "2020-01-01"}
    assert configuration.extenders[0].tls_config is not None
    assert configuration.extenders[0].tls_config.key_data == b"key"
    assert extender == expected["extenders"][0] | {
        "weight": 3,
        "enableHTTPS": True,
        "nodeCacheCapable": True,
        "ignorable": True,
        "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
        "tlsConfig": extender["tlsConfig"],
    }
    assert extender["tlsConfig"] == {
        "insecure": False,
        "serverName": "extender",
        "certData": "Y2VydA==",
        "keyData": "<redacted>",
        "caFile": "ca.pem",
    }


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", '
                     '"parallelism": 3}', id="on one line"),
        pytest.param('{\n\t"apiVersion": "kubescheduler.config.k8s.io\\/v1",\n\t"kind": "KubeSchedulerConfiguration",'
                     '\n\t"parallelism": 3\n}\n', id="indented with tabs"),
    ],
)  # fmt: skip
def test_json_is_read_like_yaml(text: str) -> None:
    assert loads(text).configuration.parallelism == 3


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("", ["f.yaml: is empty: expected a KubeSchedulerConfiguration"], id="an empty file"),
        pytest.param("# nothing\n", ["f.yaml: is empty: expected a KubeSchedulerConfiguration"], id="only a comment"),
        pytest.param("- a\n", ["f.yaml:1: expected a mapping with apiVersion and kind"], id="a list"),
        pytest.param("a: 1\n b: 2\n", ["f.yaml:2: is not valid YAML: mapping values are not allowed here"],
                     id="broken YAML"),
        pytest.param("a: 1\n---\nb: 2\n", ["f.yaml:2: is not valid YAML: expected a single document in the stream "
                                           "but found another document"], id="two documents"),
        pytest.param("a: !!python/object:os.system x\n",
                     ["f.yaml:1: is not valid YAML: could not determine a constructor for the tag "
                      "'tag:yaml.org,2002:python/object:os.system'"], id="a tag that would run code"),
        pytest.param("a: &a [*a]\n", ["f.yaml:1: a[0]: the anchor contains itself"], id="an endless anchor"),
        pytest.param("a: 1\nb: 2\na: 3\n", ["f.yaml:3: a: the field is given twice"], id="a key given twice"),
        pytest.param("kind: KubeSchedulerConfiguration\n",
                     ["f.yaml: apiVersion: Required value: expected kubescheduler.config.k8s.io/v1"],
                     id="no apiVersion"),
        pytest.param("kind: Pod\napiVersion: kubescheduler.config.k8s.io/v1\n",
                     ['f.yaml:1: kind: Unsupported value: "Pod": supported values: "KubeSchedulerConfiguration", '
                      '"Policy", "ConfigMap"'], id="a wrong kind"),
        pytest.param("kind: KubeSchedulerConfiguration\napiVersion: v1\n",
                     ['f.yaml:2: apiVersion: Unsupported value: "v1": supported values: '
                      '"kubescheduler.config.k8s.io/v1", "kubescheduler.config.k8s.io/v1beta3", '
                      '"kubescheduler.config.k8s.io/v1beta2", "kubescheduler.config.k8s.io/v1beta1", '
                      '"kubescheduler.config.k8s.io/v1alpha2", "kubescheduler.config.k8s.io/v1alpha1"'],
                     id="a wrong version lists the accepted ones"),
        pytest.param("kind: ConfigMap\napiVersion: v1\ndata: {a: b}\n",
                     ["f.yaml:3: data.policy.cfg: Required value: "
                      "a ConfigMap is read for the legacy Policy in this key"], id="a ConfigMap without a Policy"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_configuration_is_refused(text: str, lines: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(text, file="f.yaml")
    assert str(caught.value).splitlines() == lines


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("paralelism: 1", "f.yaml:3: paralelism: unknown field"),
        ("Parallelism: 1", "f.yaml:3: Parallelism: unknown field"),
        ("healthzBindAddress: 0.0.0.0:10251", "f.yaml:3: healthzBindAddress: unknown field"),
        ("parallelism: many", "f.yaml:3: parallelism: Invalid value: expected a whole number, not 'many'"),
        ("parallelism: 1.5", "f.yaml:3: parallelism: Invalid value: expected a whole number, not 1.5"),
        ("parallelism: yes", "f.yaml:3: parallelism: Invalid value: expected a whole number, not true"),
        ("enableProfiling: 1", "f.yaml:3: enableProfiling: Invalid value: expected true or false, not 1"),
        ("clientConnection: {kubeconfig: 1}",
         "f.yaml:3: clientConnection.kubeconfig: Invalid value: expected a string, not 1"),
        ("clientConnection: {qps: fast}",
         "f.yaml:3: clientConnection.qps: Invalid value: expected a number, not 'fast'"),
        ("leaderElection: []", "f.yaml:3: leaderElection: Invalid value: expected a mapping, not a list"),
        ("leaderElection: {leaseDuration: 15}",
         "f.yaml:3: leaderElection.leaseDuration: Invalid value: "
         "expected a duration such as 15s, 1m30s or 500ms, not 15"),
        ("leaderElection: {leaseDuration: 15 s}",
         "f.yaml:3: leaderElection.leaseDuration: Invalid value: "
         "expected a duration such as 15s, 1m30s or 500ms, not '15 s'"),
        ("profiles: {}", "f.yaml:3: profiles: Invalid value: expected a list, not a mapping"),
        ("profiles:\n- plugins:\n    score:\n      enabled:\n      - ImageLocality",
         "f.yaml:7: profiles[0].plugins.score.enabled[0]: Invalid value: expected a mapping, not 'ImageLocality'"),
        ("profiles:\n- pluginConfig: [{name: 5}]",
         "f.yaml:4: profiles[0].pluginConfig[0].name: Invalid value: expected a string, not 5"),
        ("profiles:\n- nodeSelector: {a: 1}",
         "f.yaml:4: profiles[0].nodeSelector.a: Invalid value: expected a string, not 1"),
        ("profiles:\n- plugins:\n    filters: {}", "f.yaml:5: profiles[0].plugins.filters: unknown field"),
        ("profiles:\n- pluginConfig:\n  - name: NodeAffinity\n    args: {addedAfinity: {}}",
         "f.yaml:6: profiles[0].pluginConfig[0].args.addedAfinity: unknown field"),
        ("profiles:\n- pluginConfig:\n  - name: NodeAffinity\n    args: {kind: InterPodAffinityArgs}",
         "f.yaml:6: profiles[0].pluginConfig[0].args.kind: Unsupported value: \"InterPodAffinityArgs\": "
         "supported values: \"NodeAffinityArgs\""),
        ("profiles:\n- pluginConfig:\n  - name: NodeAffinity\n    args: [1]",
         "f.yaml:6: profiles[0].pluginConfig[0].args: Invalid value: expected a mapping, not a list"),
        ("extenders: [{tlsConfig: {keyData: '%%%'}}]",
         "f.yaml:3: extenders[0].tlsConfig.keyData: Invalid value: expected base64 text"),
        ("extenders: [{enableHttps: true}]", "f.yaml:3: extenders[0].enableHttps: unknown field"),
    ],
)  # fmt: skip
def test_a_field_that_cannot_be_decoded_is_named_with_its_line(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(HEAD + text, file="f.yaml")
    assert str(caught.value).splitlines() == [line]


def test_a_value_that_cannot_be_decoded_keeps_its_place_in_the_list() -> None:
    with pytest.raises(ConfigError) as caught:
        loads(HEAD + "extenders: [5, {httpTimeout: -1s}]", file="f.yaml")
    assert str(caught.value).splitlines() == [
        "f.yaml:3: extenders[0]: Invalid value: expected a mapping, not 5",
        'f.yaml:3: extenders[1].httpTimeout: Invalid value: "-1s": must be greater than 0',
    ]


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    text = (
        HEAD
        + """\
parallelism: 0
colour: red
profiles:
- schedulerName: a
- schedulerName: b
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        resources:
        - name: cpu
          weight: 101
      shape: round
- schedulerName: a
podMaxBackoffSeconds: soon
"""
    )
    with pytest.raises(ConfigError) as caught:
        loads(text, file="conf.yaml")
    args = "profiles[1].pluginConfig[0].args"
    assert str(caught.value).splitlines() == [
        "conf.yaml:3: parallelism: Invalid value: 0: must be greater than 0",
        "conf.yaml:4: colour: unknown field",
        f"conf.yaml:14: {args}.scoringStrategy.resources[0].weight: Invalid value: 101: must be in 1..100",
        f"conf.yaml:15: {args}.shape: unknown field",
        'conf.yaml:16: profiles[2].schedulerName: Duplicate value: "a"',
        "conf.yaml:17: podMaxBackoffSeconds: Invalid value: expected a whole number, not 'soon'",
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("leaderElection: {resourceName: kube-scheduler}",
                     ["f.yaml:3: leaderElection.resourceName: this is the Lease of the default scheduler: "
                      "only one of the two will ever be active"], id="the default scheduler's lease"),
        pytest.param("leaderElection: {resourceName: kube-scheduler}\nprofiles: [{schedulerName: default-scheduler}]",
                     [], id="the default scheduler's lease, for who replaces it"),
        pytest.param("profiles: [{plugins: {filter: {disabled: [{name: EBSLimits}, {name: '*'}]}}}]",
                     ["f.yaml:3: profiles[0].plugins.filter.disabled[0].name: "
                      'there is no plugin "EBSLimits" to disable'], id="disabling what is not there"),
    ],
)  # fmt: skip
def test_what_is_allowed_and_surprising_warns(text: str, lines: list[str]) -> None:
    assert [str(warning) for warning in loads(HEAD + text, file="f.yaml").warnings] == lines


def test_a_default_plugin_that_is_not_installed_warns() -> None:
    known = {name: points for name, points in in_tree_points().items() if name != "NodeDeclaredFeatures"}
    assert [str(warning) for warning in loads(HEAD, file="f.yaml", known_plugins=known).warnings] == [
        "f.yaml: profiles[0].plugins.multiPoint: "
        'the default plugin "NodeDeclaredFeatures" is not installed and will not run'
    ]


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "podium.yaml"
    path.write_text(HEAD + "parallelism: 0\n")
    with pytest.raises(ConfigError) as caught:
        load(path, gates=DEFAULT_GATES)
    assert str(caught.value) == f"{path}:3: parallelism: Invalid value: 0: must be greater than 0"


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.yaml: cannot be read: No such file or directory$"):
        load(tmp_path / "missing.yaml")
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory$"):
        load(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"cannot be read: expected UTF-8 text$"):
        load(tmp_path / "binary")


def mutations(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a document that can be replaced."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in items for place in [(*path, key), *mutations(item, (*path, key))]]


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(allow_nan=False), st.text(string.printable, max_size=4),
    st.just([]), st.just([1]), st.just([[]]), st.just({}), st.just({"name": []}), st.just([{"name": {}}]),
).map(copy.deepcopy)  # fmt: skip


@pytest.mark.parametrize("version", ["v1", "v1beta3", "v1beta2", "v1beta1", "v1alpha2", "v1alpha1"])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_no_wrong_type_anywhere_ends_in_a_traceback(version: str, data: st.DataObject) -> None:
    document = yaml.safe_load(EVERY_FIELD) | {"apiVersion": f"kubescheduler.config.k8s.io/{version}"}
    for place in data.draw(st.lists(st.sampled_from(mutations(document)), min_size=1, max_size=3)):
        target: Any = document
        try:
            for step in place[:-1]:
                target = target[step]
            target[place[-1]] = data.draw(JUNK)
        except (TypeError, KeyError, IndexError):
            continue  # an earlier replacement took the place away
    with contextlib.suppress(ConfigError):
        loads(yaml.safe_dump(document))
