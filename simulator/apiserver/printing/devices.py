"""How devices, their classes and the claims on them are printed. Pure functions from an object to cells."""

from datetime import datetime

from simulator.apiserver.errors import Object
from simulator.apiserver.printing.columns import Printer, Row, columns, created


def _claim(claim: Object, now: datetime) -> Row:
    return [claim["metadata"]["name"], claim_state(claim), created(claim, now)]


def claim_state(claim: Object) -> str:
    """Say in words how far a claim is."""
    status, words = claim.get("status") or {}, []
    if "deletionTimestamp" in claim["metadata"]:
        words.append("deleted")
    if status.get("allocation"):
        words.append("allocated")
    if status.get("reservedFor"):
        words.append("reserved")
    return ",".join(words) or "pending"


def _slice(resource_slice: Object, now: datetime) -> Row:
    spec = resource_slice.get("spec") or {}
    pool = (spec.get("pool") or {}).get("name", "")
    return [
        resource_slice["metadata"]["name"],
        spec.get("nodeName") or "<unset>",
        spec.get("driver", ""),
        pool,
        created(resource_slice, now),
    ]


CLAIM = Printer(columns("Name|State|Age"), _claim)
SLICE = Printer(columns("Name|Node|Driver|Pool|Age"), _slice)
