"""Pods that no kubelet will ever finish: their node is gone, or they were deleted before they had one.

A pod of a missing node is given 40 seconds (the node may be on its way), marked Failed and deleted for good.
"""

from simulator.apiserver.errors import Object
from simulator.apiserver.watch_cache import Key
from simulator.controllers.api import key_of
from simulator.controllers.controller import Context, Controller
from simulator.controllers.informer import by_node
from simulator.controllers.pods import FINISHED, disrupted, is_terminating, phase_of

QUARANTINE = 40.0


class PodGarbageCollector(Controller):
    """Deletes pods without a node. Keys are pods."""

    name = "pod-garbage-collector"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._nodes = self.informers("nodes")
        self._pods = self.informers("pods")
        self._pods.add_index("node", by_node)
        self._nodes.add_handler(self._on_node)
        self._pods.add_handler(self._on_pod)

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            for pod in self._pods.by_index("node", old["metadata"]["name"]):
                self.queue.add_after(key_of(pod), QUARANTINE)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        node = new["spec"].get("nodeName")
        if node and (old is None or not old["spec"].get("nodeName")) and self._nodes.get(("", node)) is None:
            self.queue.add_after(key_of(new), QUARANTINE)
        elif not node and is_terminating(new):
            self.enqueue(new)

    def sync(self, key: Key) -> None:
        """Delete a pod if it still has no node."""
        pod = self.api.get("pods", key)
        if pod is None:
            return
        node = pod["spec"].get("nodeName")
        if node and self.api.get("nodes", ("", node)) is not None:
            return
        if not node and not is_terminating(pod):
            return
        if node and phase_of(pod) not in FINISHED:
            pod = self._mark_failed(pod)
        self.api.delete("pods", pod, grace_seconds=0)

    def _mark_failed(self, pod: Object) -> Object:
        status = disrupted(pod, "DeletionByPodGC", "PodGC: node no longer exists", self.api.now())
        return self.api.set_status("pods", pod, {**status, "phase": "Failed"})
