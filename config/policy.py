"""The legacy scheduling Policy (kind `Policy`, version v1), rewritten as a v1 configuration with one profile.

Predicates become filters, priorities become scores with their weight. What a Policy never ruled over (queue order,
preemption, binding, and plugins younger than Policies, such as DynamicResources) stays as in any profile. Called by
`load` only; `ConfigMap` data is unwrapped there.
"""

from typing import Any

from config.decoding import decode
from config.defaults import in_tree_points
from config.duration import Duration
from config.legacy import add_node_affinity, plugin_args, strategy
from config.problems import Finding, invalid, required, unsupported
from config.types import API_VERSION, KIND, Fields, ResourceSpec, UtilizationShapePoint

GENERAL = ("NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity")
PREDICATES: dict[str, tuple[str, ...]] = {
    "CheckNodeUnschedulable": ("NodeUnschedulable",),
    "CheckVolumeBinding": ("VolumeBinding",),
    "EvenPodsSpread": ("PodTopologySpread",),
    "GeneralPredicates": GENERAL,
    "HostName": ("NodeName",),
    "MatchInterPodAffinity": ("InterPodAffinity",),
    "MatchNodeSelector": ("NodeAffinity",),
    "MaxAzureDiskVolumeCount": ("NodeVolumeLimits",),
    "MaxCSIVolumeCountPred": ("NodeVolumeLimits",),
    "MaxCinderVolumeCount": ("NodeVolumeLimits",),
    "MaxEBSVolumeCount": ("NodeVolumeLimits",),
    "MaxGCEPDVolumeCount": ("NodeVolumeLimits",),
    "NoDiskConflict": ("VolumeRestrictions",),
    "NoVolumeZoneConflict": ("VolumeZone",),
    "PodFitsHostPorts": ("NodePorts",),
    "PodFitsPorts": ("NodePorts",),
    "PodFitsResources": ("NodeResourcesFit",),
    "PodToleratesNodeNoExecuteTaints": ("TaintToleration",),
    "PodToleratesNodeTaints": ("TaintToleration",),
    # Node conditions are taints since 1.12, so tolerating taints covers them.
    "CheckNodeCondition": ("TaintToleration",),
    "CheckNodeDiskPressure": ("TaintToleration",),
    "CheckNodeMemoryPressure": ("TaintToleration",),
    "CheckNodePIDPressure": ("TaintToleration",),
}
PRIORITIES: dict[str, str] = {
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    "EvenPodsSpreadPriority": "PodTopologySpread",
    "ImageLocalityPriority": "ImageLocality",
    "InterPodAffinityPriority": "InterPodAffinity",
    "LeastRequestedPriority": "NodeResourcesFit",
    "MostRequestedPriority": "NodeResourcesFit",
    "NodeAffinityPriority": "NodeAffinity",
    "RequestedToCapacityRatioPriority": "NodeResourcesFit",
    "SelectorSpreadPriority": "PodTopologySpread",
    "ServiceSpreadingPriority": "PodTopologySpread",
    "TaintTolerationPriority": "TaintToleration",
}
_DROPPED_PRIORITIES = {
    "EqualPriority": "it gave every node the same score",
    "NodePreferAvoidPodsPriority": "taint the nodes instead",
}
_STRATEGIES = {
    "LeastRequestedPriority": "NodeResourcesLeastAllocated",
    "MostRequestedPriority": "NodeResourcesMostAllocated",
}
_MANDATORY = {"TaintToleration", "NodeUnschedulable"}
_FILTERS = {plugin for plugins in PREDICATES.values() for plugin in plugins}
_SCORES = set(PRIORITIES.values())
_DEFAULT_SCORES = dict.fromkeys(sorted(_SCORES), 1) | {"PodTopologySpread": 2}


class _Labels(Fields, frozen=True):
    labels: tuple[str, ...] = ()
    presence: bool = False


class _Label(Fields, frozen=True):
    label: str = ""
    presence: bool = False


