"""Older versions of KubeSchedulerConfiguration, rewritten as v1 before anything else looks at them.

v1alpha1 to v1beta3 of `kubescheduler.config.k8s.io`, and the algorithm providers. Works on plain data, so that the
strict decoding of v1 judges the result; whatever cannot be carried over is told in a note, never dropped in silence.
The legacy Policy is in `policy`. Called by `load` only.
"""

import copy
from collections.abc import Iterator
from typing import Any

from config.problems import Finding, Path, forbidden, unsupported
from config.types import API_GROUP, API_VERSION

ALPHA = (f"{API_GROUP}/v1alpha1", f"{API_GROUP}/v1alpha2")
BETA = (f"{API_GROUP}/v1beta1", f"{API_GROUP}/v1beta2", f"{API_GROUP}/v1beta3")
OLD_VERSIONS = ALPHA + BETA
PROVIDERS = ("DefaultProvider", "ClusterAutoscalerProvider")
STRATEGIES = {
    "NodeResourcesLeastAllocated": "LeastAllocated",
    "NodeResourcesMostAllocated": "MostAllocated",
    "RequestedToCapacityRatio": "RequestedToCapacityRatio",
}
_CSI_LIMITS = "NodeVolumeLimits counts the volumes of every CSI driver"
_SPREAD = "PodTopologySpread spreads the pods of a service or workload by default"
GONE = {
    "AzureDiskLimits": _CSI_LIMITS,
    "CinderLimits": _CSI_LIMITS,
    "EBSLimits": _CSI_LIMITS,
    "GCEPDLimits": _CSI_LIMITS,
    "DefaultPodTopologySpread": _SPREAD,
    "SelectorSpread": _SPREAD,
    "NodePreferAvoidPods": "taint the nodes instead",
    "ServiceAffinity": "give the pods inter-pod affinity instead; nothing keeps a service's pods together now",
}
# Until v1beta2 these three weighed 1; they were raised to 3, 2 and 2 with v1beta3.
_OLD_WEIGHTS = ("TaintToleration", "NodeAffinity", "InterPodAffinity")
_OLD_LOCKS = ("endpoints", "configmaps", "endpointsleases", "configmapsleases")


def to_v1(data: dict[str, Any], findings: list[Finding], notes: list[Finding]) -> dict[str, Any]:
    """Return the same configuration as v1; faults go to the findings, changes of meaning to the notes."""
    version = data["apiVersion"]
    notes.append(Finding(("apiVersion",), f"{version} is an old version, read as {API_VERSION}"))
    data = copy.deepcopy(data) | {"apiVersion": API_VERSION}
    addresses = [name for name in ("healthzBindAddress", "metricsBindAddress") if data.pop(name, None)]
    notes += [Finding((name,), "has no effect: the command line says where podium listens") for name in addresses]
    _leader_election(data, notes)
    if version in ALPHA:
        _alpha(data, findings, notes)
    _algorithm_source(data, findings, notes)
    if not isinstance(data.get("profiles"), list):
        data.setdefault("profiles", [{}])
    for index, profile in _mappings(data["profiles"]):
        _Profile(profile, ("profiles", index), notes).convert(old_weights=version != BETA[-1])
    if version != BETA[-1]:
        text = f"the default weight 1 of {version} is kept for {', '.join(_OLD_WEIGHTS)}"
        notes.append(Finding(("apiVersion",), text))
    return data


def provider_profile(name: str) -> dict[str, Any]:
    """Return the profile that an algorithm provider stood for."""
    if name == "DefaultProvider":
        return {}
    strategy = {"type": "MostAllocated"}
    return {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]}


def _leader_election(data: dict[str, Any], notes: list[Finding]) -> None:
    election = data.get("leaderElection")
    if not isinstance(election, dict):
        return
    for old, new in (("lockObjectName", "resourceName"), ("lockObjectNamespace", "resourceNamespace")):
        if old in election:
            election.setdefault(new, election.pop(old))
    if election.get("resourceLock") in _OLD_LOCKS:
        text = f'"{election["resourceLock"]}" exists no more: a Lease is used'
        notes.append(Finding(("leaderElection", "resourceLock"), text))
        election["resourceLock"] = "leases"


