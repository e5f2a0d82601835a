"""Writes docs/options.md from podium's parser and configuration types: `python tools/options_page.py`.

A test compares the page with what this makes, so that it cannot drift.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from config.feature_gates import ALWAYS, KNOWN_GATES, MISSING, NO_EFFECT
from config.types import ClientConnection, Configuration, Extender, LeaderElection, Profile
from podium.flags import FLAGS, Group

PAGE = Path(__file__).parents[1] / "docs" / "options.md"

INTRODUCTION = """# Options and configuration, compared with kube-scheduler

`podium run` takes the options of kube-scheduler and the configuration file of kube-scheduler. This page lists each one
with what podium makes of it. "The same" means: the same meaning and, where nothing else is said, the same default.
An option without effect is accepted, so that a command line can be taken over as it is, and podium says so.

Beside `--config`, the options that kube-scheduler calls deprecated have no effect; those of leader election override
the file. `podium run --write-config-to FILE` writes what came out of both, `podium config` prints it. All faults
of file and options are told at once, each on one line with file, line and field, and podium ends with code 2.
"""

#: field -> remark; a field without one behaves the same
FIELDS: dict[type[msgspec.Struct], dict[str, str]] = {
    Configuration: {
        "apiVersion": "v1; v1beta1 to v1beta3 and the legacy Policy are converted, with warnings",
        "parallelism": "accepted, no effect: all nodes are judged at once by vector operations",
        "enableProfiling": "the same: `/debug` is there or not; profiles are Python's",
        "enableContentionProfiling": "accepted, no effect: one thread, no locks",
        "percentageOfNodesToScore": "only for plugins that look at one node at a time; built-in ones score every node",
        "leaderElection": "",
        "clientConnection": "",
        "profiles": "",
        "extenders": "",
    },
    LeaderElection: {
        "resourceName": "default `podium`: `kube-scheduler` is the default scheduler's Lease",
        "resourceLock": "`leases` only",
    },
    ClientConnection: {
        "kubeconfig": "the same; `--kubeconfig` wins",
        "acceptContentTypes": "accepted, no effect: JSON",
        "contentType": "accepted, no effect: JSON",
        "qps": "the same, but the default does not hold back binds",
    },
    Profile: {
        "schedulerName": "default `podium`",
        "percentageOfNodesToScore": "as above",
        "plugins": "the same, multiPoint included; plugins of other packages by their name",
        "pluginConfig": "the same; the arguments of every plugin of kube-scheduler are checked",
        "nodeSelector": "podium's own: the profile knows only the nodes with these labels",
    },
    Extender: {},
}
HEADINGS = {
    Configuration: "KubeSchedulerConfiguration",
    LeaderElection: "leaderElection",
    ClientConnection: "clientConnection",
    Profile: "profiles[]",
    Extender: "extenders[]",
}


def render() -> str:
    """The whole page."""
    parts = [INTRODUCTION, "## Command line\n"]
    for group in Group:
        rows = [
            (f"`-{flag.short}`, `--{flag.name}`" if flag.short else f"`--{flag.name}`",
             "–" if flag.upstream is None else f"`{flag.upstream}`" if flag.upstream else "",
             flag.here)
            for flag in FLAGS
            if flag.group is group
        ]  # fmt: skip
        parts.append(
            f"### {group.value.capitalize()}\n\n" + _table(("option", "kube-scheduler's default", "podium"), rows)
        )
    parts.append(
        "## Configuration file\n\nFields that are not in a table do not exist: podium refuses them by name and line.\n"
    )
    for struct, remarks in FIELDS.items():
        names = [field.encode_name for field in msgspec.structs.fields(struct) if field.encode_name != "kind"]
        unknown = remarks.keys() - set(names)
        if unknown:
            raise KeyError(f"{struct.__name__} has no {unknown}")
        rows2 = [(f"`{name}`", remarks.get(name, "the same") or "see below") for name in names]
        parts.append(f"### {HEADINGS[struct]}\n\n" + _table(("field", "podium"), rows2))
    gates = [
        (f"`{name}`", gate.stage.value, "on" if gate.default else "off", _remark(name))
        for name, gate in sorted(KNOWN_GATES.items())
    ]
    parts.append(
        "## Feature gates\n\nAs of Kubernetes 1.36. A gate of another component is refused.\n\n"
        + _table(("gate", "stage", "default", ""), gates)
    )
    return "\n".join(parts)


def _remark(gate: str) -> str:
    if gate in MISSING:
        return f"cannot be turned on: podium does not have {MISSING[gate]}"
    if gate in ALWAYS:
        return f"cannot be turned off: {ALWAYS[gate]}"
    if gate in NO_EFFECT:
        return f"no effect: {NO_EFFECT[gate]}"
    return "locked" if KNOWN_GATES[gate].locked else ""


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
