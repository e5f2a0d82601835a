"""What an absent value stands for, and the default plugins as data.

Upstream's defaults throughout, but for two names: podium never takes over `default-scheduler` by omission. Where
kube-scheduler would call a nameless single profile `default-scheduler` and its lease `kube-scheduler`, podium says
`podium`; who wants to replace the default scheduler writes its names down.

`in_tree_points` is the table of which built-in plugin implements which extension points; a registry of real plugins
may be handed to `load` in its place.
"""

import msgspec

from config.duration import Duration
from config.feature_gates import FeatureGates
from config.merge import merge_defaults
from config.types import (
    CPU_AND_MEMORY,
    LEASE_NAME,
    PLUGIN_ARGS,
    SCHEDULER_NAME,
    ClientConnection,
    Configuration,
    DynamicResourcesArgs,
    Extender,
    ExtensionPoint,
    LeaderElection,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    Plugin,
    PluginConfig,
    PluginSet,
    Profile,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)


class InTreePlugin(msgspec.Struct, frozen=True):
    """A built-in plugin: the points it implements, its default weight, and the gate that brings it in.

    One that is no `default` is there for those who enable it.
    """

    name: str
    points: frozenset[ExtensionPoint]
    weight: int = 0
    gate: str = ""
    default: bool = True


def _plugin(name: str, points: str, weight: int = 0, gate: str = "", *, default: bool = True) -> InTreePlugin:
    return InTreePlugin(name, frozenset(ExtensionPoint(point) for point in points.split()), weight, gate, default)


# The order is the order in which plugins run at every point they implement.
IN_TREE_PLUGINS: tuple[InTreePlugin, ...] = (
    _plugin("SchedulingGates", "preEnqueue"),
    _plugin("PrioritySort", "queueSort"),
    _plugin("NodeUnschedulable", "filter"),
    _plugin("NodeName", "filter"),
    _plugin("TaintToleration", "filter preScore score", 3),
    _plugin("NodeAffinity", "preFilter filter preScore score", 2),
    _plugin("NodePorts", "preFilter filter"),
    _plugin("NodeResourcesFit", "preFilter filter preScore score placementScore", 1),
    _plugin("VolumeRestrictions", "preFilter filter"),
    _plugin("NodeVolumeLimits", "preFilter filter"),
    _plugin("VolumeBinding", "preFilter filter preScore score reserve preBind"),
    _plugin("VolumeZone", "preFilter filter"),
    _plugin("PodTopologySpread", "preFilter filter preScore score", 2),
    _plugin("InterPodAffinity", "preFilter filter preScore score", 2),
    # Before DefaultPreemption: freeing an idle claim is kinder than evicting a pod.
    _plugin(
        "DynamicResources",
        "preEnqueue preFilter filter postFilter score reserve preBind",
        2,
        gate="DynamicResourceAllocation",
    ),
    _plugin("DefaultPreemption", "preEnqueue postFilter podGroupPostFilter"),
    _plugin("NodeResourcesBalancedAllocation", "preScore score", 1),
    _plugin("ImageLocality", "score", 1),
    _plugin("DefaultBinder", "bind"),
    _plugin("NodeDeclaredFeatures", "preFilter filter", gate="NodeDeclaredFeatures"),
    _plugin("GangScheduling", "preEnqueue permit", gate="GangScheduling"),
    _plugin("TopologyPlacementGenerator", "placementGenerate", gate="TopologyAwareWorkloadScheduling"),
    _plugin("PodGroupPodsCount", "placementScore", 1, gate="TopologyAwareWorkloadScheduling"),
    _plugin("Coscheduling", "queueSort preFilter postFilter reserve permit", default=False),
)


def in_tree_points() -> dict[str, frozenset[ExtensionPoint]]:
    """Return every built-in plugin with the points it implements."""
    return {plugin.name: plugin.points for plugin in IN_TREE_PLUGINS}


def default_multi_point(gates: FeatureGates) -> PluginSet:
    """Return the plugins every profile starts from, in run order."""
    return PluginSet(
        enabled=tuple(
            Plugin(name=plugin.name, weight=plugin.weight)
            for plugin in IN_TREE_PLUGINS
            if plugin.default and (not plugin.gate or gates.enabled(plugin.gate))
        )
    )


def default_configuration(gates: FeatureGates) -> Configuration:
    """Return the configuration of a podium that was given no file."""
    return apply(Configuration(), gates)


