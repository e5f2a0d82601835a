"""PostFilter: asks the plugins in order until one succeeds, errs or says unresolvable (facts 1.2)."""

from time import perf_counter

from scheduler.framework.enabled import Observer
from scheduler.framework.plugin import (
    PostFilterPlugin,
    PostFilterResult,
)
from scheduler.framework.status import Code, Status


class PostFilterRun:
    """What the PostFilter plugins of one cycle said so far."""

    def __init__(self, observe: Observer) -> None:
        self._observe = observe
        self._started = perf_counter()
        self._result: PostFilterResult | None = None
        self._reasons: list[str] = []
        self._rejecting = ""
        self._end: Status | None = None

    def ends_with(self, plugin: PostFilterPlugin, answer: PostFilterResult | None, status: Status) -> bool:
        """Take a plugin's answer in; True where no further plugin is asked."""
        if not status.rejected or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            self._result = answer if status.ok or status.rejected else None
            self._end = status if status.ok else status.by(plugin.name)
            return True
        if answer is not None and answer.nominated_node_name is not None:
            self._result = answer
        self._reasons += status.reasons
        self._rejecting = self._rejecting or plugin.name
        return False

    def outcome(self) -> tuple[PostFilterResult | None, Status]:
        """What PostFilter as a whole says."""
        status = self._end or Status(Code.UNSCHEDULABLE, tuple(self._reasons), self._rejecting)
        self._observe("PostFilter", status.code.text, perf_counter() - self._started)
        return self._result, status
