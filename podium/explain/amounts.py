"""Amounts and lists as people read them. Pure functions, used by everything that makes sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kube.api.quantity import Format, format_milli, format_value

_BINARY = ("memory", "ephemeral-storage")
_UNITS = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def amount(resource: str, number: float) -> str:
    """milliCPU or base units as a quantity: 250m, 1500Mi, 3. Large binary amounts are rounded to three digits."""
    whole = int(number)
    if resource == "cpu":
        return format_milli(whole)
    if resource in _BINARY or resource.startswith("hugepages-"):
        return _binary(whole)
    return format_value(whole, Format.DECIMAL_SI)


def _binary(number: int) -> str:
    exact = format_value(number, Format.BINARY_SI)
    if len(exact) <= 6:
        return exact
    for unit, size in _UNITS:
        if abs(number) >= size:
            return f"{number / size:.1f}".removesuffix(".0") + unit
    return exact


def resource_name(resource: str) -> str:
    """cpu is a word; other names stand for themselves."""
    return "CPU" if resource == "cpu" else resource


def plural(count: int, noun: str, nouns: str = "") -> str:
    """`1 node`, `3 nodes`."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def listed(items: Iterable[str], most: int = 4) -> str:
    """`a, b and 3 more`."""
    names = list(items)
    if len(names) <= most:
        return conjoined(names)
    return f"{', '.join(names[:most])} and {len(names) - most:,} more"


def conjoined(names: Sequence[str], word: str = "and") -> str:
    """`a, b and c`."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {word} {names[-1]}"