def apply(written: Configuration, gates: FeatureGates) -> Configuration:
    """Fill in everything a file left open. Indices of profiles, arguments and extenders stay as they were."""
    profiles = written.profiles or (Profile(),)
    if len(profiles) == 1 and not profiles[0].scheduler_name:
        profiles = (msgspec.structs.replace(profiles[0], scheduler_name=SCHEDULER_NAME),)
    ignored = tuple(
        resource.name
        for extender in written.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    return msgspec.structs.replace(
        written,
        leader_election=_leader_election(written.leader_election),
        client_connection=_client_connection(written.client_connection),
        profiles=tuple(_profile(profile, gates, ignored) for profile in profiles),
        extenders=tuple(_extender(extender) for extender in written.extenders),
    )


def _leader_election(written: LeaderElection) -> LeaderElection:
    """An empty string or a zero duration means the default here, as it does upstream."""
    default = LeaderElection()
    return LeaderElection(
        leader_elect=written.leader_elect,
        lease_duration=written.lease_duration if written.lease_duration.nanoseconds else default.lease_duration,
        renew_deadline=written.renew_deadline if written.renew_deadline.nanoseconds else default.renew_deadline,
        retry_period=written.retry_period if written.retry_period.nanoseconds else default.retry_period,
        resource_lock=written.resource_lock or default.resource_lock,
        resource_name=written.resource_name or LEASE_NAME,
        resource_namespace=written.resource_namespace or default.resource_namespace,
    )


def _client_connection(written: ClientConnection) -> ClientConnection:
    default = ClientConnection()
    return msgspec.structs.replace(
        written,
        content_type=written.content_type or default.content_type,
        qps=written.qps or default.qps,
        burst=written.burst or default.burst,
    )


def _extender(written: Extender) -> Extender:
    if written.http_timeout.nanoseconds:
        return written
    return msgspec.structs.replace(written, http_timeout=Extender().http_timeout)


def _profile(written: Profile, gates: FeatureGates, ignored_resources: tuple[str, ...]) -> Profile:
    """Merge the default plugins in, and give every built-in plugin that takes arguments its own."""
    plugins = merge_defaults(written.plugins, default_multi_point(gates))
    given = {entry.name for entry in written.plugin_config}
    enabled = _enabled_names(plugins.multi_point, *(plugins.at(point) for point in ExtensionPoint))
    missing = tuple(
        PluginConfig(name=name, args=args()) for name, args in PLUGIN_ARGS.items() if name in enabled - given
    )
    entries = (_entry(entry, gates, ignored_resources) for entry in written.plugin_config + missing)
    return msgspec.structs.replace(written, plugins=plugins, plugin_config=tuple(entries))


def _enabled_names(*sets: PluginSet) -> set[str]:
    return {plugin.name for plugin_set in sets for plugin in plugin_set.enabled}


def _entry(entry: PluginConfig, gates: FeatureGates, ignored_resources: tuple[str, ...]) -> PluginConfig:
    args = entry.args
    match args:
        case NodeResourcesFitArgs():
            args = _node_resources_fit(args, ignored_resources)
        case NodeResourcesBalancedAllocationArgs():
            args = msgspec.structs.replace(args, resources=_resources(args.resources))
        case VolumeBindingArgs():
            args = _volume_binding(args, gates)
        case DynamicResourcesArgs():
            args = _dynamic_resources(args, gates)
        case None if entry.name in PLUGIN_ARGS:
            return _entry(PluginConfig(name=entry.name, args=PLUGIN_ARGS[entry.name]()), gates, ignored_resources)
    return PluginConfig(name=entry.name, args=args)


def _node_resources_fit(args: NodeResourcesFitArgs, ignored_resources: tuple[str, ...]) -> NodeResourcesFitArgs:
    """Resources that an extender counts itself replace the ignored ones, as kube-scheduler does at start-up."""
    strategy = args.scoring_strategy
    return msgspec.structs.replace(
        args,
        ignored_resources=ignored_resources or args.ignored_resources,
        scoring_strategy=ScoringStrategy(
            type=strategy.type,
            resources=_resources(strategy.resources),
            requested_to_capacity_ratio=strategy.requested_to_capacity_ratio,
        ),
    )


def _resources(written: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    """A weight of 0 is one that was not given, as it is upstream."""
    return tuple(ResourceSpec(name=spec.name, weight=spec.weight or 1) for spec in written) or CPU_AND_MEMORY


def _volume_binding(args: VolumeBindingArgs, gates: FeatureGates) -> VolumeBindingArgs:
    """Prefer nodes with more free storage, once storage is scored at all."""
    if args.shape or not gates.enabled("StorageCapacityScoring"):
        return args
    return msgspec.structs.replace(
        args, shape=(UtilizationShapePoint(utilization=0, score=10), UtilizationShapePoint(utilization=100, score=0))
    )


def _dynamic_resources(args: DynamicResourcesArgs, gates: FeatureGates) -> DynamicResourcesArgs:
    filter_timeout, binding_timeout = args.filter_timeout, args.binding_timeout
    if filter_timeout is None and gates.enabled("DRASchedulerFilterTimeout"):
        filter_timeout = Duration.of(10)
    if binding_timeout is None and binding_conditions(gates):
        binding_timeout = Duration.of(600)
    return DynamicResourcesArgs(filter_timeout=filter_timeout, binding_timeout=binding_timeout)


def binding_conditions(gates: FeatureGates) -> bool:
    """Whether devices may have binding conditions, which need the claim's device status too."""
    return gates.enabled("DRADeviceBindingConditions") and gates.enabled("DRAResourceClaimDeviceStatus")