class _Ratio(Fields, frozen=True):
    shape: tuple[UtilizationShapePoint, ...] = ()
    resources: tuple[ResourceSpec, ...] = ()


class _PredicateArgument(Fields, frozen=True):
    service_affinity: _Labels | None = None
    labels_presence: _Labels | None = None


class _PriorityArgument(Fields, frozen=True):
    service_anti_affinity: _Label | None = None
    label_preference: _Label | None = None
    requested_to_capacity_ratio_arguments: _Ratio | None = None


class _Predicate(Fields, frozen=True):
    name: str = ""
    argument: _PredicateArgument | None = None


class _Priority(Fields, frozen=True):
    name: str = ""
    weight: int = 0
    argument: _PriorityArgument | None = None


class _Policy(Fields, frozen=True):
    api_version: str = ""
    kind: str = ""
    predicates: tuple[_Predicate, ...] | None = None
    priorities: tuple[_Priority, ...] | None = None
    extenders: tuple[Any, ...] = ()
    hard_pod_affinity_symmetric_weight: int = 0
    always_check_all_predicates: bool = False


def to_v1(data: dict[str, Any], findings: list[Finding], notes: list[Finding]) -> dict[str, Any]:
    """Return the Policy as a v1 configuration; faults go to the findings, changes of meaning to the notes."""
    policy = decode(data, _Policy, (), findings)
    conversion = _Conversion(findings, notes)
    notes.append(Finding(("kind",), f"a Policy is read as one profile of {API_VERSION}"))
    if policy.always_check_all_predicates:
        text = "has no effect: the first plugin that refuses a node is the one reported"
        notes.append(Finding(("alwaysCheckAllPredicates",), text))
    conversion.predicates(policy.predicates)
    conversion.priorities(policy.priorities)
    if policy.hard_pod_affinity_symmetric_weight:
        args = plugin_args(conversion.profile, "InterPodAffinity")
        args["hardPodAffinityWeight"] = policy.hard_pod_affinity_symmetric_weight
    conversion.profile["plugins"] = conversion.plugins()
    extenders = [_extender(extender) for extender in policy.extenders]
    return {"apiVersion": API_VERSION, "kind": KIND, "profiles": [conversion.profile], "extenders": extenders}


