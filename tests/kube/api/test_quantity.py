"""Quantities: golden values of the Kubernetes API, what it refuses, and a round trip through canonical text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.api.quantity import (
    MAX_INT64,
    MIN_INT64,
    NANOS,
    Format,
    QuantityError,
    canonical,
    format_milli,
    format_quantity,
    format_value,
    milli_value,
    parse,
    value,
)


@pytest.mark.parametrize(
    ("text", "units", "milli", "written"),
    [
        pytest.param("0", 0, 0, "0", id="zero"),
        pytest.param("1", 1, 1000, "1", id="a plain number"),
        pytest.param("+1", 1, 1000, "1", id="a plus sign"),
        pytest.param("007", 7, 7000, "7", id="leading zeros"),
        pytest.param("100m", 1, 100, "100m", id="milli rounds up to a whole unit"),
        pytest.param("1500m", 2, 1500, "1500m", id="1500m of memory is two bytes"),
        pytest.param("0.1", 1, 100, "100m", id="a fraction becomes milli"),
        pytest.param("1.5", 2, 1500, "1500m", id="a mixed number becomes milli"),
        pytest.param("0.9995", 1, 1000, "999500u", id="a fraction of a milli rounds up"),
        pytest.param("500u", 1, 1, "500u", id="micro"),
        pytest.param("1n", 1, 1, "1n", id="nano"),
        pytest.param("0.1n", 1, 1, "1n", id="less than a nano is a nano"),
        pytest.param("1e-12", 1, 1, "1e-9", id="a tiny exponent is a nano"),
        pytest.param(".5", 1, 500, "500m", id="no digit before the point"),
        pytest.param("5.", 5, 5000, "5", id="no digit after the point"),
        pytest.param("5.Gi", 5 << 30, 5000 << 30, "5Gi", id="a point before the suffix"),
        pytest.param("1k", 1000, 1000000, "1k", id="k is a thousand"),
        pytest.param("1000", 1000, 1000000, "1k", id="a thousand is written k"),
        pytest.param("1Ki", 1024, 1024000, "1Ki", id="Ki is 1024"),
        pytest.param("1048576Ki", 1 << 30, 1000 << 30, "1Gi", id="the largest binary suffix"),
        pytest.param("1.5Gi", 1536 << 20, 1536000 << 20, "1536Mi", id="a binary fraction"),
        pytest.param("1023Mi", 1023 << 20, 1023000 << 20, "1023Mi", id="just below the next suffix"),
        pytest.param("1000Mi", 1000 << 20, 1000000 << 20, "1000Mi", id="decimal thousands stay binary"),
        pytest.param("0.5Ki", 512, 512000, "512", id="below 1024 there is no binary notation"),
        pytest.param("0.1Ki", 103, 102400, "102400m", id="a fractional binary amount is decimal"),
        pytest.param("1G", 10**9, 10**12, "1G", id="G is 10^9"),
        pytest.param("1e9", 10**9, 10**12, "1e9", id="exponent notation is kept"),
        pytest.param("1E9", 10**9, 10**12, "1e9", id="a capital exponent"),
        pytest.param("12e+6", 12 * 10**6, 12 * 10**9, "12e6", id="an exponent with plus"),
        pytest.param("1e5", 10**5, 10**8, "100e3", id="exponents go in threes"),
        pytest.param("1e3", 1000, 10**6, "1e3", id="e3"),
        pytest.param("2E", 2 * 10**18, MAX_INT64, "2E", id="E alone is the suffix exa"),
        pytest.param("1100000000000m", 1100000000, 1100000000000, "1100M", id="milli-bytes"),
        pytest.param("-1.5", -2, -1500, "-1500m", id="negative rounds away from zero"),
        pytest.param("-100m", -1, -100, "-100m", id="a negative fraction is at least minus one"),
        pytest.param("-1Ki", -1024, -1024000, "-1Ki", id="negative binary"),
        pytest.param("8Ei", MAX_INT64, MAX_INT64, str(MAX_INT64), id="binary is capped at int64"),
        pytest.param("9223372036854775808", MAX_INT64, MAX_INT64, "9223372036854775808", id="decimal keeps its value"),
        pytest.param("1000E", MAX_INT64, MAX_INT64, "1e21", id="beyond exa only an exponent is left"),
        pytest.param("-1e30", MIN_INT64, MIN_INT64, "-1e30", id="the lower end of int64"),
        pytest.param("Ki", 0, 0, "0", id="the API server reads a suffix alone as zero"),
        pytest.param(2, 2, 2000, "2", id="a JSON integer"),
        pytest.param(0.1, 1, 100, "100m", id="a JSON fraction"),
        pytest.param(1e21, MAX_INT64, MAX_INT64, "1e21", id="a large JSON number"),
    ],
)
def test_a_quantity_means_and_is_written_as(text, units, milli, written):
    assert (value(text), milli_value(text), canonical(text)) == (units, milli, written)


@pytest.mark.parametrize(
    "text",
    [
        *["", " 1", "1 ", "1 Gi", "1_000", "inf", "nan", "0x10", "1,5", "--1", "1G\n", "١", "1" * 5000],
        *["1KI", "1K", "1ki", "1Zi", "1gi", "1mi", "1Gib", "1.1.M", "1+1.0M", "0.1am", ".5i", "1i", "-3.01i"],
        *["-3.01e-", "1e", "1e1.5", "e", "1e99999999999999999999"],
        *[True, None, float("inf"), float("nan")],
    ],
)
def test_what_kubernetes_refuses_is_refused_in_one_line(text):
    with pytest.raises(QuantityError, match=r"\A.* is not a quantity: expected a number .*\Z"):
        parse(text)


def test_a_remembered_number_is_not_taken_for_a_boolean():
    assert value(1) == 1
    with pytest.raises(QuantityError):
        value(True)


def test_a_huge_exponent_is_cheap():
    assert value("1e999999999") == MAX_INT64
    assert value("1e-999999999") == 1


@pytest.mark.parametrize(
    ("text", "written"),
    [
        pytest.param(format_milli(1500), "1500m", id="milli cpu"),
        pytest.param(format_milli(2000), "2", id="whole cpus"),
        pytest.param(format_value(1500 << 20, Format.BINARY_SI), "1500Mi", id="memory"),
        pytest.param(format_value(110), "110", id="pods"),
        pytest.param(format_value(0, Format.BINARY_SI), "0", id="no memory"),
        pytest.param(format_value(1 << 70, Format.BINARY_SI), "1024Ei", id="a sum beyond Ei"),
    ],
)
def test_amounts_are_written_for_people(text, written):
    assert text == written


SUFFIXES = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2", "e+7"]


@given(
    st.from_regex(
        r"[+-]?([0-9]{1,12}(\.[0-9]{0,9})?|\.[0-9]{1,9})", fullmatch=True, alphabet=st.characters(max_codepoint=127)
    ),
    st.sampled_from(SUFFIXES),
)
def test_canonical_text_keeps_the_amount_and_is_stable(number, suffix):
    written = canonical(number + suffix)
    assert parse(written).nanos == parse(number + suffix).nanos
    assert canonical(written) == written
    assert "." not in written


@given(st.integers(-(10**30), 10**30), st.sampled_from(Format))
def test_every_amount_survives_being_written(amount, notation):
    amount = min(amount, MAX_INT64 * NANOS) if notation is Format.BINARY_SI else amount
    amount = max(amount, -MAX_INT64 * NANOS) if notation is Format.BINARY_SI else amount
    assert parse(format_quantity(amount, notation)).nanos == amount


@given(st.integers(-(10**18), 10**18))
def test_rounding_is_away_from_zero_and_by_less_than_one(milli):
    units = value(f"{milli}m")
    assert abs(units * 1000) >= abs(milli)
    assert abs(units * 1000) - abs(milli) < 1000
