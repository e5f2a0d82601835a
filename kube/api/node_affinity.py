"""Which nodes a pod asks for: nodeSelector and node affinity, required and preferred, on labels and the node's name.

Anybody may call it. These are the readable one-node rules; whoever judges thousands of nodes interns the terms first.
A term that Kubernetes cannot parse (unknown operator, Gt with a word, what cannot be a label's key or value) matches
nothing, whatever else it says.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from kube.api.core import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
)
from kube.api.labels import IN, NOT_IN, compare_integers, is_label_key, is_label_value

METADATA_NAME = "metadata.name"


def required_node_affinity_matches(pod: Pod, labels: Mapping[str, str], name: str) -> bool:
    """nodeSelector AND the required node affinity (component-helpers GetRequiredNodeAffinity)."""
    node_selector = pod.spec.node_selector
    if node_selector and any(labels.get(key) != value for key, value in node_selector.items()):
        return False
    required = required_node_selector(pod)
    return required is None or match_node_selector(required, labels, name)


def required_node_selector(pod: Pod) -> NodeSelector | None:
    """The required part of the pod's node affinity, None if it has none."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    return affinity.node_affinity.required_during_scheduling_ignored_during_execution


def preferred_node_terms(pod: Pod) -> tuple[PreferredSchedulingTerm, ...]:
    """The preferred part of the pod's node affinity."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return ()
    return affinity.node_affinity.preferred_during_scheduling_ignored_during_execution


def match_node_selector(selector: NodeSelector, labels: Mapping[str, str], name: str) -> bool:
    """Whether any of the terms matches; without terms none does."""
    return any(match_node_selector_term(term, labels, name) for term in selector.node_selector_terms)


def match_node_selector_term(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    """All expressions and all fields must hold; an empty term matches nothing."""
    if not term.match_expressions and not term.match_fields:
        return False
    return all(match_expression(expression, labels) for expression in term.match_expressions) and all(
        match_field(field, name) for field in term.match_fields
    )


def preferred_score(terms: Iterable[PreferredSchedulingTerm], labels: Mapping[str, str], name: str) -> int:
    """The sum of the weights of the matching preferred terms."""
    return sum(term.weight for term in terms if match_node_selector_term(term.preference, labels, name))


def match_expression(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """One expression on the node's labels; NotIn and DoesNotExist hold where the label is absent."""
    if not is_readable(requirement):
        return False
    value = labels.get(requirement.key)
    values = requirement.values
    match requirement.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return bool(values) and (value is None or value not in values)
        case "Exists":
            return value is not None and not values
        case "DoesNotExist":
            return value is None and not values
        case operator:
            return value is not None and compare_integers(value, operator, values)


@lru_cache(maxsize=4096)
def is_readable(requirement: NodeSelectorRequirement) -> bool:
    """Whether key and values are such as labels can have: "-5" is none, so Gt and Lt know no negative numbers."""
    return is_label_key(requirement.key) and all(map(is_label_value, requirement.values))


def match_field(requirement: NodeSelectorRequirement, name: str) -> bool:
    """One expression on the node's fields: only metadata.name, only In and NotIn, exactly one value."""
    if requirement.key != METADATA_NAME or len(requirement.values) != 1:
        return False
    if requirement.operator == IN:
        return requirement.values[0] == name
    return requirement.operator == NOT_IN and requirement.values[0] != name
