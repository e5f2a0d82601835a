"""The legacy Policy, read as one profile."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.decoding import encode
from config.defaults import in_tree_points
from config.load import Loaded, loads
from config.merge import expand
from config.problems import ConfigError
from config.types import ExtensionPoint
from tests.config.test_load import JUNK, mutations

YOUNG = {"DynamicResources", "NodeDeclaredFeatures"}
"""Plugins no Policy could know: they stay in every profile."""


def read(**policy: Any) -> Loaded:
    return loads(json.dumps({"apiVersion": "v1", "kind": "Policy"} | policy), file="policy.json")


def at(loaded: Loaded, point: str) -> dict[str, int]:
    (profile,) = loaded.configuration.profiles
    return {entry.name: entry.weight for entry in expand(profile.plugins, in_tree_points())[ExtensionPoint(point)]}


def named(*names: str, weight: int = 0) -> list[dict[str, Any]]:
    return [{"name": name} | ({"weight": weight} if weight else {}) for name in names]


MANDATORY = {"TaintToleration", "NodeUnschedulable"}


@pytest.mark.parametrize(
    ("predicate", "plugins"),
    [
        ("PodFitsHostPorts", {"NodePorts"}),
        ("PodFitsPorts", {"NodePorts"}),
        ("PodFitsResources", {"NodeResourcesFit"}),
        ("HostName", {"NodeName"}),
        ("MatchNodeSelector", {"NodeAffinity"}),
        ("GeneralPredicates", {"NodePorts", "NodeResourcesFit", "NodeName", "NodeAffinity"}),
        ("NoDiskConflict", {"VolumeRestrictions"}),
        ("NoVolumeZoneConflict", {"VolumeZone"}),
        ("MaxEBSVolumeCount", {"NodeVolumeLimits"}),
        ("MaxCSIVolumeCountPred", {"NodeVolumeLimits"}),
        ("CheckVolumeBinding", {"VolumeBinding"}),
        ("MatchInterPodAffinity", {"InterPodAffinity"}),
        ("EvenPodsSpread", {"PodTopologySpread"}),
        ("PodToleratesNodeTaints", set()),
        ("CheckNodeUnschedulable", set()),
        ("CheckNodeCondition", set()),
    ],
)
def test_a_predicate_is_a_filter(predicate: str, plugins: set[str]) -> None:
    loaded = read(predicates=named(predicate), priorities=[])
    assert set(at(loaded, "filter")) - YOUNG == plugins | MANDATORY


def test_no_predicates_leave_the_mandatory_ones() -> None:
    loaded = read(predicates=[], priorities=[])
    assert set(at(loaded, "filter")) - YOUNG == MANDATORY
    assert set(at(loaded, "score")) - YOUNG == set()
    assert [list(at(loaded, point)) for point in ("queueSort", "bind")] == [["PrioritySort"], ["DefaultBinder"]]


def test_a_policy_without_lists_is_the_default() -> None:
    loaded = read()
    assert len(at(loaded, "filter")) == 14
    assert {name: weight for name, weight in at(loaded, "score").items() if name not in YOUNG | {"VolumeBinding"}} == {
        "NodeResourcesFit": 1,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
        "InterPodAffinity": 1,
        "NodeAffinity": 1,
        "TaintToleration": 1,
        "PodTopologySpread": 2,
    }


def test_volumes_are_not_bound_by_a_policy_that_does_not_check_them() -> None:
    loaded = read(predicates=named("PodFitsResources"))
    assert [("VolumeBinding" in at(loaded, point)) for point in ("preFilter", "reserve", "preBind")] == [False] * 3


@pytest.mark.parametrize(
    ("priority", "plugin"),
    [
        ("BalancedResourceAllocation", "NodeResourcesBalancedAllocation"),
        ("EvenPodsSpreadPriority", "PodTopologySpread"),
        ("ImageLocalityPriority", "ImageLocality"),
        ("InterPodAffinityPriority", "InterPodAffinity"),
        ("LeastRequestedPriority", "NodeResourcesFit"),
        ("MostRequestedPriority", "NodeResourcesFit"),
        ("NodeAffinityPriority", "NodeAffinity"),
        ("SelectorSpreadPriority", "PodTopologySpread"),
        ("TaintTolerationPriority", "TaintToleration"),
    ],
)
def test_a_priority_is_a_score_with_its_weight(priority: str, plugin: str) -> None:
    loaded = read(predicates=[], priorities=named(priority, weight=4))
    assert {name: weight for name, weight in at(loaded, "score").items() if name not in YOUNG} == {plugin: 4}
    assert set(at(loaded, "filter")) - YOUNG == MANDATORY


def test_requested_to_capacity_ratio_keeps_its_shape_and_resources() -> None:
    arguments = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
                 "resources": [{"name": "nvidia.com/gpu", "weight": 3}]}  # fmt: skip
    argument = {"requestedToCapacityRatioArguments": arguments}
    loaded = read(priorities=[{"name": "Pack", "weight": 2, "argument": argument}])
    assert at(loaded, "score")["NodeResourcesFit"] == 2
    assert encode(loaded.configuration.profiles[0].args("NodeResourcesFit"))["scoringStrategy"] == {
        "type": "RequestedToCapacityRatio",
        "resources": arguments["resources"],
        "requestedToCapacityRatio": {"shape": arguments["shape"]},
    }


def test_most_requested_packs() -> None:
    loaded = read(priorities=named("MostRequestedPriority", weight=1))
    assert loaded.configuration.profiles[0].args("NodeResourcesFit").scoring_strategy.type == "MostAllocated"


def test_the_weight_of_hard_affinity_moves_to_its_plugin() -> None:
    loaded = read(hardPodAffinitySymmetricWeight=10)
    assert loaded.configuration.profiles[0].args("InterPodAffinity").hard_pod_affinity_weight == 10


def test_labels_presence_becomes_affinity_that_every_pod_has() -> None:
    argument = {"labelsPresence": {"labels": ["retiring"], "presence": False}}
    loaded = read(predicates=[{"name": "NotRetiring", "argument": argument}])
    affinity = loaded.configuration.profiles[0].args("NodeAffinity").added_affinity
    (term,) = affinity.required_during_scheduling_ignored_during_execution.node_selector_terms
    assert [(item.key, item.operator) for item in term.match_expressions] == [("retiring", "DoesNotExist")]
    assert "NodeAffinity" in at(loaded, "filter")


def test_an_extender_of_a_policy_has_its_timeout_in_nanoseconds() -> None:
    extender = {"urlPrefix": "http://x", "filterVerb": "f", "enableHttps": True, "httpTimeout": 1_500_000_000}
    (found,) = read(extenders=[extender]).configuration.extenders
    assert (found.url_prefix, found.enable_https, found.http_timeout.seconds) == ("http://x", True, 1.5)


@pytest.mark.parametrize(
    ("policy", "lines"),
    [
        pytest.param({"alwaysCheckAllPredicates": True},
                     ["alwaysCheckAllPredicates: has no effect: the first plugin that refuses a node is the one "
                      "reported"], id="checking all predicates"),
        pytest.param({"priorities": named("EqualPriority", weight=1)},
                     ["priorities[0]: EqualPriority is dropped: it gave every node the same score"],
                     id="a priority without effect"),
        pytest.param({"priorities": named("NodePreferAvoidPodsPriority", weight=1)},
                     ["priorities[0]: NodePreferAvoidPodsPriority is dropped: taint the nodes instead"],
                     id="avoiding pods"),
        pytest.param({"priorities": named("SelectorSpreadPriority", "EvenPodsSpreadPriority", weight=1)},
                     ["priorities[1]: EvenPodsSpreadPriority is dropped: PodTopologySpread already stands for another "
                      "priority of this Policy"], id="two priorities in one plugin"),
        pytest.param({"priorities": [{"name": "a", "weight": 1, "argument": {"labelPreference": {"label": "x"}}}]},
                     ["priorities[0].argument.labelPreference: is dropped: use preferred terms of NodeAffinity's "
                      "addedAffinity"], id="preferred labels"),
        pytest.param({"priorities": [{"name": "a", "weight": 1, "argument": {"serviceAntiAffinity": {"label": "x"}}}]},
                     ["priorities[0].argument.serviceAntiAffinity: is dropped: use topology spread constraints"],
                     id="services apart"),
        pytest.param({"predicates": [{"name": "a", "argument": {"serviceAffinity": {"labels": ["x"]}}}]},
                     ["predicates[0].argument.serviceAffinity: is dropped: give the pods inter-pod affinity; "
                      "nothing keeps a service's pods together now"], id="services together"),
    ],
)  # fmt: skip
def test_what_has_no_counterpart_is_dropped_with_a_warning(policy: dict[str, Any], lines: list[str]) -> None:
    first = "policy.json:1: kind: a Policy is read as one profile of kubescheduler.config.k8s.io/v1"
    assert [str(note) for note in read(**policy).warnings] == [first] + [f"policy.json:1: {line}" for line in lines]


@pytest.mark.parametrize(
    ("policy", "start"),
    [
        pytest.param({"predicates": named("FitsSomehow")},
                     'predicates[0].name: Unsupported value: "FitsSomehow": supported values: "CheckNodeUnsched',
                     id="an unknown predicate"),
        pytest.param({"priorities": named("Best", weight=1)},
                     'priorities[0].name: Unsupported value: "Best": supported values: "BalancedResourceAllocation"',
                     id="an unknown priority"),
        pytest.param({"priorities": named("ImageLocalityPriority")},
                     "priorities[0].weight: Invalid value: 0: must be greater than 0", id="a priority without weight"),
        pytest.param({"predicates": [{"name": "a", "argument": {}}]},
                     "predicates[0].argument: Required value: labelsPresence or serviceAffinity",
                     id="an argument that says nothing"),
        pytest.param({"predicate": []}, "predicate: unknown field", id="an unknown field"),
        pytest.param({"extenders": [{"httpTimeout": "soon"}]},
                     "extenders[0].httpTimeout: Invalid value: expected a duration", id="an extender's bad timeout"),
    ],
)  # fmt: skip
def test_a_bad_policy_is_refused_where_it_is_bad(policy: dict[str, Any], start: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(**policy)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"policy.json:1: {start}")


def test_a_policy_is_found_in_its_config_map() -> None:
    loaded = loads("""
apiVersion: v1
kind: ConfigMap
metadata: {name: scheduler-policy, namespace: kube-system}
data:
  policy.cfg: |
    {"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "HostName"}]}
""", file="map.yaml")  # fmt: skip
    assert set(at(loaded, "filter")) - YOUNG == {"NodeName"} | MANDATORY
    assert str(loaded.warnings[0]).startswith("map.yaml(policy.cfg):1: kind: ")


FULL: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Policy",
    "predicates": [{"name": "a", "argument": {"labelsPresence": {"labels": ["x"], "presence": True}}}],
    "priorities": [
        {"name": "b", "weight": 2, "argument": {"requestedToCapacityRatioArguments": {"shape": [], "resources": []}}}
    ],
    "extenders": [{"urlPrefix": "x", "httpTimeout": 1, "tlsConfig": {"insecure": True}}],
    "hardPodAffinitySymmetricWeight": 3,
}


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_no_wrong_type_anywhere_ends_in_a_traceback(data: st.DataObject) -> None:
    document = json.loads(json.dumps(FULL))
    place = data.draw(st.sampled_from(mutations(document)))
    target: Any = document
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = data.draw(JUNK)
    with contextlib.suppress(ConfigError):
        loads(json.dumps(document))
