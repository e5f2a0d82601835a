"""DefaultBinder: binds a pod by POSTing a Binding.

Called in the binding cycle; it never retries and never patches `spec.nodeName`. An API error reaches the binding cycle
as the client's exception.
"""

from __future__ import annotations

from kube.api.core import Pod
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.plugin import BindPlugin
from scheduler.framework.status import Status, error


class DefaultBinder(BindPlugin):
    """Bind through the API server."""

    name = "DefaultBinder"
    events = ()

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Never skips."""
        client = self.handle.client
        if client is None:
            return error("there is no API server to bind with")
        await client.bind(pod, node_name)
        return None
