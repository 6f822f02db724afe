"""Serves the page of a review on the loopback address only.

Any page in the browser can send requests to a loopback server. So every URL contains a random token, the Host header
must name this server (against DNS rebinding), and a decision must be JSON from the same origin.
"""

import contextlib
import hmac
import json
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from experiments.annotation.review.cards import EDIT, Card, Item
from experiments.annotation.review.review_folder import Decision, DecisionLog, Ratings, Review, needs_judgement
from experiments.runs.files import Json
from programs.parts.threads import daemon
from signatures.common.errors import UserError

MAX_CHARACTERS = 2000  # characters of an edited key fact


@dataclass(frozen=True)
class Progress:
    """Progress of a reviewer: items they decided, and all items assigned to them."""

    decided: int
    total: int


class Session:
    """A reviewer's access to a review, used by the page and the terminal."""

    def __init__(self, review: Review, log: DecisionLog, reviewer: str):
        self.review, self.reviewer = review, reviewer
        self._log = log
        self._lock = threading.Lock()

    @property
    def ratings(self) -> Ratings:
        """The current decisions of all reviewers."""
        return self._log.ratings

    def mine(self, item: Item) -> Decision | None:
        """Return this reviewer's current decision on an item; None if there is none."""
        return self.ratings.by(item.id, self.reviewer)

    def assigned(self, item: Item) -> bool:
        """Return whether this reviewer has decided an item, or it needs one more judgement."""
        if self.mine(item) is not None:
            return True
        return needs_judgement(self.ratings.of(item.id), self.review.scale, self.review.raters)

    def cards(self) -> list[tuple[Card, list[Item]]]:
        """Return the cards with this reviewer's items in the review's order, those with undecided items first."""
        chosen = [(card, [item for item in card.items if self.assigned(item)]) for card in self.review.cards]
        return sorted(
            ((card, items) for card, items in chosen if items),
            key=lambda pair: all(self.mine(item) is not None for item in pair[1]),
        )

    def progress(self) -> Progress:
        """Return this reviewer's progress."""
        items = [item for _, own in self.cards() for item in own]
        return Progress(sum(self.mine(item) is not None for item in items), len(items))

    def decide(self, item_id: str, value: str | None, text: str | None = None) -> Decision:
        """Write a decision to disk and return it.

        Args:
            item_id: Id of the item.
            value: A grade; None undoes an earlier decision.
            text: The new wording of an edited key fact; an unchanged wording is an acceptance.

        Raises:
            UserError: The item, the grade or the wording is invalid, or the disk cannot be written.
        """
        if item_id not in self.review.items:
            raise UserError(f"There is no item {item_id!r} in {self.review.folder}.")
        item = self.review.items[item_id]
        with self._lock:
            if value is None:
                if self.mine(item) is None:
                    raise UserError("No decision to undo.")
                return self._log.append(item_id, None, self.reviewer)
            if not self.assigned(item):
                raise UserError("Others have already judged this item. Reload the page.")
            value = self.review.scale.grade(value).value
            if value != EDIT:
                return self._log.append(item_id, value, self.reviewer)
            wording = _wording(text)
            if wording == item.text:
                return self._log.append(item_id, "accept", self.reviewer)
            return self._log.append(item_id, EDIT, self.reviewer, wording)

    def as_dict(self) -> Json:
        """Return the data that the page shows, without runs and without others' judgements."""
        scale, cards = self.review.scale, self.cards()
        return {
            "reviewer": self.reviewer,
            "scale": scale.name,
            "unit": scale.unit,
            "task": scale.task,
            "edit": EDIT if EDIT in scale.values else None,
            "longest": MAX_CHARACTERS,
            "grades": [{"value": grade.value, "label": grade.label, "key": grade.key} for grade in scale.grades],
            "cards": [self._card(card, items) for card, items in cards],
        }

    def _card(self, card: Card, items: list[Item]) -> Json:
        shown = card.model_dump(exclude={"run", "items", "question_id"})
        return {**shown, "items": [self._item(item) for item in items]}

    def _item(self, item: Item) -> Json:
        decision = self.mine(item)
        return {
            "id": item.id,
            "text": item.text,
            "details": item.details,
            "value": decision.value if decision else None,
            "edited": decision.text if decision else None,
        }


