"""Connections to a server: kept, used by one call at a time, replaced when the server has closed them."""

import contextlib
import select
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from programs.lms.servers import http_connection, http_pool
from programs.lms.servers.http_connection import NoReply, NoReplyInTime
from programs.lms.servers.http_pool import HttpPool, UnreadableReply
from signatures.common.errors import UserError
from tests.programs.lms.servers import scripted

OK = scripted.OK
CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def opened() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def serve(opened: contextlib.ExitStack, *scripts, connections: int = 4, key: str | None = None, **settings):
    server = scripted.ScriptedServer(*scripts, **settings)
    pool = HttpPool(server.base, key, connections)
    opened.callback(server.close)
    opened.callback(pool.close)
    return server, pool


def ask(pool: HttpPool, base: str, seconds: float = 20.0) -> tuple[int, bytes]:
    with pool.request("POST", f"{base}/chat", b"{}", seconds=seconds) as reply:
        return reply.status, reply.content()


def hold(pool: HttpPool, base: str, count: int) -> None:
    """Have `count` requests in flight together, so that as many connections are kept."""
    together = threading.Barrier(count, timeout=20)

    def one(_: int) -> None:
        with pool.request("POST", f"{base}/chat", b"{}", seconds=20) as reply:
            together.wait()
            reply.content()

    with ThreadPoolExecutor(count) as threads:
        list(threads.map(one, range(count)))


@pytest.mark.parametrize(("recent", "looks"), [(60.0, 0), (-1.0, 1)])
def test_a_call_looks_at_no_connection_but_its_own(opened, monkeypatch, recent, looks) -> None:
    """A pool that looks at all idle ones closes those that another thread has just begun to use."""
    monkeypatch.setattr(http_connection, "_RECENT", recent)
    server, pool = serve(opened, *[[OK] * 3] * 4)
    hold(pool, server.base, 4)
    looked, real = set(), select.poll

    class Poll:
        def __init__(self) -> None:
            self.poll = real().poll

        def register(self, connection: int, events: int) -> None:
            looked.add(connection)

    monkeypatch.setattr(select, "poll", Poll)
    ask(pool, server.base)
    assert len(looked) == looks
    assert len({number for number, _ in server.requests}) == 4  # and all of them are kept


def test_the_connection_used_last_is_used_next(opened) -> None:
    server, pool = serve(opened, [OK] * 9, [OK] * 9)
    hold(pool, server.base, 2)
    for _ in range(5):
        ask(pool, server.base)
    assert len({number for number, _ in server.requests[2:]}) == 1


def test_a_kept_connection_that_breaks_before_its_reply_is_replaced_once(opened) -> None:
    server, pool = serve(opened, [OK, b""], [OK])
    assert [ask(pool, server.base), ask(pool, server.base)] == [(200, b"{}")] * 2
    assert [number for number, _ in server.requests] == [0, 0, 1]


@pytest.mark.parametrize("scripts", [([b""], [OK]), ([OK, b""], [b""], [OK])])
def test_a_new_connection_that_breaks_is_an_error(opened, scripts) -> None:
    server, pool = serve(opened, *scripts)
    for _ in range(len(scripts) - 2):
        ask(pool, server.base)
    with pytest.raises(NoReply):
        ask(pool, server.base)
    assert ask(pool, server.base) == (200, b"{}")


def test_a_reply_that_breaks_is_an_error_and_not_asked_again(opened) -> None:
    server, pool = serve(opened, [OK, CUT], [OK])
    ask(pool, server.base)
    with pytest.raises(NoReply, match="IncompleteRead"):
        ask(pool, server.base)
    assert len(server.requests) == 2
    assert ask(pool, server.base) == (200, b"{}")


def test_a_connection_that_was_idle_for_long_is_not_used(opened, monkeypatch) -> None:
    server, pool = serve(opened, [OK] * 3, [OK])
    ask(pool, server.base)
    monkeypatch.setattr(http_pool, "IDLE_SECONDS", -1.0)
    ask(pool, server.base)
    assert [number for number, _ in server.requests] == [0, 1]
    assert server.closed[0].wait(20)


@pytest.mark.parametrize("recent", [60.0, -1.0])
def test_a_connection_that_the_server_has_closed_is_replaced(opened, monkeypatch, recent) -> None:
    monkeypatch.setattr(http_connection, "_RECENT", recent)
    server, pool = serve(opened, [OK], [OK])
    ask(pool, server.base)
    assert server.closed[0].wait(20)
    assert ask(pool, server.base) == (200, b"{}")