def _alpha(data: dict[str, Any], findings: list[Finding], notes: list[Finding]) -> None:
    """Move what the alpha versions kept at the top into the profiles and their plugin arguments."""
    moved = {name: data.pop(name) for name in ("schedulerName", "plugins", "pluginConfig") if name in data}
    if moved:
        data.setdefault("profiles", [moved])
    profiles = [profile for _, profile in _mappings(data.setdefault("profiles", [{}]))]
    weight, timeout = data.pop("hardPodAffinitySymmetricWeight", None), data.pop("bindTimeoutSeconds", None)
    no_preemption = data.pop("disablePreemption", None)
    for profile in profiles:
        if weight is not None:
            plugin_args(profile, "InterPodAffinity").setdefault("hardPodAffinityWeight", weight)
        if timeout is not None:
            plugin_args(profile, "VolumeBinding").setdefault("bindTimeoutSeconds", timeout)
        if no_preemption:
            _append(_mapping(profile, "plugins", "postFilter"), "disabled", {"name": "DefaultPreemption"})
        plugins = profile.get("plugins")
        if isinstance(plugins, dict) and plugins.pop("unreserve", None):
            notes.append(Finding(("plugins", "unreserve"), "is part of the reserve extension point now: dropped"))


def _algorithm_source(data: dict[str, Any], findings: list[Finding], notes: list[Finding]) -> None:
    source = data.pop("algorithmSource", None)
    if source is None:
        return
    path: Path = ("algorithmSource",)
    provider = source.get("provider") if isinstance(source, dict) else None
    if provider is None:
        why = "give podium the Policy itself with --config: its file, or its ConfigMap as YAML"
        findings.append(forbidden(path, why))
    elif provider not in PROVIDERS:
        findings.append(unsupported((*path, "provider"), provider, PROVIDERS))
    else:
        notes.append(Finding((*path, "provider"), f"{provider} is read as a profile of its plugins"))
        for _, profile in _mappings(data.setdefault("profiles", [{}])):
            for entry in provider_profile(provider).get("pluginConfig", []):
                plugin_args(profile, entry["name"]).update(entry["args"])


class _Profile:
    """One profile under conversion; owned by a single call of `to_v1`."""

    def __init__(self, profile: dict[str, Any], path: Path, notes: list[Finding]) -> None:
        self.profile = profile
        self.path = path
        self.notes = notes

    def convert(self, *, old_weights: bool) -> None:
        """Rewrite the profile in place."""
        # Strategies first: what they and NodeLabel become must not depend on what is dropped.
        self._scoring_strategy()
        self._node_label()
        self._drop_gone()
        if old_weights:
            self._keep_old_weights()

    def _note(self, text: str, *path: str | int) -> None:
        self.notes.append(Finding((*self.path, *path), text))

    def _sets(self) -> Iterator[tuple[str, dict[str, Any]]]:
        plugins = self.profile.get("plugins")
        if isinstance(plugins, dict):
            yield from ((point, value) for point, value in plugins.items() if isinstance(value, dict))

    def _take(self, name: str) -> dict[str, list[dict[str, Any]]]:
        """Remove a plugin from every list; return its entries by point ("score") and by "-point" where disabled."""
        taken: dict[str, list[dict[str, Any]]] = {}
        for point, plugin_set in self._sets():
            for side, prefix in (("enabled", ""), ("disabled", "-")):
                entries = plugin_set.get(side)
                if isinstance(entries, list) and any(_named(entry, name) for entry in entries):
                    taken[prefix + point] = [entry for entry in entries if _named(entry, name)]
                    plugin_set[side] = [entry for entry in entries if not _named(entry, name)]
        return taken

    def _take_args(self, name: str) -> dict[str, Any] | None:
        entries = self.profile.get("pluginConfig")
        found = None
        if isinstance(entries, list):
            found = next((entry for entry in entries if _named(entry, name)), None)
            self.profile["pluginConfig"] = [entry for entry in entries if not _named(entry, name)]
        args = (found.get("args") or {}) if found is not None else None
        return args if isinstance(args, dict) else None

    def _scoring_strategy(self) -> None:
        """Turn the three plugins that scored free resources into strategies of NodeResourcesFit."""
        taken = {name: (self._take(name), self._take_args(name)) for name in STRATEGIES}
        chosen = [name for name, (entries, _) in taken.items() if "score" in entries or "multiPoint" in entries]
        least = "NodeResourcesLeastAllocated"
        if chosen:
            name = next((name for name in chosen if name != least), least)
            entries, args = taken[name]
            entry = (entries.get("score") or entries["multiPoint"])[0]
            replacement = {"name": "NodeResourcesFit", "weight": entry.get("weight") or 1}
            _append(_mapping(self.profile, "plugins", "score"), "enabled", replacement)
            self._note(f"{name} is NodeResourcesFit with the scoring strategy {STRATEGIES[name]} now", "plugins")
            for other in chosen:
                if other != name:
                    self._note(f"{other} is dropped: a profile has one scoring strategy, {STRATEGIES[name]}", "plugins")
            if (
                least not in chosen
                and "-score" not in taken[least][0]
                and not self._is_off("NodeResourcesFit", "score")
            ):
                self._note("LeastAllocated, the default, is dropped: a profile has one scoring strategy", "plugins")
            plugin_args(self.profile, "NodeResourcesFit")["scoringStrategy"] = strategy(name, args or {})
        elif "-score" in taken[least][0]:
            _append(_mapping(self.profile, "plugins", "score"), "disabled", {"name": "NodeResourcesFit"})
        elif taken[least][1]:
            plugin_args(self.profile, "NodeResourcesFit")["scoringStrategy"] = strategy(least, taken[least][1] or {})

    def _is_off(self, name: str, point: str) -> bool:
        """Whether the profile takes a default plugin, or all of them, away from a point."""
        disabled = [entry for at, sets in self._sets() if at == point for entry in _list(sets.get("disabled"))]
        return any(_named(entry, name) or _named(entry, "*") for entry in disabled)

    def _node_label(self) -> None:
        """Keep NodeLabel's filter as node affinity added to every pod."""
        entries, args = self._take("NodeLabel"), self._take_args("NodeLabel") or {}
        if not any(point in entries for point in ("filter", "score", "multiPoint")):
            return
        expressions = [{"key": key, "operator": "Exists"} for key in _list(args.get("presentLabels"))]
        expressions += [{"key": key, "operator": "DoesNotExist"} for key in _list(args.get("absentLabels"))]
        if expressions:
            add_node_affinity(self.profile, expressions)
            self._note("NodeLabel is addedAffinity of NodeAffinity now", "plugins")
        if args.get("presentLabelsPreference") or args.get("absentLabelsPreference"):
            self._note("NodeLabel's label preferences are dropped: use preferred terms of addedAffinity", "plugins")

    def _drop_gone(self) -> None:
        for name, instead in GONE.items():
            entries, args = self._take(name), self._take_args(name)
            if args is not None or any(not point.startswith("-") for point in entries):
                self._note(f"{name} exists no more: {instead}", "plugins")

    def _keep_old_weights(self) -> None:
        multi_point = _mapping(self.profile, "plugins", "multiPoint")
        enabled, disabled = _list(multi_point.get("enabled")), _list(multi_point.get("disabled"))
        if not any(_named(entry, "*") for entry in disabled):
            given = [entry.get("name") for _, entry in _mappings([*enabled, *disabled])]
            kept = [{"name": name, "weight": 1} for name in _OLD_WEIGHTS if name not in given]
            multi_point["enabled"] = enabled + kept


