"""A headless Chromium for tests, spoken to over its DevTools protocol: one browser a test run, a fresh tab a test.

    async with Tab.open(browser) as tab:
        await tab.goto(url)
        await tab.until("document.title === 'podium'")

A tab notes what no page should have: exceptions, console errors, violations of the content policy, and requests.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
HINT = "no Chromium found: install the package chromium, or set CHROMIUM to its path"
FLAGS = (
    "--headless=new",
    "--remote-debugging-port=0",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--hide-scrollbars",
    "--mute-audio",
    "--no-proxy-server",
)
#: a machine that does something else as well may take its time
TIMEOUT = 60.0


def find() -> str | None:
    """The browser's program, None where there is none."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A running browser. Use as a context manager."""

    def __init__(self, program: str, profile: Path) -> None:
        self._profile = profile
        # A sandbox cannot be set up by root, as in most containers.
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        command = [program, *FLAGS, *sandbox, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.url = ""

    def __enter__(self) -> Self:
        port = self._profile / "DevToolsActivePort"
        end = time.monotonic() + TIMEOUT
        while not port.exists() or "\n" not in port.read_text():
            assert self._process.poll() is None, "Chromium ended at once"
            assert time.monotonic() < end, "Chromium does not start"
            time.sleep(0.05)
        self.url = f"http://127.0.0.1:{port.read_text().splitlines()[0]}"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Tab:
    """A tab of its own. Owner: one test."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        #: what went wrong in the page
        self.problems: list[str] = []
        #: addresses that were asked for
        self.requests: list[str] = []

    @classmethod
    @asynccontextmanager
    async def open(cls, browser: Browser, width: int = 1440, height: int = 900) -> AsyncIterator[Tab]:
        """A new tab that is closed at the end."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        async with aiohttp.ClientSession(trust_env=False, timeout=timeout) as session:
            async with session.put(f"{browser.url}/json/new?about:blank") as answer:
                target = await answer.json()
            url = target["webSocketDebuggerUrl"]
            async with session.ws_connect(url, max_msg_size=0, timeout=aiohttp.ClientWSTimeout(ws_close=5.0)) as socket:
                tab = cls(socket)
                reading = asyncio.create_task(tab._read())
                try:
                    for domain in ("Page", "Runtime", "Network", "Log"):
                        await tab.send(f"{domain}.enable")
                    await tab.resize(width, height)
                    yield tab
                finally:
                    reading.cancel()
            async with session.get(f"{browser.url}/json/close/{target['id']}"):
                pass

    async def _read(self) -> None:
        async for message in self._socket:
            said = message.json()
            if "id" in said:
                waiting = self._answers.pop(said["id"], None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(said)
            else:
                self._note(said["method"], said["params"])

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(f"{params['entry']['source']}: {params['entry']['text']}")

    async def send(self, method: str, **params: Any) -> Any:
        """A command of the protocol, and its result."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(TIMEOUT):
            said = await answer
        assert "error" not in said, f"{method}: {said['error']}"
        return said["result"]

    async def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        """The size of the window; a phone has fingers and twice as many pixels."""
        scale = 2 if phone else 1
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone}
        await self.send("Emulation.setDeviceMetricsOverride", **size)
        await self.send("Emulation.setTouchEmulationEnabled", enabled=phone)

    async def scheme(self, scheme: str) -> None:
        """What the system prefers: light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.send("Emulation.setEmulatedMedia", features=features)

    async def goto(self, url: str) -> None:
        """Open a page; returns before it has loaded."""
        await self.send("Page.navigate", url=url)

    async def run(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        said = await self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in said, f"{expression}: {said['exceptionDetails']}"
        return said["result"].get("value")

    async def until(self, expression: str) -> Any:
        """Wait until an expression is true, and give its value; says what the page shows if it never is."""
        end = asyncio.get_running_loop().time() + TIMEOUT
        # An element comes as an empty object.
        while (value := await self.run(expression)) in (None, False, 0, ""):
            if asyncio.get_running_loop().time() > end:
                text = await self.run("document.body.innerText")
                raise AssertionError(f"never true: {expression}\n{self.problems}\n{text[-2500:]}")
            await asyncio.sleep(0.05)
        return value

    async def text(self, selector: str) -> str:
        """What an element shows."""
        return str(await self.run(f"document.querySelector({selector!r})?.innerText ?? ''"))

    async def click(self, selector: str) -> None:
        """A click in the middle of an element."""
        x, y = await self.run(
            f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView({{block: 'center'}});"
            "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        await self.click_at(x, y)

    async def click_at(self, x: float, y: float) -> None:
        """A click somewhere in the window."""
        for kind in ("mousePressed", "mouseReleased"):
            await self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def hover(self, x: float, y: float) -> None:
        """Move the mouse."""
        await self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    async def key(self, key: str, code: int) -> None:
        """Press and release a key."""
        text = {"Enter": "\r"}.get(key, "")
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        for event in (down, {"type": "keyUp"}):
            await self.send("Input.dispatchKeyEvent", key=key, code=key, windowsVirtualKeyCode=code, **event)

    async def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """A PNG of the window, or of the whole page."""
        said = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(said["data"]))
