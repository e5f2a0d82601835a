"""Which events wake the pods that each built-in plugin refused: the table of facts 1.2, row by row. An event that is
missing here is a pod that waits for nothing; one too many is a herd."""

from __future__ import annotations

import pytest

from config.defaults import default_configuration
from config.feature_gates import DEFAULT_GATES
from plugins.registry import IN_TREE, Registry
from scheduler.framework.cluster_event import Action, EventResource
from scheduler.framework.plugin import Plugin
from simulator.load import ClusterObjects
from simulator.offline import Simulation

R = EventResource
ADD, DELETE, UPDATE = Action.ADD, Action.DELETE, Action.UPDATE
LABEL, TAINT = Action.UPDATE_NODE_LABEL, Action.UPDATE_NODE_TAINT
#: resource -> actions; those in ALWAYS have no hint
Registered = dict[str, Action]

TABLE: dict[str, Registered] = {
    "SchedulingGates": {R.POD: Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED},
    "NodeUnschedulable": {R.NODE: ADD | TAINT, R.POD: Action.UPDATE_POD_TOLERATION},
    "NodeName": {R.NODE: ADD},
    "TaintToleration": {R.NODE: ADD | TAINT, R.POD: Action.UPDATE_POD_TOLERATION},
    "NodeAffinity": {R.NODE: ADD | LABEL},
    "NodePorts": {R.POD: DELETE, R.NODE: ADD},
    "NodeResourcesFit": {
        R.POD: DELETE | Action.UPDATE_POD_SCALE_DOWN,
        R.NODE: ADD | Action.UPDATE_NODE_ALLOCATABLE,
        R.DEVICE_CLASS: ADD | UPDATE,
    },
    "VolumeRestrictions": {R.POD: DELETE, R.PERSISTENT_VOLUME_CLAIM: ADD, R.NODE: ADD},
    "NodeVolumeLimits": {
        R.CSI_NODE: ADD | UPDATE,
        R.POD: DELETE,
        R.PERSISTENT_VOLUME_CLAIM: ADD,
        R.VOLUME_ATTACHMENT: DELETE,
    },
    "VolumeBinding": {
        R.STORAGE_CLASS: ADD | UPDATE,
        R.PERSISTENT_VOLUME_CLAIM: ADD | UPDATE,
        R.PERSISTENT_VOLUME: ADD | UPDATE,
        R.NODE: ADD | LABEL,
        R.CSI_NODE: ADD | UPDATE,
        R.CSI_DRIVER: UPDATE,
        R.CSI_STORAGE_CAPACITY: ADD | UPDATE,
    },
    "VolumeZone": {
        R.STORAGE_CLASS: ADD,
        R.PERSISTENT_VOLUME_CLAIM: ADD | UPDATE,
        R.PERSISTENT_VOLUME: ADD | UPDATE,
        R.NODE: ADD | LABEL,
    },
    "PodTopologySpread": {
        R.POD: ADD | DELETE | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION,
        R.NODE: ADD | DELETE | LABEL | TAINT,
    },
    "InterPodAffinity": {R.POD: ADD | DELETE | Action.UPDATE_POD_LABEL, R.NODE: ADD | LABEL},
    "DynamicResources": {
        R.RESOURCE_CLAIM: ADD | UPDATE,
        R.POD: Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
        R.RESOURCE_SLICE: ADD | UPDATE,
        R.DEVICE_CLASS: ADD | UPDATE,
        R.NODE: ADD | LABEL | Action.UPDATE_NODE_ALLOCATABLE,
    },
    "DefaultPreemption": {R.POD: DELETE},
    "NodeDeclaredFeatures": {R.NODE: ADD | Action.UPDATE_NODE_DECLARED_FEATURE, R.UNSCHEDULED_POD: UPDATE},
}

#: whatever happened there, the pod is worth another try
ALWAYS = {
    ("NodeName", R.NODE, ADD),
    ("NodePorts", R.NODE, ADD),
    ("VolumeRestrictions", R.NODE, ADD),
    ("NodeVolumeLimits", R.CSI_NODE, ADD),
    ("VolumeBinding", R.PERSISTENT_VOLUME, ADD | UPDATE),
    ("VolumeBinding", R.NODE, ADD | LABEL),
    ("VolumeZone", R.NODE, ADD | LABEL),
    ("DynamicResources", R.RESOURCE_SLICE, ADD | UPDATE),
    ("DynamicResources", R.DEVICE_CLASS, ADD | UPDATE),
    ("DynamicResources", R.NODE, ADD | LABEL | Action.UPDATE_NODE_ALLOCATABLE),
}


@pytest.fixture(scope="module")
def plugins() -> dict[str, Plugin]:
    configuration = default_configuration(DEFAULT_GATES)
    simulation = Simulation(ClusterObjects(), configuration, Registry(), DEFAULT_GATES.as_dict())
    [framework] = simulation.frameworks.values()
    return {plugin.name: plugin for plugin in framework.plugins()}


@pytest.mark.parametrize(("name", "expected"), TABLE.items(), ids=TABLE)
def test_registrations(plugins: dict[str, Plugin], name: str, expected: Registered) -> None:
    found: Registered = {}
    for registered in plugins[name].events or ():
        event = registered.event
        found[event.resource] = found.get(event.resource, Action(0)) | event.action
        assert (registered.hint is None) == ((name, event.resource, event.action) in ALWAYS), event
    assert found == expected


def test_every_built_in_plugin_that_can_refuse_a_pod_has_its_row(plugins: dict[str, Plugin]) -> None:
    heard_of = {name for name, plugin in plugins.items() if plugin.events}
    assert heard_of == TABLE.keys() & plugins.keys()
    assert {name for name in TABLE if name not in IN_TREE} == set()
