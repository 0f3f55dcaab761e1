"""A real browser for the tests: Debian's chromium, driven over chromedriver's HTTP protocol."""

import base64
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final

_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
_PATIENCE: Final = 30.0  # seconds
_ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"  # how the protocol marks elements


def missing() -> str:
    """What of the browser is not installed; empty if all is."""
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return (
        ""
        if not absent
        else f"no {' and no '.join(absent)}: apt-get install chromium chromium-driver"
    )


class Browser:
    """One window."""

    def __init__(self, address: str, folder: str) -> None:
        self._address = address
        arguments = [*_FLAGS, f"--user-data-dir={folder}"]
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": shutil.which("chromium"), "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        answer = self._send("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{answer['sessionId']}"

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._send("DELETE", self._session)

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._address + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from None

    def open(self, page: Path, fragment: str = "") -> None:
        """A page anew, once its script has run."""
        self._send("POST", self._session + "/url", {"url": "about:blank"})
        self._send("POST", self._session + "/url", {"url": f"{page.as_uri()}{fragment}"})
        deadline = time.monotonic() + _PATIENCE
        while self.script("return document.documentElement.dataset.ready") != "yes":
            assert time.monotonic() < deadline, self.errors()
            time.sleep(0.05)

    def script(self, code: str, *args: Any) -> Any:
        """What a piece of JavaScript returns."""
        return self._send(
            "POST", self._session + "/execute/sync", {"script": code, "args": list(args)}
        )

    def texts(self, selector: str) -> list[str]:
        """What is to be read in the elements."""
        code = (
            "return [...document.querySelectorAll(arguments[0])].filter((e) => e.checkVisibility())"
            ".map((e) => (e.innerText ?? e.textContent).trim())"
        )
        found: list[str] = self.script(code, selector)
        return found

    def click(self, selector: str, number: int = 0) -> None:
        """As with the mouse."""
        code = "return document.querySelectorAll(arguments[0])[arguments[1]]"
        element = self.script(code, selector, number)
        assert element, f"no {selector}"
        self._send("POST", f"{self._session}/element/{element[_ELEMENT]}/click", {})
        self._settle()

    def keys(self, text: str) -> None:
        """As with the keyboard, wherever the focus is."""
        downs = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        action = {"type": "key", "id": "keyboard", "actions": downs}
        self._send("POST", self._session + "/actions", {"actions": [action]})
        self._settle()

    def _settle(self) -> None:
        """What the page does about an event it does a little later, as with a new address."""
        wait = "requestAnimationFrame(() => setTimeout(done, 20))"
        self.script(f"return new Promise((done) => {wait})")

    def window(self, width: int, height: int) -> None:
        self._send("POST", self._session + "/window/rect", {"width": width, "height": height})

    def scheme(self, name: str) -> None:
        """What the system prefers: "dark" or "light"."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.developer("Emulation.setEmulatedMedia", features=features)

    def developer(self, command: str, **given: Any) -> Any:
        """A command of the developer tools."""
        path = self._session + "/goog/cdp/execute"
        return self._send("POST", path, {"cmd": command, "params": given})

    def errors(self) -> list[str]:
        """What the page has complained about since the last time."""
        found = self._send("POST", self._session + "/se/log", {"type": "browser"})
        return [each["message"] for each in found]

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._send("GET", self._session + "/screenshot")))


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a fresh profile, and the driver behind it."""
    with TemporaryDirectory() as folder:
        driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        try:
            with Browser(f"http://127.0.0.1:{_port(driver)}", folder) as made:
                yield made
        finally:
            driver.terminate()
            driver.wait(20)


def _port(driver: subprocess.Popen[str]) -> int:
    """Which one it has chosen, as it says when it is ready."""
    assert driver.stdout is not None
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        line = driver.stdout.readline()
        if "successfully on port" in line:
            return int(line.rsplit("port", 1)[1].strip(" .\n"))
    raise AssertionError("chromedriver does not start")
