"""The arithmetic of a rollout: how many pods each ReplicaSet of a Deployment should have next. Pure functions.

maxSurge rounds up, maxUnavailable rounds down; both zero would never move, so then one may be unavailable.
"""

from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple

from simulator.apiserver.errors import Object

DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"


class Change(NamedTuple):
    """A ReplicaSet and the replicas it should have."""

    replica_set: Object
    replicas: int


def share(amount: int | str, whole: int, *, up: bool) -> int:
    """A number, or a percentage of the whole."""
    if isinstance(amount, int):
        return amount
    part = Fraction(amount.strip().rstrip("%")) * whole / 100
    return ceil(part) if up else floor(part)


def surge_and_unavailable(deployment: Object) -> tuple[int, int]:
    """How many pods there may be too many, and how many too few, while a Deployment rolls."""
    spec = deployment["spec"]
    if spec["strategy"]["type"] != "RollingUpdate":
        return 0, 0
    rolling = spec["strategy"].get("rollingUpdate") or {}
    surge = share(rolling.get("maxSurge", "25%"), spec["replicas"], up=True)
    unavailable = share(rolling.get("maxUnavailable", "25%"), spec["replicas"], up=False)
    if surge == unavailable == 0:
        unavailable = 1
    return surge, min(unavailable, spec["replicas"])


def rolling_update(deployment: Object, new: Object, old: list[Object]) -> list[Change]:
    """The next step: grow the new one as far as the surge allows, or else shrink old ones as far as enough are up."""
    up = _grow(deployment, new, old)
    if up != new["spec"]["replicas"]:
        return [Change(new, up)]
    return _shrink(deployment, new, [one for one in old if one["spec"]["replicas"]])


def _grow(deployment: Object, new: Object, old: list[Object]) -> int:
    wanted, present = int(deployment["spec"]["replicas"]), int(new["spec"]["replicas"])
    if present >= wanted:
        return wanted
    total = present + sum(one["spec"]["replicas"] for one in old)
    room = wanted + surge_and_unavailable(deployment)[0] - total
    return present if room <= 0 else present + min(room, wanted - present)


def _shrink(deployment: Object, new: Object, old: list[Object]) -> list[Change]:
    """Broken pods of old ReplicaSets first (they are no loss), then as many sound ones as are not needed."""
    minimum = deployment["spec"]["replicas"] - surge_and_unavailable(deployment)[1]
    total = sum(one["spec"]["replicas"] for one in (*old, new))
    not_up = new["spec"]["replicas"] - _available(new)
    allowed = total - minimum - not_up
    if allowed <= 0 or not old:
        return []
    left = {one["metadata"]["uid"]: int(one["spec"]["replicas"]) for one in old}
    for one in old:
        broken = min(allowed, max(0, one["spec"]["replicas"] - _available(one)))
        left[one["metadata"]["uid"]] -= broken
        allowed -= broken
    spare = _available(new) + sum(_available(one) for one in old) - minimum
    for one in old:
        down = max(0, min(left[one["metadata"]["uid"]], spare))
        left[one["metadata"]["uid"]] -= down
        spare -= down
    changes = [Change(one, left[one["metadata"]["uid"]]) for one in old]
    return [change for change in changes if change.replicas != change.replica_set["spec"]["replicas"]]


def _available(replica_set: Object) -> int:
    return int((replica_set.get("status") or {}).get("availableReplicas") or 0)


def proportional(deployment: Object, sets: list[Object], new: Object | None) -> list[Change]:
    """Another number of replicas: all to the one active ReplicaSet, or during a rollout to each its share."""
    wanted = int(deployment["spec"]["replicas"])
    active = [one for one in sets if one["spec"]["replicas"]]
    if len(active) <= 1:
        only = active[0] if active else new
        return [Change(only, wanted)] if only is not None else []
    if new is not None and new["spec"]["replicas"] == _available(new) == wanted:
        return [Change(one, 0) for one in active if one is not new]
    if deployment["spec"]["strategy"]["type"] != "RollingUpdate":
        return [Change(one, one["spec"]["replicas"]) for one in active]
    return _shares(deployment, active)


def _shares(deployment: Object, active: list[Object]) -> list[Change]:
    allowed = deployment["spec"]["replicas"] + surge_and_unavailable(deployment)[0]
    allowed = allowed if deployment["spec"]["replicas"] else 0
    to_add = allowed - sum(one["spec"]["replicas"] for one in active)
    growing = to_add > 0
    # The largest take most; of equal ones the newest when growing, the oldest when shrinking.
    order = sorted(active, key=lambda one: one["metadata"]["creationTimestamp"], reverse=growing)
    order.sort(key=lambda one: -one["spec"]["replicas"])
    left, sizes = to_add, []
    for one in order:
        part = _share(one, deployment, allowed, to_add) if left else 0
        part = max(left, min(part, 0)) if to_add < 0 else min(left, max(part, 0))
        sizes.append(one["spec"]["replicas"] + part)
        left -= part
    sizes[0] = max(0, sizes[0] + left)
    return [Change(one, size) for one, size in zip(order, sizes, strict=True)]


def _share(replica_set: Object, deployment: Object, allowed: int, to_add: int) -> int:
    """What a change of the whole means for a part, by what the whole was when the part was last scaled."""
    annotations = replica_set["metadata"].get("annotations") or {}
    whole = int(annotations.get(MAXIMUM) or deployment["spec"]["replicas"]) or 1
    present = int(replica_set["spec"]["replicas"])
    return round(Fraction(present * allowed, whole)) - present if to_add else 0
