"""PodIndex: which running pods a selector means, and whom the affinity terms of running pods mean, per row.

Pods that no selector can tell apart form a class (namespace, labels, terminating or not); a class knows how many of
its pods are on which row. A selector in use has a `RowAmounts` that counts its pods, kept by ±1 as pods come and go.
The other way round, equal affinity terms of running pods are one `OwnedTerm` that knows its rows, and what terms say
about pods of some labels is a `RowAmounts` per topology key. New classes, selectors and terms find each other by the
label pairs that selectors demand. So a question costs the same for 5,000 and for 50,000 running pods.

Owner: the Snapshot, which reports every change. Plugins ask `counted`, `said_about` and `see_namespaces`; nothing here
knows of nodes' labels or of feasibility.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from functools import lru_cache

from kube.api.core import Namespace
from kube.api.labels import Requirements, compile_selector
from scheduler.snapshot.columns import Codes
from scheduler.snapshot.label_buckets import ByLabels, BySelector, Labels, Pair
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import AffinityTerm, PodInfo, PodShape
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.topology import Recent, RowAmounts

#: bytes that the counts of selectors in use may take together, and those of what terms say as well
MAX_BYTES = 16 * 2**20
#: a count and its sums by hostname, and what each takes beside these
BYTES_PER_ROW = 16
ENTRY_BYTES = 2 * 2**10
#: so many are kept whatever their size
MIN_KEPT = 64
#: sets of labels that were asked about and are kept; most have no terms and so no counts
MAX_SAID = 4096
NO_LABELS: Labels = {}


class TermKind(enum.IntEnum):
    """What running pods can want of newcomers."""

    REQUIRED_ANTI_AFFINITY = 0
    REQUIRED_AFFINITY = 1
    #: weights are negative for anti-affinity
    PREFERRED = 2


class PodSelector:
    """Which pods are meant: those that every term means. Compared by identity: see `selecting` and `pods_in`."""

    __slots__ = ("live_only", "matches", "terms")

    def __init__(self, terms: tuple[AffinityTerm, ...], live_only: bool) -> None:
        self.terms = terms
        #: the label selector of each term
        self.matches = tuple(compile_selector(term.selector) for term in terms)
        #: terminating pods are not meant
        self.live_only = live_only


@lru_cache(maxsize=4096)
def _selector(terms: tuple[AffinityTerm, ...], live_only: bool) -> PodSelector:
    return PodSelector(terms, live_only)


@lru_cache(maxsize=4096)
def selecting(terms: tuple[AffinityTerm, ...]) -> PodSelector:
    """The pods that match all terms, wherever they are."""
    bare = {AffinityTerm("", t.namespaces, t.selector, t.namespace_selector): None for t in terms}
    return _selector(tuple(bare), False)


@lru_cache(maxsize=4096)
def pods_in(namespace: str, selector: Requirements | None) -> PodSelector:
    """The pods of one namespace that match a label selector and are not terminating; None matches none."""
    return _selector((AffinityTerm("", frozenset((namespace,)), selector),), True)


class PodClass:
    """Pods with the same namespace and labels, all terminating or all not. Owner: PodIndex."""

    __slots__ = ("counts", "labels", "namespace", "rows", "terminating", "total")

    def __init__(self, namespace: str, labels: Labels, terminating: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.terminating = terminating
        #: row -> number of pods
        self.rows: dict[int, int] = {}
        self.total = 0
        #: the selectors in use that mean this class
        self.counts: list[_Counted] = []


class OwnedTerm:
    """One affinity term, and the rows on which running pods have it. Owner: PodIndex."""

    __slots__ = ("kind", "rows", "said", "term", "total", "weight")

    def __init__(self, kind: TermKind, term: AffinityTerm, weight: int) -> None:
        self.kind = kind
        self.term = term
        self.weight = weight
        self.rows: dict[int, int] = {}
        self.total = 0
        #: where this term counts
        self.said: list[Said] = []


class _Counted:
    """A selector in use: how many of the pods it means are on each row."""

    __slots__ = ("amounts", "classes", "selector")

    def __init__(self, selector: PodSelector, rows: int) -> None:
        self.selector = selector
        self.amounts = RowAmounts(rows)
        self.classes: dict[PodClass, None] = {}


class Said:
    """What the terms of running pods say about pods of one namespace and one set of labels. Owner: PodIndex."""

    __slots__ = ("amounts", "labels", "namespace", "namespace_labels", "terms")

    def __init__(self, namespace: str, labels: Labels, namespace_labels: Labels) -> None:
        self.namespace = namespace
        self.labels = labels
        self.namespace_labels = namespace_labels
        self.terms: dict[OwnedTerm, None] = {}
        #: by TermKind: topology key -> Σ weights per row (1 for required terms)
        self.amounts: tuple[dict[str, RowAmounts], ...] = tuple({} for _ in TermKind)

    def cancels_out(self, kind: TermKind, key: str, codes: Codes) -> bool:
        """Whether sums by that key that are 0 everywhere hide terms on nodes with the key: some say +w, others -w.

        `codes` are the key's label codes of all rows.
        """
        terms = [term for term in self.terms if term.kind == kind and term.term.topology_key == key]
        if len({term.weight > 0 for term in terms}) < 2:
            return False
        return any(bool(codes[list(term.rows)].any()) for term in terms)


class _Shape:
    """What adding a pod of one shape has to touch."""

    __slots__ = ("classes", "terms", "total")

    def __init__(self, terms: tuple[OwnedTerm, ...]) -> None:
        self.total = 0
        #: of the running and of the terminating pods
        self.classes: list[PodClass | None] = [None, None]
        self.terms = terms


class PodIndex:
    """The snapshot's index of running pods (a RowIndex)."""

    def __init__(self, snapshot: Snapshot) -> None:
        #: counts the terms that appeared: while it stays, nothing is said about pods of whom nothing was said
        self.version = 0
        self._snapshot = snapshot
        self._shapes: dict[bytes, _Shape] = {}
        self._classes: dict[tuple[str, frozenset[Pair], bool], PodClass] = {}
        self._terms: dict[tuple[TermKind, AffinityTerm, int], OwnedTerm] = {}
        self._by_labels: ByLabels[PodClass] = ByLabels()
        self._selectors: BySelector[_Counted] = BySelector()
        self._terms_by_selector: BySelector[OwnedTerm] = BySelector()
        self._said_by_labels: ByLabels[Said] = ByLabels()
        self._counted: Recent[PodSelector, _Counted] = Recent()
        self._said: Recent[tuple[str, frozenset[Pair]], Said] = Recent()
        self._said_arrays = 0
        self._namespaces: list[Namespace] = []
        self._namespace_labels: dict[str, Labels] = {}
        #: terms of running pods that select namespaces by label: while there are none, namespaces do not matter to them
        self.namespace_terms = 0

    def _kept(self) -> int:
        return max(MIN_KEPT, MAX_BYTES // (ENTRY_BYTES + BYTES_PER_ROW * self._snapshot.size))

    # --- asked by plugins ---------------------------------------------------------------------------------

    def see_namespaces(self, namespaces: Iterable[Namespace]) -> None:
        """Take note of namespaces and their labels, if any changed. To be called before a namespace selector counts."""
        now = list(namespaces)
        if now == self._namespaces:
            return
        labels: dict[str, Labels] = {namespace.metadata.name: namespace.metadata.labels for namespace in now}
        changed = [name for name in labels.keys() | self._namespace_labels.keys() if self._changed(name, labels)]
        before, self._namespace_labels, self._namespaces = self._namespace_labels, labels, now
        for counted in self._counted:
            if any(_depends_on(counted.selector, name, before.get(name), labels.get(name)) for name in changed):
                self._drop_counted(counted)

    def _changed(self, name: str, labels: Mapping[str, Labels]) -> bool:
        return self._namespace_labels.get(name) != labels.get(name) and self._by_labels.has_namespace(name)

    def counted(self, selector: PodSelector) -> RowAmounts:
        """How many pods that the selector means are on each row."""
        found = self._counted.get(selector)
        return (found or self._count(selector)).amounts

    def said_about(self, shape: PodShape) -> Said:
        """What terms of running pods say about a pod."""
        key = shape.class_key
        namespace_labels = self.namespace_labels(shape.namespace)
        found = self._said.get(key)
        if found is not None and found.namespace_labels == namespace_labels:
            return found
        if found is not None:
            self._forget_said(found)
        said = Said(shape.namespace, shape.labels, namespace_labels)
        for term in self._terms_by_selector.candidates(said.labels):
            self._hear(said, term)
        self._said_by_labels.add(said, said.namespace, said.labels)
        self._said.put(key, said)
        while len(self._said) > MAX_SAID or (self._said_arrays > self._kept() and len(self._said) > 1):
            self._forget_said(self._said.pop_oldest())
        return said

    def namespace_labels(self, namespace: str) -> Labels:
        """Labels of a namespace as last seen; none for one that was not."""
        return self._namespace_labels.get(namespace, NO_LABELS)

    def means(self, selector: PodSelector, namespace: str, labels: Labels) -> bool:
        """Whether a pod of that namespace with these labels is meant."""
        return all(
            matches(labels) and (namespace in term.namespaces or self._selects_namespace(term, namespace))
            for term, matches in zip(selector.terms, selector.matches, strict=True)
        )

    def _selects_namespace(self, term: AffinityTerm, namespace: str) -> bool:
        """A namespace that does not exist has no labels to select it by, unless all are selected."""
        if not term.namespace_selector:
            return term.namespace_selector is not None
        labels = self._namespace_labels.get(namespace)
        return labels is not None and compile_selector(term.namespace_selector)(labels)

    # --- selectors in use ---------------------------------------------------------------------------------

    def _count(self, selector: PodSelector) -> _Counted:
        counted = _Counted(selector, self._snapshot.size)
        for each in self._by_labels.candidates(selector.terms[0]):
            self._count_class(counted, each)
        self._selectors.add(counted, selector.terms[0].selector)
        self._counted.put(selector, counted)
        while len(self._counted) > self._kept():
            self._forget_counted(self._counted.pop_oldest())
        return counted

    def _count_class(self, counted: _Counted, each: PodClass) -> None:
        if each.terminating and counted.selector.live_only:
            return
        if self.means(counted.selector, each.namespace, each.labels):
            counted.classes[each] = None
            each.counts.append(counted)
            counted.amounts.add_rows(each.rows)

    def _drop_counted(self, counted: _Counted) -> None:
        self._counted.pop(counted.selector)
        self._forget_counted(counted)

    def _forget_counted(self, counted: _Counted) -> None:
        self._selectors.remove(counted, counted.selector.terms[0].selector)
        for each in counted.classes:
            each.counts.remove(counted)

    # --- what terms say -----------------------------------------------------------------------------------

    def _hear(self, said: Said, term: OwnedTerm) -> None:
        if not term.term.matches(said.namespace, said.labels, said.namespace_labels):
            return
        said.terms[term] = None
        term.said.append(said)
        by_key, key = said.amounts[term.kind], term.term.topology_key
        if key not in by_key:
            by_key[key] = RowAmounts(self._snapshot.size)
            self._said_arrays += 1
        by_key[key].add_rows(term.rows, term.weight)

    def _forget_said(self, said: Said) -> None:
        self._said_by_labels.remove(said, said.namespace, said.labels)
        self._said_arrays -= sum(map(len, said.amounts))
        for term in said.terms:
            term.said.remove(said)

    # --- reported by the snapshot -------------------------------------------------------------------------

    def node_changed(self, row: int, node: NodeInfo | None) -> None:
        """Nodes' labels are read from the snapshot when domains are added up: nothing to do."""

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """A pod is counted on this row now."""
        shape = self._shapes.get(pod.shape.key) or self._new_shape(pod.shape)
        shape.total += 1
        each = shape.classes[pod.terminating]
        if each is None or not each.total:  # a class without pods was dropped
            each = self._class_of(shape, pod)
        each.total += 1
        each.rows[row] = each.rows.get(row, 0) + 1
        for counted in each.counts:
            counted.amounts.add(row, 1)
        for term in shape.terms:
            term.total += 1
            term.rows[row] = term.rows.get(row, 0) + 1
            for said in term.said:
                said.amounts[term.kind][term.term.topology_key].add(row, term.weight)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """A pod is no longer counted on this row."""
        shape = self._shapes[pod.shape.key]
        each = shape.classes[pod.terminating]
        assert each is not None, "the pod was not added"
        each.total -= 1
        _take_one(each.rows, row)
        for counted in each.counts:
            counted.amounts.add(row, -1)
        for term in shape.terms:
            term.total -= 1
            _take_one(term.rows, row)
            for said in term.said:
                said.amounts[term.kind][term.term.topology_key].add(row, -term.weight)
        shape.total -= 1
        if not each.total:
            self._drop_class(each)
        if not shape.total:
            self._drop_shape(pod.shape.key, shape)

    def _new_shape(self, shape: PodShape) -> _Shape:
        found = self._shapes[shape.key] = _Shape(tuple(self._owned(*each) for each in _terms_of(shape)))
        return found

    def _class_of(self, shape: _Shape, pod: PodInfo) -> PodClass:
        namespace, labels = pod.shape.namespace, pod.shape.labels
        key = (namespace, frozenset(labels.items()), pod.terminating)
        found = self._classes.get(key)
        if found is None:
            found = self._classes[key] = PodClass(namespace, labels, pod.terminating)
            self._by_labels.add(found, namespace, labels)
            for counted in self._selectors.candidates(labels):
                self._count_class(counted, found)
        shape.classes[pod.terminating] = found
        return found

    def _owned(self, kind: TermKind, term: AffinityTerm, weight: int) -> OwnedTerm:
        found = self._terms.get((kind, term, weight))
        if found is None:
            found = self._terms[kind, term, weight] = OwnedTerm(kind, term, weight)
            self.version += 1
            self.namespace_terms += bool(term.namespace_selector)
            self._terms_by_selector.add(found, term.selector)
            for said in self._said_by_labels.candidates(term):
                self._hear(said, found)
        return found

    def _drop_class(self, each: PodClass) -> None:
        del self._classes[each.namespace, frozenset(each.labels.items()), each.terminating]
        self._by_labels.remove(each, each.namespace, each.labels)
        for counted in each.counts:
            del counted.classes[each]

    def _drop_shape(self, key: bytes, shape: _Shape) -> None:
        del self._shapes[key]
        for term in shape.terms:
            if not term.total:
                self._drop_term(term)

    def _drop_term(self, term: OwnedTerm) -> None:
        if self._terms.pop((term.kind, term.term, term.weight), None) is None:
            return
        self.namespace_terms -= bool(term.term.namespace_selector)
        self._terms_by_selector.remove(term, term.term.selector)
        for said in term.said:
            del said.terms[term]


def _take_one(rows: dict[int, int], row: int) -> None:
    """A row without pods is no entry."""
    left = rows[row] - 1
    if left:
        rows[row] = left
    else:
        del rows[row]


def _terms_of(shape: PodShape) -> Iterable[tuple[TermKind, AffinityTerm, int]]:
    """The terms of a pod that concern newcomers, with their weights."""
    for term in shape.required_anti_affinity:
        yield TermKind.REQUIRED_ANTI_AFFINITY, term, 1
    for term in shape.required_affinity:
        yield TermKind.REQUIRED_AFFINITY, term, 1
    for term in shape.preferred_affinity:
        yield TermKind.PREFERRED, term, term.weight
    for term in shape.preferred_anti_affinity:
        yield TermKind.PREFERRED, term, -term.weight


def _depends_on(selector: PodSelector, namespace: str, before: Labels | None, after: Labels | None) -> bool:
    """Whether a change of a namespace's labels decides if its pods are meant."""
    for term in selector.terms:
        if term.namespace_selector and namespace not in term.namespaces:
            matches = compile_selector(term.namespace_selector)
            if (before is not None and matches(before)) != (after is not None and matches(after)):
                return True
    return False
