"""Running Hypothesis state machines: as tests of the engine, and against planted mutants that they must catch."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

SOUND = settings(
    max_examples=50,
    stateful_step_count=50,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
#: a mutant is only to be found, not to be explained
MUTANT = settings(
    SOUND, max_examples=400, derandomize=True, report_multiple_bugs=False, phases=[Phase.generate], print_blob=False
)


def must_catch(machine: type[RuleBasedStateMachine], **mutation: Any) -> None:
    """The machine fails when these class attributes of it are replaced by broken ones."""
    broken = type("Broken" + machine.__name__, (machine,), mutation)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(broken, settings=MUTANT)
