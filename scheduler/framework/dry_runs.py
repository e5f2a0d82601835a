"""Dry runs: asking a profile's filters about one node as it would be with some pods more or fewer.

Preemption asks so about its victims, the cycle about nominated pods. Nodes and states are clones; the snapshot and the
cycle's own state stay as they are.

Used through the Framework, which is one, and by plugins through `Handle.dry_run`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kube.api.core import Pod
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import FilterPlugin, PreFilterPlugin
from scheduler.framework.shape_fill import filter_error
from scheduler.framework.status import Status
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo


class DryRuns:
    """Owner: the Framework that it is the base of."""

    def __init__(
        self, handle: Handle, pre_filter: tuple[PreFilterPlugin, ...], filters: tuple[FilterPlugin, ...]
    ) -> None:
        self.handle = handle
        self.snapshot = handle.snapshot
        self.pre_filter = pre_filter
        self.filters = filters

    def nominated_rows(self, pod_info: PodInfo) -> dict[int, list[PodInfo]]:
        """row -> nominated pods of equal or higher priority, other than the pod itself."""
        rows = {}
        for name, pods in self.handle.nominator.nominated_nodes().items():
            row = self.snapshot.row_of.get(name)
            counting = [p for p in pods if _counts_for(p, pod_info)]
            if row is not None and counting:
                rows[row] = counting
        return rows

    def filter_with_nominated(
        self,
        state: CycleState,
        pod_info: PodInfo,
        node: NodeInfo,
        nominated: Iterable[PodInfo],
        filters: Sequence[FilterPlugin],
    ) -> Status | None:
        """The filters for one node as it would be with these pods; None: fits."""
        state, node = state.clone(), node.clone()
        for added in nominated:
            self.add_pod(state, pod_info, added, node)
        return self.first_refusal(filters, state, pod_info.pod, node)

    def filter_with_nominated_pods(
        self, state: CycleState, pod_info: PodInfo, node: NodeInfo, filters: Sequence[FilterPlugin] | None = None
    ) -> Status | None:
        """Filters (default: all) for one node, one at a time: with nominated pods, then without. None: fits."""
        filters = self.filters if filters is None else filters
        nominated = [p for p in self.handle.nominator.nominated_pods_for_node(node.name) if _counts_for(p, pod_info)]
        if nominated:
            status = self.filter_with_nominated(state, pod_info, node, nominated, filters)
            if status is not None:
                return status
        return self.first_refusal(filters, state, pod_info.pod, node)

    def active_filters(self, state: CycleState) -> list[FilterPlugin]:
        """The filters whose PreFilter did not skip, in order."""
        return [plugin for plugin in self.filters if plugin.name not in state.skip_filter]

    def add_pod(self, state: CycleState, pod_info: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Put a pod on a cloned node and tell the plugins."""
        node.add_pod(added)
        for plugin in self.pre_filter:
            if plugin.name not in state.skip_filter:
                plugin.add_pod(state, pod_info.pod, added, node)

    def remove_pod(self, state: CycleState, pod_info: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Take a pod off a cloned node and tell the plugins."""
        node.remove_pod(removed)
        for plugin in self.pre_filter:
            if plugin.name not in state.skip_filter:
                plugin.remove_pod(state, pod_info.pod, removed, node)

    def first_refusal(
        self, plugins: Sequence[FilterPlugin], state: CycleState, pod: Pod, node: NodeInfo
    ) -> Status | None:
        """The filters for one node as it is, until one refuses; None: fits."""
        for plugin in plugins:
            if plugin.name in state.skip_filter:
                continue
            status = plugin.filter_node(state, pod, node)
            if status is None or status.ok:
                continue
            if not status.rejected:
                return filter_error(plugin.name, status)
            return status.by(plugin.name)
        return None


def _counts_for(nominated: PodInfo, pod_info: PodInfo) -> bool:
    return nominated.priority >= pod_info.priority and nominated.uid != pod_info.uid
