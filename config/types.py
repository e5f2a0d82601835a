"""The shape of KubeSchedulerConfiguration `kubescheduler.config.k8s.io/v1`, field for field, with its plain defaults.

Values only: frozen structs that any room above may read. How the defaults depend on each other is in `defaults`, what
makes a value wrong in `validation`. Where podium differs from upstream's schema:

* `profiles[].nodeSelector` (labels) is podium's own: the profile sees only the nodes that carry all of these labels.
  Without it a profile sees every node, as upstream's does.
* Without a name a single profile is called `podium` and the Lease is `podium`, never `default-scheduler` and
  `kube-scheduler`: replacing the default scheduler takes writing its names down.
* Read without effect, because podium works differently: `parallelism` (all nodes are judged at once),
  `clientConnection.contentType` and `acceptContentTypes` (podium speaks JSON).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from config.duration import Duration
from kube.api.core import NodeAffinity, TopologySpreadConstraint

API_GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{API_GROUP}/v1"
KIND = "KubeSchedulerConfiguration"
SCHEDULER_NAME = "podium"
LEASE_NAME = "podium"


class ExtensionPoint(StrEnum):
    """The extension points a file can name, in the order of one scheduling attempt."""

    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PLACEMENT_GENERATE = "placementGenerate"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    POD_GROUP_POST_FILTER = "podGroupPostFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    PLACEMENT_SCORE = "placementScore"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"

    @property
    def weighted(self) -> bool:
        """Whether a plugin's weight means anything here."""
        return self in {ExtensionPoint.SCORE, ExtensionPoint.PLACEMENT_SCORE}


KnownPlugins = Mapping[str, frozenset[ExtensionPoint]]
"""Every plugin there is, with the extension points it implements."""


class Fields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Base of every struct of the configuration file."""


class LeaderElection(Fields, frozen=True):
    """Who of several replicas schedules. The Lease is podium's own, so it never competes with kube-scheduler's."""

    leader_elect: bool = True
    lease_duration: Duration = Duration.of(15)
    renew_deadline: Duration = Duration.of(10)
    retry_period: Duration = Duration.of(2)
    resource_lock: str = "leases"
    resource_name: str = LEASE_NAME
    resource_namespace: str = "kube-system"


class ClientConnection(Fields, frozen=True):
    """How the API server is reached. A negative qps lifts the limit."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: int = 100


class Plugin(Fields, frozen=True):
    """A plugin's name in a list; the weight counts where nodes are scored, and 0 stands for 1 there."""

    name: str = ""
    weight: int = 0


class PluginSet(Fields, frozen=True):
    """What one extension point adds to, or takes from, the defaults."""

    enabled: tuple[Plugin, ...] = ()
    disabled: tuple[Plugin, ...] = ()

    def disables(self, name: str) -> bool:
        """Whether the list takes this plugin, or every plugin, away."""
        return any(plugin.name in {name, "*"} for plugin in self.disabled)


class Plugins(Fields, frozen=True):
    """The plugin sets of a profile, one per extension point, and multiPoint for all points at once."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pod_group_post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()

    def at(self, point: ExtensionPoint) -> PluginSet:
        """Return the set written for one extension point."""
        found: PluginSet = getattr(self, point.name.lower())
        return found


class DefaultPreemptionArgs(Fields, frozen=True):
    """How many nodes a preemption tries before it settles."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


class InterPodAffinityArgs(Fields, frozen=True):
    """Weight of running pods' required affinity towards the new pod."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(Fields, frozen=True):
    """Node affinity added to every pod of the profile."""

    added_affinity: NodeAffinity | None = None


class ResourceSpec(Fields, frozen=True):
    """A resource that takes part in scoring."""

    name: str = ""
    weight: int = 1


class UtilizationShapePoint(Fields, frozen=True):
    """A corner of a piecewise linear function: utilization in percent to score 0..10."""

    utilization: int = 0
    score: int = 0


class RequestedToCapacityRatio(Fields, frozen=True):
    """The scoring function of the strategy of that name."""

    shape: tuple[UtilizationShapePoint, ...] = ()


CPU_AND_MEMORY = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class ScoringStrategy(Fields, frozen=True):
    """How NodeResourcesFit turns free resources into a score."""

    type: str = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None


class NodeResourcesFitArgs(Fields, frozen=True):
    """Which resources NodeResourcesFit overlooks, and its scoring strategy."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy()


class NodeResourcesBalancedAllocationArgs(Fields, frozen=True):
    """The resources whose use should be even."""

    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY


class PodTopologySpreadArgs(Fields, frozen=True):
    """Constraints for pods that bring none of their own."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"


class VolumeBindingArgs(Fields, frozen=True):
    """How long binding waits for volumes; the shape scores free storage (gate StorageCapacityScoring)."""

    bind_timeout_seconds: int = 600
    shape: tuple[UtilizationShapePoint, ...] = ()


class DynamicResourcesArgs(Fields, frozen=True):
    """How long the search for devices on one node, and the wait for their binding conditions, may take.

    10s and 600s, filled in by `defaults` when the gates that give them a meaning are on.
    """

    filter_timeout: Duration | None = None
    binding_timeout: Duration | None = None


class CoschedulingArgs(Fields, frozen=True):
    """The arguments of scheduler-plugins' Coscheduling."""

    permit_waiting_time_seconds: int = 60
    pod_group_backoff_seconds: int = 0
    pod_group_reject_percentage: int = 10


class GangSchedulingArgs(Fields, frozen=True):
    """podium's own: in how many orders the members of a group that are not all alike are tried."""

    max_orders: int = 1


PLUGIN_ARGS: dict[str, type[Fields]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
    "DynamicResources": DynamicResourcesArgs,
    "GangScheduling": GangSchedulingArgs,
    "Coscheduling": CoschedulingArgs,
}


class PluginConfig(Fields, frozen=True):
    """Arguments of one plugin: a struct of `PLUGIN_ARGS`, or the plain mapping of a plugin from elsewhere."""

    name: str = ""
    args: Any = None


class Profile(Fields, frozen=True):
    """A scheduler of its own within the process: the pods that name it, and how they are judged."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()
    node_selector: dict[str, str] = {}

    def args(self, plugin: str) -> Any:
        """Return the arguments of a plugin, or None when it has none."""
        return next((entry.args for entry in self.plugin_config if entry.name == plugin), None)


class ExtenderTLSConfig(Fields, frozen=True):
    """TLS towards an extender; data wins over the file of the same name."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ExtenderManagedResource(Fields, frozen=True):
    """A resource that makes a pod the extender's business."""

    name: str = ""
    ignored_by_scheduler: bool = False


class Extender(Fields, frozen=True):
    """A webhook that filters, scores, preempts or binds beside the plugins."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = Duration.of(5)
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class Configuration(Fields, frozen=True):
    """The whole file."""

    api_version: str = API_VERSION
    kind: str = KIND
    parallelism: int = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: int = 0
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[Profile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
