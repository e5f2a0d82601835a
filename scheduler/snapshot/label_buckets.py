"""Label buckets: what has labels and what selects by labels find each other without trying every pair of them.

A selector that demands `app in (a, b)` can only match what carries app=a or app=b. Things with labels are filed under
each of their pairs, things with a selector under the pairs of their narrowest demand. What comes out are candidates;
whether they match is for the caller to test.

Owner: whoever holds one (PodIndex). Things are compared by identity or by hash; they are filed until removed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from kube.api.labels import IN, Requirements
from scheduler.snapshot.pod_info import AffinityTerm

T = TypeVar("T", bound=Hashable)
K = TypeVar("K", bound=Hashable)
Labels = Mapping[str, str]
Pair = tuple[str, str]


def _demanded(selector: Requirements | None) -> list[Pair] | None:
    """Label pairs one of which everything that matches has; None where there are no such pairs."""
    if selector is None:
        return []
    choices = [(key, values) for key, operator, values in selector if operator == IN]
    if not choices:
        return None
    key, values = min(choices, key=lambda choice: len(choice[1]))
    return [(key, value) for value in values]


class ByLabels(Generic[T]):
    """Things that have a namespace and labels, to be found by a term that may mean them."""

    __slots__ = ("_by_namespace", "_by_pair")

    def __init__(self) -> None:
        self._by_pair: dict[Pair, dict[T, None]] = {}
        self._by_namespace: dict[str, dict[T, None]] = {}

    def add(self, thing: T, namespace: str, labels: Labels) -> None:
        """File a thing."""
        self._by_namespace.setdefault(namespace, {})[thing] = None
        for pair in labels.items():
            self._by_pair.setdefault(pair, {})[thing] = None

    def remove(self, thing: T, namespace: str, labels: Labels) -> None:
        """It was added with the same namespace and labels."""
        _leave(self._by_namespace, namespace, thing)
        for pair in labels.items():
            _leave(self._by_pair, pair, thing)

    def has_namespace(self, namespace: str) -> bool:
        """Whether something is of that namespace."""
        return namespace in self._by_namespace

    def candidates(self, term: AffinityTerm) -> list[T]:
        """Whatever the term means is among them."""
        ways: list[list[dict[T, None]]] = []
        if term.namespace_selector is None:
            ways.append([g for n in term.namespaces if (g := self._by_namespace.get(n))])
        pairs = _demanded(term.selector)
        if pairs is not None:
            ways.append([g for pair in pairs if (g := self._by_pair.get(pair))])
        everything = list(self._by_namespace.values())
        best = min(ways, key=lambda way: sum(map(len, way)), default=everything)
        return [thing for group in best for thing in group]


class BySelector(Generic[T]):
    """Things that have a label selector, to be found by labels that it may match."""

    __slots__ = ("_by_pair", "_others")

    def __init__(self) -> None:
        self._by_pair: dict[Pair, dict[T, None]] = {}
        self._others: dict[T, None] = {}

    def add(self, thing: T, selector: Requirements | None) -> None:
        """File a thing; without a selector nothing matches it."""
        pairs = _demanded(selector)
        if pairs is None:
            self._others[thing] = None
        for pair in pairs or ():
            self._by_pair.setdefault(pair, {})[thing] = None

    def remove(self, thing: T, selector: Requirements | None) -> None:
        """It was added with the same selector."""
        self._others.pop(thing, None)
        for pair in _demanded(selector) or ():
            _leave(self._by_pair, pair, thing)

    def candidates(self, labels: Labels) -> list[T]:
        """Whatever matches the labels is among them, each once: a selector demands one value of one key."""
        found = list(self._others)
        for pair in labels.items():
            found += self._by_pair.get(pair, ())
        return found


def _leave(groups: dict[K, dict[T, None]], key: K, thing: T) -> None:
    """An empty group is no group."""
    group = groups[key]
    del group[thing]
    if not group:
        del groups[key]
