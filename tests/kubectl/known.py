"""Where the real server is known to answer otherwise than the embedded one, and why. Anything else is a fault.

An entry holds for servers older than `before`; None for all of them.
"""

import re
from dataclasses import dataclass

Version = tuple[int, int]


@dataclass(frozen=True)
class Difference:
    """Commands whose outputs may differ."""

    command: str
    """A regular expression, searched in the command."""
    reason: str
    before: Version | None = None

    def covers(self, command: str, server: Version) -> bool:
        return re.search(self.command, command) is not None and (self.before is None or server < self.before)


DIFFERENCES = (
    # --- newer than the server ---
    Difference("--api-group=policy|pdb|drained.yaml|drain d1|drained get pods$", "policy/v1 came later", (1, 21)),
    Difference("--api-group=storage", "CSIStorageCapacity came later", (1, 24)),
    Difference("get (sts|pods,jobs).*job", "jobs had no column STATUS", (1, 31)),
    Difference("store get (sc,)?pv,pvc", "volumes had no column VOLUMEATTRIBUTESCLASS", (1, 29)),
    Difference("get csinodes,csidrivers", "CSI drivers had fewer columns", (1, 22)),
    Difference("get pc high", "priority classes had no column PREEMPTIONPOLICY", (1, 32)),
    Difference("get ns one -o yaml", "namespaces had no label with their name", (1, 21)),
    Difference("get pod small -o yaml", "pods had no generation", (1, 33)),
    Difference("typo.yaml", "unknown fields were the client's business", (1, 25)),
    Difference("wrong.yaml", "the limit was not told in the message", (1, 27)),
    Difference("web -o yaml|owned -o yaml", "templates had a creationTimestamp of null", (1, 34)),
    Difference("patch deploy web .*other", "values were spelled as in Go, not as in JSON", (1, 32)),
    Difference("patch pc high", "the field was spelled in upper case", (1, 27)),
    Difference("patch pod quick .*nodeName", "the message told the difference of the specs, as Go prints it"),
    Difference("field-manager=other -f - < ssa3|get deploy owned .*manager", "scaling left no owner behind", (1, 22)),
    Difference("ssa apply --server-side -f - < ssa[12].yaml", "scaling left no owner behind", (1, 22)),
    Difference(
        "newer|--api-group=resource|get resourceslices", "CronJobs of batch/v1 came later, devices too", (1, 34)
    ),
    # --- not done here ---
    Difference("pods describe pod", "the real server of these tests runs without ServiceAccount admission"),
    Difference("field-manager=me --dry-run", "fields have owners from the first server-side apply on, not before"),
)


def known(command: str, server: Version) -> Difference | None:
    """The entry that covers a command."""
    return next((one for one in DIFFERENCES if one.covers(command, server)), None)


# What older clients cannot do, or do otherwise, against the embedded server; by the first version that can.
CLIENT_DIFFERENCES = (
    Difference("drain d1 --force --timeout=1s", "evicts through policy/v1beta1, and else deletes", (1, 22)),
    Difference("pdb", "knows policy/v1beta1 only", (1, 21)),
    Difference("--dry-run=server|diff", "looks for dry runs in OpenAPI v2, which tells nothing here", (1, 27)),
    Difference("typo.yaml", "leaves unknown fields to its own validation", (1, 25)),
)


def known_of_client(command: str, client: Version) -> Difference | None:
    """The entry that covers a command of an older client."""
    return next((one for one in CLIENT_DIFFERENCES if one.covers(command, client)), None)
