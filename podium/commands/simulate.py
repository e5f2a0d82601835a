"""`podium simulate`: what would the scheduler do with these files? Offline, by the same engine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from kube.api.quantity import Format, format_milli, format_value
from podium.configuration import add_config_arguments, read_configuration
from podium.output import print_json
from simulator.load import ClusterObjects, load, load_pods
from simulator.offline import NodeResult, PodResult, Simulation


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the command to the program's parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "simulate",
        help="schedule pods from files, offline",
        description="Schedule the pods of files on the nodes of files, offline, by the engine that podium run uses.",
    )
    files: dict[str, Any] = {"metavar": "FILE", "nargs": "+", "action": "extend"}
    everything = "all objects of the cluster: YAML, JSON, Lists, kubectl dumps, directories, CSV traces, - for stdin"
    some = "schedule these pods, in this order, and leave the cluster's own pending pods"
    parser.add_argument("-f", "--filename", required=True, help=everything, **files)
    parser.add_argument("--pods", default=[], help=some, **files)
    parser.add_argument("--alone", action="store_true", help="judge every pod by itself, none placed before the next")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="decides ties (default: 0)")
    parser.add_argument("--gpu-share", action="store_true", help="let the tasks of a CSV trace share GPUs")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="format (default: table)")
    add_config_arguments(parser)
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print where each pod goes and why; 2 for bad input."""
    configuration = read_configuration(args)
    objects = load(args.filename, gpu_share=args.gpu_share)
    pods: Sequence[Any] | None = None
    if args.pods:
        pods, objects = load_pods(args.pods, objects)
    _warn(objects)
    simulation = Simulation(
        objects,
        configuration.value,
        configuration.registry,
        configuration.gates,
        seed=args.seed,
        any_scheduler_name=not args.config,
        detail=args.output == "json",
    )
    if pods is None and not args.alone:
        results: Iterable[PodResult] = simulation.run()
    elif args.alone:
        results = simulation.judge_alone(objects.pending if pods is None else pods)
    else:
        results = simulation.schedule(pods or ())
    rows = list(results)
    if args.output == "json":
        print_json(
            {"pods": [pod_document(row) for row in rows], "nodes": [node_document(n) for n in simulation.nodes()]}
        )
    else:
        from podium.tables import print_simulation

        print_simulation(rows, simulation.nodes())
    return 0


def _warn(objects: ClusterObjects) -> None:
    for warning in objects.warnings:
        print(f"warning: {warning}", file=sys.stderr)


def pod_document(row: PodResult) -> dict[str, Any]:
    """One pod as JSON; `allocations` only where it would get devices."""
    document = {
        "namespace": row.namespace,
        "name": row.name,
        "node": row.node,
        "nominatedNode": row.nominated_node,
        "victims": list(row.victims),
        "feasible": list(row.feasible),
        "scores": row.scores,
        "reasons": {
            node: {"plugin": status.plugin, "code": status.code.text, "messages": list(status.reasons)}
            for node, status in row.reasons.items()
        },
        "message": row.message,
    }
    return document | {"allocations": row.allocations} if row.allocations else document


def node_document(node: NodeResult) -> dict[str, Any]:
    """One node as JSON, amounts as Kubernetes writes them."""
    return {
        "name": node.name,
        "pods": node.pods,
        "requested": {name: amount_text(name, n) for name, n in node.requested.items() if name != "pods" and n},
        "allocatable": {name: amount_text(name, n) for name, n in node.allocatable.items()},
    }


def amount_text(resource: str, amount: int) -> str:
    """milliCPU or base units as a quantity."""
    if resource == "cpu":
        return format_milli(amount)
    binary = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return format_value(amount, Format.BINARY_SI if binary else Format.DECIMAL_SI)
