"""What a process holds: what its allocators have given out, and what it has of the system, in MiB.

The second is the high-water mark of the first and of the holes between what is held. The soak alone asks.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
from pathlib import Path

MIB = 2**20


class _MallInfo(ctypes.Structure):
    """struct mallinfo2 of glibc."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keep",
        )
    )


def resident() -> float:
    """What the process has of the system."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def held() -> float:
    """What Python objects and everything else that was allocated take, without the holes between them."""
    return (_small_objects() + _allocated()) / MIB


def _small_objects() -> int:
    """CPython tells only in a text, and that on the descriptor of standard error."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            sys._debugmallocstats()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        found = re.search(r"# bytes in allocated blocks\s*=\s*([\d,]+)", file.read().decode())
    assert found is not None, "CPython was built without its own allocator"
    return int(found[1].replace(",", ""))


def _allocated() -> int:
    """0 with another C library than glibc."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        return 0
    mallinfo.restype = _MallInfo
    info = mallinfo()
    return int(info.uordblks + info.hblkhd)
