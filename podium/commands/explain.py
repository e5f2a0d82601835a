"""`podium explain`: why a pod is where it is, or nowhere; from files, from a running podium, or from the cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from podium.configuration import add_config_arguments, read_configuration
from podium.output import fail, print_json

DEFAULT_SERVER = "https://127.0.0.1:10259"


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the command to the program's parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "explain",
        help="why a pod is where it is, or nowhere",
        description="Why a pod is where it is, or nowhere: who refused which nodes and why, which nodes are near, and "
        "what would change it. Without -f a running podium is asked, or the cluster where none answers.",
    )
    parser.add_argument("pod", nargs="?", metavar="[NAMESPACE/]POD", help="default: every pending pod, a line each")
    parser.add_argument("-n", "--namespace", default="default", metavar="NAMESPACE", help="default: default")
    parser.add_argument("-f", "--filename", metavar="FILE", nargs="+", action="extend", default=[],
                        help="offline: the objects of the cluster, as for simulate")  # fmt: skip
    parser.add_argument("--server", metavar="URL", help=f"a running podium (default: {DEFAULT_SERVER})")
    parser.add_argument("--token-file", metavar="FILE", help="whose token the running podium is shown")
    parser.add_argument("--certificate-authority", metavar="FILE", help="CA of the running podium's certificate")
    parser.add_argument("--insecure-skip-tls-verify", action="store_true", help="do not look at that certificate")
    parser.add_argument("--from-cluster", action="store_true", help="read the cluster's objects, ask no podium")
    parser.add_argument("--kubeconfig", metavar="FILE", help="for the cluster; default: as for run")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="format (default: text)")
    add_config_arguments(parser)
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the explanation; 1 where there is no such pod or nobody to ask, 2 for bad input."""
    from podium.explain.asking import NoSuchPodError, UnreachableError, from_server

    namespace, name = _pod_name(args)
    documents: Sequence[Any]
    try:
        if args.filename:
            from podium.explain.sources import from_files

            documents = from_files(args.filename, read_configuration(args), namespace, name, any_name=not args.config)
        elif args.from_cluster or (args.kubeconfig and not args.server):
            documents = _from_cluster(args, namespace, name)
        elif args.server:
            documents = from_server(args.server, namespace, name, _trust(args))
        else:
            documents = _whoever_answers(args, namespace, name)
    except (NoSuchPodError, UnreachableError) as problem:
        return fail(problem, problem.exit_code)
    _print(documents, args.output, single=bool(name))
    return 0


def _whoever_answers(args: argparse.Namespace, namespace: str, name: str) -> Sequence[Any]:
    from podium.explain.asking import UnreachableError, from_server

    try:
        return from_server(DEFAULT_SERVER, namespace, name, _trust(args))
    except UnreachableError as problem:
        print(f"{problem}; reading the cluster instead", file=sys.stderr)
        return _from_cluster(args, namespace, name)


def _trust(args: argparse.Namespace) -> Any:
    from podium.explain.asking import Trust

    return Trust(args.token_file, args.certificate_authority, args.insecure_skip_tls_verify)


def _from_cluster(args: argparse.Namespace, namespace: str, name: str) -> Sequence[Any]:
    from podium.explain.sources import from_cluster

    return from_cluster(args.kubeconfig, read_configuration(args), namespace, name)


def _pod_name(args: argparse.Namespace) -> tuple[str, str]:
    """(namespace, name); the name is empty where all pending pods are meant."""
    if not args.pod:
        return args.namespace, ""
    namespace, slash, name = args.pod.removeprefix("pod/").rpartition("/")
    return (namespace, name) if slash else (args.namespace, name)


def _print(documents: Sequence[Any], output: str, *, single: bool) -> None:
    if output == "json":
        print_json(documents[0] if single else {"pods": list(documents)})
        return
    from podium.explain.screen import print_explanation, print_verdicts

    if single:
        print_explanation(documents[0])
    elif documents:
        print_verdicts(documents)
    else:
        print("no pod is pending", file=sys.stderr)
