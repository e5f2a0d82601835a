"""What labels of nodes have to do with a refusal: node selectors and node affinity. Used by `causes`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kube.api.core import NodeSelectorRequirement, NodeSelectorTerm, Pod
from kube.api.node_affinity import required_node_selector
from plugins.helpers.node_selection import match_term
from plugins.node_affinity import NOT_ENFORCED
from podium.explain.amounts import listed
from podium.explain.view import View
from scheduler.framework.runtime import Feasibility
from scheduler.snapshot.columns import Codes


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing the pod asks of a node's labels."""

    #: "nodeSelector disktype=ssd" or "node affinity zone In [a, b]"
    text: str
    term: NodeSelectorTerm
    key: str


def requirement_text(requirement: NodeSelectorRequirement) -> str:
    """`zone In [a, b]`, `gpu Exists`, `cores Gt 4`."""
    values = requirement.values
    if not values:
        return f"{requirement.key} {requirement.operator}"
    shown = values[0] if requirement.operator in ("Gt", "Lt") else f"[{listed(values, 5)}]".replace(" and ", ", ")
    return f"{requirement.key} {requirement.operator} {shown}"


def rules_of(pod: Pod) -> list[Rule]:
    """What must hold, each by itself; several ORed terms are not taken apart."""
    rules = []
    for key, value in pod.spec.node_selector.items():
        requirement = NodeSelectorRequirement(key=key, operator="In", values=(value,))
        rules.append(Rule(f"nodeSelector {key}={value}", NodeSelectorTerm(match_expressions=(requirement,)), key))
    required = required_node_selector(pod)
    if required is not None and len(required.node_selector_terms) == 1:
        term = required.node_selector_terms[0]
        for requirement in term.match_expressions:
            text = f"node affinity {requirement_text(requirement)}"
            rules.append(Rule(text, NodeSelectorTerm(match_expressions=(requirement,)), requirement.key))
        for requirement in term.match_fields:
            text = f"node affinity {requirement_text(requirement)}"
            rules.append(Rule(text, NodeSelectorTerm(match_fields=(requirement,)), ""))
    return rules


def node_affinity(view: View, found: Feasibility, reason: str, rows: Codes) -> Iterator[tuple[Codes, str, str]]:
    """Each node under the first rule that it breaks, with the values that the label has there."""
    if reason == NOT_ENFORCED:
        yield (
            rows,
            "the profile's own node affinity (addedAffinity) refuses them",
            "refused by the profile's node affinity",
        )
        return
    pod = found.state.pod_info.pod
    left = rows
    for rule in rules_of(pod):
        matching = match_term(view.snapshot.select(left), rule.term)
        broken = left[~matching]
        if len(broken):
            detail = f"{rule.text}: {_values(view, rule.key, broken)}" if rule.key else rule.text
            yield broken, detail, f"not matching {rule.text}"
        left = left[matching]
    if len(left):
        required = required_node_selector(pod)
        terms = required.node_selector_terms if required is not None else ()
        texts = " | ".join(map(term_text, terms[:4]))
        yield left, f"none of the node affinity terms holds: {texts}", "not matching any node affinity term"


def term_text(term: NodeSelectorTerm) -> str:
    """`zone In [a], disktype In [ssd]`."""
    return ", ".join(map(requirement_text, (*term.match_expressions, *term.match_fields))) or "an empty term"


def _values(view: View, key: str, rows: Codes) -> str:
    """`the label is hdd on 4, absent on 2`."""
    codes = view.snapshot.select(rows).label_codes(key)
    values = view.snapshot.label(key).values.values
    counts = Counter({int(code): int(n) for code, n in zip(*np.unique(codes, return_counts=True), strict=True)})
    if set(counts) == {0}:
        return "no such label"
    said = sorted(counts.most_common(4), key=lambda item: (not item[0], -item[1]))
    texts = [f"{values[code] or '“”'} on {n:,}" if code else f"absent on {n:,}" for code, n in said]
    rest = len(counts) - len(said)
    return f"the label is {', '.join(texts)}" + (f", {rest:,} more values" if rest else "")


def named_nodes(view: View, found: Feasibility) -> str:
    """Why nodes outside PreFilter's node set were not looked at."""
    required = required_node_selector(found.state.pod_info.pod)
    names = [
        value
        for term in (required.node_selector_terms if required is not None else ())
        for field in term.match_fields
        for value in field.values
    ]
    return (
        f"the pod may go to {listed(names)} only" if names else f"{' and '.join(found.naming)} allow other nodes only"
    )
