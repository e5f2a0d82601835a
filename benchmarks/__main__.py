"""`python -m benchmarks`: the command line of the benchmarks. Times go to stdout, one document of JSON to `--json`."""

from __future__ import annotations

import os

# Before numpy is imported, here and in every process that is started from here.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec


def main(argv: list[str] | None = None) -> int:
    """Run one of the commands; `engine` where none is named."""
    arguments = sys.argv[1:] if argv is None else argv
    args = _parser().parse_args(arguments or ["engine"])
    result: int = args.run(args)
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What scheduling costs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    engine = _add(commands, "engine", "scheduling cycles in this process, no API server", _engine, label="medium")
    engine.add_argument("--rounds", type=int, default=1, help="the best of so many (default: 1)")
    compare = _add(commands, "compare", "podium and a peer in turn on the same API server", _compare, label="short")
    compare.add_argument("--server", default="embedded", help="embedded, real, or a kubeconfig (default: embedded)")
    compare.add_argument(
        "--peer", default="", help="`kube-scheduler`, or a command with {kubeconfig} {config} {name} {port}"
    )
    compare.add_argument("--rounds", type=int, default=2, help="times each of them runs (default: 2)")
    compare.add_argument("--probe", action="store_true", help="ask /healthz all the time: the longest silence")
    _add(commands, "curves", "cost of a cycle by number of nodes and of running pods", _curves)
    stall = _add(commands, "stall", "longest time the loop serves no I/O, and start to first bind", _stall)
    stall.add_argument("--nodes", type=int, default=5_000)
    stall.add_argument("--running", type=int, default=100_000)
    stall.add_argument("--burst", type=int, default=5_000)
    counts = _add(commands, "counts", "calls, memory, bytes and requests, the same on every machine", _counts)
    counts.add_argument("--record", type=Path, metavar="FILE", help="write them as what the tests expect from now on")
    report = commands.add_parser("report", help="one table and plots from files of JSON")
    report.add_argument("files", nargs="*", type=Path, help="default: all in docs/benchmarks")
    report.add_argument("--into", type=Path, default=Path("docs/benchmarks"))
    report.set_defaults(run=_report)
    return parser


def _add(commands: Any, name: str, text: str, run: Any, label: str = "") -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured")
    if label:
        parser.add_argument("--label", default=label, help=f"short, medium, performance or long (default: {label})")
        parser.add_argument("--only", default="", metavar="REGEX", help="workloads whose name/size matches")
        parser.add_argument("--without", default="", metavar="LABEL", help="leave those with this label out")
    parser.set_defaults(run=run)
    return parser


def _write(args: argparse.Namespace, kind: str, results: Any) -> None:
    from benchmarks.calibration import machine

    if args.json is not None:
        command = "python -m benchmarks " + " ".join(sys.argv[1:])
        document = {"kind": kind, "command": command, "machine": machine(), "results": results}
        args.json.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")


def _engine(args: argparse.Namespace) -> int:
    from benchmarks.commands import run_engine

    _write(args, "engine", run_engine(args.label, args.only, args.without, args.rounds))
    return 0


def _compare(args: argparse.Namespace) -> int:
    from benchmarks.commands import run_compare

    results: list[dict[str, Any]] = []
    for result in run_compare(args):
        results.append(result)
        _write(args, "compare", results)  # after each: the whole may take an hour
    return 0 if results else 1


def _curves(args: argparse.Namespace) -> int:
    from benchmarks.curves import run_curves

    _write(args, "curves", run_curves())
    return 0


def _stall(args: argparse.Namespace) -> int:
    from benchmarks.loop_stall import run_stall

    _write(args, "stall", run_stall(args.nodes, args.running, args.burst))
    return 0


def _counts(args: argparse.Namespace) -> int:
    from benchmarks.counts import record, run_counts

    counts = run_counts()
    _write(args, "counts", counts)
    if args.record is not None:
        record(counts, args.record)
    return 0


def _report(args: argparse.Namespace) -> int:
    from benchmarks.report import write_report

    write_report(args.files or sorted(args.into.glob("*.json")), args.into)
    return 0


if __name__ == "__main__":
    sys.exit(main())
