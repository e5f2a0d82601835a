"""What a Job makes of a pod that failed: the rules of `podFailurePolicy`. Pure functions.

FailJob    the Job fails at once            Ignore   the pod does not count, and is replaced
FailIndex  the pod's index fails at once    Count    as without a rule
"""

from dataclasses import dataclass
from typing import Literal, cast

from simulator.apiserver.errors import Object

Action = Literal["Count", "Ignore", "FailJob", "FailIndex"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is to be done, and the words for the Job's condition."""

    action: Action = "Count"
    message: str = ""


def judge(job: Object, pod: Object) -> Judgement:
    """Find the first rule that a failed pod meets."""
    name = "/".join((pod["metadata"]["namespace"], pod["metadata"]["name"]))
    for i, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        action = cast("Action", rule["action"])
        if (found := _by_exit_code(rule.get("onExitCodes"), pod)) is not None:
            container, code = found
            text = f"Container {container} for pod {name} failed with exit code {code}"
            return Judgement(action, f"{text} matching {action} rule at index {i}")
        if (kind := _by_condition(rule.get("onPodConditions"), pod)) is not None:
            return Judgement(action, f"Pod {name} has condition {kind} matching {action} rule at index {i}")
    return Judgement()


def _by_exit_code(rule: Object | None, pod: Object) -> tuple[str, int] | None:
    if not rule:
        return None
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        code = ((status.get("state") or {}).get("terminated") or {}).get("exitCode")
        if not code or rule.get("containerName") not in (None, status["name"]):
            continue
        if (code in (rule.get("values") or ())) == (rule.get("operator") == "In"):
            return status["name"], code
    return None


def _by_condition(rules: list[Object] | None, pod: Object) -> str | None:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    for rule in rules or ():
        for condition in conditions:
            if condition["type"] == rule["type"] and condition["status"] == rule.get("status", "True"):
                return str(rule["type"])
    return None