def _wording(text: str | None) -> str:
    wording = " ".join((text or "").split())
    if not wording:
        raise UserError("An edited key fact needs words. Reject it to remove it.")
    if len(wording) > MAX_CHARACTERS:
        raise UserError(f"A key fact may have at most {MAX_CHARACTERS:,} characters; this one has {len(wording):,}.")
    try:
        wording.encode()
    except UnicodeEncodeError:
        raise UserError("The text contains half a character (a lone surrogate). Remove it.") from None
    return wording


_HERE = Path(__file__).parent
_FILES = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
}
MAX_BODY_BYTES = 64 * 1024  # bytes of a request's body
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class _Posted(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    item: str
    value: str | None
    text: str | None = None


class _Refused(Exception):
    def __init__(self, status: HTTPStatus, why: str):
        super().__init__(why)
        self.status = status


class _Server(ThreadingHTTPServer):
    def __init__(self, session: Session, port: int):
        super().__init__(("127.0.0.1", port), _Handler)
        self.session, self.token = session, secrets.token_urlsafe(24)
        self.hosts = {f"127.0.0.1:{self.server_port}", f"localhost:{self.server_port}"}

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: browsers close connections routinely."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "verihop", ""
    timeout = 30  # seconds; an idle connection must not occupy its thread

    def do_GET(self) -> None:
        """Send a file of the page, or the session as JSON."""
        try:
            name = self._name()
            if name == "session":
                return self._send_json(HTTPStatus.OK, self.server.session.as_dict())
            if name not in _FILES:
                raise _Refused(HTTPStatus.NOT_FOUND, "Not found.")
            file, kind = _FILES[name]
            self._send(HTTPStatus.OK, kind, (_HERE / file).read_bytes())
        except _Refused as refused:
            self._send_json(refused.status, {"error": str(refused)})

    def do_POST(self) -> None:
        """Record a decision; the response is sent after it was written to disk."""
        try:
            if self._name() != "decisions":
                raise _Refused(HTTPStatus.NOT_FOUND, "Not found.")
            self._check_origin()
            posted = self._posted()
            try:
                decision = self.server.session.decide(posted.item, posted.value, posted.text)
            except UserError as error:
                raise _Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
            saved = {"item": decision.item, "value": decision.value, "text": decision.text, "time": decision.time}
            self._send_json(HTTPStatus.OK, saved)
        except _Refused as refused:
            self.close_connection = True  # the body may not have been consumed
            self._send_json(refused.status, {"error": str(refused)})

    def _name(self) -> str:
        """Return the requested name after checking Host and token."""
        if self.headers.get("Host", "").lower() not in self.server.hosts:
            raise _Refused(HTTPStatus.MISDIRECTED_REQUEST, "This server answers to 127.0.0.1 only.")
        token, _, name = self.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            raise _Refused(HTTPStatus.FORBIDDEN, "Open the URL that the command printed.")
        return name

    def _check_origin(self) -> None:
        origin = self.headers.get("Origin")
        if origin is not None and origin.removeprefix("http://") not in self.server.hosts:
            raise _Refused(HTTPStatus.FORBIDDEN, "Decisions must come from the page itself.")
        if self.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
            raise _Refused(HTTPStatus.FORBIDDEN, "Decisions must come from the page itself.")
        if self.headers.get_content_type() != "application/json":
            raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send application/json.")

    def _posted(self) -> _Posted:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise _Refused(HTTPStatus.LENGTH_REQUIRED, "Content-Length is missing.")
        if int(length) > MAX_BODY_BYTES:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body may have at most {MAX_BODY_BYTES:,} bytes.")
        try:
            return _Posted.model_validate_json(self.rfile.read(int(length)))
        except ValidationError as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, f"Not a decision: {error.errors()[0]['msg']}.") from error

    def _send_json(self, status: HTTPStatus, value: object) -> None:
        # As ASCII, because a lone surrogate, which a model can write, is not valid in UTF-8.
        self._send(status, "application/json", json.dumps(value).encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: the URL contains the token."""


@contextlib.contextmanager
def serving(session: Session, port: int = 0) -> Iterator[str]:
    """Serve the page of a session inside the block, and yield its URL.

    Args:
        session: The reviewer's session.
        port: Port on 127.0.0.1; 0 for any free one.

    Raises:
        UserError: The port cannot be opened.
    """
    try:
        server = _Server(session, port)
    except OSError as error:
        raise UserError(f"Port {port} cannot be opened ({error.strerror}). Choose another, or 0 for any.") from None
    thread = daemon(server.serve_forever, 0.1, name="review")
    try:
        yield f"http://127.0.0.1:{server.server_port}/{server.token}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
