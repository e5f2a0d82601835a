"""`podium cluster`: the embedded API server with its controllers and hollow nodes, to play with."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from podium.flags import port
from podium.http import PortError
from podium.logs import set_up
from podium.output import fail, writing
from podium.running import run_loop
from simulator.apiserver.chaos import DEFAULT, ChaosError, check, explained
from simulator.apiserver.state_file import StateFileError
from simulator.chaos import Chaos
from simulator.cluster import Cluster, make_node_template
from simulator.state_keeper import INTERVAL, StateKeeper

NODES = 5
_EPILOG = f"""\
A line of chaos names what goes wrong and how often, separated by commas:

{explained()}

A share is the chance that a request (or a watch, after twenty lines) meets the fault; a time is how long at most; an
interval is how often it happens on average. Behind a share or a time may stand, in any order and separated by colons,
a verb (get, list, watch, create, update, patch, delete, deletecollection), a path (a regular expression, looked for in
the path and query) and a count: errors=100%:create:/binding:x3 refuses the next three bindings.
--seed decides what fails when. Without a line: {DEFAULT}
"""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the command to the program's parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "cluster",
        help="an embedded API server with hollow nodes",
        description="Serve an embedded Kubernetes API with controllers and hollow nodes until interrupted.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--port", type=port, default=8001, metavar="N", help="port on the loopback (default: 8001; 0: any)"
    )
    parser.add_argument("--nodes", type=int, metavar="N", help=f"hollow nodes of a new cluster (default: {NODES})")
    parser.add_argument("--kubeconfig", metavar="FILE", help="write a kubeconfig there")
    parser.add_argument(
        "--state",
        metavar="FILE",
        help=f"go on from this file if it exists, with its nodes, and save there every {INTERVAL:.0f} s and at the end "
        "(.gz: packed)",
    )
    parser.add_argument(
        "--chaos", nargs="?", const="", metavar="LINE", help="let requests, watches and nodes fail; see below"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="decides what fails when (default: 0)")
    parser.add_argument(
        "-v", "--v", dest="verbosity", type=int, default=1, metavar="N", help="log verbosity, as klog's"
    )
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    set_up(args.verbosity)
    if args.nodes is not None and args.nodes < 0:
        return fail(f"--nodes: expected a number of 0 or more, got {args.nodes}", 2)
    try:
        check(args.chaos or "")
        return run_loop(serve(args))
    except (ChaosError, StateFileError) as problem:
        return fail(problem, 2)


async def serve(args: argparse.Namespace) -> int:
    """The cluster, until a signal."""
    cluster = Cluster(args.port, seed=args.seed)
    keeper = StateKeeper(cluster, Path(args.state)) if args.state else None
    loaded = keeper.load() if keeper is not None else 0
    try:
        await cluster.start()
    except OSError as error:
        raise PortError(f"cannot listen on 127.0.0.1:{args.port}: {error.strerror or error}") from error
    try:
        if not loaded:
            cluster.add_nodes(make_node_template(), NODES if args.nodes is None else args.nodes)
        announce(cluster, args, loaded)
        async with asyncio.TaskGroup() as group:
            chaos = _begin_chaos(group, cluster, args) if args.chaos is not None else None
            if keeper is not None:
                group.create_task(keeper.run(), name="state")
            await interrupted()
            if chaos is not None:
                chaos.cancel()
            if keeper is not None:
                keeper.stop()
    finally:
        await cluster.stop()
    return 0 if keeper is None else _save(keeper, args.state)


def _save(keeper: StateKeeper, name: str) -> int:
    try:
        count = keeper.save()
    except StateFileError as problem:
        return fail(problem)
    print(f"saved {count} objects to {name}", file=sys.stderr)
    return 0


def announce(cluster: Cluster, args: argparse.Namespace, loaded: int) -> None:
    """Where it is, and the line to copy for kubectl."""
    path = Path(args.kubeconfig) if args.kubeconfig else Path(tempfile.mkdtemp(prefix="podium-")) / "kubeconfig"
    with writing(path):
        cluster.server.write_kubeconfig(path)
    source = f", going on from {args.state} ({loaded} objects)" if loaded else ""
    print(f"serving {cluster.url} with {len(cluster.server.list('nodes'))} nodes{source}", file=sys.stderr)
    print(f"export KUBECONFIG={path.resolve()}", file=sys.stderr)


async def interrupted() -> None:
    """Until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stop.set)
    await stop.wait()


def _begin_chaos(group: asyncio.TaskGroup, cluster: Cluster, args: argparse.Namespace) -> asyncio.Task[None]:
    chaos = Chaos(cluster, args.seed, args.chaos)
    chaos.unleash()
    return group.create_task(chaos.run(), name="chaos")
