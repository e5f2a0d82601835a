"""Taints and tolerations. Anybody may call it; it never decides what a taint means for scheduling."""

import re
from collections.abc import Container, Iterable

from kube.api.core import Taint, Toleration
from kube.api.labels import parse_int64

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

#: stricter than Go's ParseInt, as Kubernetes is here: 0700 and +5, read differently elsewhere, are no numbers
_DECIMAL = re.compile(r"0|-?[1-9][0-9]*")


def tolerates(toleration: Toleration, taint: Taint, *, comparison_operators: bool = False) -> bool:
    """Whether this toleration tolerates the taint.

    An empty effect is all effects, an empty key all keys. Gt and Lt (feature gate TaintTolerationComparisonOperators)
    hold when the taint's value is the greater or the lesser of two integers, both written as one writes integers.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Gt" | "Lt" if comparison_operators:
            return _compare(taint.value, toleration.operator, toleration.value)
        case _:
            return False


def tolerates_taint(tolerations: Iterable[Toleration], taint: Taint, *, comparison_operators: bool = False) -> bool:
    """Whether any of the tolerations tolerates the taint."""
    return any(tolerates(toleration, taint, comparison_operators=comparison_operators) for toleration in tolerations)


def find_untolerated(
    taints: Iterable[Taint],
    tolerations: Iterable[Toleration],
    effects: Container[str] = (NO_SCHEDULE, NO_EXECUTE),
    *,
    comparison_operators: bool = False,
) -> Taint | None:
    """The first taint of these effects that nothing tolerates; the effects that keep pods away by default."""
    tolerations = tuple(tolerations)
    for taint in taints:
        if taint.effect in effects and not tolerates_taint(
            tolerations, taint, comparison_operators=comparison_operators
        ):
            return taint
    return None


def _compare(taint_value: str, operator: str, toleration_value: str) -> bool:
    left, right = _decimal(taint_value), _decimal(toleration_value)
    if left is None or right is None:
        return False
    return left > right if operator == "Gt" else left < right


def _decimal(text: str) -> int | None:
    return parse_int64(text) if _DECIMAL.fullmatch(text) else None
