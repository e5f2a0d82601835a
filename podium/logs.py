"""Logging of the program: klog's lines or JSON on stderr, verbosity by -v and, for single files, --vmodule.

A message with fields (`extra={"fields": {…}}`) is written as klog writes structured ones: the text in quotes, then
`key="value"`. Levels: INFO is klog's 0 to 3, DEBUG its 4 to 9, SCORES its 10. Nothing else in the program touches
logging's own configuration.
"""

from __future__ import annotations

import fnmatch
import json
import logging
import sys
import time
from collections.abc import Iterable
from typing import Any

from config.problems import ConfigError, Problem
from scheduler.score_log import SCORES

_LETTERS = {logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "F"}
#: a number in JSON, as klog's JSON format has it
_V = {logging.DEBUG: 4, SCORES: 10}


class KlogFormatter(logging.Formatter):
    """`I1129 18:45:06.123456   4242 scheduler.py:120] text`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, with the traceback of an exception below it."""
        stamp = time.strftime("%m%d %H:%M:%S", time.localtime(record.created))
        micros = int(record.created % 1 * 1e6)
        letter = _LETTERS.get(record.levelno, "I")
        text = f"{letter}{stamp}.{micros:06d} {record.process:>7} {record.filename}:{record.lineno}] {_text(record)}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class JsonFormatter(logging.Formatter):
    """One object a line, with klog's keys: ts, caller, msg, v (or err), and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        document: dict[str, Any] = {
            "ts": round(record.created * 1000, 3),
            "caller": f"{record.filename}:{record.lineno}",
            "msg": record.getMessage(),
        }
        if record.levelno < logging.WARNING:
            document["v"] = _V.get(record.levelno, 0)
        else:
            document["level"] = record.levelname.lower()
        document |= _fields(record)
        if record.exc_info:
            document["err"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str, ensure_ascii=False)


class Verbosity(logging.Filter):
    """What is written: all above a level, and for some files more. Owner: the one handler."""

    def __init__(self, verbosity: int, files: dict[str, int]) -> None:
        super().__init__()
        self._level = _level(verbosity)
        self._files = {pattern: _level(number) for pattern, number in files.items()}

    @property
    def lowest(self) -> int:
        """No logger need make records below it."""
        return min([self._level, *self._files.values()])

    def set(self, verbosity: int) -> None:
        """From now on."""
        self._level = _level(verbosity)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write it."""
        if record.levelno >= self._level:
            return True
        return any(
            record.levelno >= level for name, level in self._files.items() if fnmatch.fnmatch(record.module, name)
        )


def set_up(verbosity: int, files: Iterable[str] = (), form: str = "text") -> None:
    """Below 0: errors; 0 to 3: what an operator wants to read; 4: everything but scores; 10: the scores too.

    Scores are those of each plugin and node. `files`: `PATTERN=N` of --vmodule; ConfigError for anything else.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else KlogFormatter())
    verbose = Verbosity(verbosity, _patterns(files))
    handler.addFilter(verbose)
    logging.basicConfig(level=verbose.lowest, handlers=[handler], force=True)
    for noisy in ("aiohttp", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def set_verbosity(verbosity: int) -> None:
    """Change -v of a program that runs."""
    root = logging.getLogger()
    for handler in root.handlers:
        for verbose in handler.filters:
            if isinstance(verbose, Verbosity):
                verbose.set(verbosity)
                root.setLevel(verbose.lowest)


def _patterns(files: Iterable[str]) -> dict[str, int]:
    patterns = {}
    for word in files:
        name, _, number = word.partition("=")
        if not name or not number.isdecimal():
            raise ConfigError([Problem("--vmodule", f"expected FILE=N, not {word!r}")])
        patterns[name.removesuffix(".py")] = int(number)
    return patterns


def _level(verbosity: int) -> int:
    if verbosity >= 10:
        return SCORES
    if verbosity < 0:
        return logging.ERROR
    return logging.DEBUG if verbosity >= 4 else logging.INFO


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, "fields", {})
    return fields


def _text(record: logging.LogRecord) -> str:
    fields = _fields(record)
    if not fields:
        return record.getMessage()
    pairs = (f"{key}={json.dumps(value, default=str, ensure_ascii=False)}" for key, value in fields.items())
    return " ".join((json.dumps(record.getMessage(), ensure_ascii=False), *pairs))
