"""Derived values follow the objects they are made from."""

from plugins.helpers.listed import Derived
from scheduler.cache import SchedulerCache
from scheduler.snapshot.snapshot import Snapshot
from simulator.listers import ObjectLister
from tests.builders import make_node
from tests.plugins.volumes.builders import csi_node


def test_the_value_is_made_anew_only_when_an_object_or_a_node_changed():
    lister, snapshot, made = ObjectLister([csi_node("a")]), Snapshot(), []
    derived = Derived(lister, snapshot, lambda: made.append(1) or len(made))
    assert [derived.get(), derived.get()] == [1, 1]
    lister.indexer.add(csi_node("b"))
    assert [derived.get(), derived.get()] == [2, 2]
    lister.indexer.delete("a")
    assert derived.get() == 3
    SchedulerCache(snapshot).add_node(make_node("n"))
    snapshot.refresh()
    assert [derived.get(), derived.get()] == [4, 4]
