"""A scripted server of the page: it answers each question by a list of events, and pauses until the test goes on."""

import json
import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.service.guards import HEADERS
from tests.conftest import load_module

loopback = load_module(Path(__file__).parents[2] / "loopback.py")

PAGE = Path(__file__).parents[3] / "experiments" / "service" / "page"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
# The service's own, and stricter: a page that passes here sets no HTML.
POLICY = HEADERS["Content-Security-Policy"]
PAUSE = ("pause", None)
BREAK = ("break", None)  # the connection is reset
SECONDS = 30  # a test that never goes on fails instead of hanging

Event = tuple[str, Any]


@dataclass(frozen=True)
class Refusal:
    """A reply with an error instead of a stream."""

    status: int
    error: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


INFO = {
    "program": "genground",
    "title": "answers each hop from memory, then corrects it by retrieved passages",
    "lm": "openai/gpt-4o-mini",
    "corpus": {"passages": 4508},
    "max_calls": 26,
    "limits": {"question_characters": 4000},
}
QUESTION = "In which town was the designer of the New Chandler Bridge born?"
PASSAGES = [
    {
        "id": "demo-new-chandler-bridge",
        "title": "New Chandler Bridge",
        "text": "The New Chandler Bridge is a cast-iron bridge across the Sorrel in Marrowgate, some 600 metres "
        "upstream of its older namesake. It opened in 1858 to designs by\n  Edrin Tollavar. Its two spans are "
        "decorated with iron bees, a tribute to the wax trade.",
        "score": 14.2,
        "source": "bridges.pdf",
        "page": 12,
        "last_page": 13,
        "headings": ["Bridges", "Marrowgate"],
    },
    {
        "id": "demo-old-chandler-bridge",
        "title": "Old Chandler Bridge",
        "text": "The Old Chandler Bridge is a stone bridge of seven arches over the Sorrel in Marrowgate. Carts paid a "
        "toll of one wax candle until 1801.",
        "score": 11.0,
        "page": 4,
        "source": "bridges.pdf",
    },
    {
        "id": "demo-edrin-tollavar",
        "title": "Edrin Tollavar",
        "text": "Edrin Tollavar (1811-1889) was an engineer. He was born in Quillbay, the son of a sail maker, and "
        "never lost its accent. The people of Quillbay named a ferry after him.",
        "score": 9.7,
        "source": "people.html",
        "url": "https://isles.example/people/tollavar",
    },
]
HOPS = [
    {
        "question": "Who designed the New Chandler Bridge?",
        "answer": "Edrin Tollavar",
        "draft": "Gorran Pike",
        "evidence": "“It opened in 1858 to designs by EDRIN TOLLAVAR”",
        "match": "verbatim",
        "passage_ids": ["demo-new-chandler-bridge", "demo-old-chandler-bridge"],
        "verdict": "corrected",
        "candidates": [],
    },
    {
        "question": "In which town was Edrin Tollavar born?",
        "answer": "Quillbay",
        "draft": "quillbay",
        "evidence": "He was born in Quillbay, the son of a sail maker",
        "match": "verbatim",
        "passage_ids": ["demo-edrin-tollavar"],
        "verdict": "confirmed",
        "candidates": [
            {
                "text": "Edrin Tollavar was born in Quillbay.", "passage_id": "demo-edrin-tollavar", "score": 0.913,
                "kept": True, "reason": "among the first 2", "gates": {"relevant": 0.97, "useful": None},
            },
            {
                "text": "Carts paid a toll.", "passage_id": None, "score": None, "kept": False, "reason": "no score",
                "gates": {},
            },
        ],
    },
]  # fmt: skip


def cost(calls: int, seconds: float, **others: float) -> dict[str, float]:
    """Return the cost of a step."""
    tokens = {"prompt_tokens": 450 * calls, "completion_tokens": 20 * calls}
    return {"calls": calls, "cached_calls": 0, **tokens, "usd": 0.0, "seconds": seconds, **others}


