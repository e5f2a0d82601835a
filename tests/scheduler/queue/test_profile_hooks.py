"""What the queue learns of a profile's plugins at start-up: defaults of EventsToRegister (facts 1.2)."""

import pytest

from kube.api.core import Pod
from scheduler.framework.cluster_event import Action, EventResource, on
from scheduler.framework.plugin import FilterPlugin, PermitPlugin, Plugin, ReservePlugin, ScorePlugin
from scheduler.queue.profile_hooks import hooks_of
from tests.scheduler.harness import Cluster

NODE = EventResource.NODE


class Silent(FilterPlugin):
    name = "Silent"


class SilentReserve(ReservePlugin):
    name = "SilentReserve"


class SilentPermit(PermitPlugin):
    name = "SilentPermit"


class Deaf(FilterPlugin):
    name = "Deaf"
    events = ()


class NewNodes(FilterPlugin):
    name = "NewNodes"
    events = (on(NODE, Action.ADD | Action.UPDATE_NODE_LABEL),)


class NewNodesAndTaints(FilterPlugin):
    name = "NewNodesAndTaints"
    events = (on(NODE, Action.ADD | Action.UPDATE_NODE_TAINT, hint=lambda pod, old, new: NotImplemented),)


class TaintsApart(FilterPlugin):
    name = "TaintsApart"
    events = (on(NODE, Action.ADD), on(NODE, Action.UPDATE))


class NodeLabels(FilterPlugin):
    name = "NodeLabels"
    events = (on(NODE, Action.UPDATE_NODE_LABEL),)


class Ranks(ScorePlugin):
    name = "Ranks"


@pytest.mark.parametrize(
    ("plugin", "actions", "any_event"),
    [
        pytest.param(Silent, [], True, id="a filter without events is woken by any event"),
        pytest.param(SilentReserve, [], True, id="so is a Reserve plugin"),
        pytest.param(SilentPermit, [], True, id="and a Permit plugin"),
        pytest.param(Deaf, [], False, id="an empty list means never"),
        pytest.param(
            NewNodes,
            [Action.ADD | Action.UPDATE_NODE_LABEL, Action.UPDATE_NODE_TAINT],
            False,
            id="who listens to new nodes hears of taint changes too",
        ),
        pytest.param(
            NewNodesAndTaints,
            [Action.ADD | Action.UPDATE_NODE_TAINT],
            False,
            id="unless it does already, with its hint",
        ),
        pytest.param(TaintsApart, [Action.ADD, Action.UPDATE], False, id="or in another registration"),
        pytest.param(
            NodeLabels, [Action.UPDATE_NODE_LABEL], False, id="who does not listen to new nodes is left alone"
        ),
        pytest.param(Ranks, [], False, id="a plugin that refuses nobody has no events"),
    ],
)
def test_registrations(plugin: type[Plugin], actions: list[Action], any_event: bool) -> None:
    hooks = hooks_of(Cluster(plugin).framework)
    assert [hint.registered.event.action for hint in hooks.hints if hint.plugin == plugin.name] == actions
    assert (plugin.name in hooks.any_event) is any_event


def test_the_added_taint_registration_has_no_hint_so_it_always_queues() -> None:
    added = hooks_of(Cluster(NewNodes).framework).hints[-1]
    assert added.registered == on(NODE, Action.UPDATE_NODE_TAINT)


def test_extenders_are_woken_by_any_event() -> None:
    assert "Extender" in hooks_of(Cluster().framework).any_event


def test_pre_enqueue_is_the_profiles_own() -> None:
    hooks = hooks_of(Cluster(Silent).framework)
    assert hooks.pre_enqueue(Pod()) is None
