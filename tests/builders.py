"""Pods, nodes and their parts in one line, for every room's tests. Only what a test names is set.

make_pod("web", cpu="500m", labels={"app": "web"}, affinity=affinity(node_required=[requires("zone", In, "a")]))
"""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from kube.api.core import (
    Affinity,
    Container,
    ContainerImage,
    ContainerPort,
    Namespace,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    ResourceRequirements,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    Volume,
    WeightedPodAffinityTerm,
)
from kube.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference

In = "In"
NotIn = "NotIn"
Exists = "Exists"
DoesNotExist = "DoesNotExist"
Gt = "Gt"
Lt = "Lt"

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

_uids = itertools.count(1)


# --- pods --------------------------------------------------------------------------------------------------------


def make_pod(
    name: str,
    *,
    namespace: str = "default",
    uid: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: OwnerReference | None = None,
    resource_version: str = "",
    created: str = "",
    deletion_timestamp: str | None = None,
    cpu: str | None = None,
    memory: str | None = None,
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    image: str = "pause",
    host_ports: Iterable[int | ContainerPort] = (),
    containers: Iterable[Container] | None = None,
    init_containers: Iterable[Container] = (),
    phase: str = "",
    nominated_node_name: str = "",
    start_time: str = "",
    tolerations: Iterable[Toleration] = (),
    volumes: Iterable[Volume] = (),
    claims: Iterable[str] = (),
    scheduling_gates: Iterable[str] = (),
    spread: Iterable[TopologySpreadConstraint] = (),
    node_selector: Mapping[str, str] | None = None,
    overhead: Mapping[str, str] | None = None,
    status: PodStatus | None = None,
    **spec: Any,
) -> Pod:
    """A pod with one container of the given size; `claims` are names of PVCs; other keywords are PodSpec fields.

    The uid is unique unless given; `cpu`, `memory` and `requests` go to the container, `containers` replaces it.
    """
    if containers is None:
        ports = tuple(port if isinstance(port, ContainerPort) else host_port(port) for port in host_ports)
        containers = [
            make_container(cpu=cpu, memory=memory, requests=requests, limits=limits, image=image, ports=ports)
        ]
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{next(_uids)}" if uid is None else uid,
            labels=dict(labels or {}),
            annotations=dict(annotations or {}),
            owner_references=(owner,) if owner else (),
            resource_version=resource_version,
            creation_timestamp=created,
            deletion_timestamp=deletion_timestamp,
        ),
        spec=PodSpec(
            containers=tuple(containers),
            init_containers=tuple(init_containers),
            tolerations=tuple(tolerations),
            volumes=(*volumes, *(claim_volume(claim) for claim in claims)),
            scheduling_gates=tuple(PodSchedulingGate(name=gate) for gate in scheduling_gates),
            topology_spread_constraints=tuple(spread),
            node_selector=dict(node_selector or {}),
            overhead=dict(overhead or {}),
            **spec,
        ),
        status=status or PodStatus(phase=phase, nominated_node_name=nominated_node_name, start_time=start_time),
    )


def make_container(
    name: str = "main",
    *,
    cpu: str | None = None,
    memory: str | None = None,
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    image: str = "pause",
    ports: Iterable[ContainerPort] = (),
    sidecar: bool = False,
) -> Container:
    """A container; `sidecar` makes an init container restartable."""
    amounts = dict(requests or {})
    amounts |= {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return Container(
        name=name,
        image=image,
        resources=ResourceRequirements(requests=amounts, limits=dict(limits or {})),
        ports=tuple(ports),
        restart_policy="Always" if sidecar else "",
    )


def host_port(port: int, *, protocol: str = "", ip: str = "") -> ContainerPort:
    """A container port bound on the node."""
    return ContainerPort(container_port=port, host_port=port, protocol=protocol, host_ip=ip)


def claim_volume(claim: str, *, read_only: bool = False) -> Volume:
    """A volume that mounts a PersistentVolumeClaim."""
    return Volume(
        name=claim,
        persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim, read_only=read_only),
    )


def owned_by(kind: str, name: str, *, uid: str = "", api_version: str = "apps/v1") -> OwnerReference:
    """The controlling owner of a pod."""
    return OwnerReference(
        kind=kind, name=name, uid=uid or f"uid-{kind}-{name}", api_version=api_version, controller=True
    )


# --- nodes and namespaces ----------------------------------------------------------------------------------------


def make_node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "32Gi",
    pods: str = "110",
    extra: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    zone: str | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Iterable[Taint] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] | None = None,
    declared_features: Iterable[str] = (),
    resource_version: str = "",
) -> Node:
    """A node that carries its hostname label; `extra` are further resources, `images` maps names to bytes."""
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, **(extra or {})}
    own_labels = {HOSTNAME: name} | ({ZONE: zone} if zone else {}) | dict(labels or {})
    return Node(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-{name}",
            labels=own_labels,
            annotations=dict(annotations or {}),
            resource_version=resource_version,
        ),
        spec=NodeSpec(taints=tuple(taints), unschedulable=unschedulable),
        status=NodeStatus(
            allocatable=amounts,
            capacity=amounts,
            images=tuple(ContainerImage(names=(image,), size_bytes=size) for image, size in (images or {}).items()),
            declared_features=tuple(declared_features),
        ),
    )


