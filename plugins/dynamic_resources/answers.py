"""What is known, node by node, of the way to allocate claims of one kind; computed when asked, kept while it holds.

Owner: the manager, which keeps one per distinct set of claim specs. Pods of one template thus search again only on
the nodes whose devices changed hands since the last of them.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from plugins.dynamic_resources.claim_tracker import ClaimTracker
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.plan import AllocationError, Plan
from plugins.dynamic_resources.pools import Pool
from plugins.dynamic_resources.search import Search, Solution
from scheduler.framework.status import Status, unresolvable
from scheduler.snapshot.columns import Codes, Mask
from scheduler.snapshot.node_info import NodeInfo

CANNOT_ALLOCATE = unresolvable("cannot allocate all claims")
INVALID_POOLS = unresolvable("invalid resource pools were encountered")
REFUSALS = (CANNOT_ALLOCATE, INVALID_POOLS)
#: the best alternative of a request counts this much, each further one less
FIRST_CHOICE = 8


class FilterTimeoutError(Exception):
    """The search of one node took longer than the plugin's filterTimeout."""


class Books(Protocol):
    """What answers are made from; the manager keeps it."""

    features: Features
    claims: ClaimTracker

    @property
    def versions(self) -> Any:
        """`(rows,)` int64: when the devices of a row last changed hands."""

    def node(self, row: int) -> NodeInfo:
        """The node of a row."""

    def pools(self, node: NodeInfo) -> tuple[Pool, ...]:
        """The pools that a node sees."""


class Answers:
    """Per row: the solution, or why there is none."""

    def __init__(self, plan: Plan, manager: Books) -> None:
        self.plan = plan
        self._manager = manager
        self._chooses = any(claim.has_choice for claim in plan.claims)
        self._asked_at = np.full(0, -1, np.int64)
        self._fits = np.zeros(0, np.bool_)
        self._scores = np.zeros(0)
        self._solutions: dict[int, Solution] = {}
        #: of rows that have none: which of REFUSALS says why
        self._why = np.zeros(0, np.intp)
        self._errors: dict[int, AllocationError] = {}

    def ask(self, rows: Codes, timeout: float) -> Mask:
        """`(len(rows),)` which rows have a solution. Raises FilterTimeoutError with the node's name."""
        versions = self._manager.versions
        self._grow(len(versions))
        stale = rows[self._asked_at[rows] != versions[rows]]
        for row in stale.tolist():
            self._search(row, timeout)
            self._asked_at[row] = versions[row]
        fits: Mask = self._fits[rows]
        return fits

    def _grow(self, size: int) -> None:
        missing = size - len(self._asked_at)
        if missing > 0:
            self._asked_at = np.concatenate([self._asked_at, np.full(missing, -1, np.int64)])
            self._fits = np.concatenate([self._fits, np.zeros(missing, np.bool_)])
            self._scores = np.concatenate([self._scores, np.zeros(missing)])
            self._why = np.concatenate([self._why, np.zeros(missing, np.intp)])

    def _search(self, row: int, timeout: float) -> None:
        info = self._manager.node(row)
        pools = self._manager.pools(info)
        self._solutions.pop(row, None)
        self._errors.pop(row, None)
        solution = None
        manager = self._manager
        try:
            solution = Search(
                self.plan,
                info.name,
                info.labels,
                pools,
                manager.claims.allocated,
                manager.features,
                _stop(info, timeout),
            ).run()
        except AllocationError as error:
            # Kept without its traceback, which would keep the whole search.
            self._errors[row] = AllocationError(error.text, error.claim)
        self._fits[row] = solution is not None
        if solution is None:
            self._why[row] = any(pool.invalid for pool in pools)
            return
        self._solutions[row] = solution
        self._scores[row] = self._score(solution) if self._chooses else 0.0

    def _score(self, solution: Solution) -> float:
        return float(
            sum(
                FIRST_CHOICE - index
                for claim, chosen in zip(self.plan.claims, solution.chosen, strict=True)
                for options, index in zip(claim.requests, chosen, strict=True)
                if options[0].parent
            )
        )

    def scores(self, rows: Codes) -> Any:
        """`(len(rows),)` of rows that fit."""
        return self._scores[rows]

    def error(self, row: int) -> AllocationError | None:
        """The error that the row's search ended in."""
        return self._errors.get(row)

    def has_errors(self) -> bool:
        """Whether any row's did."""
        return bool(self._errors)

    def refusal(self, row: int) -> Status:
        """Why the row does not fit."""
        return REFUSALS[self._why[row]]

    def refusals(self, rows: Codes) -> Codes:
        """`(len(rows),)` which of REFUSALS it is, of rows that do not fit."""
        found: Codes = self._why[rows]
        return found

    def solution(self, row: int) -> Solution | None:
        """How the row fits."""
        return self._solutions.get(row)


def _stop(node: NodeInfo, timeout: float) -> Callable[[], None]:
    """Called once per step of a search; looks at the clock now and then."""
    if timeout <= 0:
        return lambda: None
    deadline = perf_counter() + timeout
    steps = 0

    def check() -> None:
        nonlocal steps
        steps += 1
        if steps % 256 == 0 and perf_counter() > deadline:
            raise FilterTimeoutError(f"node {node.name}: timed out trying to allocate devices")

    return check
