"""The extension points after the choice of a node: Reserve, Permit, PreBind, Bind, PostBind (facts 1.2).

Reserve and Permit belong to the scheduling cycle and are synchronous; the others await. An exception of a plugin is
that plugin's error, never the end of its neighbours. `runtime.Framework` is the whole runtime of a profile.
"""

import asyncio
import logging
from collections.abc import Sequence

from kube.api.core import Pod
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.enabled import EnabledPlugins
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import (
    BindPlugin,
    PermitPlugin,
    PostBindPlugin,
    PreBindPlugin,
    ReservePlugin,
)
from scheduler.framework.status import SUCCESS, Code, Status, error, failed, unschedulable
from scheduler.framework.waiting_pods import WaitingPod
from scheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)


class BindingPoints:
    """Owner: the Framework that it is the base of."""

    def __init__(self, enabled: EnabledPlugins, handle: Handle) -> None:
        points = enabled.points
        self._waiting_pods = handle.waiting_pods
        self.reserve_plugins: tuple[ReservePlugin, ...] = points.get("reserve", ())
        self.permit: tuple[PermitPlugin, ...] = points.get("permit", ())
        self.pre_bind: tuple[PreBindPlugin, ...] = points.get("preBind", ())
        self.bind_plugins: tuple[BindPlugin, ...] = points.get("bind", ())
        self.post_bind: tuple[PostBindPlugin, ...] = points.get("postBind", ())

    # --- Reserve and Permit -------------------------------------------------------------------------------

    def run_reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """The first rejection; the caller then unreserves all."""
        for plugin in self.reserve_plugins:
            try:
                status = plugin.reserve(state, pod, node_name)
            except Exception as bug:
                log.exception("Reserve plugin %s failed for pod %s", plugin.name, pod.key)
                status = failed(bug)
            if status is not None and not status.ok:
                if status.rejected:
                    return status.by(plugin.name)
                return error(f'running Reserve plugin "{plugin.name}": {status.message}').by(plugin.name)
        return None

    def run_unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """In reverse order, also where Reserve did not run."""
        for plugin in reversed(self.reserve_plugins):
            try:
                plugin.unreserve(state, pod, node_name)
            except Exception:  # the others have books to correct, too
                log.exception("plugin %s failed to unreserve pod %s", plugin.name, pod.key)

    def run_permit(self, state: CycleState, pod_info: PodInfo, node_name: str) -> Status:
        """Success, WAIT (the pod is in `waiting_pods` then), or the first rejection."""
        if not self.permit:
            return SUCCESS
        status, timeouts = self.ask_permit(state, pod_info, node_name)
        if status.code is Code.WAIT:
            now = asyncio.get_running_loop().time()
            self._waiting_pods.add(WaitingPod(pod_info, node_name, timeouts, now))
        return status

    def ask_permit(self, state: CycleState, pod_info: PodInfo, node_name: str) -> tuple[Status, dict[str, float]]:
        """The same answer and how long whom to wait for; no pod begins to wait."""
        timeouts: dict[str, float] = {}
        reasons: list[str] = []
        for plugin in self.permit:
            try:
                status, timeout = plugin.permit(state, pod_info.pod, node_name)
            except Exception as bug:
                log.exception("Permit plugin %s failed for pod %s", plugin.name, pod_info.key)
                status, timeout = failed(bug), 0.0
            if status is None or status.ok:
                continue
            if status.code is Code.WAIT:
                timeouts[plugin.name] = timeout
                reasons += status.reasons
            elif status.rejected:
                return status.by(plugin.name), {}
            else:
                return error(f'running Permit plugin "{plugin.name}": {status.message}').by(plugin.name), {}
        if not timeouts:
            return SUCCESS, {}
        return Status(Code.WAIT, (*reasons, "one or more plugins asked to wait and no plugin rejected pod")), timeouts

    async def wait_on_permit(self, pod_info: PodInfo) -> Status:
        """Until the waiting pod is allowed or rejected; success where it does not wait."""
        waiting = self._waiting_pods.get(pod_info.uid)
        if waiting is None:
            return SUCCESS
        try:
            return await waiting.wait()
        finally:
            self._waiting_pods.remove(pod_info.uid)

    # --- PreBind, Bind, PostBind --------------------------------------------------------------------------

    def run_pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[list[PreBindPlugin], Status]:
        """The PreBind plugins that have work to do, in order."""
        working = []
        for plugin in self.pre_bind:
            status = plugin.pre_bind_pre_flight(state, pod, node_name)
            if status is None or status.ok:
                working.append(plugin)
            elif not status.skip:
                return [], error(f'running PreBindPreFlight "{plugin.name}": {status.message}').by(plugin.name)
        return working, SUCCESS

    async def run_pre_bind(
        self, plugins: Sequence[PreBindPlugin], state: CycleState, pod: Pod, node_name: str
    ) -> Status | None:
        """In order; neighbours that allow it run together. A skipped plugin that does not still splits the group.

        For as long as they run the pod can be preempted in memory: its calls are cancelled then.
        """
        uid, pre_binding = state.pod_info.uid, self._waiting_pods.pre_binding
        for group in _parallel_groups(self.pre_bind, plugins):
            async with asyncio.TaskGroup() as tasks:
                running = [(p, tasks.create_task(_pre_bind(p, state, pod, node_name))) for p in group]
                pre_binding[uid] = [task for _, task in running]
                try:
                    await asyncio.wait(pre_binding[uid])
                finally:
                    del pre_binding[uid]
            for plugin, task in running:
                if task.cancelled():
                    return unschedulable("preempted").by(plugin.name)
                status = task.result()
                if status is None or status.ok:
                    continue
                if status.rejected:
                    return status.by(plugin.name)
                return error(f'running PreBind plugin "{plugin.name}": {status.message}').by(plugin.name)
        return None

    async def run_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """The first plugin that does not skip binds."""
        for plugin in self.bind_plugins:
            status = await plugin.bind(state, pod, node_name)
            if status is not None and status.skip:
                continue
            if status is None or status.ok:
                return None
            if status.rejected:
                return status.by(plugin.name)
            return error(f'running Bind plugin "{plugin.name}": {status.message}').by(plugin.name)
        return error("no Bind plugin took the pod")

    def run_post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """For information."""
        for plugin in self.post_bind:
            try:
                plugin.post_bind(state, pod, node_name)
            except Exception:  # the pod is bound, whatever becomes of the plugin
                log.exception("PostBind plugin %s failed for pod %s", plugin.name, pod.key)


async def _pre_bind(plugin: PreBindPlugin, state: CycleState, pod: Pod, node_name: str) -> Status | None:
    """An exception, of the API server or a bug, is this plugin's error and not the end of its neighbours."""
    try:
        return await plugin.pre_bind(state, pod, node_name)
    except Exception as failure:
        log.exception("PreBind plugin %s failed for pod %s", plugin.name, pod.key)
        return failed(failure)


def _parallel_groups(order: Sequence[PreBindPlugin], working: Sequence[PreBindPlugin]) -> list[list[PreBindPlugin]]:
    groups: list[list[PreBindPlugin]] = []
    together = False
    for plugin in order:
        if plugin in working:
            if plugin.allow_parallel and together:
                groups[-1].append(plugin)
            else:
                groups.append([plugin])
        together = plugin.allow_parallel and (plugin in working or together)
    return groups
