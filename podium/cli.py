"""The command line: finds the command, and turns expected failures into one clear line and an exit code.

0: it did what was asked. 1: it could not. 2: wrong usage or bad input.
Only the module of the asked command is imported, so that `podium simulate` does not wait for the HTTP stack.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

# One BLAS thread: a second one only spins (engine notes); must be set before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

COMMANDS = {
    "run": "the scheduler service, against a cluster",
    "demo": "an embedded cluster and the service in one process, with a real workload",
    "cluster": "an embedded API server with hollow nodes",
    "simulate": "schedule pods from files, offline",
    "explain": "why a pod is where it is, or nowhere",
    "snapshot": "dump what the scheduler sees of a cluster",
    "replay": "decide a recording again, and show the differences",
    "config": "print the effective configuration, or what is wrong with it",
}


class _Version(argparse.Action):
    """Looks the version up only where it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print it and leave."""
        from importlib.metadata import version

        print(f"podium {version('podium')}")
        parser.exit()


def parser(asked: str = "") -> argparse.ArgumentParser:
    """The program's parser: the asked command whole, the others by name."""
    top = argparse.ArgumentParser(prog="podium", description="kube-scheduler as one asyncio Python service.")
    top.add_argument("--version", action=_Version, nargs=0, help="print the version")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command, text in COMMANDS.items():
        if command == asked:
            importlib.import_module(f"podium.commands.{command}").add_parser(subparsers)
        else:
            subparsers.add_parser(command, help=text)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    args = parser(next((word for word in argv if not word.startswith("-")), "")).parse_args(argv)
    try:
        code: int = args.run(args)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing to say, and nobody to say it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as problem:
        if not is_bad_input(problem):
            raise
        print(problem, file=sys.stderr)
        return 2
    return code


def is_bad_input(problem: Exception) -> bool:
    """Whether a command was given something it cannot use: such errors are lines for people already."""
    from config.problems import ConfigError
    from plugins.registry import PluginError
    from simulator.load import LoadError

    return isinstance(problem, (ConfigError, LoadError, PluginError))
