"""The options of `podium run`, each with what kube-scheduler's of that name does and what podium makes of it.

One list makes the parser (`add_flags`), the table in docs/options.md (tools/options_page.py) and /flagz, so that none
of them can drift. Values are checked here one by one; how they work together is `podium.run_options`' business.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from config.duration import Duration

SAME = "the same"


class Group(StrEnum):
    """The headings of --help and of the page."""

    CONFIGURATION = "configuration"
    CLUSTER = "cluster"
    LEADER = "leader election"
    SERVING = "secure serving"
    WHO = "authentication and authorization"
    PLAIN = "plain serving"
    LOGS = "logs"
    METRICS = "metrics and debugging"
    OWN = "podium's own"


@dataclass(frozen=True, slots=True)
class Flag:
    """One option. `upstream`: kube-scheduler's default, None where it has none. `ignored`: accepted, without effect."""

    name: str
    group: Group
    help: str
    parse: Callable[[str], Any] = str
    metavar: str = "TEXT"
    default: Any = None
    upstream: str | None = ""
    here: str = SAME
    ignored: bool = False
    short: str = ""

    @property
    def dest(self) -> str:
        """Its name in the parsed arguments."""
        return self.name.replace("-", "_")


def boolean(text: str) -> bool:
    """As Go's flags read it."""
    if text in {"1", "t", "T", "true", "TRUE", "True"}:
        return True
    if text in {"0", "f", "F", "false", "FALSE", "False"}:
        return False
    raise argparse.ArgumentTypeError(f"expected true or false, not {text!r}")


def seconds(text: str) -> float:
    """A Go duration, in seconds."""
    try:
        return Duration.parse(text).seconds
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def whole(least: int) -> Callable[[str], int]:
    """A whole number, not less than that."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"expected a whole number of {least} or more, not {text!r}")
        return int(text)

    return parse


def port(text: str) -> int:
    """0 to 65535."""
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"expected a port, 0 to 65535, not {text!r}")
    return int(text)


def words(text: str) -> tuple[str, ...]:
    """A list with commas between."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _ignored(name: str, group: Group, upstream: str, here: str) -> Flag:
    return Flag(name, group, "accepted, without effect", metavar="VALUE", upstream=upstream, here=here, ignored=True)


_C, _K, _L, _S = Group.CONFIGURATION, Group.CLUSTER, Group.LEADER, Group.SERVING
_W, _G, _M, _O = Group.WHO, Group.LOGS, Group.METRICS, Group.OWN

