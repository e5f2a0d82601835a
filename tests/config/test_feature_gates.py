"""Feature gates: defaults, `--feature-gates`, and what it refuses."""

from pathlib import Path

import pytest

from config.feature_gates import ALWAYS, DEFAULT_GATES, KNOWN_GATES, MISSING, NO_EFFECT, Stage, parse
from config.problems import ConfigError

ROOT = Path(__file__).parents[2]
ROOMS = ("config", "scheduler", "plugins", "simulator", "podium")


@pytest.mark.parametrize(
    ("name", "default", "stage", "locked"),
    [
        ("SchedulerQueueingHints", True, "GA", True),
        ("SchedulerAsyncPreemption", True, "BETA", False),
        ("SchedulerPopFromBackoffQ", True, "BETA", False),
        ("SchedulerAsyncAPICalls", False, "BETA", False),
        ("OpportunisticBatching", True, "BETA", False),
        ("NominatedNodeNameForExpectation", True, "BETA", False),
        ("ClearingNominatedNodeNameAfterBinding", True, "BETA", False),
        ("GenericWorkload", False, "ALPHA", False),
        ("GangScheduling", False, "ALPHA", False),
        ("TopologyAwareWorkloadScheduling", False, "ALPHA", False),
        ("WorkloadAwarePreemption", False, "ALPHA", False),
        ("NodeDeclaredFeatures", True, "BETA", False),
        ("DynamicResourceAllocation", True, "GA", True),
        ("DRAAdminAccess", True, "GA", True),
        ("DRAPrioritizedList", True, "GA", False),
        ("DRADeviceTaints", True, "BETA", False),
        ("DRASchedulerFilterTimeout", True, "BETA", False),
        ("DRANodeAllocatableResources", False, "ALPHA", False),
        ("StorageCapacityScoring", False, "ALPHA", False),
        ("InterPodAffinityHostnameFastPath", False, "ALPHA", False),
        ("TaintTolerationComparisonOperators", False, "ALPHA", False),
        ("PodLevelResources", True, "BETA", False),
        ("MatchLabelKeysInPodTopologySpread", True, "BETA", False),
    ],
)
def test_a_gate_has_its_state_of_1_36(name: str, default: bool, stage: str, locked: bool) -> None:
    gate = KNOWN_GATES[name]
    assert (gate.default, gate.stage, gate.locked) == (default, Stage(stage), locked)
    assert DEFAULT_GATES.enabled(name) is default


@pytest.mark.parametrize(
    ("text", "on", "off"),
    [
        pytest.param("", ["NodeDeclaredFeatures"], ["GangScheduling"], id="nothing given leaves the defaults"),
        pytest.param(" GangScheduling = true , NodeDeclaredFeatures=F,", ["GangScheduling"], ["NodeDeclaredFeatures"],
                     id="spaces, a trailing comma and Go's spellings of booleans are fine"),
        pytest.param("AllAlpha=true", ["GangScheduling", "StorageCapacityScoring"], ["SchedulerAsyncAPICalls"],
                     id="AllAlpha turns on alpha gates only"),
        pytest.param("AllBeta=false", ["DynamicResourceAllocation"], ["NodeDeclaredFeatures", "GangScheduling"],
                     id="AllBeta=false turns off beta gates only"),
        pytest.param("GangScheduling=false,AllAlpha=true", ["StorageCapacityScoring"], ["GangScheduling"],
                     id="a gate named by itself wins over its group, wherever it stands"),
        pytest.param("GangScheduling=false,GangScheduling=true", ["GangScheduling"], [], id="the last word counts"),
    ],
)  # fmt: skip
def test_gates_are_read(text: str, on: list[str], off: list[str]) -> None:
    gates, warnings = parse(text)
    assert {name: gates.enabled(name) for name in on + off} == dict.fromkeys(on, True) | dict.fromkeys(off, False)
    assert warnings == ()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("SchedulerQueueingHints=false",
                     ["SchedulerQueueingHints: cannot be false, the feature is locked to true"], id="a locked gate"),
        pytest.param("GangScheduling", ["GangScheduling: expected GangScheduling=true or GangScheduling=false, "
                                        "not 'GangScheduling'"], id="a gate without a value"),
        pytest.param("GangScheduling=maybe", ["GangScheduling: expected GangScheduling=true or GangScheduling=false, "
                                              "not 'GangScheduling=maybe'"], id="a value that is no boolean"),
    ],
)  # fmt: skip
def test_bad_gates_are_refused(text: str, lines: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert str(caught.value).splitlines() == [f"--feature-gates: {line}" for line in lines]


def test_all_bad_gates_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("Gangs=true,DynamicResourceAllocation=false,NodeDeclaredFeatures")
    first, second, third = caught.value.problems
    assert "NodeDeclaredFeatures: expected" in first.message
    assert second.message.startswith("Gangs: unrecognized feature gate; known: ")
    assert "DynamicResourceAllocation: cannot be false" in third.message


def test_a_gate_that_is_generally_available_warns() -> None:
    _, warnings = parse("SidecarContainers=true")
    assert [str(warning) for warning in warnings] == [
        "--feature-gates: SidecarContainers: the feature is generally available; a later release will not know the gate"
    ]


@pytest.mark.parametrize("name", sorted(MISSING))
def test_what_podium_does_not_have_cannot_be_turned_on(name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(f"{name}=true")
    assert str(raised.value) == f"--feature-gates: {name}: cannot be true, podium does not have it: {MISSING[name]}"
    assert not KNOWN_GATES[name].default
    for text in ("AllAlpha=true,AllBeta=true", f"{name}=false"):
        assert not parse(text)[0].enabled(name)


@pytest.mark.parametrize("name", sorted(ALWAYS))
def test_what_podium_always_does_cannot_be_turned_off(name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(f"{name}=false")
    assert str(raised.value) == f"--feature-gates: {name}: cannot be false, podium always has it: {ALWAYS[name]}"
    assert KNOWN_GATES[name].default
    for text in ("AllBeta=false", f"{name}=true"):
        assert parse(text)[0].enabled(name)


@pytest.mark.parametrize("on", ["true", "false"])
@pytest.mark.parametrize("name", sorted(NO_EFFECT))
def test_a_gate_that_makes_no_difference_warns(name: str, on: str) -> None:
    gates, warnings = parse(f"{name}={on}")
    assert gates.enabled(name) is (on == "true")
    assert [str(warning) for warning in warnings] == [f"--feature-gates: {name}: has no effect: {NO_EFFECT[name]}"]


def test_every_gate_that_can_be_switched_makes_a_difference_or_says_that_it_does_not() -> None:
    files = (path for room in ROOMS for path in (ROOT / room).rglob("*.py") if path.name != "feature_gates.py")
    read = "".join(path.read_text(encoding="utf-8") for path in files)
    switchable = {name for name, gate in KNOWN_GATES.items() if not gate.locked}
    silent = {
        name for name in switchable - MISSING.keys() - ALWAYS.keys() - NO_EFFECT.keys() if f'"{name}"' not in read
    }
    assert silent == set()
