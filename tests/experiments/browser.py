"""A small client of Chromium's DevTools protocol over two pipes: the browser test needs no driver and no port."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 60  # a browser that says nothing for so long is broken: the test fails instead of hanging
KEYS = {"Enter": 13, "Escape": 27, "Tab": 9}


def chromium() -> str | None:
    """Return the browser on this machine; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def started(program: str, make_profile: Callable[[], Path]) -> "Browser":
    """Return a browser; one that says nothing when it starts, as on a machine that is busy, is started anew once."""
    try:
        return Browser(program, make_profile())
    except TimeoutError:
        return Browser(program, make_profile())


class Browser:
    """One page in a headless Chromium."""

    def __init__(self, program: str, profile: Path):
        command_out, self._commands = os.pipe()
        self._events, event_in = os.pipe()
        options = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
            f"--user-data-dir={profile}", "about:blank",
        ]  # fmt: skip
        self._errors = profile / "errors.txt"
        # Chromium reads commands from descriptor 3 and writes to 4.
        script = f'exec "$0" "$@" 3<&{command_out} 4>&{event_in}'
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                ["bash", "-c", script, program, *options],
                pass_fds=(command_out, event_in), stdout=subprocess.DEVNULL, stderr=errors,
            )  # fmt: skip
        os.close(command_out)
        os.close(event_in)
        self._buffer, self._number, self._session = b"", 0, None
        self._loaded = False
        self.dialogs: list[str] = []
        self.problems: list[str] = []
        try:
            target = self.send("Target.createTarget", url="about:blank")["targetId"]
        except (TimeoutError, RuntimeError):
            self._process.kill()
            self.close()
            raise
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        os.close(self._commands)  # Chromium ends with its pipe
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._events)

    def _write(self, method: str, **parameters) -> int:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        return self._number

    def send(self, method: str, **parameters) -> dict:
        number = self._write(method, **parameters)
        while True:
            answer = self._read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _read(self) -> dict:
        while b"\0" not in self._buffer:
            if not select.select([self._events], [], [], SECONDS)[0]:
                raise TimeoutError(f"Chromium says nothing for {SECONDS} s: {self._errors.read_text()[-2000:]!r}")
            piece = os.read(self._events, 1 << 16)
            if not piece:
                raise RuntimeError(f"Chromium ended: {self._errors.read_text()[-2000:]!r}")
            self._buffer += piece
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def _note(self, event: dict) -> None:
        """Keep what the page complains about and asks, and that it has loaded; a question is answered yes."""
        if event.get("method") == "Page.javascriptDialogOpening":
            self.dialogs.append(event["params"]["type"])
            self._write("Page.handleJavaScriptDialog", accept=True)
        self._loaded = self._loaded or event.get("method") == "Page.loadEventFired"
        if event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(event["params"]["exceptionDetails"].get("exception", {}).get("description")))
        if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            self.problems.append(event["params"]["entry"]["text"])

    def run(self, script: str):
        """Return the value of an expression on the page; a promise is waited for."""
        done = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise RuntimeError(f"{script}: {done['exceptionDetails']['exception'].get('description')}")
        return done["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true, looked at a hundred times a second."""
        met = self.run(
            f"""new Promise((done) => {{
                const end = performance.now() + {1000 * SECONDS};
                const look = () => ({condition}) ? done(true)
                    : performance.now() > end ? done(false) : setTimeout(look, 10);
                look();
            }})"""
        )
        if not met:
            raise TimeoutError(f"Never true: {condition}; the page says {self.run('document.body.innerText')!r}")

    def wait_for_problem(self) -> None:
        """Wait until the page has reported an error, which may come after what else it does."""
        end = time.monotonic() + SECONDS
        while not self.problems:
            assert time.monotonic() < end, "the page reported no error"
            self.run("new Promise((done) => setTimeout(done, 10))")

    def open(self, address: str) -> None:
        self._load("Page.navigate", url=address)

    def reload(self) -> None:
        self._load("Page.reload")

    def _load(self, method: str, **parameters) -> None:
        """Send the browser to a page and wait until it has loaded."""
        self._loaded = False
        self.send(method, **parameters)
        self._await_load()

    def _await_load(self) -> None:
        while not self._loaded:
            self._note(self._read())

    def size(self, width: int, height: int) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def click(self, element: str) -> None:
        """Press the mouse in the middle of the element that an expression gives."""
        x, y = self.run(
            f"(() => {{ const e = {element}; e.scrollIntoView({{block: 'center'}}); "
            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def follow(self, link: str) -> None:
        """Click a link, and wait until the page that it leads to has loaded."""
        self._loaded = False
        self.click(link)
        self._await_load()

    def press(self, key: str, *, ctrl: bool = False) -> None:
        """Press and release one key where the focus is."""
        named = key in KEYS
        code = KEYS[key] if named else ord(key.upper())
        text = {} if named and key != "Enter" else {"text": "\r" if key == "Enter" else key}
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 2 if ctrl else 0}
        self.send("Input.dispatchKeyEvent", type="keyDown", **common, **({} if ctrl else text))
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        self.send("Input.insertText", text=text)

    def picture(self, path: Path) -> None:
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))
