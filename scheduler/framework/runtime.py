"""The runtime of a profile: runs its plugins at each extension point, in order, by the rules of facts 1.2.

Owner: the scheduler, one per profile. Everything up to Permit is synchronous and runs on one snapshot;
PreBind and Bind await. The runtime knows no plugin by name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from kube.api.core import Pod
from scheduler.framework.binding_points import BindingPoints
from scheduler.framework.cycle_points import CyclePoints
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.enabled import EnabledPlugins, Observer, unobserved
from scheduler.framework.extender import Extender
from scheduler.framework.feasibility import Feasibility, Scores
from scheduler.framework.handle import Handle
from scheduler.framework.meter import Meter, idle_meter
from scheduler.framework.plugin import (
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    Plugin,
    PodGroupPostFilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreEnqueuePlugin,
    QueueSortPlugin,
)
from scheduler.framework.post_filter import PostFilterRun
from scheduler.framework.status import Status, failed
from scheduler.snapshot.columns import Mask

__all__ = ["EnabledPlugins", "Feasibility", "Framework", "Observer", "Scores", "unobserved"]

log = logging.getLogger(__name__)


class Framework(CyclePoints, BindingPoints):
    """One profile's plugins at work."""

    def __init__(
        self,
        profile: str,
        enabled: EnabledPlugins,
        handle: Handle,
        observe: Observer = unobserved,
        meter: Meter | None = None,
    ) -> None:
        CyclePoints.__init__(self, enabled, handle, observe, meter or idle_meter())
        BindingPoints.__init__(self, enabled, handle)
        self.profile = profile
        self.pre_enqueue: tuple[PreEnqueuePlugin, ...] = enabled.points.get("preEnqueue", ())
        self.queue_sort: QueueSortPlugin = enabled.points["queueSort"][0]
        self.post_filter: tuple[PostFilterPlugin, ...] = enabled.points.get("postFilter", ())
        self.placement_generate: tuple[PlacementGeneratePlugin, ...] = enabled.points.get("placementGenerate", ())
        self.pod_group_post_filter: tuple[PodGroupPostFilterPlugin, ...] = enabled.points.get("podGroupPostFilter", ())
        self.placement_score: tuple[tuple[PlacementScorePlugin, float], ...] = tuple(
            (plugin, float(enabled.placement_weights.get(plugin.name, 1)))
            for plugin in enabled.points.get("placementScore", ())
        )

    def plugins(self) -> list[Plugin]:
        """Every plugin once, in the order of first appearance."""
        groups: Iterable[Sequence[Plugin]] = (
            self.pre_enqueue, (self.queue_sort,), self.pre_filter, self.filters, self.post_filter, self.pre_score,
            [p for p, _ in self.scores], self.reserve_plugins, self.permit, self.pre_bind, self.bind_plugins,
            self.post_bind, self.placement_generate, self.pod_group_post_filter,
            [p for p, _ in self.placement_score],
        )  # fmt: skip
        return list({plugin.name: plugin for group in groups for plugin in group}.values())

    def interested_extenders(self, pod: Pod) -> Sequence[Extender]:
        """The extenders that have a say in this pod, in the order in which they are asked."""
        extenders = self.handle.extenders
        return [extender for extender in extenders if extender.is_interested(pod)] if extenders else ()

    # --- PreEnqueue ---------------------------------------------------------------------------------------

    def run_pre_enqueue(self, pod: Pod) -> Status | None:
        """The first rejection, or None where the pod may enter activeQ."""
        for plugin in self.pre_enqueue:
            try:
                status = plugin.pre_enqueue(pod)
            except Exception as bug:  # it keeps the pod out until the plugin's events or the flush ask again
                log.exception("PreEnqueue plugin %s failed for pod %s", plugin.name, pod.key)
                status = failed(bug)
            if status is not None and not status.ok:
                return status.by(plugin.name)
        return None

    # --- groups -------------------------------------------------------------------------------------------

    @contextmanager
    def only_on(self, rows: Mask | None) -> Iterator[None]:
        """Cycles within look at these rows alone, as if there were no other nodes."""
        self.placement = rows
        try:
            yield
        finally:
            self.placement = None

    @contextmanager
    def without_post_filter(self) -> Iterator[None]:
        """Cycles within only ask whether a pod fits."""
        plugins, self.post_filter = self.post_filter, ()
        try:
            yield
        finally:
            self.post_filter = plugins

    # --- PostFilter ---------------------------------------------------------------------------------------

    def run_post_filter(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Until one succeeds, errs or says unresolvable; otherwise all their reasons (facts 1.2)."""
        run = PostFilterRun(self.observe)
        for plugin in self.post_filter:
            if run.ends_with(plugin, *plugin.post_filter(state, pod, diagnosis)):
                break
        return run.outcome()

    async def run_post_filter_with_extenders(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """The same in a cycle that may await."""
        run = PostFilterRun(self.observe)
        for plugin in self.post_filter:
            if run.ends_with(plugin, *await plugin.post_filter_with_extenders(state, pod, diagnosis)):
                break
        return run.outcome()
