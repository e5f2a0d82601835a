"""QueuedPodInfo: a pod in the queue, and what the queue remembers of its attempts."""

from __future__ import annotations

from dataclasses import dataclass, field

from kube.api.core import Pod
from scheduler.snapshot.pod_info import PodInfo


@dataclass(slots=True, eq=False)
class QueuedPodInfo:
    """Owner: the queue, or the cycle that popped it. Times are those of the queue's clock, in seconds."""

    pod_info: PodInfo
    #: when it was last (re-)added: what PrioritySort compares
    timestamp: float
    initial_attempt_timestamp: float | None = None
    attempts: int = 0
    #: attempts that ended in a refusal, and errors in a row since the last refusal: each has its own backoff
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    backoff_expiration: float = 0.0
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    #: the PreEnqueue plugin that keeps it out, and what it said
    gating_plugin: str = ""
    gating_message: str = ""
    #: the five-minute net moved it: a hint was missing if it now fits
    flushed: bool = False
    #: activated while in flight, or its node was taken from under it: no backoff and no hint holds it back
    at_once: bool = False
    #: put back though nothing has happened that could help: even an idle scheduler lets its backoff end
    sits_out: bool = False
    #: the pod's UID, the key in every pool; it stays when the pod changes
    uid: str = field(init=False)

    def __post_init__(self) -> None:
        self.uid = self.pod_info.uid

    @property
    def pod(self) -> Pod:
        """The pod."""
        return self.pod_info.pod

    @property
    def gated(self) -> bool:
        """Kept out of activeQ by a PreEnqueue plugin."""
        return bool(self.gating_plugin)

    @property
    def rejectors(self) -> set[str]:
        """The plugins whose events can wake it."""
        return self.unschedulable_plugins | self.pending_plugins
