"""Disruption budgets: how many of the chosen pods are healthy, how many must be, how many may go. As status.

The counting is the API server's own (`simulator.apiserver.eviction`), so that an eviction never sees other numbers.
Changes are collected for a moment: a rollout of 500 pods is one look at their budget, not 500.
"""

from typing import Any

from simulator.apiserver.errors import Object
from simulator.apiserver.eviction import BUDGETS, budget_status
from simulator.apiserver.selectors import LabelTest, label_selector, labels_of
from simulator.apiserver.watch_cache import Key
from simulator.controllers.api import key_of
from simulator.controllers.controller import Context, Controller

_MOMENT = 0.1


class DisruptionController(Controller):
    """Keeps the status of each PodDisruptionBudget."""

    name = "disruption"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._selectors: dict[str, tuple[Any, LabelTest]] = {}
        self._budgets = self.informers(BUDGETS)
        self._budgets.add_index("namespace", lambda obj: [obj["metadata"]["namespace"]])
        self._budgets.add_handler(self._on_budget)
        self.informers("pods").add_handler(self._on_pod)

    def _on_budget(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self.enqueue(new)
        elif old is not None:
            self._selectors.pop(old["metadata"]["uid"], None)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        if pod is None:
            return
        for budget in self._budgets.by_index("namespace", pod["metadata"]["namespace"]):
            matches = self._chosen_by(budget)
            if any(one is not None and matches(labels_of(one)) for one in (old, new)):
                self.queue.add_after(key_of(budget), _MOMENT)

    def _chosen_by(self, budget: Object) -> LabelTest:
        """The budget's selector, compiled once."""
        uid, selector = budget["metadata"]["uid"], budget["spec"].get("selector")
        known = self._selectors.get(uid)
        if known is None or known[0] != selector:
            known = self._selectors[uid] = (selector, label_selector(selector))
        return known[1]

    def sync(self, key: Key) -> None:
        """Count, and write what has changed."""
        revision = self.api.server.store.collection(BUDGETS).get(key)
        if revision is None:
            return
        known = revision.obj.get("status") or {}
        status = {**known, **budget_status(self.api.server.verbs, revision)}
        status["conditions"] = self._conditions(known, status)
        if status != known:
            self.api.set_status(BUDGETS, revision.obj, status)

    def _conditions(self, known: Object, status: Object) -> list[Object]:
        allowed = status["disruptionsAllowed"] > 0
        condition = {
            "type": "DisruptionAllowed",
            "status": "True" if allowed else "False",
            "reason": "SufficientPods" if allowed else "InsufficientPods",
            "message": "",
            "observedGeneration": status["observedGeneration"],
            "lastTransitionTime": self.api.now(),
        }
        for before in known.get("conditions") or ():
            if before["type"] == condition["type"] and before["status"] == condition["status"]:
                condition["lastTransitionTime"] = before["lastTransitionTime"]
        return [condition]
