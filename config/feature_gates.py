"""The feature gates that change scheduling (names, defaults, stages as of Kubernetes 1.36), and `--feature-gates`.

`parse` reads the flag; the result is asked by name wherever behaviour depends on a gate. Gates of other components are
not known here and are refused by name, so that a misspelt gate never passes unnoticed.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from config.problems import ConfigError, Problem

FLAG = "--feature-gates"
_TRUE = {"1", "t", "T", "true", "TRUE", "True"}
_FALSE = {"0", "f", "F", "false", "FALSE", "False"}


class Stage(StrEnum):
    """How far a feature has come upstream."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"


class Gate(msgspec.Struct, frozen=True):
    """A gate's default, its stage, and whether the default is the only value."""

    default: bool
    stage: Stage
    locked: bool = False


_ALPHA = Gate(default=False, stage=Stage.ALPHA)
_BETA = Gate(default=True, stage=Stage.BETA)
_BETA_OFF = Gate(default=False, stage=Stage.BETA)
_GA = Gate(default=True, stage=Stage.GA)
_LOCKED = Gate(default=True, stage=Stage.GA, locked=True)

KNOWN_GATES: Mapping[str, Gate] = MappingProxyType(
    {
        "ClearingNominatedNodeNameAfterBinding": _BETA,
        "CompositePodGroup": _ALPHA,
        "DRAAdminAccess": _LOCKED,
        "DRAConsumableCapacity": _BETA,
        "DRADeviceBindingConditions": _BETA,
        "DRADeviceTaintRules": _BETA_OFF,
        "DRADeviceTaints": _BETA,
        "DRAExtendedResource": _BETA,
        "DRAListTypeAttributes": _ALPHA,
        "DRANodeAllocatableResources": _ALPHA,
        "DRAPartitionableDevices": _BETA,
        "DRAPrioritizedList": _GA,
        "DRAResourceClaimDeviceStatus": _BETA,
        "DRASchedulerFilterTimeout": _BETA,
        "DRAWorkloadResourceClaims": _ALPHA,
        "DynamicResourceAllocation": _LOCKED,
        "GangScheduling": _ALPHA,
        "GenericWorkload": _ALPHA,
        "InPlacePodLevelResourcesVerticalScaling": _BETA,
        "InPlacePodVerticalScaling": _LOCKED,
        "InterPodAffinityHostnameFastPath": _ALPHA,
        "MatchLabelKeysInPodAffinity": _LOCKED,
        "MatchLabelKeysInPodTopologySpread": _BETA,
        "NodeDeclaredFeatures": _BETA,
        "NodeInclusionPolicyInPodTopologySpread": _LOCKED,
        "NominatedNodeNameForExpectation": _BETA,
        "OpportunisticBatching": _BETA,
        "PodLevelResources": _BETA,
        "PodSchedulingReadiness": _LOCKED,
        "SchedulerAsyncAPICalls": _BETA_OFF,
        "SchedulerAsyncPreemption": _BETA,
        "SchedulerPopFromBackoffQ": _BETA,
        "SchedulerPreQueueingHints": _BETA_OFF,
        "SchedulerPreemptionForPodResize": _ALPHA,
        "SchedulerQueueingHints": _LOCKED,
        "SidecarContainers": _LOCKED,
        "StorageCapacityScoring": _ALPHA,
        "TaintTolerationComparisonOperators": _ALPHA,
        "TopologyAwareWorkloadScheduling": _ALPHA,
        "VolumeLimitScaling": _ALPHA,
        "WorkloadAwarePreemption": _ALPHA,
    }
)
#: gate -> what it would turn on, and podium does not have: it cannot be turned on, also not by AllAlpha or AllBeta
MISSING: Mapping[str, str] = MappingProxyType(
    {
        "CompositePodGroup": "groups of groups",
        "DRADeviceTaintRules": "taints that a DeviceTaintRule puts on devices",
        "DRAListTypeAttributes": "attributes of devices that are lists",
        "DRANodeAllocatableResources": "devices that count as cpu or memory of their node",
        "DRAWorkloadResourceClaims": "claims that belong to a PodGroup",
        "SchedulerPreemptionForPodResize": "preemption for pods that grow where they run",
    }
)
#: gate -> what podium always does: it cannot be turned off, also not by AllBeta
ALWAYS: Mapping[str, str] = MappingProxyType(
    {
        "InPlacePodLevelResourcesVerticalScaling": "a pod's own resources count while they are resized",
        "PodLevelResources": "a pod's own resources count, where the API server stores them",
    }
)
#: gate -> why it makes no difference to podium, on or off
NO_EFFECT: Mapping[str, str] = MappingProxyType(
    {
        "ClearingNominatedNodeNameAfterBinding": "the API server clears the name",
        "InterPodAffinityHostnameFastPath": "podium counts pods by node in any case",
        "OpportunisticBatching": "podium keeps what it finds out about pods of one shape in any case",
        "SchedulerAsyncAPICalls": "podium never waits for a write while it schedules",
        "SchedulerAsyncPreemption": "podium never waits for a write while it schedules",
        "SchedulerPreQueueingHints": "podium asks hints of the pods that an event can concern in any case",
    }
)
_GROUPS = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}


