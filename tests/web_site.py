"""A search engine and the pages that it finds, on loopback."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from signatures.common.errors import UserError
from tests.conftest import load_module

loopback = load_module(Path(__file__).with_name("loopback.py"))
KEY = "sk-0123456789abcdef-of-a-test"


def read_at_once(work: Callable[[Any], Any], tasks: Sequence[Any], processes: int, *, seconds: float) -> Iterator[Any]:
    """Read pages in this process: others take a second to start."""
    for task in tasks:
        try:
            yield work(task)
        except UserError as error:
            yield error


class Site(loopback.Loopback):
    """Answers `/search?q=...` with `results`, and other paths with what `pages` has for them.

    A page is `(status, headers, content)`, or a function that is given the handler. `asked` are the paths of all
    requests, `searched` the headers and bodies of the searches.
    """

    def __init__(self):
        self.pages: dict[str, Any] = {}
        self.results: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.searched: list[tuple[dict[str, str], Any]] = []
        self.answer: Any = None  # to every search, in place of the results
        self.statuses: list[int] = []  # of the next searches; 200 when it is empty
        self.closed = threading.Event()
        site = self

        class Handler(loopback.JsonHandler):
            def get(self) -> None:
                url = urlsplit(self.path)
                site.asked.append(self.path)
                if url.path == "/search":
                    self.search({name: values[0] for name, values in parse_qs(url.query).items()})
                    return
                page = site.pages.get(url.path, (404, {}, b"not here"))
                if callable(page):
                    page(self)
                    return
                status, headers, content = page
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def post(self) -> None:
                site.asked.append(self.path)
                self.search(self.body())

            def search(self, given: Any) -> None:
                site.searched.append((dict(self.headers), given))
                status = site.statuses.pop(0) if site.statuses else 200
                found = {"results": site.results} if site.answer is None else site.answer
                self.reply(status, found if status == 200 else {"message": f"no, {KEY}"})

        super().__init__(Handler, path="")

    def page(self, path: str, content: bytes | str, kind: str = "text/html", **headers: str) -> str:
        """Serve a page, let the search find it, and return its address."""
        data = content.encode() if isinstance(content, str) else content
        self.pages[path] = (200, {"Content-Type": kind, **headers}, data)
        return self.found(path)

    def found(self, path: str) -> str:
        """Let the search find a path, and return its address."""
        url = path if "://" in path else f"{self.base}{path}"
        self.results.append({"url": url, "title": f"Title of {path}", "content": f"Snippet of {path}."})
        return url

    def acting(self, path: str, act: Callable[[Any], None]) -> str:
        """Serve a path by a function of the handler."""
        self.pages[path] = act
        return self.found(path)

    def settings(self, **others: Any) -> dict[str, Any]:
        """Return what describes the engine, for tests: it may fetch from loopback, and waits for nothing."""
        described = {"engine": "own", "url": f"{self.base}/search?q={{query}}", "results": "results", "link": "url"}
        quick = {"snippet": "content", "rank": "bm25", "delay": 0.0, "allow_private_addresses": True}
        return {**described, **quick, **others}

    def toml(self, path: Path, **others: Any) -> Path:
        """Write the settings to a file."""
        lines = [f"{name} = {_toml(value)}" for name, value in self.settings(**others).items()]
        path.write_text("\n".join(lines) + "\n")
        return path

    def close(self) -> None:
        self.closed.set()
        super().close()


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(name)} = {_toml(each)}' for name, each in value.items())}}}"
    return json.dumps(value)
