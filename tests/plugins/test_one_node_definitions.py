"""On random clusters every plugin says of all nodes at once what its definition says of one node.

The definitions here are the rules as they are written down, in plain Python, one node at a time. Each cluster lives:
pods and nodes come, change and go, and after every round all forms must agree again, on the whole cluster and on views
of it (`Bench` asks for those). A round with removed nodes leaves rows without a node behind.
"""

import math
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest

from config.types import (
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    RequestedToCapacityRatio,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from kube.api.core import ContainerRestartRule, ImageVolumeSource, Node, Pod, Volume
from kube.api.node_affinity import match_node_selector, preferred_score, required_node_affinity_matches
from kube.api.tolerations import find_untolerated, tolerates_taint
from plugins.image_locality import ImageLocality
from plugins.node_affinity import NodeAffinity
from plugins.node_declared_features import RESTART_ALL_CONTAINERS, NodeDeclaredFeatures
from plugins.node_name import NodeName
from plugins.node_ports import NodePorts
from plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from plugins.node_resources_fit import NodeResourcesFit
from plugins.node_unschedulable import NodeUnschedulable
from plugins.taint_toleration import TaintToleration
from scheduler.snapshot.node_info import NodeInfo
from scheduler.snapshot.pod_info import PodInfo
from tests.builders import (
    ZONE,
    DoesNotExist,
    Exists,
    Gt,
    In,
    Lt,
    NotIn,
    affinity,
    equal,
    exists,
    host_port,
    make_container,
    make_node,
    make_pod,
    node_term,
    requires,
    taint,
)
from tests.plugins.harness import Bench

SEEDS = range(6)
ROUNDS = 3
PODS_PER_ROUND = 6
MI = 2**20
GPU, BYTES = "example.com/gpu", "example.com/bytes"
#: more than float64 can hold exactly
HUGE = 2**60 + 1
#: held exactly, but not 100 times as much
WIDE = 2**50 + 1
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
IMAGES = {f"app{i}:1": (i + 1) * 150 * MI for i in range(5)}


class Sizes(NamedTuple):
    """What the nodes of a cluster offer."""

    cpu: list[str]
    memory: list[str]
    most: int


ORDINARY = Sizes(["1", "1930m", "4", "8"], ["1Gi", "4000000001", "8Gi"], HUGE)
SIZES = (
    ORDINARY,
    ORDINARY._replace(cpu=["0", *ORDINARY.cpu], memory=["0", *ORDINARY.memory]),
    ORDINARY._replace(memory=["1Gi", str(WIDE), str(WIDE - 1)], most=WIDE),
)


# --- random clusters ---------------------------------------------------------------------------------------------


def some(random: Random, choices: list[Any], most: int = 2) -> list[Any]:
    return random.sample(choices, random.randint(0, most))


def random_node(random: Random, name: str, sizes: Sizes) -> Node:
    extra = {GPU: str(random.randint(0, 4))} if random.random() < 0.5 else {}
    if random.random() < 0.3:
        extra[BYTES] = str(random.choice([sizes.most, sizes.most - 1, 10**6]))
    if random.random() < 0.7:
        extra["ephemeral-storage"] = "10Gi"
    return make_node(
        name,
        cpu=random.choice(sizes.cpu),
        memory=random.choice(sizes.memory),
        pods=random.choice(["1", "3", "110"]),
        extra=extra,
        zone=random.choice([None, "a", "b", "c"]),
        labels=dict(some(random, [("disk", "ssd"), ("gen", "3"), ("gen", "12"), ("gen", "new"), ("x", "")], 3)),
        taints=some(
            random,
            [taint(key, value, effect) for key in ("gpu", "sla") for value in ("", "7") for effect in EFFECTS],
            3,
        ),
        unschedulable=random.random() < 0.2,
        images=dict(some(random, list(IMAGES.items()), 4)),
        declared_features=some(random, [RESTART_ALL_CONTAINERS, "Another"]),
    )  # fmt: skip


def random_requirement(random: Random) -> Any:
    key = random.choice(["disk", "gen", "x", ZONE, "absent"])
    operator = random.choice([In, NotIn, Exists, DoesNotExist, Gt, Lt, "Unheard"])
    values = {In: ["ssd", "a", "3", ""], NotIn: ["ssd", "b", "12"], Gt: ["5"], Lt: ["5"]}.get(operator, [])
    return requires(key, operator, *some(random, values, len(values)))


def random_term(random: Random) -> Any:
    names = [requires("metadata.name", operator, f"n{random.randint(0, 30)}") for operator in (In, NotIn)]
    return node_term(*(random_requirement(random) for _ in range(random.randint(0, 2))), fields=some(random, names, 1))


def random_affinity(random: Random) -> Any:
    return affinity(
        node_required=[random_term(random) for _ in range(random.randint(0, 2))] if random.random() < 0.5 else None,
        node_preferred=[(random.randint(1, 9), random_term(random)) for _ in range(random.randint(0, 3))],
    )


def random_pod(random: Random, name: str, **fields: Any) -> Pod:
    sizes = [("cpu", "250m"), ("cpu", "2"), ("memory", "900Mi"), ("memory", "4Gi"), (GPU, "1"), (GPU, "0"),
             (BYTES, str(HUGE)), (BYTES, "1000"), ("ephemeral-storage", "3Gi")]  # fmt: skip
    ports = [
        host_port(p, protocol=protocol, ip=ip) for p in (80, 81) for protocol in ("", "UDP") for ip in ("", "10.0.0.1")
    ]
    rules = (ContainerRestartRule(action="RestartAllContainers"),) if random.random() < 0.3 else ()
    container = make_container(
        requests=dict(some(random, sizes, 4)), image=random.choice([*IMAGES, "none"]), ports=some(random, ports)
    )
    return make_pod(
        name,
        containers=[msgspec.structs.replace(container, restart_policy_rules=rules)],
        init_containers=[make_container("init", cpu="1", image="app4:1")] if random.random() < 0.3 else [],
        volumes=[Volume(name="v", image=ImageVolumeSource(reference="app3:1"))] if random.random() < 0.2 else [],
        node_selector=dict(some(random, [("disk", "ssd"), ("gen", "3"), ("absent", "1")], 1)),
        affinity=random_affinity(random),
        tolerations=some(random, [exists(), exists("gpu"), equal("sla", "7"), exists("sla", "PreferNoSchedule"),
                                  exists("node.kubernetes.io/unschedulable", "NoSchedule")]),
        **fields,
    )  # fmt: skip


def change(random: Random, bench: Bench, round_: int, sizes: Sizes) -> None:
    """Nodes and pods come, change and go."""
    for i in range(random.randint(3, 30)):
        name = f"n{random.randint(0, 30)}"
        known = bench.cache.nodes.get(name)
        if known is None or known.node is None:
            bench.cache.add_node(random_node(random, name, sizes))
        elif random.random() < 0.3:
            bench.cache.remove_node(name)
        else:
            bench.cache.update_node(random_node(random, name, sizes))
        bench.cache.add_pod(random_pod(random, f"p{i}-{round_}", uid=f"uid-{i}-{random.randint(0, 2)}", node_name=name))
    for uid in some(random, list(bench.cache.pods), 5 if len(bench.cache.pods) > 5 else 0):
        bench.cache.remove_pod(uid)


# --- definitions of filters: why a node refuses a pod, () where it fits --------------------------------------------


def unschedulable(bench: Bench, pod: Pod, node: NodeInfo) -> tuple[str, ...]:
    tolerated = any(t.key in ("", "node.kubernetes.io/unschedulable") and t.effect in ("", "NoSchedule")
                    for t in pod.spec.tolerations if t.operator == "Exists")  # fmt: skip
    return ("node(s) were unschedulable",) if node.node.spec.unschedulable and not tolerated else ()


def named(bench: Bench, pod: Pod, node: NodeInfo) -> tuple[str, ...]:
    return () if pod.spec.node_name in ("", node.name) else ("node(s) didn't match the requested node name",)


def tainted(bench: Bench, pod: Pod, node: NodeInfo) -> tuple[str, ...]:
    untolerated = find_untolerated(node.node.spec.taints, pod.spec.tolerations)
    return () if untolerated is None else ("node(s) had untolerated taint(s)",)


def selected(bench: Bench, pod: Pod, node: NodeInfo) -> tuple[str, ...]:
    added = bench.plugin.added_required
    if added is not None and not match_node_selector(added, node.labels, node.name):
        return ("node(s) didn't match scheduler-enforced node affinity",)
    if not required_node_affinity_matches(pod, node.labels, node.name):
        return ("node(s) didn't match Pod's node affinity/selector",)
    return ()


def ports_taken(bench: Bench, pod: Pod, node: NodeInfo) -> tuple[str, ...]:
    wanted = _info(bench, pod).shape.host_ports
    used = [port for running in node.pods.values() for port in running.shape.host_ports]
    clash = any((p, n) == (q, m) and (a == b or "0.0.0.0" in (a, b)) for p, a, n in wanted for q, b, m in used)
    return ("node(s) didn't have free ports for the requested pod ports",) if clash else ()


def crowded(bench: Bench, pod: Pod, node: NodeInfo) -> tuple[str, ...]:
    lacking = ["Too many pods"] if len(node.pods) + 1 > node.allocatable["pods"] else []
    requests = _info(bench, pod).requests
    order = ["cpu", "memory", "ephemeral-storage", *sorted(r for r in requests if "/" in r)]
    for resource in order:
        used = sum(running.requests.get(resource, 0) for running in node.pods.values())
        wanted = requests.get(resource, 0)
        if wanted and wanted + used > node.allocatable.get(resource, 0):
            lacking.append(f"Insufficient {resource}")
    return tuple(lacking)


def featureless(bench: Bench, pod: Pod, node: NodeInfo) -> tuple[str, ...]:
    needed = any(container.restart_policy_rules for container in pod.spec.containers)
    missing = needed and RESTART_ALL_CONTAINERS not in node.node.status.declared_features
    return ("node(s) didn't match Pod's required features",) if missing else ()


def _info(bench: Bench, pod: Pod) -> PodInfo:
    return bench.snapshot.shapes.pod_info(pod)


# --- definitions of scores, before they are normalised -------------------------------------------------------------


def prefer_not_count(bench: Bench, pod: Pod, node: NodeInfo) -> int:
    tolerations = [t for t in pod.spec.tolerations if t.effect in ("", "PreferNoSchedule")]
    taints = [t for t in node.node.spec.taints if t.effect == "PreferNoSchedule"]
    return sum(not tolerates_taint(tolerations, each) for each in taints)


def preference(bench: Bench, pod: Pod, node: NodeInfo) -> int:
    terms = pod.spec.affinity.node_affinity.preferred_during_scheduling_ignored_during_execution if (
        pod.spec.affinity.node_affinity) else ()  # fmt: skip
    return preferred_score((*bench.plugin.added_preferred, *terms), node.labels, node.name)


def image_score(bench: Bench, pod: Pod, node: NodeInfo) -> int:
    names = [c.image for c in (*pod.spec.init_containers, *pod.spec.containers)]
    names += [v.image.reference for v in pod.spec.volumes if v.image]
    nodes = list(bench.snapshot.node_infos())
    total = 0
    for name in names:
        if _has_image(node, name):
            total += int(float(IMAGES[name]) * (sum(_has_image(other, name) for other in nodes) / len(nodes)))
    most = 1000 * MI * (len(pod.spec.init_containers) + len(pod.spec.containers))
    return 100 * (min(max(total, 23 * MI), most) - 23 * MI) // (most - 23 * MI)


def _has_image(node: NodeInfo, name: str) -> bool:
    return any(name in image.names for image in node.node.status.images)


def _scored(bench: Bench, pod: Pod, node: NodeInfo, resource: str, *, real: bool) -> tuple[int, int, int] | None:
    """(requested without the pod, requested by the pod, capacity); None where the resource is left out."""
    info, capacity = _info(bench, pod), node.allocatable.get(resource, 0)
    before = sum(running.requests.get(resource, 0) for running in node.pods.values())
    wanted = info.requests.get(resource, 0)
    if not real and resource == "cpu":
        before, wanted = sum(running.non_zero_cpu for running in node.pods.values()), info.non_zero_cpu
    if not real and resource == "memory":
        before, wanted = sum(running.non_zero_memory for running in node.pods.values()), info.non_zero_memory
    return None if not capacity or (not wanted and "/" in resource) else (before, wanted, capacity)


def fit_score(bench: Bench, pod: Pod, node: NodeInfo) -> int:
    strategy = bench.plugin.args.scoring_strategy
    total = weights = 0
    for spec in strategy.resources:
        found = _scored(bench, pod, node, spec.name, real=False)
        if found is None:
            continue
        requested, capacity = found[0] + found[1], found[2]
        if strategy.type == "LeastAllocated":
            score = (capacity - requested) * 100 // capacity if requested <= capacity else 0
        elif strategy.type == "MostAllocated":
            score = min(requested, capacity) * 100 // capacity
        else:
            # The shape of RATIO: up to 100 at 50 %, then flat.
            score = min(2 * (min(requested, capacity) * 100 // capacity), 100)
            if not score:
                continue
        total, weights = total + spec.weight * score, weights + spec.weight
    if not weights:
        return 0
    return math.floor(total / weights + 0.5) if strategy.type == "RequestedToCapacityRatio" else total // weights


def balanced_score(bench: Bench, pod: Pod, node: NodeInfo) -> int:
    found = [_scored(bench, pod, node, spec.name, real=True) for spec in bench.plugin.args.resources]
    counted = [each for each in found if each is not None]
    after = _evenness([min(float(before + wanted) / float(capacity), 1.0) for before, wanted, capacity in counted])
    as_is = _evenness([min(float(before) / float(capacity), 1.0) for before, _, capacity in counted])
    return 50 + (50 + after - as_is) // 2


def _evenness(shares: list[float]) -> int:
    std = 0.0
    if len(shares) == 2:
        std = abs((shares[0] - shares[1]) / 2)
    elif len(shares) > 2:
        total = squares = 0.0
        for share in shares:
            total += share
        for share in shares:
            squares += (share - total / len(shares)) * (share - total / len(shares))
        std = math.sqrt(squares / len(shares))
    return int((1 - std) * 100)


# --- the property --------------------------------------------------------------------------------------------------

ADDED = NodeAffinityArgs(
    added_affinity=affinity(
        node_required=[requires(ZONE, In, "a", "b")], node_preferred=[(5, requires("disk", Exists))]
    ).node_affinity
)


def strategy(type_: str, **weights: int) -> NodeResourcesFitArgs:
    points = tuple(UtilizationShapePoint(utilization=u, score=s) for u, s in ((0, 0), (50, 10)))
    resources = tuple(ResourceSpec(name=name, weight=weight) for name, weight in weights.items())
    return NodeResourcesFitArgs(
        scoring_strategy=ScoringStrategy(
            type=type_, resources=resources, requested_to_capacity_ratio=RequestedToCapacityRatio(shape=points)
        )
    )


def balance(*names: str) -> NodeResourcesBalancedAllocationArgs:
    return NodeResourcesBalancedAllocationArgs(resources=tuple(ResourceSpec(name=name) for name in names))


Definition = Callable[[Bench, Pod, NodeInfo], Any]
MIXED = {"cpu": 2, "memory": 1, GPU: 3, BYTES: 1, "ephemeral-storage": 1}

FILTERS: list[Any] = [
    pytest.param(NodeUnschedulable, None, unschedulable, id="NodeUnschedulable"),
    pytest.param(NodeName, None, named, id="NodeName"),
    pytest.param(TaintToleration, None, tainted, id="TaintToleration"),
    pytest.param(NodeAffinity, None, selected, id="NodeAffinity"),
    pytest.param(NodeAffinity, ADDED, selected, id="NodeAffinity with added affinity"),
    pytest.param(NodePorts, None, ports_taken, id="NodePorts"),
    pytest.param(NodeResourcesFit, None, crowded, id="NodeResourcesFit"),
    pytest.param(NodeDeclaredFeatures, None, featureless, id="NodeDeclaredFeatures"),
]

SCORES: list[Any] = [
    pytest.param(TaintToleration, None, prefer_not_count, id="TaintToleration"),
    pytest.param(NodeAffinity, None, preference, id="NodeAffinity"),
    pytest.param(NodeAffinity, ADDED, preference, id="NodeAffinity with added affinity"),
    pytest.param(ImageLocality, None, image_score, id="ImageLocality"),
    pytest.param(NodeResourcesFit, strategy("LeastAllocated", cpu=1, memory=1), fit_score, id="LeastAllocated"),
    pytest.param(NodeResourcesFit, strategy("LeastAllocated", **MIXED), fit_score, id="LeastAllocated of everything"),
    pytest.param(NodeResourcesFit, strategy("MostAllocated", **MIXED), fit_score, id="MostAllocated of everything"),
    pytest.param(
        NodeResourcesFit, strategy("RequestedToCapacityRatio", **MIXED), fit_score, id="RequestedToCapacityRatio"
    ),
    pytest.param(
        NodeResourcesBalancedAllocation, balance("cpu", "memory"), balanced_score, id="Balanced cpu and memory"
    ),
    pytest.param(NodeResourcesBalancedAllocation, balance(*MIXED), balanced_score, id="Balanced everything"),
]


def rounds(plugin: type[Any], args: Any, seed: int):
    """(bench, pod) for some pods on a cluster that changes in between."""
    random = Random(seed)
    bench = Bench(plugin, args=args, gates={"NodeDeclaredFeatures": True})
    for round_ in range(ROUNDS):
        change(random, bench, round_, SIZES[seed % len(SIZES)])
        for i in range(PODS_PER_ROUND):
            arrived = random_pod(random, "arrived", node_name=random.choice(list(bench.snapshot.row_of)))
            bench.cache.add_pod(arrived)
            node_name = f"n{random.randint(0, 30)}" if plugin is NodeName and i % 2 else ""
            yield bench, random_pod(random, f"web{i}", node_name=node_name)


@pytest.mark.parametrize(("plugin", "args", "definition"), FILTERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_filters_refuse_what_their_definition_refuses(plugin, args, definition: Definition, seed):
    for bench, pod in rounds(plugin, args, seed):
        answer = bench.pre_filter(pod)
        if answer is not None and getattr(answer, "rejected", False):
            continue
        found = {name: status.reasons for name, status in bench.filter(pod).items()}
        assert found == {node.name: definition(bench, pod, node) for node in bench.snapshot.node_infos()}


@pytest.mark.parametrize(("plugin", "args", "definition"), SCORES)
@pytest.mark.parametrize("seed", SEEDS)
def test_scores_are_those_of_their_definition(plugin, args, definition: Definition, seed):
    for bench, pod in rounds(plugin, args, seed):
        found = bench.score(pod, normalized=False)
        if found is not None:
            assert found == {node.name: definition(bench, pod, node) for node in bench.snapshot.node_infos()}
