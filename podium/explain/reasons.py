"""Reasons of pending pods, safe as metric labels: few, known in advance, without names or numbers of the cluster.

`podium_unschedulable_reason{plugin,reason}` counts the pending pods that have the reason in their last message.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from plugins.dynamic_resources.answers import CANNOT_ALLOCATE, INVALID_POOLS
from plugins.dynamic_resources.state import CANNOT_FIT, NOT_AVAILABLE
from plugins.inter_pod_affinity.filtering import AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY
from plugins.node_affinity import NOT_ENFORCED, NOT_MATCHED
from plugins.node_ports import NodePorts
from plugins.node_resources_fit import TOO_MANY_PODS
from plugins.node_unschedulable import NodeUnschedulable
from plugins.node_volume_limits import LIMIT_EXCEEDED
from plugins.pod_topology_spread.filtering import MISSING_KEY, SKEWED
from plugins.taint_toleration import TaintToleration
from plugins.volume_binding.claims import UNBOUND_IMMEDIATE
from plugins.volume_binding.finder import NO_ROOM, NO_VOLUME, NOT_REACHABLE, VOLUME_GONE
from plugins.volume_restrictions import CLAIM_IN_USE, DISK_CONFLICT
from plugins.volume_zone import VolumeZone
from scheduler.decision_log import Decision, DecisionLog
from scheduler.framework.diagnosis import NO_NODES
from scheduler.queue.queued_pod import QueuedPodInfo
from scheduler.queue.scheduling_queue import SchedulingQueue

OTHER = ("", "other")
_NATIVE = {"cpu", "memory", "ephemeral-storage", "pods"}

#: the text of a reason -> (plugin, label)
KNOWN: dict[str, tuple[str, str]] = {
    TOO_MANY_PODS: ("NodeResourcesFit", "too_many_pods"),
    TaintToleration.reason: ("TaintToleration", "untolerated_taint"),
    NodeUnschedulable.reason: ("NodeUnschedulable", "cordoned"),
    NOT_MATCHED: ("NodeAffinity", "node_affinity"),
    NOT_ENFORCED: ("NodeAffinity", "enforced_node_affinity"),
    NodePorts.reason: ("NodePorts", "host_port"),
    AFFINITY.message: ("InterPodAffinity", "pod_affinity"),
    ANTI_AFFINITY.message: ("InterPodAffinity", "pod_anti_affinity"),
    EXISTING_ANTI_AFFINITY.message: ("InterPodAffinity", "existing_pod_anti_affinity"),
    SKEWED.message: ("PodTopologySpread", "skew"),
    MISSING_KEY.message: ("PodTopologySpread", "missing_label"),
    LIMIT_EXCEEDED: ("NodeVolumeLimits", "volume_limit"),
    UNBOUND_IMMEDIATE: ("VolumeBinding", "unbound_immediate_claim"),
    NOT_REACHABLE: ("VolumeBinding", "volume_node_affinity"),
    NO_VOLUME: ("VolumeBinding", "no_volume"),
    NO_ROOM: ("VolumeBinding", "no_storage"),
    VOLUME_GONE: ("VolumeBinding", "volume_gone"),
    CLAIM_IN_USE: ("VolumeRestrictions", "claim_in_use"),
    DISK_CONFLICT: ("VolumeRestrictions", "disk_in_use"),
    VolumeZone.reason: ("VolumeZone", "volume_zone"),
    CANNOT_ALLOCATE.message: ("DynamicResources", "no_devices"),
    INVALID_POOLS.message: ("DynamicResources", "invalid_pools"),
    NOT_AVAILABLE.message: ("DynamicResources", "claim_elsewhere"),
    CANNOT_FIT.message: ("DynamicResources", "no_devices"),
    NO_NODES: ("", "no_nodes"),
}
_ENTRY = re.compile(r"^(\d+) (.+)$")
_FIT = re.compile(r"^0/\d+ nodes are available: (.*)$", re.DOTALL)


def reasons_of(message: str) -> Iterator[tuple[str, int]]:
    """(reason, nodes) of a FailedScheduling text, without what preemption says; 0 nodes where they are not counted."""
    match = _FIT.match(message)
    if match is None:
        if message:
            yield message, 0
        return
    text = match[1].partition(". ")[0].removesuffix(".")
    for part in text.split(", "):
        entry = _ENTRY.match(part)
        yield (entry[2], int(entry[1])) if entry is not None else (part, 0)


def label_of(reason: str) -> tuple[str, str]:
    """(plugin, label) of a reason; whatever is not known in advance is `other`."""
    known = KNOWN.get(reason)
    if known is not None:
        return known
    resource = reason.removeprefix("Insufficient ")
    if resource != reason:
        kind = resource.replace("-", "_") if resource in _NATIVE else _kind(resource)
        return "NodeResourcesFit", f"insufficient_{kind}"
    if reason.startswith("waiting for scheduling gates"):
        return "SchedulingGates", "gated"
    if reason.startswith(("persistentvolumeclaim ", "waiting for ephemeral volume")):
        return "VolumeBinding", "claim"
    if reason.startswith("request ") and " device class " in reason:
        return "DynamicResources", "device_class"
    if reason.startswith(("resource claim ", "resourceclaim ")) or "ResourceClaim" in reason:
        return "DynamicResources", "claim"
    return OTHER


def _kind(resource: str) -> str:
    return "hugepages" if resource.startswith("hugepages-") else "extended_resource"


def last_messages(decisions: Iterable[Decision]) -> dict[str, str]:
    """The newest message by UID; the decisions come newest first. A pod that was tried long ago is not among them."""
    messages: dict[str, str] = {}
    for decision in decisions:
        messages.setdefault(decision.uid, decision.message)
    return messages


def message_of(item: QueuedPodInfo, pool: str, messages: Mapping[str, str]) -> str:
    """Why a pod is pending: what keeps it out, else its last attempt, else its condition, which outlives the log."""
    if pool == "gated":
        return item.gating_message
    message = messages.get(item.uid, "")
    if message:
        return message
    return next((c.message for c in item.pod.status.conditions if c.type == "PodScheduled" and c.status == "False"), "")


class Source(Protocol):
    """What the metric reads of the scheduler."""

    queue: SchedulingQueue
    decisions: DecisionLog


class ReasonCollector(Collector):
    """Counts when it is scraped. A pod counts once for each of its reasons."""

    def __init__(self, source: Callable[[], Source]) -> None:
        self._source = source

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Without asking the scheduler: the registry wants to know before there is one."""
        return [self._family()]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """One sample per plugin and reason."""
        family = self._family()
        for labels, count in sorted(self._counts().items()):
            family.add_metric(labels, count)
        return [family]

    def _family(self) -> GaugeMetricFamily:
        text = "Pending pods by the reasons of their last failed attempt"
        return GaugeMetricFamily("podium_unschedulable_reason", text, labels=("plugin", "reason"))

    def _counts(self) -> Counter[tuple[str, str]]:
        source = self._source()
        messages = last_messages(source.decisions)
        # Few messages are told about many pods.
        told = Counter(message_of(item, pool, messages) for item, pool in source.queue.pending_pods())
        counts: Counter[tuple[str, str]] = Counter()
        for message, pods in told.items():
            for label in {label_of(reason) for reason, _ in reasons_of(message)}:
                counts[label] += pods
        return counts
