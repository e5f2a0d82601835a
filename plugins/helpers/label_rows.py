"""Rows by label: which rows of the snapshot a node selector or a label selector means, worked out once per selector.

Volumes, storage capacities and classes name nodes by their labels, and many name the same ones. What was worked out is
kept until a node object changes. Masks and row arrays handed out are shared: nobody writes to them.

Owner: the plugin that made it. Read after a refresh, over all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kube.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kube.api.labels import IN, Requirements
from kube.api.node_affinity import match_field
from plugins.helpers.node_selection import values_matching
from scheduler.snapshot.columns import Codes, Mask
from scheduler.snapshot.snapshot import Snapshot

#: bytes that all remembered masks may take together
MAX_BYTES = 4 * 2**20
NO_ROWS: Codes = np.zeros(0, np.intp)


class LabelRows:
    """Selector to rows."""

    __slots__ = ("_by_value", "_masks", "_snapshot", "_stamp")

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._stamp: tuple[int, int] = (-1, -1)
        self._masks: dict[Any, Mask] = {}
        #: label key -> value -> rows
        self._by_value: dict[str, dict[str, Codes]] = {}

    @property
    def size(self) -> int:
        """Number of rows."""
        return self._snapshot.size

    @property
    def everywhere(self) -> Mask:
        """`(rows,)` all nodes; a fresh array."""
        return self._snapshot.nodes.all

    @property
    def nowhere(self) -> Mask:
        """`(rows,)` no node; a fresh array."""
        return self._snapshot.nodes.none

    def by_node_selector(self, selector: NodeSelector) -> Mask:
        """`(rows,)` rows whose labels match one of the terms. Terms see no node name, as for volumes (facts 2.9)."""
        single = single_value(selector)
        if single is not None:
            return self._only(*single)
        self._renew()
        mask = self._masks.get(selector)
        if mask is None:
            mask = self.nowhere
            for term in selector.node_selector_terms:
                mask |= self._term(term)
            self._keep(selector, mask)
        return mask

    def by_requirements(self, requirements: Requirements | None) -> Mask:
        """`(rows,)` rows whose labels a label selector in canonical form selects; None selects none."""
        if requirements is None:
            return self.nowhere
        if len(requirements) == 1 and requirements[0][1] == IN and len(requirements[0][2]) == 1:
            return self._only(requirements[0][0], requirements[0][2][0])
        self._renew()
        mask = self._masks.get(requirements)
        if mask is None:
            mask = self.everywhere
            for key, operator, values in requirements:
                mask &= self._holding(NodeSelectorRequirement(key=key, operator=operator, values=values))
            self._keep(requirements, mask)
        return mask

    def with_value(self, key: str, value: str) -> Codes:
        """Rows whose label has this value: one look-up, for the many objects that name a single node."""
        return self.by_value(key).get(value, NO_ROWS)

    def by_value(self, key: str) -> Mapping[str, Codes]:
        """Label value -> rows."""
        self._renew()
        by_value = self._by_value.get(key)
        if by_value is None:
            by_value = self._by_value[key] = self._group(key)
        return by_value

    def _only(self, key: str, value: str) -> Mask:
        mask = self.nowhere
        mask[self.with_value(key, value)] = True
        return mask

    @property
    def stamp(self) -> tuple[int, int]:
        """Changes whenever rows may mean other nodes than before."""
        return self._snapshot.node_epoch, self._snapshot.size

    def _renew(self) -> None:
        stamp = self.stamp
        if stamp != self._stamp or len(self._masks) * self._snapshot.size > MAX_BYTES:
            self._masks.clear()
            self._by_value.clear()
            self._stamp = stamp

    def _keep(self, key: Any, mask: Mask) -> None:
        mask.flags.writeable = False
        self._masks[key] = mask

    def _term(self, term: NodeSelectorTerm) -> Mask:
        """An empty term matches nothing."""
        if not term.match_expressions and not term.match_fields:
            return self.nowhere
        if not all(match_field(field, "") for field in term.match_fields):
            return self.nowhere
        mask = self.everywhere
        for e in term.match_expressions:
            mask &= self._holding(e)
        return mask

    def _holding(self, requirement: NodeSelectorRequirement) -> Mask:
        """Rows for which a requirement on one label holds; selectors of labels and of nodes agree on these."""
        table = values_matching(requirement, self._snapshot.label(requirement.key))
        found: Mask = table.take(self._snapshot.nodes.label_codes(requirement.key))
        return found

    def _group(self, key: str) -> dict[str, Codes]:
        label = self._snapshot.label(key)
        codes = self._snapshot.nodes.label_codes(key)
        order: Codes = codes.argsort(kind="stable")
        starts = np.searchsorted(codes.take(order), np.arange(len(label.values) + 1)).tolist()
        return {
            value: order[starts[code] : starts[code + 1]]
            for code, value in enumerate(label.values.values)
            if value is not None
        }


def single_value(selector: NodeSelector) -> tuple[str, str] | None:
    """(key, value) where a selector asks for just one value of one label: a local volume's hostname."""
    if len(selector.node_selector_terms) != 1:
        return None
    term = selector.node_selector_terms[0]
    if term.match_fields or len(term.match_expressions) != 1:
        return None
    e = term.match_expressions[0]
    return (e.key, e.values[0]) if e.operator == IN and len(e.values) == 1 else None
