"""Progress of long questions on stderr: a bar where somebody watches a terminal, nothing elsewhere.

rich is imported only where there is a terminal, and the bar appears only once something takes a while.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")
#: seconds before a bar appears, and between two updates
PATIENCE = 0.5
PERIOD = 0.1


class Progress:
    """Counts what is done. Use as a context manager."""

    def __init__(self, unit: str, total: int | None = None) -> None:
        self._unit = unit
        self._total = total
        self._started = self._updated = monotonic()
        self._bar: Any = None
        self._task: Any = None
        self._watched = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def each(self, items: Iterable[T]) -> Iterator[T]:
        """The items, counted."""
        for done, item in enumerate(items, 1):
            self.update(done)
            yield item

    def update(self, done: int) -> None:
        """So many are done."""
        if not self._watched:
            return
        now = monotonic()
        if now - self._updated < PERIOD or now - self._started < PATIENCE:
            return
        self._updated = now
        if self._bar is None:
            self._show()
        self._bar.update(self._task, completed=done)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn(self._unit), TimeRemainingColumn())
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task("", total=self._total)
