"""Node selectors over all nodes of a view at once: judged once per distinct value of the labels that they name.

Only plugins call it; the rules for one node are `kube.api.node_affinity`.
"""

from __future__ import annotations

import numpy as np

from kube.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod
from kube.api.labels import EXISTS, NOT_IN
from kube.api.node_affinity import is_readable, match_expression, match_field, required_node_selector
from scheduler.snapshot.columns import LabelValues, Mask
from scheduler.snapshot.snapshot import Nodes


def selects_nodes(pod: Pod) -> bool:
    """Whether the pod has a node selector or required node affinity."""
    return bool(pod.spec.node_selector) or required_node_selector(pod) is not None


def match_required(nodes: Nodes, pod: Pod) -> Mask:
    """Nodes that match the pod's node selector and its required node affinity."""
    mask = nodes.all
    for key, value in pod.spec.node_selector.items():
        mask &= nodes.label_codes(key) == nodes.snapshot.label(key).values.code_of.get(value, -1)
    required = required_node_selector(pod)
    if required is not None:
        mask &= match_selector(nodes, required)
    return mask


def match_selector(nodes: Nodes, selector: NodeSelector) -> Mask:
    """Nodes that match any of the terms; without terms none does."""
    mask = nodes.none
    for term in selector.node_selector_terms:
        mask |= match_term(nodes, term)
    return mask


def match_term(nodes: Nodes, term: NodeSelectorTerm) -> Mask:
    """Nodes for which all expressions and fields hold; an empty term matches nothing."""
    if not term.match_expressions and not term.match_fields:
        return nodes.none
    mask = nodes.all
    for expression in term.match_expressions:
        codes = nodes.label_codes(expression.key)
        mask &= values_matching(expression, nodes.snapshot.label(expression.key)).take(codes)
    for field in term.match_fields:
        mask &= nodes.gather(rows_matching(field, nodes))
    return mask


def values_matching(requirement: NodeSelectorRequirement, label: LabelValues) -> Mask:
    """Per code of the label's values, whether the requirement holds; hostname has as many values as there are nodes."""
    values = label.values
    table = np.zeros(len(values), np.bool_)
    if not is_readable(requirement):
        return table
    match requirement.operator:
        case "In" | "NotIn" if requirement.values:
            table[[values.code_of[value] for value in requirement.values if value in values.code_of]] = True
            return np.logical_not(table) if requirement.operator == NOT_IN else table
        case "Exists" | "DoesNotExist" if not requirement.values:
            table[LabelValues.ABSENT] = True
            return np.logical_not(table) if requirement.operator == EXISTS else table
    for code, value in enumerate(values.values):
        table[code] = match_expression(requirement, {} if value is None else {requirement.key: value})
    return table


def rows_matching(requirement: NodeSelectorRequirement, nodes: Nodes) -> Mask:
    """Rows whose node's name the requirement selects; it names one node, so one row differs from all others."""
    everybody = nodes.snapshot.nodes
    mask = everybody.all if match_field(requirement, "") else everybody.none
    for name in requirement.values:
        row = nodes.snapshot.row_of.get(name)
        if row is not None:
            mask[row] = match_field(requirement, name)
    return mask
