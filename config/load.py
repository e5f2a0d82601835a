"""From a file to a configuration that can be run: read, convert old versions, decode strictly, default, validate.

`load` and `loads` are what every other room calls. They return the effective configuration and warnings, or raise
ConfigError with all problems at once, each one line with file, line and field. Nothing is done with the configuration.
"""

from pathlib import Path as FilePath
from typing import Any, NamedTuple

import msgspec

from config import legacy, policy
from config.decoding import decode
from config.defaults import apply, in_tree_points
from config.document import Document, parse, read_file
from config.feature_gates import DEFAULT_GATES, FeatureGates
from config.problems import ConfigError, Finding, Path, Problem, required, unsupported
from config.types import API_VERSION, KIND, PLUGIN_ARGS, Configuration, KnownPlugins, PluginConfig, Profile
from config.validation import validate, warnings

_POLICY_KEY = "policy.cfg"
_POLICY_VERSIONS = ("v1", "kubescheduler.config.k8s.io/v1")


class Loaded(NamedTuple):
    """An effective configuration, and what its author should know."""

    configuration: Configuration
    warnings: tuple[Problem, ...]


def load(
    path: FilePath | str, *, known_plugins: KnownPlugins | None = None, gates: FeatureGates = DEFAULT_GATES
) -> Loaded:
    """Read a configuration file."""
    return _load(read_file(FilePath(path)), known_plugins, gates)


def loads(
    text: str,
    *,
    file: str = "<text>",
    known_plugins: KnownPlugins | None = None,
    gates: FeatureGates = DEFAULT_GATES,
) -> Loaded:
    """Read a configuration from a text; `file` is what its problems are reported against."""
    return _load(parse(text, file), known_plugins, gates)


def _load(document: Document, known_plugins: KnownPlugins | None, gates: FeatureGates) -> Loaded:
    plugins = in_tree_points() if known_plugins is None else known_plugins
    findings: list[Finding] = []
    notes: list[Finding] = []
    document = _unwrap_config_map(document)
    written = _decode(_as_v1(document, findings, notes), findings)
    effective = apply(written, gates)
    faults = validate(written, effective, plugins, gates)
    findings += _unless_undecoded(list(faults), {finding.path for finding in findings})
    if findings:
        raise ConfigError(_problems(document, findings))
    notes += warnings(written, effective, plugins)
    return Loaded(effective, tuple(_problems(document, notes)))


def _unless_undecoded(findings: list[Finding], undecoded: set[Path]) -> list[Finding]:
    """Leave out what is only wrong because the value there, or the one it is part of, could not be decoded."""
    return [
        finding
        for finding in findings
        if not any(finding.path[:length] in undecoded for length in range(len(finding.path) + 1))
    ]


def _problems(document: Document, findings: list[Finding]) -> list[Problem]:
    """Give the problems in the order of the file's lines; those of converted fields, which have none, come last."""
    problems = [document.problem(finding) for finding in findings]
    return sorted(problems, key=lambda problem: problem.line or 2**31)


def _unwrap_config_map(document: Document) -> Document:
    """A legacy Policy was often kept in a ConfigMap, under one well-known key."""
    if document.data.get("kind") != "ConfigMap":
        return document
    values = document.data.get("data")
    text = values.get(_POLICY_KEY) if isinstance(values, dict) else None
    if not isinstance(text, str):
        finding = required(("data", _POLICY_KEY), "a ConfigMap is read for the legacy Policy in this key")
        raise ConfigError([document.problem(finding)])
    return parse(text, f"{document.file}({_POLICY_KEY})")


def _as_v1(document: Document, findings: list[Finding], notes: list[Finding]) -> dict[str, Any]:
    data = document.data
    kind, version = data.get("kind"), data.get("apiVersion")
    if kind == "Policy" and version in _POLICY_VERSIONS:
        return policy.to_v1(data, findings, notes)
    if kind == KIND and version in legacy.OLD_VERSIONS:
        return legacy.to_v1(data, findings, notes)
    if kind == KIND and version == API_VERSION:
        return data
    raise ConfigError([document.problem(finding) for finding in _type_faults(kind, version)])


def _type_faults(kind: Any, version: Any) -> list[Finding]:
    """Say what kinds and versions are read; the fields of an unknown kind are not looked at."""
    versions = _POLICY_VERSIONS[:1] if kind == "Policy" else (API_VERSION, *reversed(legacy.OLD_VERSIONS))
    faults = []
    if version is None:
        faults.append(required(("apiVersion",), f"expected {versions[0]}"))
    elif version not in versions:
        faults.append(unsupported(("apiVersion",), version, versions))
    if kind is None:
        faults.append(required(("kind",), f"expected {KIND}"))
    elif kind not in (KIND, "Policy"):
        faults.append(unsupported(("kind",), kind, [KIND, "Policy", "ConfigMap"]))
    return faults


def _decode(data: dict[str, Any], findings: list[Finding]) -> Configuration:
    written = decode(data, Configuration, (), findings)
    profiles = (_decode_args(profile, ("profiles", i), findings) for i, profile in enumerate(written.profiles))
    return msgspec.structs.replace(written, profiles=tuple(profiles))


def _decode_args(profile: Profile, path: Path, findings: list[Finding]) -> Profile:
    """Give the built-in plugins' arguments their types; another plugin's arguments are its own business."""
    entries = []
    for index, entry in enumerate(profile.plugin_config):
        struct = PLUGIN_ARGS.get(entry.name)
        args = entry.args
        if struct is not None and args is not None:
            args_path = (*path, "pluginConfig", index, "args")
            args = decode(_untyped(args, struct.__name__, args_path, findings), struct, args_path, findings)
        entries.append(PluginConfig(name=entry.name, args=args))
    return msgspec.structs.replace(profile, plugin_config=tuple(entries))


def _untyped(args: Any, kind: str, path: Path, findings: list[Finding]) -> Any:
    """Arguments may say their own kind and version, which must then be the plugin's."""
    if not isinstance(args, dict):
        return args
    if args.get("kind", kind) != kind:
        findings.append(unsupported((*path, "kind"), args["kind"], [kind]))
    version = args.get("apiVersion", API_VERSION)
    if version not in (API_VERSION, *legacy.OLD_VERSIONS):
        findings.append(unsupported((*path, "apiVersion"), version, [API_VERSION]))
    return {key: value for key, value in args.items() if key not in {"kind", "apiVersion"}}