FLAGS = (
    Flag("config", _C, "KubeSchedulerConfiguration (default: podium's own defaults)", metavar="FILE",
         here="the same; its one profile without a file is `podium`, never `default-scheduler`; v1beta1 to v1beta3 and "
         "the legacy Policy are read too"),
    Flag("write-config-to", _C, "write the effective configuration there and exit", metavar="FILE",
         here="the same; `-` is the screen; the file is mode 0600"),
    Flag("feature-gates", _C, "features to turn on or off", metavar="A=true,B=false", default="",
         here="the same, for the gates that change scheduling; an unknown or a locked gate is an error"),
    _ignored("emulated-version", _C, "the binary's", "no effect: podium has one behaviour, that of the version in "
             "docs/compatibility.md; gates turn single features off"),
    _ignored("min-compatibility-version", _C, "", "no effect, as above"),
    _ignored("emulation-forward-compatible", _C, "false", "no effect, as above"),
    Flag("kubeconfig", _K, "default: in-cluster, then KUBECONFIG, then ~/.kube/config", metavar="FILE",
         here="not deprecated: wins over `clientConnection.kubeconfig` of --config, where kube-scheduler ignores it"),
    Flag("master", _K, "URL of the API server, in place of the kubeconfig's", metavar="URL",
         here="the same; without effect beside --config"),
    Flag("kube-api-qps", _K, "requests a second", float, "N", upstream="50",
         here="the same; without effect beside --config. Binds are not held back by a default nobody chose: a rate "
         "other than 50 limits them too"),
    Flag("kube-api-burst", _K, "requests at once, above the rate", int, "N", upstream="100",
         here="the same; without effect beside --config"),
    _ignored("kube-api-content-type", _K, "application/vnd.kubernetes.protobuf", "no effect: podium speaks JSON"),
    Flag("leader-elect", _L, "wait for the Lease before scheduling", boolean, "BOOL", upstream="true",
         here="the same; `--no-leader-elect` says false"),
    Flag("leader-elect-lease-duration", _L, "how long the Lease is good without renewal", seconds, "DURATION",
         upstream="15s"),
    Flag("leader-elect-renew-deadline", _L, "how long the leader tries to renew", seconds, "DURATION", upstream="10s"),
    Flag("leader-elect-retry-period", _L, "how long to wait between two tries", seconds, "DURATION", upstream="2s"),
    Flag("leader-elect-resource-lock", _L, "kind of the lock", metavar="KIND", upstream="leases",
         here="`leases` only, as in kube-scheduler since 1.27"),
    Flag("leader-elect-resource-name", _L, "name of the Lease (default: podium)", metavar="NAME",
         upstream="kube-scheduler", here="the same, but for the default: the other Lease is the default scheduler's"),
    Flag("leader-elect-resource-namespace", _L, "namespace of the Lease", metavar="NAME", upstream="kube-system"),
    Flag("bind-address", _S, "address of the secure port", metavar="IP", default="0.0.0.0", upstream="0.0.0.0"),
    Flag("secure-port", _S, "port for HTTPS; 0: none (default: 10259)", port, "N", upstream="10259",
         here="the same; none where only --port is given"),
    Flag("tls-cert-file", _S, "certificate (chain) of the secure port; read again once a minute", metavar="FILE",
         here="the same; without it a certificate is made at the start and kept in memory"),
    Flag("tls-private-key-file", _S, "its key", metavar="FILE"),
    Flag("tls-min-version", _S, "VersionTLS12 or VersionTLS13", metavar="VERSION", default="VersionTLS12",
         upstream="VersionTLS12", here="the same, without TLS 1.0 and 1.1"),
    Flag("tls-cipher-suites", _S, "suites of TLS 1.2, by their IANA names", words, "A,B", (),
         here="the same, without suites that Go calls insecure"),
    _ignored("cert-dir", _S, "", "no effect: nothing is written"),
    _ignored("tls-sni-cert-key", _S, "", "no effect: one certificate"),
    _ignored("tls-curve-preferences", _S, "", "no effect: OpenSSL's order"),
    _ignored("http2-max-streams-per-connection", _S, "0", "no effect: HTTP/1.1"),
    _ignored("disable-http2-serving", _S, "false", "no effect: HTTP/1.1"),
    _ignored("permit-address-sharing", _S, "false", "no effect"),
    _ignored("permit-port-sharing", _S, "false", "no effect"),
    Flag("authentication-kubeconfig", _W, "who may create TokenReviews (default: podium's own credentials)",
         metavar="FILE", here="the same; without it podium's own credentials ask, outside a cluster too"),
    Flag("authentication-skip-lookup", _W, "do not ask the cluster for the CA of client certificates", boolean, "BOOL",
         default=False, upstream="false"),
    Flag("authentication-tolerate-lookup-failure", _W, "go on without that CA where it cannot be asked for", boolean,
         "BOOL", default=True, upstream="true"),
    Flag("authentication-token-webhook-cache-ttl", _W, "how long a TokenReview counts", seconds, "DURATION", 10.0,
         "10s"),
    Flag("client-ca-file", _W, "CA of client certificates, in place of the cluster's", metavar="FILE"),
    Flag("authorization-kubeconfig", _W, "who may create SubjectAccessReviews (default: podium's own credentials)",
         metavar="FILE", here="as --authentication-kubeconfig"),
    Flag("authorization-always-allow-paths", _W, "paths for everybody; `*` at the end stands for all below", words,
         "A,B", ("/healthz", "/readyz", "/livez"), "/healthz,/readyz,/livez"),
    Flag("authorization-webhook-cache-authorized-ttl", _W, "how long a yes counts", seconds, "DURATION", 10.0, "10s"),
    Flag("authorization-webhook-cache-unauthorized-ttl", _W, "how long a no counts", seconds, "DURATION", 10.0, "10s"),
    Flag("requestheader-client-ca-file", _W, "CA of front proxies, who name the user; in place of the cluster's",
         metavar="FILE", here="the same; the flags below count beside it, or the cluster's settings do"),
    Flag("requestheader-allowed-names", _W, "front proxies that count, by the common name (default: all of that CA)",
         words, "A,B", ()),
    Flag("requestheader-username-headers", _W, "where they name the user", words, "A,B", ("x-remote-user",),
         "x-remote-user"),
    Flag("requestheader-uid-headers", _W, "where they give the user's UID", words, "A,B", ()),
    Flag("requestheader-group-headers", _W, "where they name groups", words, "A,B", ("x-remote-group",),
         "x-remote-group"),
    Flag("requestheader-extra-headers-prefix", _W, "what headers with anything else begin with", words, "A,B",
         ("x-remote-extra-",), "x-remote-extra-"),
    Flag("port", Group.PLAIN, "port for plain HTTP without any access control, on --address; 0: any", port, "N",
         upstream=None, here="kube-scheduler's port 10251 before 1.23; alone it turns the secure port off"),
    Flag("address", Group.PLAIN, "its address (default: the loopback)", metavar="IP", default="127.0.0.1",
         upstream=None, here="as before 1.23, but for the default"),
    Flag("v", _G, "verbosity (default: 1)", int, "N", 1, "0", "the same levels; 1 by default: who leads", short="v"),
    Flag("vmodule", _G, "verbosity of single files", words, "FILE=N,…", (),
         here="the same, for podium's files (`rest=4`); `*` and `?` are allowed"),
    Flag("logging-format", _G, "text or json", metavar="FORMAT", default="text", upstream="text"),
    _ignored("log-flush-frequency", _G, "5s", "no effect: each line is written at once"),
    _ignored("log-json-info-buffer-size", _G, "0", "no effect, as above"),
    _ignored("log-json-split-stream", _G, "false", "no effect: all goes to stderr"),
    _ignored("log-text-info-buffer-size", _G, "0", "no effect, as above"),
    _ignored("log-text-split-stream", _G, "false", "no effect: all goes to stderr"),
    Flag("profiling", _M, "serve /debug", boolean, "BOOL", upstream="true",
         here="the same; without effect beside --config, where `enableProfiling` says it. Profiles are Python's"),
    _ignored("contention-profiling", _M, "true", "no effect: one thread, no locks"),
    _ignored("show-hidden-metrics-for-version", _M, "", "no effect: there are no hidden metrics"),
    Flag("disabled-metrics", _M, "metrics that are left out of /metrics", words, "A,B", ()),
    _ignored("allow-metric-labels", _M, "", "no effect"),
    _ignored("allow-metric-labels-manifest", _M, "", "no effect"),
    Flag("pod-max-in-unschedulable-pods-duration", _O, "how long a pod waits for an event before it is tried again",
         seconds, "DURATION", 300.0, "5m0s", "the same, also beside --config"),
    Flag("seed", _O, "decides ties; for reproducible runs", int, "N", upstream=None, here="podium's own"),
    Flag("page-port", _O, "serve the page, read-only, on this port (default: not)", port, "N", upstream=None,
         here="podium's own"),
    Flag("page-address", _O, "address of the page (default: 127.0.0.1; it asks nobody who he is)", metavar="IP",
         default="127.0.0.1", upstream=None, here="podium's own"),
    Flag("record", _O, "keep what comes in and what is decided, for podium replay", metavar="DIR", upstream=None,
         here="podium's own"),
    Flag("record-limit", _O, "size of the recording; the oldest part goes (default: 256)", int, "MIB", 256, None,
         "podium's own"),
)  # fmt: skip


