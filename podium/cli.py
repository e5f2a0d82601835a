"""The command line: finds the command, and turns expected failures into one clear line and an exit code.

0: it did what was asked. 1: it could not. 2: wrong usage or bad input.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

# One BLAS thread: a second one only spins (engine notes); must be set before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

COMMANDS = ("run", "demo", "cluster", "simulate", "config")


def parser() -> argparse.ArgumentParser:
    """The program's parser with all commands."""
    top = argparse.ArgumentParser(prog="podium", description="kube-scheduler as one asyncio Python service.")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        importlib.import_module(f"podium.commands.{command}").add_parser(subparsers)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    from config.problems import ConfigError
    from kube.client.auth import CredentialsError
    from plugins.registry import PluginError
    from podium.output import fail
    from simulator.load import LoadError

    args = parser().parse_args(argv)
    try:
        code: int = args.run(args)
    except (ConfigError, LoadError, CredentialsError, PluginError) as problem:
        return fail(problem, 2)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing to say, and nobody to say it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    return code