def test_a_connection_whose_reply_was_not_read_is_closed(opened) -> None:
    server, pool = serve(opened, [OK] * 2, [OK])
    with pool.request("POST", f"{server.base}/chat", b"{}", seconds=20):
        pass
    assert server.closed[0].wait(20)
    assert ask(pool, server.base) == (200, b"{}")


def test_closing_closes_connections_in_use_after_their_reply_and_new_ones_are_opened(opened) -> None:
    server, pool = serve(opened, [OK] * 2, [OK] * 2)
    with pool.request("POST", f"{server.base}/chat", b"{}", seconds=20) as reply:
        pool.close()
        assert reply.content() == b"{}"
    assert server.closed[0].wait(20)
    ask(pool, server.base)
    assert [number for number, _ in server.requests] == [0, 1]


@pytest.fixture
def aborts(monkeypatch):
    """Return the list that receives what ends each call."""
    given = []

    @contextlib.contextmanager
    def abortable(abort):
        given.append(abort)
        yield

    monkeypatch.setattr(http_pool, "abortable", abortable)
    return given


def test_a_call_that_is_aborted_late_does_not_end_the_next_one(opened, aborts) -> None:
    server, pool = serve(opened, [OK] * 3, [OK])
    ask(pool, server.base)
    with pool.request("POST", f"{server.base}/chat", b"{}", seconds=20) as reply:
        aborts[0]()
        assert reply.content() == b"{}"
    assert ask(pool, server.base) == (200, b"{}")
    assert [number for number, _ in server.requests] == [0, 0, 0]


@pytest.mark.parametrize("headers", [b"", b"Connection: close\r\n"])
def test_a_call_is_aborted_while_its_reply_is_read(opened, aborts, headers) -> None:
    begun = b"HTTP/1.1 200 OK\r\n" + headers + b"Content-Length: 500\r\n\r\n{"
    server, pool = serve(opened, [[begun, *[b" "] * 499]])
    with pool.request("POST", f"{server.base}/chat", b"{}", seconds=20) as reply:
        threading.Thread(target=aborts[0]).start()
        with pytest.raises(NoReply):
            reply.content()
    assert server.closed[0].wait(5)  # 10 s would be left


def test_time_begins_when_a_connection_is_free(opened, monkeypatch) -> None:
    server, pool = serve(opened, [OK] * 2, connections=1)
    now = [0.0]
    monkeypatch.setattr(http_pool.time, "monotonic", lambda: now[0])
    with ThreadPoolExecutor(1) as threads:
        with pool.request("POST", f"{server.base}/chat", b"{}", seconds=20) as reply:
            waiting = threads.submit(ask, pool, server.base)
            now[0] = 19.0
            assert reply.content() == b"{}"
            now[0] = 100.0
        assert waiting.result(20) == (200, b"{}")