class FeatureGates:
    """Which features are on. Immutable; made by `parse` or, for the defaults, without arguments."""

    def __init__(self, overrides: Mapping[str, bool] | None = None) -> None:
        self._on = {name: gate.default for name, gate in KNOWN_GATES.items()} | dict(overrides or {})

    def enabled(self, name: str) -> bool:
        """Whether a feature is on; KeyError for a name that is no gate, which is a bug of the caller."""
        return self._on[name]

    def as_dict(self) -> dict[str, bool]:
        """Return every gate with its value, by name."""
        return dict(sorted(self._on.items()))


DEFAULT_GATES = FeatureGates()


def parse(text: str) -> tuple[FeatureGates, tuple[Problem, ...]]:
    """Read `A=true,B=false`; return the gates and warnings, or raise ConfigError with every fault."""
    values: dict[str, bool] = {}
    faults: list[str] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (side.strip() for side in item.partition("="))
        if value in _TRUE or value in _FALSE:
            values[name] = value in _TRUE
        else:
            faults.append(f"{name}: expected {name}=true or {name}=false, not {item!r}")
    faults += [fault for name, on in values.items() if (fault := _fault(name, on))]
    if faults:
        raise ConfigError([Problem(FLAG, fault) for fault in faults])
    return FeatureGates(_spread_groups(values)), _warnings(values)


def _fault(name: str, on: bool) -> str:
    if name in _GROUPS:
        return ""
    gate = KNOWN_GATES.get(name)
    if gate is None:
        return f"{name}: unrecognized feature gate; known: {', '.join(KNOWN_GATES)}"
    if gate.locked and on != gate.default:
        return f"{name}: cannot be {str(on).lower()}, the feature is locked to {str(gate.default).lower()}"
    if on and name in MISSING:
        return f"{name}: cannot be true, podium does not have it: {MISSING[name]}"
    if not on and name in ALWAYS:
        return f"{name}: cannot be false, podium always has it: {ALWAYS[name]}"
    return ""


def _spread_groups(values: dict[str, bool]) -> dict[str, bool]:
    """Apply AllAlpha and AllBeta; a gate named by itself keeps its own value, wherever it stands in the list."""
    spread = {
        name: values[group]
        for group, stage in _GROUPS.items()
        if group in values
        for name, gate in KNOWN_GATES.items()
        if gate.stage is stage and name not in MISSING and name not in ALWAYS
    }
    return spread | {name: on for name, on in values.items() if name not in _GROUPS}


def _warnings(values: dict[str, bool]) -> tuple[Problem, ...]:
    return tuple(Problem(FLAG, f"{name}: {text}") for name in values if (text := _warning(name)))


def _warning(name: str) -> str:
    gate = KNOWN_GATES.get(name)
    if gate is not None and gate.stage is Stage.GA:
        return "the feature is generally available; a later release will not know the gate"
    return f"has no effect: {NO_EFFECT[name]}" if name in NO_EFFECT else ""
