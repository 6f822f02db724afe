"""The client follows the environment's proxies, and says in one line which setting it cannot use."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest

from signatures.common.errors import UserError
from signatures.common.http import MOST_BYTES, content_of, http_client, hub_answers

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


def reply(content: bytes, **headers: str) -> httpx.Response:
    pieces = (content[start : start + 65_536] for start in range(0, len(content), 65_536))
    return httpx.Response(200, headers=headers, content=pieces)


def test_the_content_of_a_reply_is_read_plain_or_compressed():
    assert content_of(reply(b"yes")) == b"yes"
    assert content_of(reply(gzip.compress(b"yes"), **{"Content-Encoding": "GZIP"})) == b"yes"


def test_a_reply_that_becomes_absurdly_large_is_not_read_to_its_end():
    bomb = reply(gzip.compress(b" " * (3 * MOST_BYTES), 1), **{"Content-Encoding": "gzip"})
    with pytest.raises(ValueError, match="larger than 67,108,864 bytes"):
        content_of(bomb)
    assert bomb.num_bytes_downloaded < 500_000


@pytest.mark.parametrize("encoding", ["gzip, gzip", "zstd", "br"])
def test_a_reply_whose_pieces_could_become_gigabytes_is_refused(encoding):
    with pytest.raises(ValueError, match="was not requested"):
        content_of(reply(b"", **{"Content-Encoding": encoding}))


def test_whether_the_hub_answers(proxy: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", proxy)
    monkeypatch.setenv("NO_PROXY", "*")
    assert hub_answers()
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")  # where nothing listens
    assert not hub_answers()
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", proxy)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert not hub_answers()
