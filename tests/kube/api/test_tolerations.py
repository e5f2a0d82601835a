"""Which toleration tolerates which taint."""

import pytest

from kube.api.core import Toleration
from kube.api.tolerations import find_untolerated, tolerates, tolerates_taint
from tests.builders import equal, exists, taint

GPU = taint("gpu", "yes", "NoSchedule")
SLOW = taint("slow", "", "PreferNoSchedule")
DOWN = taint("down", "", "NoExecute")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        pytest.param(equal("gpu", "yes", "NoSchedule"), True, id="equal in all"),
        pytest.param(Toleration(key="gpu", value="yes"), True, id="no operator is Equal, no effect is all effects"),
        pytest.param(Toleration(key="gpu"), False, id="Equal without value wants the empty value"),
        pytest.param(equal("gpu", "no"), False, id="another value"),
        pytest.param(equal("gpu", "yes", "NoExecute"), False, id="another effect"),
        pytest.param(equal("cpu", "yes"), False, id="another key"),
        pytest.param(exists("gpu"), True, id="Exists ignores the value"),
        pytest.param(exists("gpu", "NoExecute"), False, id="Exists of another effect"),
        pytest.param(exists(), True, id="an empty key with Exists tolerates everything"),
        pytest.param(exists(effect="NoExecute"), False, id="everything of another effect"),
        pytest.param(Toleration(key="gpu", operator="Maybe"), False, id="an unknown operator"),
    ],
)
def test_a_toleration_tolerates(toleration, expected):
    assert tolerates(toleration, GPU) is expected


@pytest.mark.parametrize(
    ("operator", "value", "taint_value", "expected"),
    [
        pytest.param("Gt", "900", "950", True, id="the taint's value is greater"),
        pytest.param("Gt", "950", "950", False, id="Gt is strict"),
        pytest.param("Lt", "1000", "950", True, id="the taint's value is less"),
        pytest.param("Lt", "9", "10", False, id="numbers, not text"),
        pytest.param("Gt", "many", "950", False, id="a word in the toleration"),
        pytest.param("Gt", "900", "many", False, id="a word in the taint"),
        pytest.param("Gt", "-5", "0", True, id="negative numbers are numbers"),
        pytest.param("Lt", "0", "-9223372036854775808", True, id="the least integer of 64 bits"),
        pytest.param("Gt", "0", "9223372036854775808", False, id="one more than 64 bits hold"),
        pytest.param("Gt", "5", "007", False, id="a taint's number with leading zeros is none"),
        pytest.param("Gt", "+5", "7", False, id="nor is a toleration's with a plus sign"),
        pytest.param("Lt", "5", "-0", False, id="nor minus zero"),
        pytest.param("Lt", "5", "", False, id="nor an empty value"),
    ],
)
def test_comparison_operators_are_behind_their_gate(operator, value, taint_value, expected):
    toleration = Toleration(key="sla", operator=operator, value=value)
    sla = taint("sla", taint_value)
    assert tolerates(toleration, sla, comparison_operators=True) is expected
    assert tolerates(toleration, sla) is False


def test_any_toleration_will_do():
    assert tolerates_taint([equal("x"), exists("gpu")], GPU)
    assert not tolerates_taint([], GPU)


def test_the_first_taint_that_nothing_tolerates_is_found():
    assert find_untolerated([SLOW, GPU, DOWN], []) == GPU
    assert find_untolerated([SLOW, GPU, DOWN], [exists("gpu")]) == DOWN
    assert find_untolerated([SLOW, GPU, DOWN], [exists()]) is None
    assert find_untolerated([SLOW, GPU], [], ("PreferNoSchedule",)) == SLOW
    assert find_untolerated([SLOW], []) is None
    assert find_untolerated([GPU, taint("gpu", "no")], iter([exists("gpu")])) is None
