"""Downloads, from a server on this machine: recorded once, checked at every use, resumed after an interruption."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from corpora.datasets.catalog import DATASETS
from corpora.datasets.convert import convert
from corpora.datasets.fetch import choose, fetch, verify
from signatures.common.errors import UserError

CONTENT = b'{"question": "who keeps it", "answer": ["Ansa"]}\n' * 3


class Files(BaseHTTPRequestHandler):
    """Serves one content, completely or from a byte; can stop in the middle."""

    content, mark, stop_after = CONTENT, '"v1"', None
    asked: list[str | None] = []

    def do_GET(self) -> None:
        if self.path != "/file":
            self.send_error(404)
            return
        wanted = self.headers.get("Range")
        type(self).asked.append(wanted)
        fresh = self.headers.get("If-Range") == self.mark
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and fresh else 0
        if start and start >= len(self.content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(self.content) - start))
        if self.mark:
            self.send_header("ETag", self.mark)
        self.end_headers()
        self.wfile.write(self.content[start : self.stop_after])

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[tuple[type[Files], str]]:
    handler = type("Handler", (Files,), {"asked": []})
    with HTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield handler, f"http://127.0.0.1:{running.server_port}/file"
        running.shutdown()
        thread.join()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_fetched_once_and_its_hash_recorded(server, tmp_path: Path):
    handler, url = server
    path, seen = tmp_path / "new" / "file.jsonl", []
    assert fetch(url, path, progress=lambda done, total: seen.append((done, total))) is True
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert fetch(url, path) is False
    assert len(handler.asked) == 1
    assert names(path.parent) == ["file.jsonl", "file.jsonl.lock.json"]
    lock = json.loads((tmp_path / "new" / "file.jsonl.lock.json").read_text())
    assert (lock["url"], lock["bytes"], len(lock["sha256"])) == (url, len(CONTENT), 64)


def test_a_changed_file_is_refused_by_fetch_and_by_convert(server, tmp_path: Path):
    _, url = server
    path = tmp_path / "file.jsonl"
    fetch(url, path)
    assert convert("nq_open", path, tmp_path / "out").counts["questions"] == 3
    path.write_bytes(CONTENT[:-1])
    for check in (lambda: fetch(url, path), lambda: verify(path), lambda: convert("nq_open", path, tmp_path / "o2")):
        with pytest.raises(UserError, match="has changed since it was downloaded"):
            check()
    assert fetch(url, path, overwrite=True) is True
    assert path.read_bytes() == CONTENT


def test_another_content_than_recorded_is_refused_and_accepted_only_with_overwrite(server, tmp_path: Path):
    handler, url = server
    path = tmp_path / "file"
    fetch(url, path)
    path.unlink()
    handler.content, handler.mark = b"new", '"v2"'
    with pytest.raises(UserError, match="has changed since .* was first downloaded"):
        fetch(url, path)
    assert not path.exists()
    assert fetch(url, path, overwrite=True) is True
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize(
    ("mark", "later", "ranges"),
    [
        ('"v1"', '"v1"', [None, "bytes=40-"]),  # resumed
        ('"v1"', '"v2"', [None, "bytes=40-"]),  # the server's file changed, so it sends all
        ("", "", [None, None]),  # nothing distinguishes versions
        ('W/"v1"', 'W/"v1"', [None, None]),
    ],
)
def test_an_interrupted_download_is_resumed_only_if_that_is_safe(server, tmp_path: Path, mark, later, ranges):
    handler, url = server
    path = tmp_path / "file"
    handler.mark, handler.stop_after = mark, 40
    with pytest.raises(UserError, match="check the network, then repeat to resume"):
        fetch(url, path)
    assert not path.exists()
    handler.mark, handler.stop_after = later, None
    handler.content = CONTENT if mark == later else b"x" * 60
    assert fetch(url, path) is True
    assert path.read_bytes() == handler.content
    assert handler.asked == ranges
    assert names(tmp_path) == ["file", "file.lock.json"]


def test_a_complete_part_that_was_never_renamed_is_fetched_again(server, tmp_path: Path):
    handler, url = server
    (tmp_path / "file.part").write_bytes(CONTENT)
    (tmp_path / "file.part.lock.json").write_text(json.dumps({"etag": '"v1"'}))
    assert fetch(url, tmp_path / "file") is True
    assert handler.asked == [f"bytes={len(CONTENT)}-", None]
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_what_cannot_be_fetched_is_an_error_that_says_what_to_do(server, tmp_path: Path):
    _, url = server
    with pytest.raises(UserError, match=r"cannot be downloaded \(404 "):
        fetch(f"{url}s", tmp_path / "file")
    with pytest.raises(UserError, match="check the network"):
        fetch("http://127.0.0.1:9/file", tmp_path / "new" / "file")
    assert not (tmp_path / "new").exists()
    (tmp_path / "mine").write_text("x")
    with pytest.raises(UserError, match="was not fetched: move it away"):
        fetch(url, tmp_path / "mine")
    (tmp_path / "bad.lock.json").write_text("[")
    with pytest.raises(UserError, match="bad.lock.json is not a JSON object"):
        fetch(url, tmp_path / "bad")


def test_one_of_several_files_must_be_named():
    assert choose("x", {"a": "http://a"}, None) == ("a", "http://a")
    with pytest.raises(UserError, match="no URL"):
        choose("musique", DATASETS["musique"].files, None)
    with pytest.raises(UserError, match=r"--file \(NQ-open.train.jsonl, NQ-open.dev.jsonl\)"):
        choose("nq_open", DATASETS["nq_open"].files, None)
    with pytest.raises(UserError, match="Unknown file of nq_open 'x'"):
        choose("nq_open", DATASETS["nq_open"].files, "x")


def test_all_addresses_are_of_the_web():
    for dataset in DATASETS.values():
        assert all(url.startswith(("https://", "http://")) for url in dataset.files.values())
