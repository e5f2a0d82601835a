"""What the command line of `podium run` means, file and flags together: every problem at once, each one line.

Beside --config the flags that kube-scheduler calls deprecated have no effect, which is said; those of leader election
override the file. Called by the command only.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import yaml

from config.duration import Duration
from config.problems import ConfigError, Problem
from config.types import Configuration
from config.validation import leader_election
from podium import flags
from podium.commands.config import effective_document
from podium.configuration import Effective, read_configuration
from podium.serving.certificates import CIPHER_SUITES, MIN_VERSIONS, TlsSettings

#: kube-scheduler's port
SECURE_PORT = 10259
#: without effect beside --config, as upstream has it
_FILE_WINS = ("master", "kube-api-qps", "kube-api-burst", "profiling")
_LEADER = {
    "leader_elect": "leader_elect",
    "leader_elect_lease_duration": "lease_duration",
    "leader_elect_renew_deadline": "renew_deadline",
    "leader_elect_retry_period": "retry_period",
    "leader_elect_resource_lock": "resource_lock",
    "leader_elect_resource_name": "resource_name",
    "leader_elect_resource_namespace": "resource_namespace",
}
#: a field's path -> the flag that says the same
_FLAG_OF = {
    "leaderElection.leaseDuration": "--leader-elect-lease-duration",
    "leaderElection.renewDeadline": "--leader-elect-renew-deadline",
    "leaderElection.retryPeriod": "--leader-elect-retry-period",
    "leaderElection.resourceLock": "--leader-elect-resource-lock",
}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What `podium run` is to do. A port of None: not served."""

    effective: Effective
    tls: TlsSettings
    secure_port: int | None
    plain_port: int | None


def read(args: argparse.Namespace) -> RunOptions:
    """Raises ConfigError with every problem of file and flags; warnings go to stderr."""
    problems = list(_serving_problems(args))
    effective: Effective | None = None
    try:
        effective = read_configuration(args)
        effective = replace(effective, value=_with_flags(effective.value, args))
    except ConfigError as error:
        problems += error.problems
    if problems or effective is None:
        raise ConfigError(problems)
    for line in _without_effect(args):
        print(f"warning: {line}", file=sys.stderr)
    return RunOptions(effective, _tls(args), *_ports(args))


def write_configuration(effective: Effective, target: str) -> None:
    """The effective configuration as a file that leads to the same behaviour. Raises ConfigError."""
    text = yaml.safe_dump(effective_document(effective.value, effective.known_plugins), sort_keys=False)
    if target == "-":
        sys.stdout.write(text)
        return
    path = Path(target)
    try:
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError([Problem("--write-config-to", f"{target}: {error.strerror or error}")]) from error


def _with_flags(configuration: Configuration, args: argparse.Namespace) -> Configuration:
    changes = {field: getattr(args, dest) for dest, field in _LEADER.items() if getattr(args, dest) is not None}
    for field, value in changes.items():
        if isinstance(value, float):
            changes[field] = Duration.of(value)
    election = msgspec.structs.replace(configuration.leader_election, **changes)
    faults = [
        Problem(_FLAG_OF[path], finding.message)
        for finding in (leader_election(election) if changes else ())
        if (path := ".".join(map(str, finding.path))) in _FLAG_OF
    ]
    if faults:
        raise ConfigError(faults)
    configuration = msgspec.structs.replace(configuration, leader_election=election)
    return configuration if args.config else _with_deprecated(configuration, args)


def _with_deprecated(configuration: Configuration, args: argparse.Namespace) -> Configuration:
    connection = configuration.client_connection
    connection = msgspec.structs.replace(
        connection,
        qps=connection.qps if args.kube_api_qps is None else args.kube_api_qps,
        burst=connection.burst if args.kube_api_burst is None else args.kube_api_burst,
    )
    profiling = configuration.enable_profiling if args.profiling is None else args.profiling
    return msgspec.structs.replace(configuration, client_connection=connection, enable_profiling=profiling)


def _without_effect(args: argparse.Namespace) -> list[str]:
    lines = []
    for flag in flags.given(args):
        if flag.ignored:
            lines.append(
                f"--{flag.name} has no effect: {flag.here.removeprefix('no effect').lstrip(':, ') or 'accepted'}"
            )
        elif args.config and flag.name in _FILE_WINS:
            lines.append(f"--{flag.name} has no effect beside --config")
    return lines


def _ports(args: argparse.Namespace) -> tuple[int | None, int | None]:
    secure = args.secure_port if args.secure_port is not None else SECURE_PORT if args.port is None else 0
    return secure or None, args.port


def _serving_problems(args: argparse.Namespace) -> list[Problem]:
    problems = []
    if bool(args.tls_cert_file) != bool(args.tls_private_key_file):
        problems.append(Problem("--tls-cert-file, --tls-private-key-file", "expected both, or neither"))
    if args.tls_min_version not in MIN_VERSIONS:
        known = ", ".join(MIN_VERSIONS)
        problems.append(Problem("--tls-min-version", f"expected one of {known}, not {args.tls_min_version!r}"))
    unknown = [name for name in args.tls_cipher_suites if name not in CIPHER_SUITES]
    if unknown:
        known = ", ".join(CIPHER_SUITES)
        problems.append(Problem("--tls-cipher-suites", f"unknown: {', '.join(unknown)}; known: {known}"))
    if args.logging_format not in {"text", "json"}:
        problems.append(Problem("--logging-format", f"expected text or json, not {args.logging_format!r}"))
    return problems


def _tls(args: argparse.Namespace) -> TlsSettings:
    wildcard = args.bind_address in {"0.0.0.0", "::"}
    return TlsSettings(
        Path(args.tls_cert_file) if args.tls_cert_file else None,
        Path(args.tls_private_key_file) if args.tls_private_key_file else None,
        MIN_VERSIONS[args.tls_min_version],
        args.tls_cipher_suites,
        () if wildcard else (args.bind_address,),
    )
