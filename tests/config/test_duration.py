"""Go's duration strings, read and written."""

import pytest

from config.duration import Duration


@pytest.mark.parametrize(
    ("text", "nanoseconds", "spelled"),
    [
        pytest.param("15s", 15_000_000_000, "15s", id="seconds"),
        pytest.param("1m30s", 90_000_000_000, "1m30s", id="two units add up"),
        pytest.param("0.5h", 1_800_000_000_000, "30m0s", id="a fraction of an hour is spelled in minutes"),
        pytest.param("600s", 600_000_000_000, "10m0s", id="many seconds are spelled in minutes"),
        pytest.param("1h", 3_600_000_000_000, "1h0m0s", id="an hour names all smaller units"),
        pytest.param("1.5s", 1_500_000_000, "1.5s", id="fractions of a second stay"),
        pytest.param("250ms", 250_000_000, "250ms", id="milliseconds"),
        pytest.param("1500us", 1_500_000, "1.5ms", id="microseconds"),
        pytest.param("7ns", 7, "7ns", id="nanoseconds"),
        pytest.param("-2s", -2_000_000_000, "-2s", id="a negative span"),
        pytest.param("0", 0, "0s", id="zero needs no unit"),
        pytest.param(".1s", 100_000_000, "100ms", id="a decimal without a leading digit"),
    ],
)
def test_a_duration_is_read_and_spelled_as_in_go(text: str, nanoseconds: int, spelled: str) -> None:
    assert Duration.parse(text).nanoseconds == nanoseconds
    assert str(Duration.parse(text)) == spelled
    assert Duration.parse(spelled) == Duration.parse(text)


@pytest.mark.parametrize("text", ["", "15", "s", "1 s", "1d", "1s2", "--1s", "9999999999h", "1.2.3s", "."])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        Duration.parse(text)


def test_seconds_are_what_asyncio_wants() -> None:
    assert Duration.parse("1m0.25s").seconds == 60.25
