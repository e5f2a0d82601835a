"""`podium demo`: an embedded cluster and the service in one process, and a real workload pushed through over HTTP."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kube.client.auth import from_kubeconfig
from kube.client.rest import Client
from podium import demo_devices, demo_gangs, demo_workload
from podium.commands.cluster import interrupted
from podium.configuration import Effective, add_config_arguments, read_configuration
from podium.demo_device_story import DeviceStory
from podium.demo_gang_story import GangStory
from podium.demo_highlights import Highlights
from podium.demo_report import DemoReport, Progress, Story
from podium.flags import port, whole
from podium.logs import set_up
from podium.output import fail
from podium.page.server import PageServer
from podium.running import run_loop
from podium.wiring import Options, Service
from simulator.cluster import Cluster
from simulator.controllers.manager import Settings

#: the demo waits this long for something to happen before it settles for what is bound, seconds
QUIET = 1.5
#: volumes and devices take a moment to be made, so that one can see who waits for whom
SETTINGS = Settings(provisioning_delay=0.3, device_delay=0.2)
MOMENT = 0.5
#: whoever is evicted is gone by then
EVICTION = 3.0
_BATCH = 50
#: demos with a workload of their own
_STORIES = ("devices", "gangs")


@dataclass(frozen=True, slots=True)
class Stage:
    """What is created at once, and for how long nothing must happen before it counts as settled, in seconds."""

    objects: list[dict[str, Any]]
    quiet: float = QUIET
    #: something of it is tried again and again, so that it never settles altogether
    retried: bool = False


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the command to the program's parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "demo",
        help="an embedded cluster and the service in one process, with a real workload",
        description="Start an embedded cluster and podium, schedule a workload over HTTP, and show what went where.",
    )
    parser.add_argument("--nodes", type=whole(1), default=30, metavar="N", help="hollow nodes (default: 30)")
    parser.add_argument("--pods", type=whole(0), default=600, metavar="N", help="pods to schedule (default: 600)")
    parser.add_argument("-f", "--filename", metavar="FILE", nargs="+", action="extend", default=[],
                        help="schedule the workloads of these manifests instead")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="decides the workload and ties (default: 0)")
    parser.add_argument(
        "--trace", metavar="PODS.csv", help="replay the tasks of a trace instead, as they came and went"
    )
    parser.add_argument("--trace-nodes", metavar="NODES.csv", help="the nodes of the trace")
    parser.add_argument(
        "--speedup", type=positive, metavar="N", help="N seconds of the trace in one (default: all of it in 30 s)"
    )
    parser.add_argument(
        "--stretch", type=positive, metavar="N", help="let each task live N times as long (default: fills the nodes)"
    )
    parser.add_argument(
        "--devices", action="store_true", help="GPUs as devices instead: claims, a driver, and who gets which"
    )
    parser.add_argument(
        "--gangs", action="store_true", help="groups of pods instead: which start together, which wait, and why"
    )
    parser.add_argument("--gpu-share", action="store_true", help="let the tasks of the trace share GPUs")
    parser.add_argument(
        "--picture", default="podium-trace.svg", metavar="FILE", help="SVG of the replay (default: podium-trace.svg)"
    )
    parser.add_argument("-v", "--v", dest="verbosity", type=int, default=-1, metavar="N", help="also show the log")
    parser.add_argument("--keep", action="store_true", help="stay up afterwards and print a kubeconfig for kubectl")
    parser.add_argument("--port", type=port, default=0, metavar="N", help="port of the API server (default: any)")
    parser.add_argument("--page-port", type=port, default=0, metavar="N", help="port of the page (default: any)")
    add_config_arguments(parser)
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Show the whole way of a pod; 0 when every pod that can fit is bound."""
    set_up(args.verbosity)
    if bool(args.trace) != bool(args.trace_nodes):
        return fail("--trace and --trace-nodes: expected both, or neither", 2)
    stories = [f"--{name}" for name in _STORIES if getattr(args, name)]
    if len(stories) > 1:
        return fail(f"{' and '.join(stories)}: expected one of them", 2)
    if stories and (args.trace or args.filename):
        return fail(f"{stories[0]}: has a workload of its own; expected no --trace and no -f", 2)
    if args.gangs and args.nodes < demo_gangs.FEWEST_NODES:
        return fail(f"--nodes {args.nodes}: --gangs needs {demo_gangs.FEWEST_NODES} or more", 2)
    if args.gangs:
        args.feature_gates = ",".join(filter(None, (demo_gangs.GATES, args.feature_gates)))
    return run_loop(demo(args, read_configuration(args)))


