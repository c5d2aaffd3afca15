"""A real Chromium, driven over the DevTools pipe: no driver package, no port, a profile of its own."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--force-color-profile=srgb", "--remote-debugging-pipe", "about:blank"),
)
# Chromium reads commands from descriptor 3 and writes answers to 4; only a new process can be given these.
LAUNCH = "import os, sys; a = sys.argv; os.dup2(int(a[1]), 3); os.dup2(int(a[2]), 4); os.execvp(a[3], a[3:])"
KEYS = {
    **{name: (name, code) for name, code in (("Enter", 13), ("Tab", 9), ("Escape", 27), ("Backspace", 8))},
    **{name: (name, code) for name, code in (("ArrowLeft", 37), ("ArrowUp", 38), ("ArrowRight", 39))},
    **{name: (name, code) for name, code in (("ArrowDown", 40), ("Home", 36), ("End", 35), ("PageDown", 34))},
    "Space": (" ", 32),
}
PATIENCE = 60.0  # seconds; only a fault waits as long


def find() -> str | None:
    """Chromium on this machine: $CHROMIUM, or the first of its usual names."""
    asked = os.environ.get("CHROMIUM")
    return asked or next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One process; pages are opened in it one after the other."""

    def __init__(self, executable: str, profile: Path) -> None:
        to_read, self._commands = os.pipe()
        self._answers, to_write = os.pipe()
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_read, to_write)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *map(str, ends), executable, f"--user-data-dir={profile}", *FLAGS],
            pass_fds=ends,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for fd in (to_read, to_write, *ends):
            os.close(fd)
        self._number = 0
        self._waiting: dict[int, queue.Queue[dict[str, Any]]] = {}
        self.pages: dict[str, Page] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.send("Browser.close")
        except (RuntimeError, OSError):
            self._process.kill()
        self._process.wait(PATIENCE)
        os.close(self._commands)

    def send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """One command and its answer."""
        self._number += 1
        number, answers = self._number, queue.Queue[dict[str, Any]]()
        self._waiting[number] = answers
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        try:
            answer = answers.get(timeout=PATIENCE)
        except queue.Empty:
            raise RuntimeError(f"Chromium did not answer {method} within {PATIENCE:g} s") from None
        finally:
            del self._waiting[number]
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer.get("result", {})

    def page(self, **emulation: Any) -> Page:
        """A new page with a clean profile: nothing stored by an earlier one."""
        context = self.send("Target.createBrowserContext")["browserContextId"]
        target = self.send("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session, context)
        for domain in ("Page", "Runtime", "Network", "Log", "Audits"):
            page.send(f"{domain}.enable")
        page.emulate(**emulation)
        return page

    def _listen(self) -> None:
        rest = b""
        with os.fdopen(self._answers, "rb", buffering=0) as answers:
            while chunk := answers.read(1 << 16):
                *whole, rest = (rest + chunk).split(b"\0")
                for text in whole:
                    message = json.loads(text)
                    if "id" in message and (waiting := self._waiting.get(message["id"])):
                        waiting.put(message)
                    elif page := self.pages.get(message.get("sessionId", "")):
                        page.heard(message["method"], message["params"])


class Page:
    """A page: the actions of a person on it, and its errors and foreign requests, which nobody should see."""

    def __init__(self, browser: Browser, session: str, context: str) -> None:
        self._browser, self._session, self._context = browser, session, context
        self.requests: list[str] = []
        self.complaints: list[str] = []  # console errors, exceptions, violations of the content policy

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.send(method, self._session, **params)

    def close(self) -> None:
        del self._browser.pages[self._session]
        self._browser.send("Target.disposeBrowserContext", browserContextId=self._context)

    def heard(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([a.get("value", a.get("description")) for a in params["args"]]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Audits.issueAdded" and params["issue"]["code"] == "ContentSecurityPolicyIssue":
            self.complaints.append(json.dumps(params["issue"])[:400])

    def emulate(
        self, width: int = 1280, height: int = 900, dark: bool = False, calm: bool = True, scale: float = 1
    ) -> None:
        """The screen, and what the person prefers; without motion there is nothing to wait for."""
        mobile = width < 600
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=mobile,
        )
        self.send(
            "Emulation.setEmulatedMedia",
            features=[
                {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                {"name": "prefers-reduced-motion", "value": "reduce" if calm else "no-preference"},
            ],
        )

    # ---- looking -------------------------------------------------------------------------------------------
    def go(self, url: str) -> None:
        self.send("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def js(self, expression: str) -> Any:
        """The value of an expression; a promise is waited for."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait(self, expression: str, timeout: float = PATIENCE) -> Any:
        """Until the expression is true; its value."""
        until = time.monotonic() + timeout
        while not (value := self.js(expression)):
            if time.monotonic() > until:
                raise AssertionError(f"still not true after {timeout:g} s: {expression}\n{self.complaints}")
            time.sleep(0.02)
        return value

    def show(self, fragment: str) -> None:
        """The address with this fragment; returns when the page has heard of it."""
        self.js(f"""new Promise((heard) => {{
          const before = location.hash;
          addEventListener("hashchange", () => heard(true), {{ once: true }});
          location.hash = {json.dumps(fragment)};
          if (location.hash === before) heard(true);
        }})""")

    def wait_for(self, selector: str, number: int | None = None) -> None:
        """Until the selector finds something that can be seen, or so many elements."""
        found = json.dumps(selector)
        if number is None:
            self.wait(f"[...document.querySelectorAll({found})].some(e => e.checkVisibility())")
        else:
            self.wait(f"document.querySelectorAll({found}).length === {number}")

    def read(self, selector: str, name: str) -> Any:
        """A property of the first element that the selector finds."""
        return self.js(f"document.querySelector({json.dumps(selector)}).{name}")

    def texts(self, selector: str) -> list[str]:
        return self.js(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent.trim())"
        )

    def seen(self, selector: str) -> bool:
        return self.js(f"Boolean(document.querySelector({json.dumps(selector)})?.checkVisibility())")

    def screenshot(self, path: Path, whole: bool = False) -> None:
        shot = self.send(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole)
        )
        path.write_bytes(base64.b64decode(shot["data"]))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}

    # ---- doing ---------------------------------------------------------------------------------------------
    def click(self, selector: str) -> None:
        """A real press where the element is; it fails when something else lies on top of it."""
        found = json.dumps(selector)
        self.wait(f"document.querySelector({found})?.checkVisibility()")
        x, y, hit = self.js(
            f"""(() => {{
              const node = document.querySelector({found});
              node.scrollIntoView({{block: "center", behavior: "instant"}});
              const box = node.getBoundingClientRect();
              const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
              const top = document.elementFromPoint(x, y);
              return [x, y, node.contains(top) || (top?.contains(node) ?? false)];
            }})()"""
        )
        assert hit, f"something else lies on top of {selector}"
        self.mouse(x, y, "mouseMoved")
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(x, y, kind)

    def mouse(self, x: float, y: float, kind: str = "mouseMoved") -> None:
        button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def press(self, name: str, shift: bool = False) -> None:
        key, code = KEYS[name]
        text = {"Enter": "\r", "Space": " "}.get(name)
        held = {"key": key, "code": name, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.send("Input.dispatchKeyEvent", type="keyDown", **held, **({"text": text} if text else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", **held)

    def type(self, text: str) -> None:
        for letter in text:
            self.send("Input.dispatchKeyEvent", type="char", text=letter)
