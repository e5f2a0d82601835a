"""PodDisruptionBudgets, as preemption sees them: a preference, never a ban (facts 2.8, step 4).

Kept from search to search, because which pods a budget covers changes seldom; what it allows is read anew each time.

Owner: the evaluator, which brings it up to date before each search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kube.api.labels import Requirements, SelectorError, compile_selector, requirements_of
from kube.api.policy import PodDisruptionBudget
from scheduler.snapshot.label_buckets import BySelector
from scheduler.snapshot.pod_info import PodInfo, PodShape

#: pod shapes whose budgets are remembered
MAX_SHAPES = 10_000


class Budgets:
    """All budgets."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget] = ()) -> None:
        #: "namespace/name" -> the budget and its selector
        self._known: dict[str, tuple[PodDisruptionBudget, Requirements | None]] = {}
        self._by_namespace: dict[str, BySelector[str]] = {}
        self._covering = _Covering(self)
        self.refresh(budgets)

    def __bool__(self) -> bool:
        return bool(self._known)

    def refresh(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        """Take over the budgets as they are now."""
        gone = set(self._known)
        for budget in budgets:
            key = budget.key
            gone.discard(key)
            known = self._known.get(key)
            if known is None or known[0] is not budget:
                self._put(key, budget)
        for key in gone:
            self._forget(key)

    def _put(self, key: str, budget: PodDisruptionBudget) -> None:
        selector = _selector(budget)
        if key in self._known and self._known[key][1] == selector:
            self._known[key] = (budget, selector)
            return
        if key in self._known:
            self._forget(key)
        self._known[key] = (budget, selector)
        self._by_namespace.setdefault(budget.metadata.namespace, BySelector()).add(key, selector)
        self._covering.clear()

    def _forget(self, key: str) -> None:
        budget, selector = self._known.pop(key)
        self._by_namespace[budget.metadata.namespace].remove(key, selector)
        self._covering.clear()

    def covering(self, shape: PodShape) -> tuple[str, ...]:
        """Keys of the budgets that cover pods of this shape; a pod without labels is covered by none."""
        index = self._by_namespace.get(shape.namespace)
        if index is None or not shape.labels:
            return ()
        candidates = index.candidates(shape.labels)
        return tuple(key for key in candidates if compile_selector(self._known[key][1])(shape.labels))

    def split(self, pods: Sequence[PodInfo]) -> tuple[list[PodInfo], Sequence[PodInfo]]:
        """(pods whose eviction would violate a budget, the others), if all were evicted in this order."""
        covering = self._covering
        violating: list[PodInfo] = []
        left: dict[str, int] = {}
        for pod in pods:
            keys = covering[pod.shape]
            if keys and self._violates(pod, keys, left):
                violating.append(pod)
        return violating, [pod for pod in pods if pod not in violating] if violating else pods

    def _violates(self, pod: PodInfo, keys: Sequence[str], left: dict[str, int]) -> bool:
        """Charge the pod to every budget that covers it; one whose eviction was granted is charged already."""
        violates = False
        for key in keys:
            status = self._known[key][0].status
            if pod.pod.metadata.name in status.disrupted_pods:
                continue
            left[key] = left.get(key, status.disruptions_allowed) - 1
            violates = violates or left[key] < 0
        return violates


class _Covering(dict[PodShape, tuple[str, ...]]):
    """shape -> keys of the budgets that cover it, found when asked for."""

    def __init__(self, budgets: Budgets) -> None:
        super().__init__()
        self._budgets = budgets

    def __missing__(self, shape: PodShape) -> tuple[str, ...]:
        if len(self) >= MAX_SHAPES:
            self.clear()
        keys = self[shape] = self._budgets.covering(shape)
        return keys


def _selector(budget: PodDisruptionBudget) -> Requirements | None:
    """A selector that is missing, empty or invalid selects nothing here."""
    try:
        return requirements_of(budget.spec.selector) or None
    except SelectorError:
        return None
