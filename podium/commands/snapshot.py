"""`podium snapshot`: a dump of what the scheduler sees, for simulate, explain and bug reports."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from podium.output import fail


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the command to the program's parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "snapshot",
        help="dump what the scheduler sees of a cluster",
        description="Write everything that scheduling looks at as one gzipped List: podium snapshot > cluster.json.gz. "
        "The cluster is only read.",
    )
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="default: in-cluster, then KUBECONFIG, then ~/.kube/config"
    )
    parser.add_argument("-f", "--filename", metavar="FILE", nargs="+", action="extend", default=[],
                        help="dump these files instead of a cluster")  # fmt: skip
    parser.add_argument("--anonymise", "--anonymize", action="store_true",
                        help="other words for names, labels and images; it decides as the original")  # fmt: skip
    parser.add_argument("-o", "--output", metavar="FILE", help="default: stdout")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Write the dump; 1 where the cluster cannot be read, 2 for bad input."""
    from podium.what_if.from_cluster import ClusterUnreadableError, read_cluster
    from podium.what_if.snapshot import Anonymiser, dump, plain_objects
    from simulator.load import load

    if args.output is None and sys.stdout.isatty():
        return fail("the dump is gzipped: write it to a file (podium snapshot > cluster.json.gz)", 2)
    try:
        objects = load(args.filename) if args.filename else read_cluster(args.kubeconfig)
    except ClusterUnreadableError as problem:
        return fail(problem, problem.exit_code)
    for warning in objects.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    items = plain_objects(objects)
    if args.anonymise:
        items = map(Anonymiser().object, items)
    data = dump(items)
    if args.output is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        try:
            Path(args.output).write_bytes(data)
        except OSError as problem:
            return fail(f"{args.output}: cannot be written: {problem.strerror}")
    total = len(objects.nodes) + len(objects.pods) + sum(map(len, objects.others.values()))
    print(f"{total:,} objects: {len(objects.nodes):,} nodes, {len(objects.pods):,} pods, {len(data):,} bytes",
          file=sys.stderr)  # fmt: skip
    return 0