def add_flags(parser: argparse.ArgumentParser) -> None:
    """All of them, under their headings; those without effect are left out of --help."""
    groups = {group: parser.add_argument_group(group.value) for group in Group}
    for flag in FLAGS:
        names = [f"-{flag.short}", f"--{flag.name}"] if flag.short else [f"--{flag.name}"]
        options: dict[str, Any] = {"type": flag.parse, "default": flag.default, "metavar": flag.metavar}
        if flag.parse is boolean or flag.ignored:
            # Go's boolean flags stand alone, or with `=`.
            options |= {"nargs": "?", "const": True}
        text = argparse.SUPPRESS if flag.ignored else _help(flag)
        groups[flag.group].add_argument(*names, dest=flag.dest, help=text, **options)
    groups[Group.LEADER].add_argument(
        "--no-leader-elect", dest="leader_elect", action="store_const", const=False, help="the same as =false"
    )


def _help(flag: Flag) -> str:
    """What it is for, and kube-scheduler's default where that is podium's as well."""
    return flag.help if "(default" in flag.help or not flag.upstream else f"{flag.help} (default: {flag.upstream})"


def given(args: argparse.Namespace) -> list[Flag]:
    """The flags whose value is not the default."""
    return [flag for flag in FLAGS if getattr(args, flag.dest) != flag.default]


def shown(args: argparse.Namespace) -> dict[str, str]:
    """Every flag as /flagz prints it."""
    return {flag.name: _text(getattr(args, flag.dest)) for flag in FLAGS if not flag.ignored}


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)
