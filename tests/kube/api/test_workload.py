"""Pod groups are read in every version that API servers write, and told apart by group where kinds agree."""

import pytest

from kube.api.codec import convert, decode
from kube.api.resources import by_kind
from kube.api.workload import CoschedulingPodGroup, DisruptionMode, PodGroup, WholeDisruption, Workload


@pytest.mark.parametrize(
    ("api_version", "type_", "listed_as"),
    [
        pytest.param("scheduling.k8s.io/v1alpha2", PodGroup, "PodGroup", id="the native one of 1.36"),
        pytest.param("scheduling.k8s.io/v1beta1", PodGroup, "PodGroup", id="the native one of 1.37"),
        pytest.param(
            "scheduling.x-k8s.io/v1alpha1",
            CoschedulingPodGroup,
            "podgroups.v1alpha1.scheduling.x-k8s.io",
            id="the custom resource",
        ),
    ],
)
def test_a_pod_group_is_told_by_its_api_group(api_version, type_, listed_as):
    resource = by_kind(api_version, "PodGroup")
    assert resource is not None
    assert (resource.type, resource.listed_as) == (type_, listed_as)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param("PodGroup", "PodGroup", id="1.36 writes a word"),
        pytest.param({"all": {}}, DisruptionMode(all=WholeDisruption()), id="1.37 writes a choice"),
        pytest.param(None, None, id="absent"),
    ],
)
def test_the_disruption_mode_is_read_in_both_spellings(mode, expected):
    group = convert({"metadata": {"name": "g"}, "spec": {"disruptionMode": mode}}, PodGroup)
    assert group.spec.disruption_mode == expected


def test_a_policy_is_either_gang_or_basic():
    body = b'{"metadata":{"name":"g"},"spec":{"schedulingPolicy":{"gang":{"minCount":3}},"priority":7}}'
    group = decode(body, PodGroup)
    assert group.spec.scheduling_policy.gang is not None
    assert (group.spec.scheduling_policy.gang.min_count, group.spec.priority) == (3, 7)
    assert decode(b'{"spec":{"schedulingPolicy":{"basic":{}}}}', PodGroup).spec.scheduling_policy.gang is None


def test_a_workload_of_1_35_holds_its_groups_itself():
    body = {"spec": {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 2}}}]}}
    (group,) = convert(body, Workload).spec.pod_groups
    assert (group.name, group.policy.gang.min_count if group.policy.gang else None) == ("workers", 2)
