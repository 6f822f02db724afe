"""Push and pull: what arrives is what was pushed, whatever the server, the network, the disk or a stranger does."""

import contextlib
import json
import shutil
import threading
from collections import namedtuple
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from corpora.index import transfer
from corpora.index.build import build_index
from corpora.index.info import canonical
from corpora.index.open import open_index
from corpora.index.remote import pull_index, push_index
from corpora.index.update import update_index
from corpora.retrievers.embedder import Embedder
from signatures.common.errors import UserError, UserNotice
from signatures.common.files import sha256_bytes, sha256_text
from tests.loopback import Loopback

VECTORS = "dense/vectors.npy"


class Files(BaseHTTPRequestHandler):
    """Serves the files of a folder, completely or from a byte on, and misbehaves as told."""

    folder: Path
    asked: list[tuple[str, str | None]]
    ranges = True
    cuts: dict[str, list[int]]  # bytes after which a connection breaks off, one for each request
    headers_sent: dict[str, str]
    redirects: dict[str, str]

    def do_GET(self) -> None:
        name, wanted = self.path.partition("?")[0].removeprefix("/idx/"), self.headers.get("Range")
        self.asked.append((name, wanted))
        path = self.folder / name
        if name in self.redirects:
            self.send_response(302)
            self.send_header("Location", self.redirects[name])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.ranges else 0
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        for header, value in self.headers_sent.items():
            self.send_header(header, value)
        self.end_headers()
        cuts = self.cuts.get(name)
        with contextlib.suppress(OSError):  # the client has enough
            self.wfile.write(content[start:][: cuts.pop(0) if cuts else None])

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def pushed(tmp_path: Path, hybrid_folder: Path) -> Path:
    """Return a folder to which a hybrid index was pushed."""
    push_index(hybrid_folder, str(tmp_path / "public"))
    return tmp_path / "public"


