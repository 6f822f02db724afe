"""Connections that are opened again, and those that cannot be opened."""

import socket
from pathlib import Path

import pytest

from programs.lms.servers import http_connection
from programs.lms.servers.http_connection import NoReply, NoReplyInTime
from programs.lms.servers.http_pool import HttpPool
from tests.conftest import load_module

scripted = load_module(Path(__file__).with_name("scripted.py"))
CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def ask(pool, base, seconds=20.0):
    with pool.request("POST", f"{base}/chat", b"{}", seconds=seconds) as reply:
        return reply.content()


def test_a_request_over_a_connection_that_was_opened_again_is_not_repeated():
    server = scripted.ScriptedServer([CLOSING], [b""], [scripted.OK])
    pool = HttpPool(server.base, None, 1)
    try:
        assert ask(pool, server.base) == b"{}"
        with pytest.raises(NoReply):
            ask(pool, server.base)
        assert [number for number, _ in server.requests] == [0, 1]
    finally:
        pool.close()
        server.close()


@pytest.mark.parametrize(("seconds", "error"), [(20.0, "no connection within 0.05 s"), (0.04, None)])
def test_a_host_that_accepts_no_connection_is_given_up_soon(seconds, error, monkeypatch):
    monkeypatch.setattr(http_connection, "CONNECT_SECONDS", 0.05)
    listening = socket.create_server(("127.0.0.1", 0), backlog=0)
    address = listening.getsockname()
    waiting = []
    for _ in range(4):  # fills the queue of connections that nobody accepts
        other = socket.socket()
        other.setblocking(False)
        other.connect_ex(address)
        waiting.append(other)
    pool = HttpPool(f"http://127.0.0.1:{address[1]}/v1", None, 1)
    try:
        with pytest.raises(NoReply, match=error) as raised:
            ask(pool, f"http://127.0.0.1:{address[1]}/v1", seconds)
        assert isinstance(raised.value, NoReplyInTime) is (error is None)
    finally:
        pool.close()
        for each in (*waiting, listening):
            each.close()
