"""Status: the outcome of a plugin call, as a value.

Expected outcomes (a node that does not fit, a pod that has to wait) are statuses; exceptions are bugs or I/O.
Each code's comment says what the queue does with a pod that ends with it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace


class Code(enum.IntEnum):
    """The seven codes of the framework; the numbers are kube-scheduler's."""

    SUCCESS = 0
    #: an internal error: the pod is retried after the error backoff, whatever events come
    ERROR = 1
    #: does not fit now; preemption may help; an event that concerns the plugin wakes the pod
    UNSCHEDULABLE = 2
    #: does not fit, and evicting pods from that node would not help; woken like UNSCHEDULABLE
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    #: Permit only: the pod waits in the binding cycle
    WAIT = 4
    #: PreFilter, PreScore, Bind: this plugin has nothing to say about this pod
    SKIP = 5
    #: Reserve, PreBind…: waits for something asynchronous; the awaited event sends it to activeQ without backoff
    PENDING = 6

    @property
    def text(self) -> str:
        """The spelling used in metrics and JSON: `UnschedulableAndUnresolvable`."""
        return _TEXT[self]


_TEXT = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}

_REJECTED = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


@dataclass(frozen=True, slots=True)
class Status:
    """A code, the reasons for people, and the plugin that said so (filled in by the runtime)."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def ok(self) -> bool:
        """Success."""
        return self.code is Code.SUCCESS

    @property
    def skip(self) -> bool:
        """The plugin has nothing to say."""
        return self.code is Code.SKIP

    @property
    def rejected(self) -> bool:
        """Refused by a rule, not by an error."""
        return self.code in _REJECTED

    @property
    def message(self) -> str:
        """All reasons, joined as kube-scheduler joins them."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """The same status with the plugin's name, unless it already has one."""
        return self if self.plugin else replace(self, plugin=plugin)


SUCCESS = Status(Code.SUCCESS)
SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """Refused; evicting pods may help."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Refused; evicting pods does not help."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def error(*reasons: str) -> Status:
    """The attempt ends in an error."""
    return Status(Code.ERROR, reasons)


def failed(bug: Exception) -> Status:
    """A plugin raised instead of answering: costs its pod a retry, never the scheduler its life."""
    return error(f"{type(bug).__name__}: {bug}")
