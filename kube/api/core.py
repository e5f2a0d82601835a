"""Types of the core/v1 group: pods, nodes, namespaces, services, volumes and claims, as far as a scheduler reads them.

Anybody may import it. Quantities stay strings here (`kube.api.quantity` turns them into integers).
"""

# ruff: noqa: D101 - the types mirror Kubernetes' API reference, which documents them.

from typing import ClassVar

from msgspec import field

from kube.api.meta import ApiObject, Condition, LabelSelector, Object, ObjectReference

ResourceList = dict[str, str]


# --- node selectors and affinity ---------------------------------------------------------------------------------


class NodeSelectorRequirement(Object, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Object, frozen=True):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Object, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Object, frozen=True):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Object, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Object, frozen=True):
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Object, frozen=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Object, frozen=True):
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class PodAntiAffinity(Object, frozen=True):
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Object, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(Object, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Object, frozen=True):
    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


# --- volume sources ----------------------------------------------------------------------------------------------


class PersistentVolumeClaimVolumeSource(Object, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class GCEPersistentDiskVolumeSource(Object, frozen=True):
    pd_name: str = ""
    partition: int = 0
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(Object, frozen=True):
    volume_id: str = field(default="", name="volumeID")
    partition: int = 0
    read_only: bool = False


class AzureDiskVolumeSource(Object, frozen=True):
    disk_name: str = ""
    disk_uri: str = field(default="", name="diskURI")
    read_only: bool = False


class AzureFileVolumeSource(Object, frozen=True):
    secret_name: str = ""
    secret_namespace: str = ""
    share_name: str = ""
    read_only: bool = False


class CinderVolumeSource(Object, frozen=True):
    volume_id: str = field(default="", name="volumeID")
    read_only: bool = False


class PortworxVolumeSource(Object, frozen=True):
    volume_id: str = field(default="", name="volumeID")
    read_only: bool = False


class VsphereVirtualDiskVolumeSource(Object, frozen=True):
    volume_path: str = ""
    storage_policy_name: str = ""


class RBDVolumeSource(Object, frozen=True):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    read_only: bool = False


class ISCSIVolumeSource(Object, frozen=True):
    target_portal: str = ""
    iqn: str = ""
    lun: int = 0
    read_only: bool = False


class CSIVolumeSource(Object, frozen=True):
    driver: str = ""
    read_only: bool = False


class ImageVolumeSource(Object, frozen=True):
    reference: str = ""
    pull_policy: str = ""


class VolumeResourceRequirements(Object, frozen=True):
    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)


class PersistentVolumeClaimSpec(Object, frozen=True):
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    volume_name: str = ""
    # nil asks for the default class, "" for no class at all.
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class TemplateMeta(Object, frozen=True):
    """Metadata of a template. Without creationTimestamp, which API servers send as null inside templates."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class PersistentVolumeClaimTemplate(Object, frozen=True):
    metadata: TemplateMeta = TemplateMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(Object, frozen=True):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class Volume(Object, frozen=True):
    """A pod's volume. One without any source set is of a kind that scheduling ignores (configMap, emptyDir…)."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    image: ImageVolumeSource | None = None


# --- pods --------------------------------------------------------------------------------------------------------


class ResourceClaimUse(Object, frozen=True):
    """`resources.claims[]` of a container: which of the pod's resource claims it uses."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Object, frozen=True):
    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)
    claims: tuple[ResourceClaimUse, ...] = ()


class ContainerPort(Object, frozen=True):
    name: str = ""
    container_port: int = 0
    host_port: int = 0
    protocol: str = ""
    host_ip: str = field(default="", name="hostIP")


class ContainerResizePolicy(Object, frozen=True):
    resource_name: str = ""
    restart_policy: str = ""


class ContainerRestartRule(Object, frozen=True):
    action: str = ""


class Container(Object, frozen=True):
    """A regular or init container; `restart_policy` Always on an init container makes it a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    resize_policy: tuple[ContainerResizePolicy, ...] = ()


class PodSchedulingGate(Object, frozen=True):
    name: str = ""


class PodResourceClaim(Object, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Object, frozen=True):
    """Membership in a PodGroup (1.36 and later)."""

    pod_group_name: str | None = None


class WorkloadReference(Object, frozen=True):
    """Membership in a group of a Workload (1.35 only)."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodOS(Object, frozen=True):
    name: str = ""


class PodSpec(Object, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: ResourceList = field(default_factory=dict)
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] = field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    host_network: bool = False
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None
    restart_policy: str = ""
    os: PodOS | None = None


class ContainerStatus(Object, frozen=True):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    # None: the kubelet has not reported actuated resources, so the spec counts.
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = field(default_factory=dict)


class PodResourceClaimStatus(Object, frozen=True):
    name: str = ""
    # None: the claim controller decided that no claim is needed.
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Object, frozen=True):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Object, frozen=True):
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class PodIP(Object, frozen=True):
    ip: str = ""


class PodStatus(Object, frozen=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = field(default="", name="hostIP")
    pod_ip: str = field(default="", name="podIP")
    pod_ips: tuple[PodIP, ...] = field(default=(), name="podIPs")
    start_time: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resize: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = field(default_factory=dict)
    observed_generation: int = 0
    qos_class: str = ""


class Pod(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Pod"

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Binding(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Binding"

    target: ObjectReference = ObjectReference()


# --- nodes -------------------------------------------------------------------------------------------------------


class Taint(Object, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Object, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    pod_cidr: str = field(default="", name="podCIDR")
    pod_cidrs: tuple[str, ...] = field(default=(), name="podCIDRs")
    provider_id: str = field(default="", name="providerID")


class ContainerImage(Object, frozen=True):
    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeAddress(Object, frozen=True):
    type: str = ""
    address: str = ""


class AttachedVolume(Object, frozen=True):
    name: str = ""
    device_path: str = ""


class NodeStatus(Object, frozen=True):
    capacity: ResourceList = field(default_factory=dict)
    allocatable: ResourceList = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Node"

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# --- namespaces, services, replication controllers ---------------------------------------------------------------


class NamespaceStatus(Object, frozen=True):
    phase: str = ""


class Namespace(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Namespace"

    status: NamespaceStatus = NamespaceStatus()


class ServiceSpec(Object, frozen=True):
    selector: dict[str, str] = field(default_factory=dict)
    type: str = ""
    cluster_ip: str = field(default="", name="clusterIP")


class Service(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Service"

    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Object, frozen=True):
    replicas: int | None = None
    selector: dict[str, str] = field(default_factory=dict)


class ReplicationController(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "ReplicationController"

    spec: ReplicationControllerSpec = ReplicationControllerSpec()


# --- persistent volumes ------------------------------------------------------------------------------------------


class CSIPersistentVolumeSource(Object, frozen=True):
    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False


class VolumeNodeAffinity(Object, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Object, frozen=True):
    capacity: ResourceList = field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None


class PersistentVolumeStatus(Object, frozen=True):
    phase: str = ""


class PersistentVolume(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "PersistentVolume"

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimStatus(Object, frozen=True):
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: ResourceList = field(default_factory=dict)
    current_volume_attributes_class_name: str | None = None


class PersistentVolumeClaim(ApiObject, frozen=True):
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "PersistentVolumeClaim"

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()
