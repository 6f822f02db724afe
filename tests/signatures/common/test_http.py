"""The client follows the environment's proxies, and says in one line which setting it cannot use."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from signatures.common.errors import UserError
from signatures.common.http import http_client

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


class Proxy(BaseHTTPRequestHandler):
    """Answers every request with the address that was asked for."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.path)))
        self.end_headers()
        self.wfile.write(self.path.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with HTTPServer(("127.0.0.1", 0), Proxy) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_requests_go_through_the_proxy_of_the_environment(proxy: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with http_client(5.0) as client:
        assert client.get("http://data.invalid/file").text == "http://data.invalid/file"


def test_an_excluded_host_is_asked_directly(proxy: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with http_client(5.0) as client:
        assert client.get(f"{proxy}/file").text == "/file"


def test_an_unusable_proxy_is_one_line(proxy: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", "gopher://127.0.0.1")
    with pytest.raises(UserError, match=r"proxy settings cannot be used .*check HTTP_PROXY") as error:
        http_client(5.0)
    assert "\n" not in str(error.value)
