"""What makes a configuration unusable, every rule of it, each fault with its path in the file.

Called by `load` with the file as written (for faults of single list entries, whose indices must be the file's) and as
effective (defaults filled in). Never changes anything, never stops at the first fault.
"""

from collections.abc import Iterator

from config.feature_gates import FeatureGates
from config.merge import expand
from config.names import extended_resource_fault, label_value_fault, qualified_name_fault
from config.problems import Finding, Path, duplicate, forbidden, invalid, required, unsupported
from config.types import (
    Configuration,
    Extender,
    ExtenderTLSConfig,
    ExtensionPoint,
    KnownPlugins,
    LeaderElection,
    PluginSet,
    Profile,
)
from config.validation_args import in_range, validate_args

# Built-in limits for volumes of one cloud each; CSI made them obsolete, and upstream refuses their names since v1.
REJECTED_PLUGINS = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
_MAX_WEIGHT = 2**31 - 1
# client-go adds up to this factor to the retry period before it gives up renewing.
_JITTER = 1.2


def validate(
    written: Configuration, effective: Configuration, known_plugins: KnownPlugins, gates: FeatureGates
) -> Iterator[Finding]:
    """Yield everything that is wrong, in the order of the fields."""
    yield from _numbers(effective)
    yield from leader_election(effective.leader_election)
    if effective.client_connection.burst < 0:
        yield invalid(("clientConnection", "burst"), effective.client_connection.burst, "must be 0 or more")
    for index, profile in enumerate(written.profiles):
        yield from _plugin_lists(profile, ("profiles", index, "plugins"), known_plugins)
        yield from _plugin_config(profile, ("profiles", index, "pluginConfig"), known_plugins)
    names: set[str] = set()
    for index, profile in enumerate(effective.profiles):
        yield from _profile(profile, ("profiles", index), known_plugins, gates)
        if profile.scheduler_name and profile.scheduler_name in names:
            yield duplicate(("profiles", index, "schedulerName"), profile.scheduler_name)
        names.add(profile.scheduler_name)
    yield from _queue_sort(effective, known_plugins)
    yield from _extenders(effective.extenders)


def warnings(written: Configuration, effective: Configuration, known_plugins: KnownPlugins) -> Iterator[Finding]:
    """Yield what is allowed and still surprising."""
    names = {profile.scheduler_name for profile in effective.profiles}
    election = effective.leader_election
    if election.leader_elect and election.resource_name == "kube-scheduler" and "default-scheduler" not in names:
        why = "this is the Lease of the default scheduler: only one of the two will ever be active"
        yield Finding(("leaderElection", "resourceName"), why)
    for index, profile in enumerate(written.profiles):
        for name, plugin_set in _sets(profile):
            for position, plugin in enumerate(plugin_set.disabled):
                if plugin.name != "*" and plugin.name not in known_plugins:
                    path: Path = ("profiles", index, "plugins", name, "disabled", position, "name")
                    yield Finding(path, f'there is no plugin "{plugin.name}" to disable')
    for index, profile in enumerate(effective.profiles):
        for plugin in profile.plugins.multi_point.enabled:
            if plugin.name not in known_plugins:  # a default one: an unknown plugin of the file is an error
                path = ("profiles", index, "plugins", "multiPoint")
                yield Finding(path, f'the default plugin "{plugin.name}" is not installed and will not run')


def _numbers(configuration: Configuration) -> Iterator[Finding]:
    initial, longest = configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds
    if configuration.parallelism <= 0:
        yield invalid(("parallelism",), configuration.parallelism, "must be greater than 0")
    yield from in_range(configuration.percentage_of_nodes_to_score, 0, 100, ("percentageOfNodesToScore",))
    if initial <= 0:
        yield invalid(("podInitialBackoffSeconds",), initial, "must be greater than 0")
    if longest < initial:
        yield invalid(("podMaxBackoffSeconds",), longest, f"must be podInitialBackoffSeconds ({initial}) or more")


def leader_election(election: LeaderElection) -> Iterator[Finding]:
    """Faults of the lease; those of the command line as well."""
    if not election.leader_elect:
        return
    lease, renew, retry = election.lease_duration, election.renew_deadline, election.retry_period
    for name, duration in (("leaseDuration", lease), ("renewDeadline", renew), ("retryPeriod", retry)):
        if duration.nanoseconds < 0:
            yield invalid(("leaderElection", name), duration, "must be greater than 0")
    if lease <= renew:
        yield invalid(("leaderElection", "leaseDuration"), lease, f"must be greater than renewDeadline ({renew})")
    if renew.nanoseconds <= retry.nanoseconds * _JITTER:
        why = f"must be greater than {_JITTER} times retryPeriod ({retry})"
        yield invalid(("leaderElection", "renewDeadline"), renew, why)
    if election.resource_lock != "leases":
        yield unsupported(("leaderElection", "resourceLock"), election.resource_lock, ["leases"])


def _profile(profile: Profile, path: Path, known_plugins: KnownPlugins, gates: FeatureGates) -> Iterator[Finding]:
    if not profile.scheduler_name:
        yield required((*path, "schedulerName"), "every one of several profiles needs a name")
    if profile.percentage_of_nodes_to_score is not None:
        yield from in_range(profile.percentage_of_nodes_to_score, 0, 100, (*path, "percentageOfNodesToScore"))
    for key, value in profile.node_selector.items():
        if fault := qualified_name_fault(key) or label_value_fault(value):
            yield invalid((*path, "nodeSelector", key), value, fault)
    by_point = expand(profile.plugins, known_plugins)
    if not by_point[ExtensionPoint.BIND]:
        yield required((*path, "plugins", "bind"), "at least one bind plugin")
    sorters = [plugin.name for plugin in by_point[ExtensionPoint.QUEUE_SORT]]
    if len(sorters) != 1:
        found = f"found {', '.join(sorters)}" if sorters else "found none"
        yield required((*path, "plugins", "queueSort"), f"exactly one queue sort plugin, {found}")
    for index, entry in enumerate(profile.plugin_config):
        yield from validate_args(entry.args, (*path, "pluginConfig", index, "args"), gates)


