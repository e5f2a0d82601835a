"""Interning: give what repeats a small integer once, and compare integers afterwards.

Owner: whoever holds the interner (a column, an index). Codes are never reused; values are immutable and hashable.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Interner(Generic[K]):
    """Values to codes 0, 1, 2… in order of first appearance, and back."""

    __slots__ = ("code_of", "values")

    def __init__(self, *values: K) -> None:
        self.code_of: dict[K, int] = {}
        self.values: list[K] = []
        for value in values:
            self.code(value)

    def code(self, value: K) -> int:
        """The code of a value, new if it was never seen."""
        code = self.code_of.get(value)
        if code is None:
            code = self.code_of[value] = len(self.values)
            self.values.append(value)
        return code

    def __len__(self) -> int:
        return len(self.values)