def positive(text: str) -> float:
    """A number above zero, for argparse."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError
    return value


async def demo(args: argparse.Namespace, effective: Effective) -> int:
    """The cluster, the service and the workload."""
    if args.trace:
        from podium import demo_trace

        return await demo_trace.replay(args, effective, partial(serving, page_port=args.page_port))
    stages = _stages(args)
    async with Cluster(args.port, seed=args.seed, controllers=SETTINGS) as cluster:
        for name, template in _nodes(args):
            cluster.add_node(template, name)
        async with serving(cluster, effective, args.seed, args.page_port) as service:
            report = DemoReport(service, cluster, _story(args, cluster))
            for stage in stages:
                await _push(cluster, stage, report)
                report.stage_over()
            report.print()
            if args.keep:
                await _keep(_write_kubeconfig(cluster))
            report.stop()
    return 0


def _nodes(args: argparse.Namespace) -> list[tuple[str, dict[str, Any]]]:
    if args.gangs:
        return demo_gangs.nodes(args.nodes)
    return demo_devices.nodes(args.nodes) if args.devices else demo_workload.nodes(args.nodes)


def _story(args: argparse.Namespace, cluster: Cluster) -> Story:
    if args.gangs:
        return GangStory(cluster)
    return DeviceStory(cluster) if args.devices else Highlights(cluster)


@asynccontextmanager
async def serving(cluster: Cluster, effective: Effective, seed: int, page_port: int) -> AsyncIterator[Service]:
    """A service on an embedded cluster that has synced, and its page; both are stopped at the end."""
    credentials = await from_kubeconfig(str(_write_kubeconfig(cluster)))
    async with Client(credentials, qps=-1, burst=0) as client:
        service = Service(client, effective, Options(leader_elect=False, seed=seed))
        await service.build()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(service.run())
            await service.synced.wait()
            async with PageServer(service, port=page_port) as page:
                print(f"page: {page.url}", file=sys.stderr)
                yield service
            service.stop()
            await running


def _stages(args: argparse.Namespace) -> list[Stage]:
    """What is created, in stages: each waits until the one before has settled."""
    if args.filename:
        from podium.manifests import objects_for_cluster

        return [Stage(objects_for_cluster(args.filename))]
    if args.devices:
        begun = [*demo_devices.foundation(), *demo_devices.workloads(args.nodes)]
        # The latecomers are there to wait for what the job holds.
        return [Stage(begun, MOMENT), Stage(demo_devices.latecomers(args.nodes), demo_devices.NIGHTLY_SECONDS + QUIET)]
    if args.gangs:
        *earlier, last = demo_gangs.workloads(args.nodes)
        return [*(Stage(objects, MOMENT, retried=True) for objects in earlier), Stage(last, EVICTION, retried=True)]
    begun = [*demo_workload.foundation(), *demo_workload.workloads(args.pods, args.nodes)]
    return [Stage(begun), Stage(demo_workload.urgent(args.nodes))]


def _write_kubeconfig(cluster: Cluster) -> Path:
    path = Path(tempfile.mkdtemp(prefix="podium-")) / "kubeconfig"
    path.write_text(cluster.kubeconfig())
    return path


async def _push(cluster: Cluster, stage: Stage, report: DemoReport) -> None:
    """Create everything, and wait until nothing happens any more."""
    with Progress(report) as progress:
        for i, obj in enumerate(stage.objects):
            cluster.server.create(obj)
            if i % _BATCH == 0:
                progress.update()
                await asyncio.sleep(0)
        while not report.settled(stage.quiet, retried=stage.retried):
            progress.update()
            await asyncio.sleep(0.05)


async def _keep(kubeconfig: Path) -> None:
    """Until interrupted."""
    print(f"\nexport KUBECONFIG={kubeconfig}\nkubectl get pods -o wide      # Ctrl-C ends the demo", file=sys.stderr)
    await interrupted()
