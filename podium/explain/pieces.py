"""Long answers in pieces: a generator that pauses where the world may change before it goes on.

A pause may hand out a coroutine, whose result it goes on with: a question to somebody else.

Offline the pieces follow each other at once. In a running podium the event loop goes on between them; what a piece
reads it asks for anew, so that each is about one state of the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from time import perf_counter
from typing import Any, TypeVar

T = TypeVar("T")

Question = Coroutine[Any, Any, Any]
#: a pause after each piece, the answer at the end
Pieces = Generator[Question | None, Any, T]

#: the longest that pieces follow each other in a running podium, seconds; one piece may take longer
SLICE = 0.01


def at_once(pieces: Pieces[T], ask: Callable[[Question], Any] | None = None) -> T:
    """The answer, without a pause. `ask` runs questions; without it there may be none."""
    result: Any = None
    while True:
        try:
            question = pieces.send(result)
        except StopIteration as end:
            answer: T = end.value
            return answer
        assert question is None or ask is not None, "nobody can be asked"
        result = ask(question) if question is not None and ask is not None else None


async def in_slices(pieces: Pieces[T]) -> T:
    """The answer, the loop going on between the pieces."""
    started, result = perf_counter(), None
    while True:
        try:
            question = pieces.send(result)
        except StopIteration as end:
            answer: T = end.value
            return answer
        result = None
        if question is not None:
            result = await question
            started = perf_counter()
        elif perf_counter() - started > SLICE:
            await asyncio.sleep(0)
            started = perf_counter()
