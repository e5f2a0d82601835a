"""The decision log keeps the newest records."""

from scheduler.decision_log import Decision, DecisionLog


def decision(name: str) -> Decision:
    return Decision(0.0, "default", name, name, "podium", 1, "scheduled", "n1", 1, 1, 0.001)


def test_newest_first_and_bounded() -> None:
    log = DecisionLog(limit=3)
    for name in "abcde":
        log.add(decision(name))
    assert [each.name for each in log] == ["e", "d", "c"]
    assert len(log) == 3


def test_reading_while_decisions_are_made_is_safe() -> None:
    log = DecisionLog(limit=3)
    log.add(decision("a"))
    records = iter(log)
    log.add(decision("b"))
    assert [each.name for each in records] == ["a"]