def test_no_reply_in_time(opened) -> None:
    server, pool = serve(opened, [b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n", OK, OK])
    with pytest.raises(NoReplyInTime):
        ask(pool, server.base, seconds=0.1)


@pytest.mark.parametrize("headers", [b"", b"Connection: close\r\n"])
@pytest.mark.parametrize("begin", [0, 100])
def test_the_time_is_that_of_head_and_content_and_not_of_each_piece(opened, begin, headers) -> None:
    answer = b"HTTP/1.1 200 OK\r\n" + headers + b"X: " + b"x" * 500 + b"\r\nContent-Length: 500\r\n\r\n" + b" " * 500
    begin = answer.index(b"\r\n\r\n") + 4 if begin else 0
    slowly = [answer[:begin], *(bytes([one]) for one in answer[begin:])]
    server, pool = serve(opened, [slowly], [OK])
    with pytest.raises(NoReplyInTime):
        ask(pool, server.base, seconds=0.2)
    assert ask(pool, server.base) == (200, b"{}")


@pytest.mark.parametrize("encoding", [b"zstd", b"br", b"gzip, gzip"])
def test_content_in_an_encoding_that_was_not_requested_is_refused(opened, encoding) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Encoding: " + encoding + b"\r\n\r\n{}"
    server, pool = serve(opened, [answer])
    with pytest.raises(UnreadableReply, match="was not requested") as caught:
        ask(pool, server.base)
    assert caught.value.status == 200


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
def test_a_host_may_be_an_ipv6_address(opened) -> None:
    try:
        server, pool = serve(opened, [OK], family=socket.AF_INET6)
    except OSError:
        pytest.skip("needs IPv6")
    assert ask(pool, server.base) == (200, b"{}")
    assert f"Host: [::1]:{server.port}".encode() in server.requests[0][1]


def test_a_host_that_is_not_there_is_named_by_the_systems_error() -> None:
    pool = HttpPool("http://127.0.0.1:9/v1")
    with pytest.raises(NoReply) as caught:
        ask(pool, "http://127.0.0.1:9/v1")
    assert str(caught.value).startswith("[Errno")


def test_user_name_and_password_of_the_address_are_sent_in_place_of_the_key(opened) -> None:
    server, _ = serve(opened, [OK])
    base = server.base.replace("://", "://me:p%40ss@")
    pool = HttpPool(base, "secret")
    opened.callback(pool.close)
    ask(pool, base)
    request = server.requests[0][1]
    assert b"Authorization: Basic bWU6cEBzcw==" in request
    assert request.startswith(b"POST /v1/chat HTTP/1.1")
    assert b"secret" not in request


def test_proxies_of_the_environment_are_read_once(opened, monkeypatch) -> None:
    proxy, _ = serve(opened, [OK] * 2)
    monkeypatch.setenv("HTTP_PROXY", f"me:pass@127.0.0.1:{proxy.port}")
    pool = HttpPool("http://user:word@lab.invalid/v1", "secret")
    opened.callback(pool.close)
    ask(pool, "http://user:word@lab.invalid/v1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    ask(pool, "http://user:word@lab.invalid/v1")
    for _, request in proxy.requests:
        assert request.startswith(b"POST http://lab.invalid/v1/chat HTTP/1.1")
        assert b"Proxy-Authorization: Basic bWU6cGFzcw==" in request
        assert b"Host: lab.invalid\r\n" in request


def test_tls_through_a_proxy_is_a_tunnel_that_does_not_show_the_key(opened, monkeypatch) -> None:
    proxy, _ = serve(opened, [b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"])
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
    pool = HttpPool("https://lab.invalid/v1", "secret")
    with pytest.raises(NoReply, match="403"):
        ask(pool, "https://lab.invalid/v1")
    ((_, request),) = proxy.requests
    assert request.startswith(b"CONNECT lab.invalid:443 ")
    assert b"secret" not in request


@pytest.mark.parametrize("excluded", ["127.0.0.1", "*", "localhost,127.0.0.1"])
def test_an_excluded_host_is_asked_directly(opened, monkeypatch, excluded) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", excluded)
    server, pool = serve(opened, [OK])
    assert ask(pool, server.base) == (200, b"{}")


@pytest.mark.parametrize("proxy", ["gopher://127.0.0.1", "http://127.0.0.1:none", "socks5://127.0.0.1:9"])
@pytest.mark.filterwarnings("ignore:SOCKS support")
def test_an_unusable_proxy_is_one_line(monkeypatch, proxy) -> None:
    monkeypatch.setitem(sys.modules, "socks", None)  # PySocks is not installed
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(UserError, match=r"proxy settings cannot be used .*check HTTP_PROXY") as error:
        ask(HttpPool("http://lab.invalid/v1"), "http://lab.invalid/v1")
    assert "\n" not in str(error.value)


def test_a_request_over_a_connection_that_was_opened_again_is_not_repeated(opened) -> None:
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
    server, pool = serve(opened, [closing], [b""], [OK], connections=1)
    assert ask(pool, server.base) == (200, b"{}")
    with pytest.raises(NoReply):
        ask(pool, server.base)
    assert [number for number, _ in server.requests] == [0, 1]


@pytest.mark.parametrize(("seconds", "error"), [(20.0, "no connection within 0.05 s"), (0.04, None)])
def test_a_host_that_accepts_no_connection_is_given_up_soon(opened, seconds, error, monkeypatch) -> None:
    monkeypatch.setattr(http_connection, "CONNECT_SECONDS", 0.05)
    listening = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
    address = listening.getsockname()
    for _ in range(4):  # fills the queue of connections that nobody accepts
        other = opened.enter_context(socket.socket())
        other.setblocking(False)
        other.connect_ex(address)
    base = f"http://127.0.0.1:{address[1]}/v1"
    pool = HttpPool(base, None, 1)
    opened.callback(pool.close)
    with pytest.raises(NoReply, match=error) as raised:
        ask(pool, base, seconds)
    assert isinstance(raised.value, NoReplyInTime) is (error is None)