def strategy(plugin: str, args: dict[str, Any]) -> dict[str, Any]:
    """Return the scoring strategy that one of the old plugins stood for."""
    found: dict[str, Any] = {"type": STRATEGIES[plugin]}
    if args.get("resources"):
        found["resources"] = args["resources"]
    if plugin == "RequestedToCapacityRatio":
        found["requestedToCapacityRatio"] = {"shape": args.get("shape") or []}
    return found


def add_node_affinity(profile: dict[str, Any], expressions: list[dict[str, Any]]) -> None:
    """Add requirements that every node of the profile must meet, beside those already there."""
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    selector = _mapping(plugin_args(profile, "NodeAffinity"), "addedAffinity", key)
    for _, term in _mappings(selector.setdefault("nodeSelectorTerms", [{}])):
        term["matchExpressions"] = _list(term.get("matchExpressions")) + expressions


def plugin_args(profile: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a plugin's arguments in a profile to write into, made when they are missing."""
    entries = profile.get("pluginConfig")
    if not isinstance(entries, list):
        entries = profile["pluginConfig"] = []
    entry = next((entry for entry in entries if _named(entry, name)), None)
    if entry is None:
        entry = {"name": name}
        entries.append(entry)
    return _mapping(entry, "args")


def _mapping(data: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the mapping below these names, made when it is missing."""
    for name in names:
        if not isinstance(data.get(name), dict):
            data[name] = {}
        data = data[name]
    return data


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _append(data: dict[str, Any], name: str, item: dict[str, Any]) -> None:
    data[name] = [*_list(data.get(name)), item]


def _mappings(items: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the mappings of a list; what is none is left for the strict decoding to report."""
    if isinstance(items, list):
        yield from ((index, item) for index, item in enumerate(items) if isinstance(item, dict))


def _named(entry: Any, name: str) -> bool:
    return isinstance(entry, dict) and entry.get("name") == name
