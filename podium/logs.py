"""Logging of the program: klog's line format on stderr, verbosity by -v."""

from __future__ import annotations

import logging
import sys
import time

_LETTERS = {logging.DEBUG: "I", logging.INFO: "I", logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "F"}


class KlogFormatter(logging.Formatter):
    """`I1129 18:45:06.123456   4242 scheduler.py:120] text`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, with the traceback of an exception below it."""
        stamp = time.strftime("%m%d %H:%M:%S", time.localtime(record.created))
        micros = int(record.created % 1 * 1e6)
        letter = _LETTERS.get(record.levelno, "I")
        text = (
            f"{letter}{stamp}.{micros:06d} {record.process:>7} {record.filename}:{record.lineno}] {record.getMessage()}"
        )
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def set_up(verbosity: int) -> None:
    """Below 0: warnings only; 0 and 1: what an operator wants to read; 4 and more: everything."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KlogFormatter())
    level = logging.DEBUG if verbosity >= 4 else logging.INFO if verbosity >= 0 else logging.WARNING
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in ("aiohttp", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
