"""What every command that decides needs: the configuration of --config and --feature-gates, and the plugins.

The plugins are imported where a configuration is read: a command that asks somebody else need not wait for them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from config.types import Configuration, KnownPlugins
    from plugins.registry import Registry


@dataclass(frozen=True, slots=True)
class Effective:
    """The effective configuration, the feature gates, and the registry it was validated against."""

    value: Configuration
    gates: Mapping[str, bool]
    registry: Registry

    @property
    def known_plugins(self) -> KnownPlugins:
        """Every plugin that a configuration may name, with the extension points it takes part in."""
        return _known(self.registry)


def _known(registry: Registry) -> KnownPlugins:
    from config.defaults import in_tree_points

    return cast("KnownPlugins", {**in_tree_points(), **registry})


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """--config and --feature-gates."""
    parser.add_argument("--config", metavar="FILE", help="KubeSchedulerConfiguration (default: podium's own defaults)")
    parser.add_argument("--feature-gates", metavar="A=true,B=false", default="", help="features to turn on or off")


def read_configuration(args: argparse.Namespace) -> Effective:
    """Raises ConfigError with every problem; warnings go to stderr."""
    from config.defaults import default_configuration
    from config.feature_gates import parse as parse_gates
    from config.load import load
    from plugins.registry import Registry

    gates, warnings = parse_gates(args.feature_gates)
    registry = Registry()
    if args.config:
        loaded = load(args.config, known_plugins=_known(registry), gates=gates)
        configuration, warnings = loaded.configuration, (*warnings, *loaded.warnings)
    else:
        configuration = default_configuration(gates)
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return Effective(configuration, gates.as_dict(), registry)
