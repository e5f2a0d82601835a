"""The registry finds built-in plugins and those of other packages, and says in one line what is wrong with one."""

from importlib.metadata import EntryPoint

import pytest

from config.defaults import IN_TREE_PLUGINS
from config.types import NodeResourcesFitArgs, ScoringStrategy
from plugins.node_resources_fit import NodeResourcesFit
from plugins.registry import GROUP, IN_TREE, PluginError, Registry
from scheduler.framework.plugin import FilterPlugin, ScorePlugin
from tests.plugins.harness import Bench

HERE = __name__


class GreenPower(ScorePlugin):
    name = "GreenPower"


class Misnamed(FilterPlugin):
    name = "SomethingElse"


NOT_A_PLUGIN = 42


def registry(**found: str) -> Registry:
    return Registry(found=lambda: [EntryPoint(name, value, GROUP) for name, value in found.items()])


def test_every_built_in_plugin_is_known_by_its_own_name():
    assert all(plugin.name == name for name, plugin in IN_TREE.items())


@pytest.mark.parametrize("plugin", [p for p in IN_TREE_PLUGINS if p.name in IN_TREE], ids=lambda plugin: plugin.name)
def test_the_points_of_a_plugin_are_those_that_the_configuration_knows(plugin):
    assert Registry().points(plugin.name) == plugin.points


def test_a_plugin_of_another_package_is_imported_when_it_is_asked_for():
    found = registry(GreenPower=f"{HERE}:GreenPower", Broken="no.such.module:X")
    assert found["GreenPower"] == {"score"}
    assert "Broken" in found


def test_a_plugin_is_built_with_its_arguments_and_the_handle():
    bench = Bench(NodeResourcesFit)
    built = Registry().build("NodeResourcesFit", None, bench.handle)
    assert isinstance(built, NodeResourcesFit)
    assert built.handle is bench.handle


@pytest.mark.parametrize(
    ("name", "found", "message"),
    [
        pytest.param("Nope", {}, "plugin Nope is neither built in nor installed", id="an unknown name"),
        pytest.param(
            "Broken",
            {"Broken": "no.such.module:X"},
            "plugin Broken (no.such.module:X): cannot be loaded: ModuleNotFoundError: No module named 'no'",
            id="a package that cannot be imported",
        ),
        pytest.param(
            "Odd",
            {"Odd": f"{HERE}:NOT_A_PLUGIN"},
            f"plugin Odd ({HERE}:NOT_A_PLUGIN): expected a subclass of scheduler.framework.plugin.Plugin",
            id="an entry point that is no plugin",
        ),
        pytest.param(
            "Misnamed",
            {"Misnamed": f"{HERE}:Misnamed"},
            f"plugin Misnamed ({HERE}:Misnamed): the class calls itself 'SomethingElse'",
            id="a class of another name",
        ),
        pytest.param(
            "Other",
            {"NodeName": f"{HERE}:GreenPower"},
            f"plugin NodeName ({HERE}:GreenPower): there is a plugin of that name already",
            id="an installed plugin that takes a built-in one's name",
        ),
    ],
)
def test_what_is_wrong_with_a_plugin_is_one_line(name, found, message):
    with pytest.raises(PluginError) as raised:
        registry(**found).get_class(name)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_arguments_that_a_plugin_refuses_are_one_line():
    args = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type="Best"))
    with pytest.raises(PluginError, match=r"^plugin NodeResourcesFit cannot be set up: .*'Best': expected LeastAlloc"):
        Registry().build("NodeResourcesFit", args, Bench(NodeResourcesFit).handle)
