"""A headless Chromium, driven through its DevTools protocol over a pair of pipes.

The standard library is enough for that, so the tests need a browser and nothing else.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Keys that are not a letter: their code in the protocol.
_KEY_CODES = {
    "Enter": 13,
    "Escape": 27,
    "Home": 36,
    "End": 35,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}


def executable() -> str | None:
    """The browser of this machine: $WEFT_CHROMIUM, or one that stands in the PATH."""
    asked = os.environ.get("WEFT_CHROMIUM")
    return asked or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """Speaks the protocol: one command at a time, each with an answer."""

    def __init__(self, program: str, profile: Path) -> None:
        to_browser, self._commands = os.pipe()
        self._answers, from_browser = os.pipe()
        arguments = [
            program,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        # The browser reads commands from descriptor 3 and answers on 4.
        redirected = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", redirected, "browser", *arguments],
            pass_fds=(to_browser, from_browser),
            # A sanitizer's library is for weft, not for the browser.
            env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._number = 0
        self._unread = b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read(time.monotonic() + 60)
            if answer.get("id") != self._number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            else:
                result: dict[str, Any] = answer["result"]
                return result

    def _read(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._unread:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._answers, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self._unread += part
        message, _, self._unread = self._unread.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def close(self) -> None:
        os.close(self._commands)
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._answers)


class Page:
    """One tab."""

    def __init__(self, browser: Browser, width: int, height: int, *, dark: bool = False) -> None:
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=target, flatten=True)
        self._target, self._session = target, attached["sessionId"]
        self._call("Page.enable")
        self._call("Runtime.enable")
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[theme])
        self._call("Network.enable")

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def open(self, path: Path) -> None:
        """Returns once the page has drawn its graph."""
        self._call("Page.navigate", url=path.as_uri())
        self.wait_for("document.body?.dataset.ready")

    def evaluate(self, expression: str) -> Any:
        found = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"]["exception"].get("description"))
        return found["result"].get("value")

    def wait_for(self, expression: str, seconds: float = 30) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := self.evaluate(expression)):
            if time.monotonic() > deadline:
                raise AssertionError(f"never became true: {expression}")
            time.sleep(0.02)
        return found

    def click(self, selector: str, *, times: int = 1) -> None:
        box = self.evaluate(
            f"(() => {{ const r = document.querySelector({json.dumps(selector)})"
            ".getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] })()"
        )
        for count in range(1, times + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self._mouse(kind, *box, button="left", clickCount=count)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self._mouse("mousePressed", *start, button="left", clickCount=1)
        self._mouse("mouseMoved", *end, button="left")
        self._mouse("mouseReleased", *end, button="left", clickCount=1)

    def wheel(self, at: tuple[float, float], amount: float) -> None:
        self._mouse("mouseWheel", *at, deltaX=0, deltaY=amount)

    def _mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def press(self, key: str) -> None:
        common: dict[str, Any] = {"key": key}
        if key in _KEY_CODES or key.isalnum():
            common["windowsVirtualKeyCode"] = _KEY_CODES.get(key) or ord(key.upper())
        text = "\r" if key == "Enter" else key
        typed = {"text": text} if len(text) == 1 else {}
        self._call("Input.dispatchKeyEvent", type="keyDown", **common, **typed)
        self._call("Input.dispatchKeyEvent", type="keyUp", **common)

    def write(self, text: str) -> None:
        self._call("Input.insertText", text=text)

    def errors(self) -> list[str]:
        """Exceptions of the page's script, and whatever it tried to load from elsewhere."""
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(event["params"]["exceptionDetails"]))
            elif event["method"] == "Network.requestWillBeSent":
                url = event["params"]["request"]["url"]
                found += [] if url.startswith("file:") else [f"request of {url}"]
        return found

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)


@contextmanager
def running(program: str, profile: Path) -> Iterator[Browser]:
    browser = Browser(program, profile)
    try:
        yield browser
    finally:
        browser.close()
