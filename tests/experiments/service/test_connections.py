"""Connections that are too many, heads that are too large, however they come, and several requests at once."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from experiments.service import guards, run
from experiments.service.answering import Limits
from experiments.service.run import Waiting
from tests.experiments.service.conftest import PATIENCE

MOST = 16
HALF = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: "
WHOLE = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def post(body: bytes, *headers: str) -> bytes:
    lines = ["POST /v1/answers HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


ASK = post(b'{"question": "Where?"}')


class Client:
    """A connection that sends what it likes.

    Args:
        url: Of the service.
    """

    def __init__(self, url: str):
        host, port = url.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self.socket.makefile("rb")

    def send(self, *parts: bytes) -> "Client":
        with contextlib.suppress(ConnectionError):  # the service may refuse before it has read all
            for part in parts:
                self.socket.sendall(part)
        return self

    def status(self) -> int | None:
        """Read a response, and return its status; None if the connection is closed."""
        try:
            line = self._file.readline()
            length = 0
            while (header := self._file.readline()) not in (b"\r\n", b""):
                name, _, value = header.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            self.body = self._file.read(length)
        except ConnectionError:
            return None
        return int(line.split()[1]) if line else None

    def close(self) -> None:
        self._file.close()
        self.socket.close()


@pytest.fixture
def connect() -> Iterator[Callable[[str], Client]]:
    """Return a function that opens a connection."""
    with contextlib.ExitStack() as stack:

        def open_one(url: str) -> Client:
            return stack.enter_context(contextlib.closing(Client(url)))

        yield open_one


@pytest.fixture(params=["uvloop", "asyncio"])
def few(request, monkeypatch) -> Limits:
    """Limits of a service that may have few connections, with each kind of event loop."""
    import uvicorn

    begin = uvicorn.Config.__init__

    def with_loop(self, *arguments, **more) -> None:
        begin(self, *arguments, **{**more, "loop": request.param})

    monkeypatch.setattr(uvicorn.Config, "__init__", with_loop)
    monkeypatch.setattr(Limits, "connections", MOST)
    return Limits()


def head_of(size: int, *, line: int = 1000) -> bytes:
    """Return a head of so many bytes, whose lines are about so long."""
    left = size - len(WHOLE)
    lines = []
    while left:
        length = left if left < line + 10 else line
        lines.append(b"X: " + b"x" * (length - 5) + b"\r\n")
        left -= length
    return WHOLE[:-2] + b"".join(lines) + b"\r\n"


def test_connections_are_limited_well_below_the_files_that_a_process_may_open(monkeypatch):
    monkeypatch.setattr("programs.lms.calls.transport.open_files", lambda: 1000)
    assert [run.connections_of(Limits(width)) for width in (1, 300)] == [500, 500]
    monkeypatch.setattr("programs.lms.calls.transport.open_files", lambda: None)
    assert [run.connections_of(Limits(width, 300)) for width in (1, 300)] == [1024, 1200]


@pytest.mark.slow
@pytest.mark.parametrize("sent", [HALF, b"", ASK[:-5]], ids=["half heads", "nothing", "half bodies"])
def test_half_requests_keep_no_one_out(few, serving, connect, sent):
    service = serving(few)
    held = [connect(service.url).send(sent) for _ in range(4 * MOST)]
    assert connect(service.url).send(ASK).status() == 200
    closed = sum(client.status() is None for client in held[: 3 * MOST])  # none hangs
    assert closed == 3 * MOST


def test_half_heads_keep_no_one_from_the_tools(few, offering, connect):
    service = offering(few)
    for _ in range(4 * MOST):
        connect(service.url).send(HALF)
    assert connect(service.url).send(WHOLE.replace(b"/health", b"/mcp")).status() == 406


def test_idle_connections_are_closed_before_half_requests(few, serving, connect):
    service = serving(few)
    half = connect(service.url).send(HALF)
    idle = [connect(service.url).send(WHOLE) for _ in range(MOST - 1)]
    assert [client.status() for client in idle] == [200] * len(idle)
    assert connect(service.url).send(WHOLE).status() == 200
    assert idle[0].status() is None
    assert half.send(b"x\r\n\r\n").status() == 200


def test_connections_that_are_answered_stay_and_one_more_is_told_why_it_is_refused(few, serving, connect, lm):
    service = serving(few)
    lm.held.clear()
    asking = [connect(service.url).send(ASK) for _ in range(MOST - 1)]
    lm.await_calls(MOST - 1)
    for _ in range(MOST):
        connect(service.url).send(HALF)
    asking.append(connect(service.url).send(ASK))
    lm.await_calls(1)
    refused = connect(service.url)
    assert refused.status() == 503
    assert json.loads(refused.body)["error"]["type"] == "queue_full"
    lm.held.set()
    assert [client.status() for client in asking] == [200] * MOST


@pytest.mark.slow
@pytest.mark.parametrize("cut", [70_000, 60_000, 4096, 1000, 7])
@pytest.mark.parametrize("line", [1000, 60_000])
def test_a_head_of_70_000_bytes_is_refused_however_it_is_cut(serving, connect, cut, line):
    service, head = serving(), head_of(70_000, line=line)
    client = connect(service.url).send(*(head[start : start + cut] for start in range(0, len(head), cut)))
    assert client.status() in (431, None)
    assert connect(service.url).send(head_of(run.HEAD_BYTES, line=line)).status() == 200


def test_a_head_that_is_too_large_is_refused_after_the_answer_to_the_request_before_it(serving, connect):
    service = serving()
    client = connect(service.url).send(ASK + head_of(70_000))
    assert (client.status(), client.status()) == (200, None)


def test_what_follows_a_body_in_parts_is_limited_too(serving, connect):
    head = ASK.replace(b"Content-Length: 22", b"Transfer-Encoding: chunked").partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    parts = b'16\r\n{"question": "Where?"}\r\n0\r\n'
    service = serving()
    assert connect(service.url).send(head + parts + b"X: x\r\n\r\n").status() == 200
    assert connect(service.url).send(head + parts + b"X: x\r\n" * 20_000).status() in (431, None)


def test_requests_at_once_and_one_after_the_other_in_a_connection_are_answered(serving, connect):
    client = connect(serving().url)
    head = head_of(40_000)
    for _ in range(2):
        client.send(head * 3 + ASK * 2 + head)
        assert [client.status() for _ in range(6)] == [200] * 6


def chunked(body: bytes, *after: str) -> bytes:
    """Return a request whose body comes in parts, and headers after it."""
    head = post(b"", "Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")
    return head + b"%x\r\n%s\r\n0\r\n" % (len(body), body) + "\r\n".join([*after, "", ""]).encode()


BODY = b'{"question": "Where?"}'


def test_what_follows_a_body_is_no_header(serving, connect):
    token = "Authorization: Bearer secret"
    client = connect(serving(token="secret").url)
    assert client.send(chunked(BODY, token)).status() == 401
    assert connect(serving(token="secret").url).send(post(BODY, token)).status() == 200
    repeated = chunked(BODY, "Host: evil.example", "Content-Type: text/plain")
    assert connect(serving().url).send(repeated).status() == 200


@pytest.mark.slow
@pytest.mark.parametrize("other", ["h2c", "websocket"])
@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_who_asks_for_another_protocol_is_answered_in_this_one(serving, connect, other, step, caplog):
    upgrade = ("Connection: Upgrade, HTTP2-Settings", f"Upgrade: {other}", "HTTP2-Settings: AAMAAABkAAQAAP__")
    whole = WHOLE[:-2] + "\r\n".join([*upgrade, "", ""]).encode()
    asked = [post(BODY, *upgrade), chunked(BODY).replace(b"Host", f"{upgrade[0]}\r\n{upgrade[1]}\r\nHost".encode())]
    client = connect(serving().url)
    for sent in (b"".join([whole + b"\r\n", *asked, ASK]), *asked, WHOLE):
        client.send(*(sent[start : start + step] for start in range(0, len(sent), step)))
    assert [client.status() for _ in range(7)] == [200] * 7
    assert not caplog.records


def test_what_is_no_http_is_refused_after_the_answer_to_the_request_before_it(serving, connect):
    service = serving()
    client = connect(service.url).send(b"\x16\x03\x01\x02\r\n\r\n")
    assert (client.status(), json.loads(client.body)["error"]["type"]) == (400, "invalid_request")
    client = connect(service.url).send(ASK + b"\x16\x03\x01\x02\r\n\r\n")
    assert (client.status(), client.status()) == (200, None)
    broken = chunked(BODY).replace(b"\r\n16\r\n", b"\r\n-1\r\n")
    client = connect(service.url).send(broken)
    assert (client.status(), client.status()) == (400, None)
    client = connect(service.url).send(ASK * 2 + broken)
    assert [client.status() for _ in range(3)] == [200, 200, None]


def test_a_head_has_few_fields_because_each_takes_much_memory(serving, connect):
    service = serving()
    for fields, status in ((run.HEAD_FIELDS - 1, 200), (run.HEAD_FIELDS, 431)):
        assert connect(service.url).send(WHOLE[:-2] + b"a:\r\n" * fields + b"\r\n").status() == status
    half = connect(service.url).send(HALF + b"\r\na:" * run.HEAD_FIELDS)
    assert half.status() == 431


def test_the_service_ends_without_waiting_for_half_requests(connect, serving, monkeypatch):
    monkeypatch.setattr(run, "_GRACE", 20 * PATIENCE)
    monkeypatch.setattr(guards, "_BODY_SECONDS", 20 * PATIENCE)
    service = serving()
    half = connect(service.url).send(WHOLE + ASK[:-5])
    assert half.status() == 200  # and the service stops, which is before this client does


def test_a_client_that_does_not_read_is_closed(connect, serving, monkeypatch):
    closed = threading.Event()
    monkeypatch.setattr(run, "READ_SECONDS", 0.05)
    monkeypatch.setattr(run, "event", lambda name, **facts: name == "not_read" and closed.set())
    service = serving(about={"program": "x" * 30_000_000})
    client = connect(service.url).send(WHOLE.replace(b"/health", b"/v1/info"))
    assert closed.wait(PATIENCE)
    assert client.status() is None or len(client.body) < 30_000_000


@pytest.mark.slow
def test_a_client_that_reads_slowly_has_time(serving, connect, monkeypatch):
    monkeypatch.setattr(run, "READ_SECONDS", 0.01)
    monkeypatch.setattr(run, "READ_BYTES", -(1 << 30))  # whatever it reads is enough
    service = serving(about={"program": "x" * 30_000_000})
    client = connect(service.url).send(WHOLE.replace(b"/health", b"/v1/info"))
    assert client.status() == 200
    assert len(client.body) > 30_000_000


def test_few_requests_of_a_connection_wait_and_all_that_do_are_answered(serving, connect, lm):
    service = serving(Limits(width=64))
    lm.held.clear()
    client = connect(service.url).send(ASK * 3000)
    lm.await_calls(1)
    lm.held.set()
    answered = 0
    while (status := client.status()) is not None:
        assert status == 200
        answered += 1
    assert run.AT_ONCE < answered < 4 * run.AT_ONCE
    service.await_counts(answering=0, answered=answered)


def test_a_body_may_be_larger_than_a_head(serving, connect):
    client = connect(serving().url)
    body = json.dumps({"question": "Where?", "stream": False}).encode() + b" \n" * 60_000
    for request in (post(body) * 2, post(body)):
        client.send(*(request[start : start + 50_000] for start in range(0, len(request), 50_000)))
    assert [client.status() for _ in range(3)] == [200] * 3


def test_the_second_head_of_a_connection_has_its_time_too(serving, connect, monkeypatch):
    monkeypatch.setattr(run, "HEAD_SECONDS", 0.2)
    client = connect(serving().url).send(WHOLE)
    assert client.status() == 200
    client.send(HALF)
    assert client.status() is None


def test_a_client_that_leaves_stops_the_first_of_its_requests_too(serving, connect, lm):
    service = serving()
    lm.held.clear()
    client = connect(service.url).send(ASK + WHOLE)
    lm.await_calls(1)
    client.close()
    service.await_counts(answering=0, abandoned=1)


def test_of_those_that_wait_idle_ones_are_first_then_the_oldest_of_the_address_with_most():
    waiting: Waiting[str] = Waiting()
    for name, host in (("a1", "10.0.0.1"), ("b1", "2001:db8::1"), ("b2", "2001:db8::2"), ("c1", "10.0.0.2")):
        waiting.add(name, (host, 1))
    waiting.add("b1", ("2001:db8::1", 1))  # keeps its place
    waiting.add("a1", ("10.0.0.1", 1), idle=True)
    found = []
    while (first := waiting.first()) is not None:
        found.append(first)
        waiting.remove(first)
    assert found == ["a1", "b1", "b2", "c1"]
