"""The cluster and workload of `podium demo --gangs`: groups of pods that start together, or not at all.

    ring      a gang that wants to be in one rack, and fills it
    train     a gang that fits
    batch     single pods of no importance, on all that is left but three places
    too-big   a gang that needs six places, of which three are free
    web       three single pods that come then: they have the room
    hopeless  a gang with a member that no node can hold
    urgent    a gang that matters more than batch, and makes room as one

Plain API objects. Called by `podium demo` only.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
GATES = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true,WorkloadAwarePreemption=true"
RACK = "example.com/rack"
RACK_SIZE = 4  # nodes
PER_NODE = 2  # workers that fit on one
RING, TRAIN, BATCH, TOO_BIG, WEB, HOPELESS, URGENT = "ring", "train", "batch", "too-big", "web", "hopeless", "urgent"
#: group -> members, all of which it needs
SIZES = {RING: RACK_SIZE * PER_NODE, TRAIN: 6, TOO_BIG: 6, HOPELESS: 2, URGENT: 4}
FREE = 3
_IMPORTANCE = {RING: 500, TRAIN: 500, URGENT: 1000}
#: with fewer there would be nothing left for urgent to evict
FEWEST_NODES = 3 * RACK_SIZE
_CPU = 4


def nodes(count: int) -> list[tuple[str, Object]]:
    """(name, template): racks of four nodes, each with room for two workers."""
    made = []
    for i in range(count):
        rack = f"rack-{i // RACK_SIZE + 1}"
        capacity = {"cpu": str(_CPU * PER_NODE), "memory": "64Gi", "pods": "110"}
        template = {"metadata": {"labels": {RACK: rack}}, "status": {"capacity": capacity}}
        made.append((f"{rack}-node-{i % RACK_SIZE + 1}", template))
    return made


def foundation() -> list[Object]:
    """What may displace what."""
    return [_class(str(value), value) for value in sorted(set(_IMPORTANCE.values()))]


def _class(name: str, value: int) -> Object:
    metadata = {"name": f"importance-{name}"}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}


def workloads(node_count: int) -> list[list[Object]]:
    """What comes one after the other, each when the one before has settled."""
    left = node_count * PER_NODE - SIZES[RING] - SIZES[TRAIN] - FREE
    topology = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
    return [
        [*foundation(), *_gang(RING, **topology)],
        [*_gang(TRAIN), *(_pod(f"{BATCH}-{i + 1:02d}", _CPU) for i in range(left))],
        _gang(TOO_BIG),
        [*(_pod(f"{WEB}-{i + 1}", _CPU) for i in range(FREE)), *_hopeless()],
        _gang(URGENT),
    ]


def _gang(name: str, **spec: Any) -> list[Object]:
    members = [_pod(f"{name}-{i}", _CPU, of=name) for i in range(SIZES[name])]
    importance = {"priority": _IMPORTANCE[name]} if name in _IMPORTANCE else {}
    policy = {"schedulingPolicy": {"gang": {"minCount": SIZES[name]}}}
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**policy, **importance, **spec},
    }
    return [group, *members]


def _hopeless() -> list[Object]:
    """One of the two would fit."""
    group, *_ = _gang(HOPELESS)
    return [group, _pod(f"{HOPELESS}-0", 1, of=HOPELESS), _pod(f"{HOPELESS}-1", _CPU * PER_NODE * 8, of=HOPELESS)]


def _pod(name: str, cpu: int, *, of: str = "") -> Object:
    resources = {"requests": {"cpu": str(cpu), "memory": "4Gi"}}
    app = of or name.partition("-")[0]
    container = {"name": app, "image": f"registry.example/{app}:1.0", "resources": resources}
    spec: Object = {"schedulerName": "podium", "containers": [container], "terminationGracePeriodSeconds": 1}
    if of:
        spec["schedulingGroup"] = {"podGroupName": of}
    if of in _IMPORTANCE:
        spec["priorityClassName"] = f"importance-{_IMPORTANCE[of]}"
    metadata = {"name": name, "namespace": "default", "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
