"""The page of `verihop serve` in a browser: what its tests do and look at."""

from pathlib import Path

import pytest

from tests.conftest import load_module

scripted = load_module(Path(__file__).with_name("page_server.py"))

STATE = "document.getElementById('state').textContent"
ENTRY = "[...document.querySelectorAll('.entry')].at(-1)"  # the newest stands below the others
IDLE = "document.getElementById('stop').hidden && document.querySelector('.entry')"
FITS = "document.documentElement.scrollWidth <= innerWidth"


@pytest.fixture
def server():
    with scripted.page_server() as running:
        yield running


def opened(browser, address: str, *, ready: str = "document.getElementById('about').textContent"):
    browser.open("about:blank")  # a change of the fragment alone would not load the page
    browser.problems.clear()
    browser.open(address)
    browser.wait(ready)


@pytest.fixture
def page(browser, server):
    browser.size(1200, 900)
    opened(browser, server.base)
    yield browser
    browser.run("sessionStorage.clear()")
    browser.open("about:blank")


def key(browser, name: str, *, shift: bool = False) -> None:
    """Press a key that writes nothing, or with Shift."""
    codes = {"ArrowDown": 40, "ArrowUp": 38, "Enter": 13, "Tab": 9}
    common = {"key": name, "windowsVirtualKeyCode": codes[name], "modifiers": 8 if shift else 0}
    text = {"text": "\r"} if name == "Enter" else {}
    browser.send("Input.dispatchKeyEvent", type="keyDown", **common, **text)
    browser.send("Input.dispatchKeyEvent", type="keyUp", **common)


def ask(browser, question: str = scripted.QUESTION) -> None:
    browser.run("document.getElementById('question').select()")
    browser.type(question)
    browser.press("Enter")


def text(browser, selector: str) -> str:
    return browser.run(f"document.querySelector({selector!r}).innerText")


def texts(browser, selector: str) -> list[str]:
    return browser.run(f"[...document.querySelectorAll({selector!r})].map((element) => element.innerText)")


def hops(count: int) -> str:
    return f"document.querySelectorAll('.hop').length === {count}"


def focused(browser) -> str:
    return browser.run("document.activeElement.innerText || document.activeElement.id")


def answered(browser, server, **changes) -> None:
    """Ask a question whose answer is the usual one with changes."""
    server.plan(scripted.STARTED, ("answer", {**scripted.FOUND, **changes}))
    ask(browser)
    browser.wait(IDLE)