@pytest.fixture
def server(pushed: Path) -> Iterator[tuple[type[Files], str]]:
    fresh = {"folder": pushed, "asked": [], "cuts": {}, "headers_sent": {}, "redirects": {}}
    handler = type("Handler", (Files,), fresh)
    with contextlib.closing(Loopback(handler, "/idx")) as running:
        yield handler, running.base


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "files.json"
    }


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change `files.json` as a stranger could."""
    shared = json.loads((folder / "files.json").read_text())
    change(shared)
    (folder / "files.json").write_text(json.dumps(shared))


def test_what_is_pulled_is_what_was_pushed_and_nothing_is_done_twice(
    server, tmp_path: Path, hybrid_folder: Path, fake_embedder
):
    handler, url = server
    first = pull_index(url + "/", tmp_path / "out")
    assert (first.changed, first.info.passages) == (True, 60)
    assert content(tmp_path / "out") == content(hybrid_folder)
    query = "amber brook"
    here, there = (open_index(folder, embedder=fake_embedder) for folder in (hybrid_folder, tmp_path / "out"))
    assert here(query, 5) == there(query, 5)
    assert here.fingerprint == there.fingerprint
    assert handler.asked[0] == ("files.json", None)
    handler.asked.clear()
    assert pull_index(url, tmp_path / "out").changed is False
    assert [name for name, _ in handler.asked] == ["files.json", "index.json"]
    assert content(tmp_path / "out") == content(hybrid_folder)


def test_pushing_again_or_in_place_changes_nothing_but_the_list(tmp_path: Path, hybrid_folder: Path):
    folder = tmp_path / "index"
    shutil.copytree(hybrid_folder, folder)
    assert push_index(folder, str(folder)).changed is False
    assert (folder / "files.json").is_file()
    assert push_index(folder, str(tmp_path / "public")).changed is True
    assert push_index(folder, str(tmp_path / "public")).changed is False
    assert pull_index(str(folder), tmp_path / "out").changed is True  # a folder can be pulled from, too
    assert content(tmp_path / "out") == content(hybrid_folder)


def test_the_list_of_a_pushed_index_goes_when_the_index_changes(tmp_path: Path, corpus: Path):
    folder = tmp_path / "index"
    build_index(corpus, folder, retriever="bm25")
    push_index(folder, str(folder))
    update_index(folder, remove=["p1"])
    with pytest.raises(UserError, match=r"files\.json: no index was pushed there"):
        pull_index(str(folder), tmp_path / "out")


def test_another_index_is_replaced_only_if_told_and_opens_until_then(server, tmp_path: Path, corpus: Path):
    handler, url = server
    out = tmp_path / "out"
    build_index(corpus, out, retriever="bm25")
    before = content(out)
    with pytest.raises(UserError, match="already contains another index: replace it"):
        pull_index(url, out)
    handler.cuts[VECTORS] = [500, 0]
    with pytest.raises(UserError, match="run the same command again"):
        pull_index(url, out, overwrite=True)
    assert {name: raw for name, raw in content(out).items() if not name.startswith(".rebuild")} == before
    assert open_index(out)("amber", 1)
    assert pull_index(url, out, overwrite=True).info.retriever == "hybrid"
    assert content(out) == content(handler.folder)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_pull_that_broke_off_goes_on_where_it_was(server, tmp_path: Path, ranges: bool):
    handler, url = server
    handler.cuts[VECTORS], handler.ranges = [1000, 0], ranges
    with pytest.raises(UserError, match=r"vectors\.npy .*run the same command again"):
        pull_index(url, tmp_path / "out")
    part = tmp_path / "out/.rebuild/dense/vectors.npy.part"
    assert part.stat().st_size == (1000 if ranges else 0)
    assert not (tmp_path / "out/index.json").exists()
    with pytest.raises(UserError, match="run the command that was interrupted again"):
        open_index(tmp_path / "out")
    handler.asked.clear()
    pull_index(url, tmp_path / "out")
    again = dict(handler.asked)
    assert again[VECTORS] == ("bytes=1000-" if ranges else None)
    assert content(tmp_path / "out") == content(handler.folder)


def test_files_that_were_complete_are_not_asked_for_again(server, tmp_path: Path, monkeypatch):
    handler, url = server
    monkeypatch.setattr(transfer, "_AT_A_TIME", 1)
    last = min(
        (name for name in content(handler.folder) if name != "index.json"),
        key=lambda name: (handler.folder / name).stat().st_size,
    )
    kept = (handler.folder / last).read_bytes()
    (handler.folder / last).unlink()
    with pytest.raises(UserError, match="404"):
        pull_index(url, tmp_path / "out")
    done = {name for name in content(tmp_path / "out/.rebuild") if not name.endswith((".part", ".json"))}
    assert VECTORS in done
    (handler.folder / last).write_bytes(kept)
    handler.asked.clear()
    pull_index(url, tmp_path / "out")
    assert done.isdisjoint(name for name, _ in handler.asked)
    assert content(tmp_path / "out") == content(handler.folder)


def test_a_lost_connection_is_taken_up_again_in_the_same_call(server, tmp_path: Path):
    handler, url = server
    handler.cuts[VECTORS] = [1000, 1000, 1000]
    pull_index(url, tmp_path / "out")
    assert [wanted for name, wanted in handler.asked if name == VECTORS] == [
        None, "bytes=1000-", "bytes=2000-", "bytes=3000-"]  # fmt: skip
    assert content(tmp_path / "out") == content(handler.folder)


def test_a_half_file_that_is_wrong_is_begun_again(server, tmp_path: Path):
    handler, url = server
    handler.cuts[VECTORS] = [1000, 0]
    with pytest.raises(UserError):
        pull_index(url, tmp_path / "out")
    (tmp_path / "out/.rebuild/dense/vectors.npy.part").write_bytes(b"x" * 700)
    pull_index(url, tmp_path / "out")
    assert content(tmp_path / "out") == content(handler.folder)


def test_a_complete_file_that_was_damaged_since_does_not_stop_the_next_pull(server, tmp_path: Path, monkeypatch):
    handler, url = server
    monkeypatch.setattr(transfer, "_AT_A_TIME", 1)
    (handler.folder / "passages.txt").rename(handler.folder / "away")
    with pytest.raises(UserError, match="404"):
        pull_index(url, tmp_path / "out")
    path = tmp_path / "out/.rebuild/dense/vectors.npy"
    path.write_bytes(bytes(path.stat().st_size))
    (handler.folder / "away").rename(handler.folder / "passages.txt")
    with pytest.raises(UserError, match="is missing or not the file that was indexed"):
        pull_index(url, tmp_path / "out")
    pull_index(url, tmp_path / "out")
    assert content(tmp_path / "out") == content(handler.folder)


def test_what_was_received_of_an_earlier_state_is_dropped(server, tmp_path: Path, make_corpus):
    handler, url = server
    handler.cuts["passages.txt"] = [500, 0]
    with pytest.raises(UserError):
        pull_index(url, tmp_path / "out")
    build_index(make_corpus(tmp_path / "other.jsonl", seed=1), tmp_path / "other", retriever="bm25")
    push_index(tmp_path / "other", str(handler.folder), overwrite=True)
    handler.asked.clear()
    pull_index(url, tmp_path / "out")
    assert {wanted for _, wanted in handler.asked} == {None}
    assert content(tmp_path / "out") == content(tmp_path / "other")


@pytest.mark.parametrize("name", ["index.json", VECTORS, "bm25/meta.json", "passages.txt"])
def test_a_damaged_file_is_never_part_of_an_index(server, tmp_path: Path, name: str):
    handler, url = server
    raw = (handler.folder / name).read_bytes()
    (handler.folder / name).write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    for _ in range(2):
        with pytest.raises(UserError, match=rf"{name} is not the file that was pushed \(its SHA-256 differs\)"):
            pull_index(url, tmp_path / "out")
        assert not (tmp_path / "out/index.json").exists()
        assert not list(tmp_path.glob(f"out/.rebuild/{name}*"))
    (handler.folder / name).write_bytes(raw)
    pull_index(url, tmp_path / "out")
    assert content(tmp_path / "out") == content(handler.folder)


@pytest.mark.parametrize("change", [lambda raw: raw + b"x", lambda raw: raw[:-9]])
def test_a_file_of_another_size_is_refused(server, tmp_path: Path, change):
    handler, url = server
    path = handler.folder / VECTORS
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UserError, match=r"is not the file that was pushed|ended after|cannot be read \(4"):
        pull_index(url, tmp_path / "out")
    assert not (tmp_path / "out/index.json").exists()


def test_no_more_is_kept_than_was_stated(server, tmp_path: Path, monkeypatch):
    handler, url = server
    path, kept, add = handler.folder / VECTORS, list[int](), transfer._Part.add
    path.write_bytes(path.read_bytes() + bytes(5_000_000))
    monkeypatch.setattr(transfer._Part, "add", lambda part, piece: (kept.append(len(piece)), add(part, piece)))
    with pytest.raises(UserError, match="is not the file that was pushed"):
        pull_index(url, tmp_path / "out")
    assert sum(kept) < 1_000_000


@pytest.mark.parametrize(
    "name",
    ["../evil.json", "/etc/evil.json", "dense/../../evil.npy", "dense\\..\\evil.npy", "dense/x.pkl", "bm25/run.py",
     ".documents/held.json", ".rebuild/index.json", "build.json", "files.json", "dense/a/b.npy", "bm25s/..npy/x.npy",
     "dense/Vectors.npy", "C:evil.npy", "dense/x.npy\n", "dense/x.npy\0.npy", "", ".", f"bm25/{'0' * 32}.store.part"],
)  # fmt: skip
def test_names_that_are_no_files_of_an_index_are_refused(server, tmp_path: Path, name: str):
    handler, url = server
    rewrite(handler.folder, lambda shared: shared["files"].update({name: {"bytes": 1, "sha256": "0" * 64}}))
    with pytest.raises(UserError, match="which is not a file of an index: nothing was written"):
        pull_index(url, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["public"]


def test_both_lists_must_name_the_same_files(server, tmp_path: Path):
    handler, url = server
    rewrite(handler.folder, lambda shared: shared["files"].update({"dense/x.npy": {"bytes": 1, "sha256": "0" * 64}}))
    with pytest.raises(UserError, match="list other files"):
        pull_index(url, tmp_path / "out")
    rewrite(handler.folder, lambda shared: shared["files"].pop("index.json"))
    with pytest.raises(UserError, match=r"does not list index\.json"):
        pull_index(url, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"<html>", "is not in a pushed index"),
        (b"[]", "is not in a pushed index"),
        (b'{"files": {}, "schema_version": 2}', "schema_version"),
        (
            b'{"files": {"index.json": {"bytes": -1, "sha256": "%s"}}, "schema_version": 1}' % (b"0" * 64),
            "greater than",
        ),
        (b'{"files": {"index.json": {"bytes": 1e3, "sha256": "x"}}, "schema_version": 1}', "bytes"),
        (b'{"files": {"index.json": {"bytes": 1' + b"0" * 30 + b"}}}", "too large"),
        (b" " * (17 << 20), "is larger than 16.8 MB"),
    ],
)
def test_a_list_that_is_none_is_one_line(server, tmp_path: Path, raw: bytes, message: str):
    handler, url = server
    (handler.folder / "files.json").write_bytes(raw)
    with pytest.raises(UserError, match=message) as raised:
        pull_index(url, tmp_path / "out")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_fitting_hashes_do_not_make_an_index_of_other_files(server, tmp_path: Path):
    """A stranger can compute SHA-256 anew; what `index.json` says of the files must hold as well."""
    handler, url = server
    path = handler.folder / "passages.txt"
    path.write_bytes(path.read_bytes()[::-1])
    rewrite(
        handler.folder, lambda shared: shared["files"]["passages.txt"].update(sha256=sha256_bytes(path.read_bytes()))
    )
    with pytest.raises(UserError, match="is missing or not the file that was indexed"):
        pull_index(url, tmp_path / "out")
    assert not (tmp_path / "out/index.json").exists()
    assert not (tmp_path / "out/.rebuild/index.json").exists()


def test_more_than_the_disk_has_is_refused_before_it_is_asked_for(server, tmp_path: Path, monkeypatch):
    handler, url = server
    usage = namedtuple("Usage", "total used free")
    monkeypatch.setattr(transfer.shutil, "disk_usage", lambda path: usage(10**6, 10**6, 2000))
    with pytest.raises(UserError, match=r"kB to download, but only 2 kB free at .*: free some space"):
        pull_index(url, tmp_path / "out")
    assert {name for name, _ in handler.asked} == {"files.json", "index.json"}
    assert not (tmp_path / "out").exists()


def test_a_disk_that_becomes_full_loses_nothing(server, tmp_path: Path, monkeypatch):
    handler, url = server
    add = transfer._Part.add

    def full(part: transfer._Part, piece: bytes) -> None:
        add(part, piece[:300])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(UserError, match="The disk is full: free some space, then run"):
        patch.setattr(transfer._Part, "add", full)
        pull_index(url, tmp_path / "out")
    assert any(path.stat().st_size for path in (tmp_path / "out/.rebuild").rglob("*.part"))
    pull_index(url, tmp_path / "out")
    assert any((wanted or "").startswith("bytes=") for _, wanted in handler.asked)
    assert content(tmp_path / "out") == content(handler.folder)


def test_ctrl_c_stops_at_once_and_the_next_call_goes_on(server, tmp_path: Path, monkeypatch):
    handler, url = server
    reached, released = threading.Event(), threading.Event()

    def add(part: transfer._Part, piece: bytes) -> None:
        reached.set()
        released.wait(60)  # a server that does not answer
        _add(part, piece)

    def join(thread: threading.Thread, timeout: float | None = None) -> None:
        if timeout is None:
            reached.wait(60)
            raise KeyboardInterrupt

    _add = transfer._Part.add
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(transfer._Part, "add", add)
        patch.setattr(threading.Thread, "join", join)
        pull_index(url, tmp_path / "out")
    released.set()
    pull_index(url, tmp_path / "out")
    assert content(tmp_path / "out") == content(handler.folder)


def test_an_index_that_is_complete_opens_whenever_the_call_is_killed(
    server, tmp_path: Path, monkeypatch, fake_embedder
):
    _, url = server
    calls: list[Path] = []

    def killed(folder: Path) -> None:
        calls.append(folder)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(transfer, "finish_replacing", killed)
        pull_index(url, tmp_path / "out")
    assert open_index(tmp_path / "out", embedder=fake_embedder)("amber", 1)
    assert pull_index(url, tmp_path / "out").changed is False
    assert not (tmp_path / "out/.rebuild").exists()


def test_links_among_what_an_interrupted_pull_left_are_refused(server, tmp_path: Path):
    handler, url = server
    handler.cuts[VECTORS] = [1000, 0]
    with pytest.raises(UserError):
        pull_index(url, tmp_path / "out")
    mine = tmp_path / "mine"
    mine.write_bytes(b"precious")
    part = tmp_path / "out/.rebuild/dense/vectors.npy.part"
    part.unlink()
    part.symlink_to(mine)
    with pytest.raises(UserError, match="is a link"):
        pull_index(url, tmp_path / "out")
    assert mine.read_bytes() == b"precious"


def test_a_folder_with_other_files_is_left_alone(server, tmp_path: Path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/plan.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty and contains no index"):
        pull_index(server[1], tmp_path / "notes", overwrite=True)
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["plan.txt"]


def test_redirects_lead_to_the_web_alone(server, tmp_path: Path):
    handler, url = server
    handler.redirects["moved"] = url + "/passages.txt"
    for target in ("file:///etc/passwd", "ftp://127.0.0.1/x"):
        handler.redirects["files.json"] = target
        with pytest.raises(UserError, match=f"redirects to {target[:3]}.*not followed"):
            pull_index(url, tmp_path / "out")
    handler.redirects["files.json"] = url + "/files.json"
    with pytest.raises(UserError, match="cannot be read"):
        pull_index(url, tmp_path / "out")
    handler.redirects.clear()
    (handler.folder / "moved.txt").write_bytes((handler.folder / "passages.txt").read_bytes())
    handler.redirects["passages.txt"] = url + "/moved.txt"
    pull_index(url, tmp_path / "out")
    assert (tmp_path / "out/passages.txt").read_bytes() == (handler.folder / "passages.txt").read_bytes()


def test_a_reply_that_is_compressed_unasked_is_refused(server, tmp_path: Path):
    handler, url = server
    handler.headers_sent["Content-Encoding"] = "gzip"
    with pytest.raises(UserError, match="was sent compressed"):
        pull_index(url, tmp_path / "out")


def test_places_that_cannot_be_are_one_line(tmp_path: Path, hybrid_folder: Path, server):
    _, url = server
    for place, message in (
        (url + "x", r"No .*/idxx/files\.json: no index was pushed there"),
        ("http://127.0.0.1:9/x", "check the network, then run the same command again"),
        ("https://", "is not an address"),
        ("http://[::1", "is not an address"),
        ("s3://bucket/x", "cannot be pulled from"),
        (str(tmp_path / "nowhere"), "no index was pushed there"),
        ("hf://alone", "is not a repository"),
        ("hf://a/b/c", "is not a repository"),
        ("hf://../x/y@main", "is not a repository"),
    ):
        with pytest.raises(UserError, match=message):
            pull_index(place, tmp_path / "out")
    for target in ("https://user:secret@example.org/x?key=1", "s3://bucket"):
        with pytest.raises(UserError, match="takes no index: push into a folder") as raised:
            push_index(hybrid_folder, target)
        assert "secret" not in str(raised.value)
    with pytest.raises(UserError, match="contains no index"):
        push_index(tmp_path / "none", str(tmp_path / "target"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["public"]


def test_keys_of_an_address_are_sent_and_never_shown(server, tmp_path: Path):
    handler, url = server
    (handler.folder / VECTORS).unlink()
    with pytest.raises(UserError, match="404") as raised:
        pull_index(url.replace("http://", "http://ann:pass-word-1@") + "?signature=s3cr3t", tmp_path / "out")
    assert "pass-word-1" not in str(raised.value)
    assert "s3cr3t" not in str(raised.value)


@pytest.mark.parametrize("step", ["shared_index", "receive"])
def test_a_change_while_it_is_pushed_is_said(tmp_path: Path, corpus: Path, monkeypatch, step: str):
    build_index(corpus, tmp_path / "index", retriever="bm25")
    done = getattr(transfer, step)

    def changing(*arguments, **keywords):
        found = done(*arguments, **keywords)
        update_index(tmp_path / "index", remove=["p1"])
        return found

    monkeypatch.setattr(f"corpora.index.remote.{step}", changing)
    message = "was changed while it was pushed" if step == "receive" else "is not the file that was pushed"
    with pytest.raises(UserError, match=message):
        push_index(tmp_path / "index", str(tmp_path / "public"))


def test_an_index_of_another_embedder_is_pulled_and_opened_with_words_alone(server, tmp_path: Path):
    pull_index(server[1], tmp_path / "out")
    other = Embedder("fake", encode=lambda texts: [[1.0]] * len(texts))
    other.__dict__["weights_hash"] = sha256_text("other weights")
    with pytest.raises(UserError, match="install that one, open a hybrid index with retriever bm25, or rebuild it"):
        open_index(tmp_path / "out", embedder=other)
    assert open_index(tmp_path / "out", retriever="bm25")("amber", 1)


def test_an_embedder_that_others_lack_is_said_when_it_is_pushed(tmp_path: Path, hybrid_folder: Path):
    folder = tmp_path / "index"
    shutil.copytree(hybrid_folder, folder)
    info = json.loads((folder / "index.json").read_text())
    info.pop("digest")
    info["embedder"]["id"] = str(tmp_path)
    info["digest"] = sha256_text(canonical(info))
    (folder / "index.json").write_text(json.dumps(info))
    with pytest.warns(UserNotice, match="is a local folder"):
        push_index(folder, str(tmp_path / "public"))
