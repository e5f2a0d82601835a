"""`podium run`: the service, against a cluster."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any

from kube.client.auth import load_credentials
from kube.client.errors import ApiError
from kube.client.rest import Client
from podium.configuration import Effective, add_config_arguments, read_configuration
from podium.http import HttpServer
from podium.logs import set_up
from podium.output import fail
from podium.page.server import PageServer
from podium.recording import Recorder, RecordingError
from podium.running import UnusableServerError, run_loop
from podium.wiring import Options, Service

log = logging.getLogger(__name__)

#: seconds the API server has to answer the first questions
START_TIMEOUT = 60.0


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the command to the program's parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "run",
        help="the scheduler service, against a cluster",
        description="Schedule the pods of a cluster that name one of the configured profiles.",
    )
    add_config_arguments(parser)
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="default: in-cluster, then KUBECONFIG, then ~/.kube/config"
    )
    parser.add_argument("--bind-address", default="0.0.0.0", metavar="IP", help="address of the HTTP endpoints")
    parser.add_argument("--secure-port", "--port", dest="port", type=int, default=10259, metavar="N",
                        help="port of the HTTP endpoints (default: 10259)")  # fmt: skip
    parser.add_argument(
        "--page-port", type=int, metavar="N", help="serve the page, read-only, on this port (default: not)"
    )
    parser.add_argument("--page-address", default="127.0.0.1", metavar="IP",
                        help="address of the page (default: 127.0.0.1; it asks nobody who he is)")  # fmt: skip
    parser.add_argument("--leader-elect", action=argparse.BooleanOptionalAction, default=None,
                        help="override leaderElection.leaderElect")  # fmt: skip
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="decides ties; for reproducible runs")
    parser.add_argument(
        "-v", "--v", dest="verbosity", type=int, default=1, metavar="N", help="log verbosity, as klog's"
    )
    parser.add_argument("--record", metavar="DIR", help="keep what comes in and what is decided, for podium replay")
    parser.add_argument("--record-limit", type=int, default=256, metavar="MIB",
                        help="size of the recording; the oldest part goes (default: 256)")  # fmt: skip
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT; 1 if the API server cannot be used or the lease is lost, 2 for bad input."""
    set_up(args.verbosity)
    effective = read_configuration(args)
    return run_loop(serve(args, effective))


async def serve(args: argparse.Namespace, effective: Effective) -> int:
    """The service and its endpoints, until a signal."""
    connection = effective.value.client_connection
    credentials = await load_credentials(args.kubeconfig or connection.kubeconfig or None)
    options = Options(leader_elect=args.leader_elect is not False, seed=args.seed)
    async with Client(credentials, qps=connection.qps, burst=connection.burst) as client:
        service = Service(client, effective, options)
        try:
            async with asyncio.timeout(START_TIMEOUT):
                await service.build()
        except ApiError as error:
            raise UnusableServerError(f"API server {credentials.server}: {error}") from error
        except TimeoutError:
            raise UnusableServerError(f"API server {credentials.server}: no answer in {START_TIMEOUT:g} s") from None
        loop = asyncio.get_running_loop()
        for sign in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(sign, service.stop)
        loop.add_signal_handler(signal.SIGUSR2, service.debugger.dump)
        try:
            recording = _recording(args, service)
        except RecordingError as problem:
            return fail(problem)
        with recording:
            async with HttpServer(service, args.bind_address, args.port), _page(args, service):
                await service.run()
    return 0


@asynccontextmanager
async def _page(args: argparse.Namespace, service: Service) -> AsyncIterator[None]:
    """The page, where it is asked for."""
    if args.page_port is None:
        yield
        return
    async with PageServer(service, args.page_address, args.page_port) as page:
        log.info("page: %s", page.url)
        yield


def _recording(args: argparse.Namespace, service: Service) -> AbstractContextManager[Any]:
    return nullcontext() if not args.record else Recorder(service, args.record, args.record_limit * 2**20)
