"""Long answers in pieces: a generator that pauses where the world may change before it goes on.

Offline the pieces follow each other at once. In a running podium the event loop goes on between them; what a piece
reads it asks for anew, so that each is about one state of the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")

#: a pause after each piece, the answer at the end
Pieces = Generator[None, None, T]

#: the longest that pieces follow each other in a running podium, seconds; one piece may take longer
SLICE = 0.01


def at_once(pieces: Pieces[T]) -> T:
    """The answer, without a pause."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            answer: T = end.value
            return answer


async def in_slices(pieces: Pieces[T]) -> T:
    """The answer, the loop going on between the pieces."""
    started = perf_counter()
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            answer: T = end.value
            return answer
        if perf_counter() - started > SLICE:
            await asyncio.sleep(0)
            started = perf_counter()
