"""Pod groups on the embedded API server: served by name, with the priority of their class."""

import pytest

from simulator.apiserver import ApiServer
from simulator.apiserver.errors import ApiError


def group(**spec: object) -> dict[str, object]:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec},
    }


def test_a_group_has_the_priority_of_its_class() -> None:
    server = ApiServer()
    meta = {"name": "important"}
    server.create({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": 7})
    assert server.create(group(priorityClassName="important"))["spec"]["priority"] == 7


def test_without_a_class_a_group_has_no_priority() -> None:
    assert "priority" not in ApiServer().create(group())["spec"]


def test_a_class_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ApiError, match="no PriorityClass with name nope was found"):
        ApiServer().create(group(priorityClassName="nope"))


def test_the_kinds_of_both_groups_are_told_apart() -> None:
    server = ApiServer()
    server.create(group())
    custom = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "spec": {"minMember": 3}}
    server.create({**custom, "metadata": {"name": "g", "namespace": "default"}})
    assert "minMember" in server.get("podgroups.scheduling.x-k8s.io", "g")["spec"]
    assert "minMember" not in server.get("podgroups.scheduling.k8s.io", "g")["spec"]