def make_namespace(name: str, *, labels: Mapping[str, str] | None = None) -> Namespace:
    """A namespace, with the label that the API server adds."""
    return Namespace(metadata=ObjectMeta(name=name, labels={"kubernetes.io/metadata.name": name, **(labels or {})}))


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Taint:
    """A taint: taint("dedicated", "gpu", "NoExecute")."""
    return Taint(key=key, value=value, effect=effect)


def exists(key: str = "", effect: str = "") -> Toleration:
    """Tolerates the key whatever its value; without arguments tolerates everything."""
    return Toleration(key=key, operator="Exists", effect=effect)


def equal(key: str, value: str = "", effect: str = "") -> Toleration:
    """Tolerates the key with this value."""
    return Toleration(key=key, operator="Equal", value=value, effect=effect)


# --- selectors, affinity, spread ---------------------------------------------------------------------------------


def selector(match: Mapping[str, str] | None = None, *expressions: LabelSelectorRequirement) -> LabelSelector:
    """A label selector: selector({"app": "web"}, label("tier", NotIn, "db"))."""
    return LabelSelector(match_labels=dict(match or {}), match_expressions=expressions)


def label(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    """One expression of a label selector."""
    return LabelSelectorRequirement(key=key, operator=operator, values=values)


def requires(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    """One expression on a node: requires("zone", In, "a")."""
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def node_term(
    *expressions: NodeSelectorRequirement, fields: Iterable[NodeSelectorRequirement] = ()
) -> NodeSelectorTerm:
    """A node selector term: expressions and fields must all hold."""
    return NodeSelectorTerm(match_expressions=expressions, match_fields=tuple(fields))


def node_selector(*terms: NodeSelectorTerm | NodeSelectorRequirement) -> NodeSelector:
    """A node selector: any of the terms; a bare expression is a term of its own."""
    return NodeSelector(node_selector_terms=tuple(_as_term(term) for term in terms))


def pod_term(
    topology_key: str,
    match: Mapping[str, str] | LabelSelector | None = None,
    *,
    namespaces: Iterable[str] = (),
    namespace_selector: LabelSelector | None = None,
) -> PodAffinityTerm:
    """A pod affinity term: pod_term(ZONE, {"app": "web"}); without a selector it is nil and selects nothing."""
    return PodAffinityTerm(
        topology_key=topology_key,
        label_selector=_as_selector(match),
        namespaces=tuple(namespaces),
        namespace_selector=namespace_selector,
    )


def affinity(
    *,
    node_required: Iterable[NodeSelectorTerm | NodeSelectorRequirement] | None = None,
    node_preferred: Iterable[tuple[int, NodeSelectorTerm | NodeSelectorRequirement]] = (),
    pod_required: Iterable[PodAffinityTerm] = (),
    pod_preferred: Iterable[tuple[int, PodAffinityTerm]] = (),
    anti_required: Iterable[PodAffinityTerm] = (),
    anti_preferred: Iterable[tuple[int, PodAffinityTerm]] = (),
) -> Affinity:
    """Any mix of node affinity, pod affinity and pod anti-affinity; preferred terms are (weight, term)."""
    pods = PodAffinity(
        required_during_scheduling_ignored_during_execution=tuple(pod_required),
        preferred_during_scheduling_ignored_during_execution=_weighted(pod_preferred),
    )
    anti = PodAntiAffinity(
        required_during_scheduling_ignored_during_execution=tuple(anti_required),
        preferred_during_scheduling_ignored_during_execution=_weighted(anti_preferred),
    )
    return Affinity(
        node_affinity=_node_affinity(node_required, tuple(node_preferred)),
        pod_affinity=None if pods == PodAffinity() else pods,
        pod_anti_affinity=None if anti == PodAntiAffinity() else anti,
    )


def spread(
    topology_key: str,
    match: Mapping[str, str] | LabelSelector | None = None,
    *,
    max_skew: int = 1,
    soft: bool = False,
    **fields: Any,
) -> TopologySpreadConstraint:
    """A topology spread constraint, DoNotSchedule unless soft: spread(ZONE, {"app": "web"}, min_domains=3)."""
    return TopologySpreadConstraint(
        max_skew=max_skew,
        topology_key=topology_key,
        when_unsatisfiable="ScheduleAnyway" if soft else "DoNotSchedule",
        label_selector=_as_selector(match),
        **fields,
    )


def _as_term(term: NodeSelectorTerm | NodeSelectorRequirement) -> NodeSelectorTerm:
    return term if isinstance(term, NodeSelectorTerm) else node_term(term)


def _as_selector(match: Mapping[str, str] | LabelSelector | None) -> LabelSelector | None:
    return match if match is None or isinstance(match, LabelSelector) else selector(match)


def _weighted(terms: Iterable[tuple[int, PodAffinityTerm]]) -> tuple[WeightedPodAffinityTerm, ...]:
    return tuple(WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term) for weight, term in terms)


def _node_affinity(
    required: Iterable[NodeSelectorTerm | NodeSelectorRequirement] | None,
    preferred: tuple[tuple[int, NodeSelectorTerm | NodeSelectorRequirement], ...],
) -> NodeAffinity | None:
    if required is None and not preferred:
        return None
    return NodeAffinity(
        required_during_scheduling_ignored_during_execution=None if required is None else node_selector(*required),
        preferred_during_scheduling_ignored_during_execution=tuple(
            PreferredSchedulingTerm(weight=weight, preference=_as_term(term)) for weight, term in preferred
        ),
    )
