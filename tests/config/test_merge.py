"""The merging rules of plugin lists, each sentence of them a test."""

import pytest

from config.defaults import default_multi_point
from config.feature_gates import DEFAULT_GATES
from config.merge import as_written, expand, merge_defaults
from config.types import ExtensionPoint, Plugin, Plugins, PluginSet

F, S, PS, FS = (
    frozenset({ExtensionPoint.FILTER}),
    frozenset({ExtensionPoint.SCORE}),
    frozenset({ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE}),
    frozenset({ExtensionPoint.FILTER, ExtensionPoint.SCORE}),
)
POINTS = {"A": FS, "B": FS, "C": F, "D": PS, "X": FS, "Y": S, "Z": F}


def plugins(text: str) -> tuple[Plugin, ...]:
    """`A:3 B` as a list of plugins."""
    entries = (item.partition(":") for item in text.split())
    return tuple(Plugin(name=name, weight=int(weight or 0)) for name, _, weight in entries)


def plugin_set(enabled: str = "", disabled: str = "") -> PluginSet:
    return PluginSet(enabled=plugins(enabled), disabled=plugins(disabled))


def spell(entries: tuple[Plugin, ...]) -> str:
    return " ".join(f"{plugin.name}:{plugin.weight}" if plugin.weight else plugin.name for plugin in entries)


DEFAULT = plugin_set("A:3 B:2 C D")


@pytest.mark.parametrize(
    ("written", "merged"),
    [
        pytest.param(plugin_set(), "A:3 B:2 C D", id="nothing written leaves the defaults in their order"),
        pytest.param(plugin_set("X Y:5"), "A:3 B:2 C D X Y:5", id="other plugins are appended in the given order"),
        pytest.param(plugin_set(disabled="*"), "", id="a disabled star drops all defaults"),
        pytest.param(plugin_set("D A:7", "*"), "D A:7", id="after a disabled star the given order is the order"),
        pytest.param(plugin_set(disabled="B"), "A:3 C D", id="a disabled name drops that default"),
        pytest.param(plugin_set("B:9"), "A:3 B:9 C D", id="a default listed again is replaced in place"),
        pytest.param(plugin_set("B"), "A:3 B C D", id="a default listed again without a weight loses its weight"),
        pytest.param(plugin_set("X B:9 Y"), "A:3 B:9 C D X Y", id="replacing one leaves the others to be appended"),
        pytest.param(plugin_set("A", "A"), "B:2 C D A", id="a default disabled and enabled moves to the end"),
    ],
)
def test_a_profile_is_merged_into_the_defaults(written: PluginSet, merged: str) -> None:
    assert spell(merge_defaults(Plugins(multi_point=written), DEFAULT).multi_point.enabled) == merged


@pytest.mark.parametrize(
    ("written", "scoring", "filtering"),
    [
        pytest.param(Plugins(), "A:3 B:2 D:1", "A B C", id="multiPoint reaches each point its plugins implement"),
        pytest.param(Plugins(score=plugin_set(disabled="*")), "", "A B C",
                     id="a disabled star at a point stops the expansion there and only there"),
        pytest.param(Plugins(score=plugin_set("Y", "*")), "Y:1", "A B C",
                     id="after a disabled star at a point only its own list counts"),
        pytest.param(Plugins(score=plugin_set(disabled="A")), "B:2 D:1", "A B C",
                     id="a name disabled at a point is left out there"),
        pytest.param(Plugins(score=plugin_set("B:9")), "B:9 A:3 D:1", "A B C",
                     id="an override at the point beats multiPoint and runs first"),
        pytest.param(Plugins(score=plugin_set("D:4 B:9")), "D:4 B:9 A:3", "A B C",
                     id="several overrides run in the point's order"),
        pytest.param(Plugins(score=plugin_set("Y:5")), "A:3 B:2 D:1 Y:5", "A B C",
                     id="a plugin listed only at the point runs after multiPoint's"),
        pytest.param(Plugins(score=plugin_set("Y:5 D:4 X:6 A:1")), "D:4 A:1 B:2 Y:5 X:6", "A B C",
                     id="overrides, then multiPoint's, then the others, each in its own order"),
        pytest.param(Plugins(score=plugin_set("A")), "A:1 B:2 D:1", "A B C",
                     id="an override without a weight weighs 1, not the default weight"),
        pytest.param(Plugins(multi_point=plugin_set("B:8")), "A:3 B:8 D:1", "A B C",
                     id="an explicit multiPoint entry beats the default one"),
        pytest.param(Plugins(multi_point=plugin_set("B:8"), score=plugin_set("B:9")), "B:9 A:3 D:1", "A B C",
                     id="the point beats an explicit multiPoint entry"),
        pytest.param(Plugins(score=plugin_set("A:5", "A")), "B:2 D:1 A:5", "A B C",
                     id="disabled and enabled at a point moves a plugin to the end"),
        pytest.param(Plugins(multi_point=plugin_set("X:4")), "A:3 B:2 D:1 X:4", "A B C X",
                     id="a foreign plugin in multiPoint reaches all its points"),
        pytest.param(Plugins(multi_point=plugin_set(disabled="B"), score=plugin_set("B")), "A:3 D:1 B:1", "A C",
                     id="disabled in multiPoint it runs only where it is listed"),
        pytest.param(Plugins(multi_point=plugin_set("Z A", "*")), "A:1", "Z A",
                     id="a profile built from nothing"),
    ],
)  # fmt: skip
def test_multi_point_is_expanded(written: Plugins, scoring: str, filtering: str) -> None:
    by_point = expand(merge_defaults(written, DEFAULT), POINTS)
    assert spell(by_point[ExtensionPoint.SCORE]) == scoring
    assert spell(by_point[ExtensionPoint.FILTER]) == filtering


def test_weights_stand_only_where_nodes_are_scored() -> None:
    by_point = expand(merge_defaults(Plugins(filter=plugin_set("A:7")), DEFAULT), POINTS)
    assert [plugin.weight for plugin in by_point[ExtensionPoint.FILTER]] == [0, 0, 0]
    assert spell(by_point[ExtensionPoint.PRE_SCORE]) == "D"


def test_an_expansion_written_down_expands_to_itself() -> None:
    written = Plugins(score=plugin_set("Y:5 D:4 X A:1", "B"), filter=plugin_set("Z", "*"), multi_point=plugin_set("X"))
    by_point = expand(merge_defaults(written, DEFAULT), POINTS)
    again = expand(merge_defaults(as_written(by_point), DEFAULT), POINTS)
    assert again == by_point


def test_the_default_list_has_upstreams_order_and_weights() -> None:
    assert spell(default_multi_point(DEFAULT_GATES).enabled) == (
        "SchedulingGates PrioritySort NodeUnschedulable NodeName TaintToleration:3 NodeAffinity:2 NodePorts "
        "NodeResourcesFit:1 VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread:2 "
        "InterPodAffinity:2 DynamicResources:2 DefaultPreemption NodeResourcesBalancedAllocation:1 ImageLocality:1 "
        "DefaultBinder NodeDeclaredFeatures"
    )
