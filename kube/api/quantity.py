"""Kubernetes quantities, exactly: "1500m", "1.5Gi", "12e6" to whole numbers and back to canonical text.

Anybody may call it. Every quantity is a whole number of nanos, because Kubernetes keeps no finer fraction, so all
arithmetic here is on ints and nothing is ever a float. What the API server accepts is accepted, what it refuses
raises QuantityError; the odd cases (a suffix alone is zero, "5." is five) are the API server's own.
"""

import re
import reprlib
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)
NANOS = 10**9

_QUANTITY = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES = {exponent: suffix for suffix, exponent in _BINARY_SUFFIXES.items()} | {0: ""}
# Far beyond int64 in both directions: a larger exponent changes nothing but the cost of computing it.
_EXPONENT_LIMIT = 400
# Python converts no more than some thousand digits; nobody means that many.
_TEXT_LIMIT = 1000


class QuantityError(ValueError):
    """A text that is no quantity; the message is one line."""


class Format(StrEnum):
    """The notation a quantity was written in, kept when it is written again."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class Quantity(NamedTuple):
    """An exact amount, in nanos, and its notation."""

    nanos: int
    format: Format


@lru_cache(maxsize=65536, typed=True)
def parse(q: str | int | float) -> Quantity:
    """The exact amount of a quantity as written in JSON or YAML (text or number)."""
    text = q if isinstance(q, str) else _number_text(q)
    match = _QUANTITY.fullmatch(text)
    if match is None or not 0 < len(text) <= _TEXT_LIMIT:
        raise _error(q)
    sign, integer, fraction, suffix = match.groups(default="")
    digits = int(integer + fraction or "0")
    if suffix in _BINARY_SUFFIXES:
        notation = Format.BINARY_SI
        # Only this notation is capped when it is read; decimal ones keep their value.
        amount = min(_scale(digits << _BINARY_SUFFIXES[suffix], 9 - len(fraction)), MAX_INT64 * NANOS)
    else:
        exponent, notation = _decimal_exponent(suffix, q)
        amount = _scale(digits, exponent - len(fraction) + 9)
    return Quantity(-amount if sign == "-" else amount, notation)


@lru_cache(maxsize=65536, typed=True)
def value(q: str | int | float) -> int:
    """Whole units, rounded away from zero, within int64: memory in bytes, pods, devices."""
    return whole(parse(q).nanos)


@lru_cache(maxsize=65536, typed=True)
def milli_value(q: str | int | float) -> int:
    """Whole thousandths, rounded away from zero, within int64: cpu."""
    return milli(parse(q).nanos)


@lru_cache(maxsize=65536, typed=True)
def nanos(q: str | int | float) -> int:
    """The exact amount: sums are taken on these and rounded once, as Kubernetes does."""
    return parse(q).nanos


def whole(amount: int) -> int:
    """Nanos to whole units, as `value`."""
    return _divide(amount, NANOS)


def milli(amount: int) -> int:
    """Nanos to thousandths, as `milli_value`."""
    return _divide(amount, NANOS // 1000)


def canonical(q: str | int | float) -> str:
    """The quantity as Kubernetes writes it: no fraction, the largest suffix that fits, notation kept."""
    return format_quantity(*parse(q))


def format_quantity(amount: int, notation: Format = Format.DECIMAL_SI) -> str:
    """Canonical text of an amount in nanos."""
    if amount == 0:
        return "0"
    if notation is Format.BINARY_SI and abs(amount) >= 1024 * NANOS and amount % NANOS == 0:
        mantissa, steps = _strip(amount // NANOS, 1024)
        # Ei is the largest name; what is beyond stays in the number.
        mantissa, steps = (mantissa, steps) if steps <= 6 else (mantissa * 1024 ** (steps - 6), 6)
        return f"{mantissa}{_BINARY_NAMES[10 * steps]}"
    mantissa, steps = _strip(amount, 1000)
    exponent = 3 * steps - 9
    if notation is not Format.DECIMAL_EXPONENT and exponent in _DECIMAL_NAMES:
        return f"{mantissa}{_DECIMAL_NAMES[exponent]}"
    return f"{mantissa}e{exponent}" if exponent else str(mantissa)


def format_milli(thousandths: int) -> str:
    """Canonical text of a cpu amount: 1500 is "1500m", 2000 is "2"."""
    return format_quantity(thousandths * (NANOS // 1000))


def format_value(units: int, notation: Format = Format.DECIMAL_SI) -> str:
    """Canonical text of whole units; memory is written with `Format.BINARY_SI`."""
    return format_quantity(units * NANOS, notation)


def _number_text(q: object) -> str:
    # bool is an int to Python; to JSON it is no number.
    if isinstance(q, bool) or not isinstance(q, int | float):
        raise _error(q)
    return repr(q)


def _decimal_exponent(suffix: str, q: object) -> tuple[int, Format]:
    if suffix in _DECIMAL_SUFFIXES:
        return _DECIMAL_SUFFIXES[suffix], Format.DECIMAL_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None or not MIN_INT64 <= int(match[1]) <= MAX_INT64:
        raise _error(q)
    return max(-_EXPONENT_LIMIT, min(int(match[1]), _EXPONENT_LIMIT)), Format.DECIMAL_EXPONENT


def _scale(digits: int, power: int) -> int:
    """digits · 10^power, a fraction of a nano counting as one: who asks for something gets something."""
    return digits * _ten_to(power) if power >= 0 else -(-digits // _ten_to(-power))


def _ten_to(power: int) -> int:
    result: int = 10**power
    return result


def _divide(amount: int, divisor: int) -> int:
    result = -(-amount // divisor) if amount >= 0 else amount // divisor
    return max(MIN_INT64, min(result, MAX_INT64))


def _strip(number: int, factor: int) -> tuple[int, int]:
    steps = 0
    while number % factor == 0:
        number //= factor
        steps += 1
    return number, steps


def _error(q: object) -> QuantityError:
    return QuantityError(
        f"{reprlib.repr(q)} is not a quantity: expected a number with an optional suffix, such as 500m, 2 or 1.5Gi"
    )
