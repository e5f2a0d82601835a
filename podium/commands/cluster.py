"""`podium cluster`: the embedded API server with its controllers and hollow nodes, to play with."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from podium.http import PortError
from podium.logs import set_up
from podium.running import run_loop
from simulator.chaos import Chaos
from simulator.cluster import Cluster, make_node_template


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the command to the program's parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "cluster",
        help="an embedded API server with hollow nodes",
        description="Serve an embedded Kubernetes API with controllers and hollow nodes until interrupted.",
    )
    parser.add_argument(
        "--port", type=int, default=8001, metavar="N", help="port on the loopback (default: 8001; 0: any)"
    )
    parser.add_argument("--nodes", type=int, default=5, metavar="N", help="hollow nodes (default: 5)")
    parser.add_argument("--kubeconfig", metavar="FILE", help="write a kubeconfig there")
    parser.add_argument("--chaos", action="store_true", help="let requests, watches and nodes fail now and then")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="decides what fails when (default: 0)")
    parser.add_argument(
        "-v", "--v", dest="verbosity", type=int, default=1, metavar="N", help="log verbosity, as klog's"
    )
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    set_up(args.verbosity)
    return run_loop(serve(args))


async def serve(args: argparse.Namespace) -> int:
    """The cluster, until a signal."""
    cluster = Cluster(args.port, seed=args.seed)
    try:
        await cluster.start()
    except OSError as error:
        raise PortError(f"cannot listen on 127.0.0.1:{args.port}: {error.strerror or error}") from error
    try:
        cluster.add_nodes(make_node_template(), args.nodes)
        announce(cluster, args)
        async with asyncio.TaskGroup() as group:
            chaos = _begin_chaos(group, cluster, args.seed) if args.chaos else None
            await interrupted()
            if chaos is not None:
                chaos.cancel()
    finally:
        await cluster.stop()
    return 0


def announce(cluster: Cluster, args: argparse.Namespace) -> None:
    """Where it is, and the line to copy for kubectl."""
    path = Path(args.kubeconfig) if args.kubeconfig else Path(tempfile.mkdtemp(prefix="podium-")) / "kubeconfig"
    cluster.server.write_kubeconfig(path)
    print(f"serving {cluster.url} with {args.nodes} nodes", file=sys.stderr)
    print(f"export KUBECONFIG={path.resolve()}", file=sys.stderr)


async def interrupted() -> None:
    """Until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stop.set)
    await stop.wait()


def _begin_chaos(group: asyncio.TaskGroup, cluster: Cluster, seed: int) -> asyncio.Task[None]:
    chaos = Chaos(cluster, seed)
    chaos.unleash()
    return group.create_task(chaos.run(), name="chaos")