def _plugin_config(profile: Profile, path: Path, known_plugins: KnownPlugins) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, entry in enumerate(profile.plugin_config):
        name_path = (*path, index, "name")
        if not entry.name:
            yield required(name_path, "the name of a plugin")
        elif entry.name in seen:
            yield duplicate(name_path, entry.name)
        elif entry.name not in known_plugins:
            yield invalid(name_path, entry.name, "there is no such plugin")
        seen.add(entry.name)


def _sets(profile: Profile) -> Iterator[tuple[str, PluginSet]]:
    yield "multiPoint", profile.plugins.multi_point
    for point in ExtensionPoint:
        yield point.value, profile.plugins.at(point)


def _plugin_lists(profile: Profile, path: Path, known_plugins: KnownPlugins) -> Iterator[Finding]:
    for name, plugin_set in _sets(profile):
        seen: set[str] = set()
        for index, plugin in enumerate(plugin_set.enabled):
            entry_path = (*path, name, "enabled", index)
            yield from _enabled_plugin(plugin.name, name, (*entry_path, "name"), known_plugins)
            yield from in_range(plugin.weight, 0, _MAX_WEIGHT, (*entry_path, "weight"))
            if plugin.name in seen:
                yield duplicate((*entry_path, "name"), plugin.name)
            seen.add(plugin.name)
        for index, plugin in enumerate(plugin_set.disabled):
            if not plugin.name:
                yield required((*path, name, "disabled", index, "name"), 'the name of a plugin, or "*" for all')


def _enabled_plugin(plugin: str, point: str, path: Path, known_plugins: KnownPlugins) -> Iterator[Finding]:
    if not plugin:
        yield required(path, "the name of a plugin")
    elif plugin in REJECTED_PLUGINS:
        yield invalid(path, plugin, "the plugin exists no more; NodeVolumeLimits counts the volumes")
    elif plugin not in known_plugins:
        yield invalid(path, plugin, "there is no such plugin")
    elif point != "multiPoint" and point not in known_plugins[plugin]:
        yield invalid(path, plugin, f"the plugin does not implement the extension point {point}")


def _queue_sort(configuration: Configuration, known_plugins: KnownPlugins) -> Iterator[Finding]:
    """One queue serves all profiles, so they must agree on its order and on the arguments of the plugin."""
    canon = None
    for index, profile in enumerate(configuration.profiles):
        names = [plugin.name for plugin in expand(profile.plugins, known_plugins)[ExtensionPoint.QUEUE_SORT]]
        if len(names) != 1:
            continue  # reported with the profile itself
        current = (names[0], profile.args(names[0]))
        canon = canon or current
        if current[0] != canon[0]:
            path: Path = ("profiles", index, "plugins", "queueSort")
            yield invalid(path, current[0], f"must be the same in all profiles, as {canon[0]} in the first")
        elif current[1] != canon[1]:
            path = ("profiles", index, "pluginConfig")
            yield invalid(path, current[0], "the queue sort plugin's arguments must be the same in all profiles")


def _extenders(extenders: tuple[Extender, ...]) -> Iterator[Finding]:
    binders = 0
    managed: set[str] = set()
    for index, extender in enumerate(extenders):
        path = ("extenders", index)
        yield from _extender(extender, path)
        binders += bool(extender.bind_verb)
        if extender.bind_verb and binders > 1:
            yield invalid((*path, "bindVerb"), extender.bind_verb, "only one extender can bind")
        for position, resource in enumerate(extender.managed_resources):
            name_path = (*path, "managedResources", position, "name")
            if fault := extended_resource_fault(resource.name):
                yield invalid(name_path, resource.name, fault)
            if resource.name in managed:
                yield duplicate(name_path, resource.name)
            managed.add(resource.name)


def _extender(extender: Extender, path: Path) -> Iterator[Finding]:
    verbs = (extender.filter_verb, extender.prioritize_verb, extender.preempt_verb, extender.bind_verb)
    if any(verbs) and not extender.url_prefix:
        yield required((*path, "urlPrefix"), "the URL that the verbs are called under")
    if extender.prioritize_verb and extender.weight <= 0:
        yield invalid((*path, "weight"), extender.weight, "must be greater than 0 with a prioritizeVerb")
    if extender.http_timeout.nanoseconds < 0:
        yield invalid((*path, "httpTimeout"), extender.http_timeout, "must be greater than 0")
    if extender.tls_config is not None:
        yield from _tls(extender.tls_config, (*path, "tlsConfig"))


def _tls(tls: ExtenderTLSConfig, path: Path) -> Iterator[Finding]:
    """Refuse what would fail, or silently do nothing, only once the first pod comes."""
    if tls.insecure and (tls.ca_file or tls.ca_data):
        yield forbidden((*path, "insecure"), "cannot be true together with caFile or caData")
    has_certificate, has_key = bool(tls.cert_file or tls.cert_data), bool(tls.key_file or tls.key_data)
    if has_certificate != has_key:
        missing = "keyFile or keyData" if has_certificate else "certFile or certData"
        yield required(path, f"{missing}: a client certificate and its key come together")