class _Conversion:
    """One Policy on its way to a profile; owned by a single call of `to_v1`."""

    def __init__(self, findings: list[Finding], notes: list[Finding]) -> None:
        self.findings = findings
        self.notes = notes
        self.profile: dict[str, Any] = {}
        self.filters: set[str] = set(_MANDATORY)
        self.scores: dict[str, int] = {}

    def predicates(self, predicates: tuple[_Predicate, ...] | None) -> None:
        """Collect the filters; a Policy without the list has all of them."""
        if predicates is None:
            self.filters |= _FILTERS
            return
        for index, predicate in enumerate(predicates):
            if predicate.argument is not None:
                self._custom_predicate(predicate.argument, index)
            elif predicate.name in PREDICATES:
                self.filters.update(PREDICATES[predicate.name])
            else:
                self.findings.append(unsupported(("predicates", index, "name"), predicate.name, PREDICATES))

    def _custom_predicate(self, argument: _PredicateArgument, index: int) -> None:
        path = ("predicates", index, "argument")
        if argument.labels_presence is not None:
            operator = "Exists" if argument.labels_presence.presence else "DoesNotExist"
            labels = argument.labels_presence.labels
            add_node_affinity(self.profile, [{"key": label, "operator": operator} for label in labels])
            self.filters.add("NodeAffinity")
            self.notes.append(Finding((*path, "labelsPresence"), "is addedAffinity of NodeAffinity now"))
        elif argument.service_affinity is not None:
            text = "is dropped: give the pods inter-pod affinity; nothing keeps a service's pods together now"
            self.notes.append(Finding((*path, "serviceAffinity"), text))
        else:
            self.findings.append(required(path, "labelsPresence or serviceAffinity"))

    def priorities(self, priorities: tuple[_Priority, ...] | None) -> None:
        """Collect the scores and weights; a Policy without the list has the default ones."""
        if priorities is None:
            self.scores = dict(_DEFAULT_SCORES)
            return
        for index, priority in enumerate(priorities):
            if priority.weight <= 0:
                path = ("priorities", index, "weight")
                self.findings.append(invalid(path, priority.weight, "must be greater than 0"))
            if priority.argument is not None:
                self._custom_priority(priority, priority.argument, index)
            elif priority.name in _DROPPED_PRIORITIES:
                text = f"{priority.name} is dropped: {_DROPPED_PRIORITIES[priority.name]}"
                self.notes.append(Finding(("priorities", index), text))
            elif priority.name in PRIORITIES:
                self._score(priority, index)
            else:
                known = [*PRIORITIES, *_DROPPED_PRIORITIES]
                self.findings.append(unsupported(("priorities", index, "name"), priority.name, known))

    def _score(self, priority: _Priority, index: int) -> None:
        plugin = PRIORITIES[priority.name]
        if plugin in self.scores:
            text = f"{priority.name} is dropped: {plugin} already stands for another priority of this Policy"
            self.notes.append(Finding(("priorities", index), text))
            return
        self.scores[plugin] = priority.weight
        if priority.name in _STRATEGIES:
            args = plugin_args(self.profile, "NodeResourcesFit")
            args["scoringStrategy"] = strategy(_STRATEGIES[priority.name], {})

    def _custom_priority(self, priority: _Priority, argument: _PriorityArgument, index: int) -> None:
        path = ("priorities", index, "argument")
        ratio = argument.requested_to_capacity_ratio_arguments
        if ratio is not None:
            self._score(_Priority(name="RequestedToCapacityRatioPriority", weight=priority.weight), index)
            shape = [{"utilization": point.utilization, "score": point.score} for point in ratio.shape]
            resources = [{"name": resource.name, "weight": resource.weight} for resource in ratio.resources]
            args = plugin_args(self.profile, "NodeResourcesFit")
            args["scoringStrategy"] = strategy("RequestedToCapacityRatio", {"shape": shape, "resources": resources})
        elif argument.label_preference is not None:
            text = "is dropped: use preferred terms of NodeAffinity's addedAffinity"
            self.notes.append(Finding((*path, "labelPreference"), text))
        elif argument.service_anti_affinity is not None:
            text = "is dropped: use topology spread constraints"
            self.notes.append(Finding((*path, "serviceAntiAffinity"), text))
        else:
            what = "requestedToCapacityRatioArguments, labelPreference or serviceAntiAffinity"
            self.findings.append(required(path, what))

    def plugins(self) -> dict[str, Any]:
        """Spell the collected filters and scores as changes to the default plugins, whose order is kept."""
        sets: dict[str, dict[str, list[dict[str, Any]]]] = {"multiPoint": {"enabled": [], "disabled": []}}
        points = in_tree_points()
        for name in points:
            filters, scores = name in self.filters, name in self.scores
            if name in _FILTERS | _SCORES and not filters and not scores:
                sets["multiPoint"]["disabled"].append({"name": name})
                continue
            if scores:
                sets["multiPoint"]["enabled"].append({"name": name, "weight": self.scores[name]})
            off: tuple[str, ...] = ()
            if name in _FILTERS and not filters:
                off += ("preFilter", "filter")
            if name in _SCORES and not scores:
                off += ("preScore", "score")
            for point in off:
                if point in points[name]:
                    sets.setdefault(point, {"disabled": []})["disabled"].append({"name": name})
        return sets


def _extender(extender: Any) -> Any:
    """Rename the two fields that a Policy spells differently; the strict decoding judges the rest."""
    if not isinstance(extender, dict):
        return extender
    renamed = {("enableHTTPS" if key == "enableHttps" else key): value for key, value in extender.items()}
    timeout = renamed.get("httpTimeout")
    if isinstance(timeout, int) and not isinstance(timeout, bool):
        renamed["httpTimeout"] = str(Duration(timeout))  # a Policy writes nanoseconds
    return renamed
