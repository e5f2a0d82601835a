"""One server process of a control plane: started, signalled and waited for by its process id.

Used by `start` only. Bound to no event loop, so that a session-wide control plane serves tests with loops of their own.
"""

import asyncio
import contextlib
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from signal import SIGTERM, Signals


class ServerError(Exception):
    """A server did not start, did not become ready or did not end; names its log."""


class Server:
    """A command that can be started again and again; owned by one ControlPlane (or by whoever started a scheduler)."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        self.name = name
        self.log = log
        # The kernel ends the server with the tests, even when these are killed and clean up nothing.
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        self._command = [*guard, *map(str, command)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerError(f"{self.name} was never started")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start; the same command, so the same ports and data as before."""
        if self.running:
            raise ServerError(f"{self.name} is running already")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def send(self, signal: Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal)

    async def stop(self, signal: Signals = SIGTERM, timeout: float = 60) -> int | None:
        """Signal and wait for the end; the exit code (negative: the signal), None where it never ran."""
        if self._process is None:
            return None
        self.send(signal)
        end = time.monotonic() + timeout
        while self._process.poll() is None:
            if time.monotonic() > end:
                raise ServerError(f"{self.name} did not end within {timeout:.0f} s of {signal.name}, see {self.log}")
            await asyncio.sleep(0.02)
        return self._process.returncode

    def kill_now(self) -> None:
        """The last resort of every clean-up: no grace, no event loop."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def must_run(self) -> None:
        """A ServerError with the last line of the log, unless it runs."""
        if not self.running:
            lines = self.log.read_text(errors="replace").strip().splitlines() or ["(no output)"]
            code = self._process.returncode if self._process else None
            raise ServerError(f"{self.name} ended with exit code {code}: {lines[-1][:300]}")
