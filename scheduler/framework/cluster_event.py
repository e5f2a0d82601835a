"""Cluster events: what happened in the cluster, and which plugins' refusals it may undo.

A plugin lists the events that could make a pod it refused schedulable (`on(...)`), each with an optional
queueing hint that looks at the pod and the object. Event handlers report `ClusterEvent`s; the queue matches them.
The names of actions are kube-scheduler's; an event's label is what its metrics say.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Action(enum.IntFlag):
    """What happened to an object. Narrow updates are parts of UPDATE."""

    ADD = enum.auto()
    DELETE = enum.auto()
    UPDATE_NODE_ALLOCATABLE = enum.auto()
    UPDATE_NODE_LABEL = enum.auto()
    #: taints changed, or an unschedulable node became schedulable
    UPDATE_NODE_TAINT = enum.auto()
    UPDATE_NODE_CONDITION = enum.auto()
    UPDATE_NODE_ANNOTATION = enum.auto()
    UPDATE_NODE_DECLARED_FEATURE = enum.auto()
    UPDATE_POD_LABEL = enum.auto()
    UPDATE_POD_SCALE_DOWN = enum.auto()
    UPDATE_POD_TOLERATION = enum.auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = enum.auto()
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = enum.auto()
    #: an update that is none of the narrow ones
    UPDATE_OTHER = enum.auto()
    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_NODE_DECLARED_FEATURE
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
        | UPDATE_OTHER
    )
    ALL = ADD | DELETE | UPDATE


class EventResource(enum.StrEnum):
    """The kinds of objects events are about. Custom resources are plain strings `plural.version.group`."""

    POD = "Pod"
    #: events on pods that have a node; a registration for POD matches both narrower ones
    ASSIGNED_POD = "AssignedPod"
    #: events on pods that wait
    UNSCHEDULED_POD = "UnscheduledPod"
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    CSI_STORAGE_CAPACITY = "CSIStorageCapacity"
    VOLUME_ATTACHMENT = "VolumeAttachment"
    RESOURCE_CLAIM = "ResourceClaim"
    RESOURCE_SLICE = "ResourceSlice"
    DEVICE_CLASS = "DeviceClass"
    POD_GROUP = "PodGroup"
    WILDCARD = "*"


class QueueingHint(enum.Enum):
    """A hint's answer: is the pod worth another try?"""

    QUEUE = "Queue"
    SKIP = "QueueSkip"


#: (pod, old object or None, new object or None) -> QUEUE or SKIP; an exception counts as QUEUE
HintFunction = Callable[[Any, Any, Any], QueueingHint]


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Something that happened: a resource, an action, and the label that metrics use."""

    resource: str
    action: Action
    label: str = ""

    def matches(self, registered: ClusterEvent) -> bool:
        """Whether a plugin that registered `registered` wants to hear of this event."""
        if EventResource.WILDCARD in (registered.resource, self.resource):
            return bool(self.action & registered.action)
        same = registered.resource == self.resource or (
            registered.resource == EventResource.POD
            and self.resource in (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULED_POD)
        )
        return same and bool(self.action & registered.action)


@dataclass(frozen=True, slots=True)
class ClusterEventWithHint:
    """What a plugin registers: the event and how to judge it for one pod. No hint means: always try again."""

    event: ClusterEvent
    hint: HintFunction | None = None


def on(resource: str, action: Action, hint: HintFunction | None = None) -> ClusterEventWithHint:
    """Register for an event: `on(EventResource.NODE, Action.ADD, hint=became_schedulable)`."""
    return ClusterEventWithHint(ClusterEvent(resource, action), hint)


#: no plugin's hint is asked: every pod in the pool moves
WILDCARD_EVENT = ClusterEvent(EventResource.WILDCARD, Action.ALL, "WildCardEvent")
UNSCHEDULABLE_TIMEOUT = ClusterEvent(EventResource.WILDCARD, Action.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE = ClusterEvent(EventResource.WILDCARD, Action.ALL, "ForceActivate")

ASSIGNED_POD_ADD = ClusterEvent(EventResource.ASSIGNED_POD, Action.ADD, "AssignedPodAdd")
ASSIGNED_POD_DELETE = ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE, "AssignedPodDelete")
NODE_ADD = ClusterEvent(EventResource.NODE, Action.ADD, "NodeAdd")
NODE_DELETE = ClusterEvent(EventResource.NODE, Action.DELETE, "NodeDelete")