STARTED = ("started", {"id": "ans-1", "waiting": 0})
FIRST = ("hop", {"number": 1, "hop": HOPS[0], "cost": cost(2, 1.84)})
CACHED = cost(1, 0.02, cached_calls=1, prompt_tokens=0, completion_tokens=0)
SECOND = ("hop", {"number": 2, "hop": HOPS[1], "cost": CACHED})
FOUND = {
    "id": "ans-1",
    "question": QUESTION,
    "answer": "Quillbay",
    "response": "Its designer, Edrin Tollavar [1], was born in Quillbay [3].",
    "abstained": False,
    "stop_reason": "finished",
    "citations": ["demo-new-chandler-bridge", "demo-edrin-tollavar"],
    "hops": HOPS,
    "passages": PASSAGES,
    "cost": cost(4, 2.6, cached_calls=1, rounds=3),
    "rest_cost": cost(1, 0.74),
}
ANSWER = ("answer", FOUND)


class PageServer(loopback.Loopback):
    """The running server; `base` is the address of the page.

    Attributes:
        asked: Bodies of the questions, in order.
        closed: Set when a client closed the connection during a pause.
        token: What a request needs; None for nothing.
        proxied: Whether a proxy in front states the token.
        info: Reply to `GET /v1/info`.
    """

    def __init__(self):
        super().__init__(_Handler, "/")
        self._http.page_server = self
        self.info, self.token, self.proxied = INFO, None, False
        self.asked: list[dict[str, Any]] = []
        self.closed = threading.Event()
        self.plans: list[Refusal | list[Event]] = []
        self._steps = threading.Semaphore(0)

    def plan(self, *events: Event | Refusal) -> None:
        """Say how the next question is answered: by events, or by one refusal."""
        self.plans.append(events[0] if isinstance(events[0], Refusal) else list(events))

    def go(self) -> None:
        """End a pause."""
        self._steps.release()

    def pause(self, connection: socket.socket) -> bool:
        """Wait until `go`; return False if the client closes the connection, or the test never goes on."""
        for _ in range(SECONDS * 100):
            if self._steps.acquire(timeout=0.01):
                return True
            if select.select([connection], [], [], 0)[0] and not connection.recv(1, socket.MSG_PEEK):
                self.closed.set()
                return False
        return False


class _Handler(loopback.JsonHandler):
    def get(self) -> None:
        server = self.server.page_server
        name = self.path.partition("?")[0].removeprefix("/")
        if name == "health":
            self.reply(200, {"status": "ok", "version": "0.1.0", "token_required": server.token is not None})
        elif name == "v1/info":
            if self._allowed(server):
                self.reply(200, server.info)
        elif (file := PAGE / (name or "page.html")).is_file():
            self._file(file)
        else:
            self.reply(404, {"error": {"message": "not found", "type": "not_found", "status": 404}})

    def _file(self, file: Path) -> None:
        content = file.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", KINDS[file.suffix])
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def _allowed(self, server: PageServer) -> bool:
        if server.token is None or server.proxied or self.headers["Authorization"] == f"Bearer {server.token}":
            return True
        self._refuse(Refusal(401, {"message": "A token is needed.", "type": "unauthorized", "status": 401}))
        return False

    def _refuse(self, refusal: Refusal) -> None:
        content = json.dumps({"error": refusal.error}).encode()
        self.send_response(refusal.status)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(content)), **refusal.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def post(self) -> None:
        server, asked = self.server.page_server, self.body()
        if not self._allowed(server):
            return
        server.asked.append(asked)
        plan = server.plans.pop(0)
        if isinstance(plan, Refusal):
            self._refuse(plan)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in plan:
            if event == PAUSE and not server.pause(self.connection):
                return
            if event == BREAK:
                # Closing with a linger time of 0 resets the connection.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                return
            if event not in (PAUSE, BREAK):
                self._event(*event)

    def _event(self, name: str, data: dict[str, Any]) -> None:
        # Alternating line ends and a comment, as servers differ.
        self.wfile.write(f": keep-alive\r\nevent: {name}\r\ndata: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()


@contextmanager
def page_server() -> Iterator[PageServer]:
    """Run the server inside the block."""
    server = PageServer()
    try:
        yield server
    finally:
        server.close()
