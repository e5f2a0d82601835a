"""What the endpoints say of the process itself: /statusz, /flagz, and /debug where it is enabled.

Owner: the command that runs the service; added to its HTTP servers. The profile and the stacks are Python's.
"""

from __future__ import annotations

import asyncio
import cProfile
import importlib.metadata
import io
import platform
import pstats
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence

from aiohttp import web

from podium import logs

#: seconds a profile may last, and lasts where nothing else is said
MAX_PROFILE = 30.0
DEFAULT_PROFILE = 5.0
#: lines of a profile
PROFILE_LINES = 60
_NOTE = "For people: the form may change at any time.\n"


class Process:
    """This process: its command line, its age, and whether it may be looked into."""

    def __init__(
        self, flags: Mapping[str, str], debug: bool = False, disabled_metrics: Collection[str] = frozenset()
    ) -> None:
        self._flags = flags
        self._debug = debug
        self._started = time.time()
        self._profiling = False
        #: families that /metrics leaves out
        self.disabled_metrics = frozenset(disabled_metrics)

    def add_routes(self, app: web.Application, dump: Callable[[], Sequence[str]]) -> None:
        """`dump`: what SIGUSR2 writes to the log."""
        app.router.add_get("/statusz", self._statusz)
        app.router.add_get("/flagz", self._flagz)
        if not self._debug:
            return

        async def state(request: web.Request) -> web.Response:
            return web.Response(text="\n".join(dump()) + "\n")

        app.router.add_get("/debug/state", state)
        app.router.add_get("/debug/stacks", _stacks)
        app.router.add_get("/debug/pprof/profile", self._profile)
        app.router.add_put("/debug/flags/v", _set_verbosity)

    async def _statusz(self, request: web.Request) -> web.Response:
        minutes, seconds = divmod(int(time.time() - self._started), 60)
        lines = {
            "Started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._started)),
            "Up": f"{minutes // 60} h {minutes % 60:02} min {seconds:02} s",
            "Version": importlib.metadata.version("podium"),
            "Python": platform.python_version(),
            "Paths": " ".join(sorted({str(r.canonical) for r in request.app.router.resources()})),
        }
        return web.Response(text=f"podium statusz\n{_NOTE}\n" + "".join(f"{k}: {v}\n" for k, v in lines.items()))

    async def _flagz(self, request: web.Request) -> web.Response:
        lines = "".join(f"{name}={value}\n" for name, value in sorted(self._flags.items()))
        return web.Response(text=f"podium flagz\n{_NOTE}\n{lines}")

    async def _profile(self, request: web.Request) -> web.Response:
        """What the event loop is busy with for some seconds, the most expensive functions first."""
        try:
            seconds = float(request.query.get("seconds", DEFAULT_PROFILE))
        except ValueError:
            return web.Response(status=400, text="seconds: expected a number\n")
        if not 0 < seconds <= MAX_PROFILE:
            return web.Response(status=400, text=f"seconds: expected more than 0, at most {MAX_PROFILE:g}\n")
        if self._profiling:
            return web.Response(status=409, text="a profile is being taken already\n")
        self._profiling = True
        profile = cProfile.Profile()
        try:
            profile.enable()
            await asyncio.sleep(seconds)
        finally:
            profile.disable()
            self._profiling = False
        text = io.StringIO()
        pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(PROFILE_LINES)
        return web.Response(text=text.getvalue())


async def _stacks(request: web.Request) -> web.Response:
    """Every task and where it waits: what Go's goroutine dump is for."""
    parts = []
    for task in sorted(asyncio.all_tasks(), key=lambda each: each.get_name()):
        frames = [line for frame in task.get_stack() for line in traceback.format_stack(frame, limit=1)]
        parts.append(f"{task.get_name()}\n{''.join(frames)}")
    return web.Response(text="\n".join(parts))


async def _set_verbosity(request: web.Request) -> web.Response:
    """As kube-scheduler's: PUT with the number as the body."""
    text = (await request.text()).strip()
    if not text.isdecimal():
        return web.Response(status=400, text="expected a number as the body\n")
    logs.set_verbosity(int(text))
    return web.Response(text=f"successfully set verbosity to {int(text)}\n")
