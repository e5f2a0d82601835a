"""`podium run`: the service, against a cluster."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from kube.client.auth import Credentials, load_credentials
from kube.client.errors import ApiError
from kube.client.rest import Client
from podium import flags, logs, run_options
from podium.http import HttpServer
from podium.output import fail
from podium.page.server import PageServer
from podium.recording import Recorder, RecordingError
from podium.run_options import RunOptions
from podium.running import UnusableServerError, run_loop
from podium.serving.access import Access, Ages
from podium.serving.client_metrics import ClientMetrics
from podium.serving.guard import Guard
from podium.serving.more_metrics import register
from podium.serving.process import Process
from podium.serving.trust import FrontProxy, TrustSource
from podium.wiring import Options, Service
from scheduler.metrics import Metrics

log = logging.getLogger(__name__)

#: seconds the API server has to answer the first questions
START_TIMEOUT = 60.0


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the command to the program's parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "run",
        allow_abbrev=False,
        usage="podium run [options]",
        help="the scheduler service, against a cluster",
        description="Schedule the pods of a cluster that name one of the configured profiles. The options are those of "
        "kube-scheduler: docs/options.md compares them one by one.",
    )
    flags.add_flags(parser)
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT; 1 if the API server cannot be used or the lease is lost, 2 for bad input."""
    options = run_options.read(args)
    if args.write_config_to:
        run_options.write_configuration(options.effective, args.write_config_to)
        return 0
    logs.set_up(args.v, args.vmodule, args.logging_format)
    return run_loop(serve(args, options))


async def serve(args: argparse.Namespace, options: RunOptions) -> int:
    """The service and its endpoints, until a signal."""
    connection = options.effective.value.client_connection
    credentials = await _credentials(args, connection.kubeconfig)
    metrics = Metrics()
    observer = ClientMetrics(metrics.registry).observer(credentials.server)
    async with Client(credentials, qps=connection.qps, burst=connection.burst, on_answer=observer) as client:
        service = Service(client, options.effective, _service_options(args), metrics)
        lease = options.effective.value.leader_election.resource_name
        register(metrics.registry, lease, lambda: service.elector)
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
            async with _endpoints(args, options, service), _page(args, service):
                await service.run()
    return 0


async def _credentials(args: argparse.Namespace, kubeconfig: str) -> Credentials:
    if args.master and not args.config and not args.kubeconfig:
        return Credentials(args.master, source="--master")
    credentials = await load_credentials(args.kubeconfig or kubeconfig or None)
    return replace(credentials, server=args.master) if args.master and not args.config else credentials


def _service_options(args: argparse.Namespace) -> Options:
    return Options(seed=args.seed, max_in_unschedulable=args.pod_max_in_unschedulable_pods_duration)


@asynccontextmanager
async def _endpoints(args: argparse.Namespace, options: RunOptions, service: Service) -> AsyncIterator[None]:
    """The secure port, the plain one, or both; raises PortError and CertificateError."""
    process = Process(flags.shown(args), options.effective.value.enable_profiling, args.disabled_metrics)
    async with AsyncExitStack() as stack:
        if options.secure_port is not None:
            guard = await _guard(args, options, service.client, stack)
            server = HttpServer(service, args.bind_address, options.secure_port, process, guard)
            await stack.enter_async_context(server)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            stack.callback(group.create_task(guard.keep_fresh(), name="serving certificates").cancel)
        if options.plain_port is not None:
            await stack.enter_async_context(HttpServer(service, args.address, options.plain_port, process))
        yield


async def _guard(args: argparse.Namespace, options: RunOptions, client: Client, stack: AsyncExitStack) -> Guard:
    async def asking(kubeconfig: str | None) -> Client:
        """Reviews are not held back by the rate of the scheduler's own requests."""
        if not kubeconfig:
            return client.with_rate(-1, 0)
        credentials = await load_credentials(kubeconfig)
        return await stack.enter_async_context(Client(credentials, qps=-1, burst=0))

    tokens, paths = await asking(args.authentication_kubeconfig), await asking(args.authorization_kubeconfig)
    source = TrustSource(
        None if args.authentication_skip_lookup else tokens,
        Path(args.client_ca_file) if args.client_ca_file else None,
        Path(args.requestheader_client_ca_file) if args.requestheader_client_ca_file else None,
        FrontProxy(
            names=args.requestheader_allowed_names,
            username_headers=args.requestheader_username_headers,
            uid_headers=args.requestheader_uid_headers,
            group_headers=args.requestheader_group_headers,
            extra_prefixes=args.requestheader_extra_headers_prefix,
        ),
    )
    ages = Ages(
        args.authentication_token_webhook_cache_ttl,
        args.authorization_webhook_cache_authorized_ttl,
        args.authorization_webhook_cache_unauthorized_ttl,
    )
    access = Access(tokens, paths, asyncio.get_running_loop().time, ages)
    tolerate = args.authentication_tolerate_lookup_failure
    return await Guard.build(options.tls, source, access, args.authorization_always_allow_paths, tolerate=tolerate)


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
