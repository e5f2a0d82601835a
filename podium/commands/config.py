"""`podium config`: print the configuration podium would run with, or what is wrong with it.

The output is a valid configuration file that leads to the same behaviour: defaults filled in, and for every extension
point the merged list of plugins in run order. The command line calls `add_parser` and `run`; nothing is started here.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import yaml

from config.decoding import encode
from config.defaults import default_configuration, in_tree_points
from config.feature_gates import DEFAULT_GATES
from config.feature_gates import parse as parse_gates
from config.load import Loaded, load
from config.merge import as_written, expand
from config.problems import ConfigError, Problem
from config.types import API_VERSION, Configuration, Fields, KnownPlugins, PluginConfig, Profile


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the command to the program's parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "config",
        help="print the effective configuration, or what is wrong with it",
        description="Print the configuration podium would run with, or every fault of the file, one line each.",
    )
    parser.add_argument("--config", metavar="FILE", help="KubeSchedulerConfiguration (default: podium's own defaults)")
    parser.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml", help="format (default: yaml)")
    parser.add_argument("--feature-gates", metavar="A=true,B=false", default="", help="features to turn on or off")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace, known_plugins: KnownPlugins | None = None) -> int:
    """Print the effective configuration to stdout and warnings to stderr; 2 when the input is bad."""
    plugins = _installed_plugins() if known_plugins is None else known_plugins
    try:
        loaded = _load(args, plugins)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    for warning in loaded.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    document = effective_document(loaded.configuration, plugins)
    if args.output == "json":
        print(json.dumps(document, indent=2, default=str))
    else:
        print(yaml.safe_dump(document, sort_keys=False), end="")
    return 0


def main(argv: Sequence[str]) -> int:
    """Run the command by itself: `main(["--config", "FILE"])`."""
    parser = argparse.ArgumentParser(prog="podium")
    add_parser(parser.add_subparsers())
    return run(parser.parse_args(["config", *argv]))


def effective_document(configuration: Configuration, known_plugins: KnownPlugins) -> dict[str, Any]:
    """Return the configuration as plain data, its plugins spelled out point by point."""
    profiles = tuple(_spelled_out(profile, known_plugins) for profile in configuration.profiles)
    document: dict[str, Any] = encode(msgspec.structs.replace(configuration, profiles=profiles))
    return document


def _installed_plugins() -> KnownPlugins:
    """Know the plugins that `podium run` would know, those of other packages included."""
    from plugins.registry import Registry

    return cast("KnownPlugins", {**in_tree_points(), **Registry()})


def _load(args: argparse.Namespace, plugins: KnownPlugins) -> Loaded:
    """Read gates and file, so that the faults of both are seen at once."""
    problems: list[Problem] = []
    notes: tuple[Problem, ...] = ()
    gates = DEFAULT_GATES
    try:
        gates, notes = parse_gates(args.feature_gates)
    except ConfigError as error:
        problems += error.problems
    loaded = Loaded(default_configuration(gates), ())
    try:
        if args.config is not None:
            loaded = load(args.config, known_plugins=plugins, gates=gates)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)
    return Loaded(loaded.configuration, notes + loaded.warnings)


def _spelled_out(profile: Profile, known_plugins: KnownPlugins) -> Profile:
    return msgspec.structs.replace(
        profile,
        plugins=as_written(expand(profile.plugins, known_plugins)),
        plugin_config=tuple(_typed(entry) for entry in profile.plugin_config),
    )


def _typed(entry: PluginConfig) -> PluginConfig:
    """Name the type of built-in arguments, as kube-scheduler prints them."""
    if not isinstance(entry.args, Fields):
        return entry
    kind = type(entry.args).__name__
    return PluginConfig(name=entry.name, args={"apiVersion": API_VERSION, "kind": kind} | encode(entry.args))
