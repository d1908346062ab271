"""A headless Chromium for tests, spoken to through its DevTools pipe."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Chromium:
    """A headless Chromium, spoken to through its DevTools pipe."""

    def __init__(self, commands: int, replies: int) -> None:
        self.commands, self.replies = commands, replies
        self.events: list[dict[str, Any]] = []
        self.session: str | None = None
        self.number = 0
        self.unread = b""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.ask("Page.setLifecycleEventsEnabled", enabled=True)

    def ask(self, method: str, **parameters: Any) -> Any:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters, "sessionId": self.session}
        os.write(self.commands, json.dumps({key: value for key, value in message.items() if value}).encode() + b"\0")
        while (reply := self.next()).get("id") != self.number:
            self.events.append(reply)
        assert "error" not in reply, reply["error"]
        return reply["result"]

    def next(self) -> dict[str, Any]:
        while b"\0" not in self.unread:
            assert select.select([self.replies], [], [], 60)[0], "Chromium does not answer"
            received = os.read(self.replies, 1 << 16)
            assert received, "Chromium has ended"
            self.unread += received
        line, _, self.unread = self.unread.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def open(self, page: Path, address: str = "") -> None:
        """Show a page, and return when it has loaded."""
        self.visit(f"{page.as_uri()}#{address}")

    def visit(self, url: str) -> None:
        """Show what is at an address, and return when it has loaded."""
        self.ask("Page.navigate", url="about:blank")
        self.events.clear()
        loader = self.ask("Page.navigate", url=url)["loaderId"]
        while not any(
            one.get("name") == "load" and one["loaderId"] == loader for one in self.seen("Page.lifecycleEvent")
        ):
            self.events.append(self.next())
        self.run("null")  # what the page logged has arrived

    def seen(self, method: str) -> list[dict[str, Any]]:
        return [event["params"] for event in self.events if event.get("method") == method]

    def requested(self) -> list[str]:
        """What the page asked for, but for itself and what it holds."""
        urls = [one["request"]["url"] for one in self.seen("Network.requestWillBeSent")]
        return [url for url in urls if not url.startswith(("file:", "data:", "about:"))]

    def complaints(self) -> list[str]:
        """Errors and warnings on the console, of the page and of the browser about it."""
        thrown = [one["exceptionDetails"]["text"] for one in self.seen("Runtime.exceptionThrown")]
        logged = [one["entry"]["text"] for one in self.seen("Log.entryAdded")]
        return thrown + logged + [str(one["args"]) for one in self.seen("Runtime.consoleAPICalled")]

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        done = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Return when a condition holds in the page, looking at every frame."""
        look = f"({condition}) ? done() : requestAnimationFrame(look)"
        self.run(f"new Promise((done) => {{ const look = () => {look}; look(); }})")

    def press(self, key: str) -> None:
        held, _, name = key.rpartition("+")
        code, text = {"Tab": (9, ""), "Enter": (13, "\r"), " ": (32, " "), "ArrowRight": (39, "")}[name]
        pressed = {"key": name, "windowsVirtualKeyCode": code, "modifiers": {"": 0, "Control": 2, "Shift": 8}[held]}
        self.ask("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **pressed)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **pressed)

    def type(self, text: str) -> None:
        """Put a text where the caret is, as a keyboard does."""
        self.ask("Input.insertText", text=text)

    def picture(self) -> bytes:
        """The whole page as PNG."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12_000), "scale": 1}
        done = self.ask("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(done["data"])

    def looks(self, width: int, *, dark: bool = False) -> None:
        """Make it a screen of some width, whose user likes it light or dark."""
        phone = width < 600
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=phone)
        self.ask("Emulation.setScrollbarsHidden", hidden=True)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])


SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-features=BackForwardCache",  # a page that was left would keep its streams open for a minute
    "--no-first-run",
    "--remote-debugging-pipe",
)

AS_3_AND_4 = """
import fcntl, os, sys
high = [fcntl.fcntl(int(one), fcntl.F_DUPFD, 10) for one in sys.argv[1:3]]
os.dup2(high[0], 3)
os.dup2(high[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads commands from descriptor 3 and writes replies to 4."""


@contextmanager
def started(home: Path) -> Iterator[Chromium]:
    """A Chromium with a profile of its own, which ends with the block.

    Raises:
        LookupError: There is none here.
    """
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
    if program is None:
        raise LookupError("no Chromium found; on Debian: apt-get install chromium")
    (commands_out, commands), (replies, replies_in) = os.pipe(), os.pipe()
    with ExitStack() as stack, (home / "log").open("w") as log:
        stack.callback(os.close, replies)
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", AS_3_AND_4, str(commands_out), str(replies_in)),
                *(program, *SWITCHES, f"--user-data-dir={home / 'profile'}"),
            ],
            pass_fds=(commands_out, replies_in),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        stack.callback(process.wait, 60)
        stack.callback(os.close, commands)  # which ends it
        os.close(commands_out)
        os.close(replies_in)
        yield Chromium(commands, replies)
