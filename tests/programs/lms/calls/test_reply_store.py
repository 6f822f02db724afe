"""One bounded file of replies: threads, processes, eviction, and what happens when it fails."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from programs.lms.calls.reply_cache import ReplyStore
from signatures.common.errors import UserNotice

SIZE = 10_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "replies.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[ReplyStore]:
    opened = ReplyStore(path, max_bytes=SIZE)
    yield opened
    opened.close()


def test_a_value_survives_a_new_process(store: ReplyStore, path: Path) -> None:
    value = {"outputs": ["Zürich \u9999\n", None, 0.5], "usage": {}}
    assert store.put("k", value)
    store.close()
    fresh = ReplyStore(path, max_bytes=SIZE)
    assert fresh.get("k") == value
    assert fresh.get("other") is None
    fresh.close()


@pytest.mark.parametrize("value", [object(), float("nan"), {"a": {1, 2}}, "\ud800", b"bytes"])
def test_what_is_not_json_is_not_stored(store: ReplyStore, value: object) -> None:
    assert not store.put("k", value)
    assert store.get("k") is None
    assert store.put("k", 1)  # the store goes on


def open_files(folder: Path) -> int:
    """Return how many files of a folder this process has open."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            links.append(os.readlink(f"/proc/self/fd/{number}"))
    return sum(link.startswith(str(folder)) for link in links)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files through /proc")
def test_256_threads_cache_1000_replies_with_a_bounded_number_of_open_files(store: ReplyStore) -> None:
    opened: list[int] = []
    ready = threading.Barrier(256)

    def work(number: int) -> None:
        ready.wait()
        for key in range(number, 1000, 256):
            store.put(f"k{key}", {"text": f"reply {key}"})
        opened.append(open_files(store.path.parent))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(256)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.get(f"k{key}") for key in range(1000)] == [{"text": f"reply {key}"} for key in range(1000)]
    assert max(opened) <= 3  # the file, its write-ahead log and the index of that


def test_the_file_stays_below_its_bound_and_the_least_recently_used_go_first(path: Path) -> None:
    now = [0.0]
    store = ReplyStore(path, max_bytes=400_000, clock=lambda: now[0])
    for number in range(300):
        now[0] += 3600
        store.put(f"k{number}", "x" * 5000)
        assert store.get("k0") == "x" * 5000, number  # used all the time
    kept = [number for number in range(1, 300) if store.get(f"k{number}")]
    assert kept == list(range(kept[0], 300))
    assert 40 < len(kept) < 80
    store.close()
    assert path.stat().st_size <= 400_000


def test_a_huge_reply_does_not_empty_the_store(path: Path) -> None:
    store = ReplyStore(path, max_bytes=400_000)
    store.put("k", "x")
    assert not store.put("huge", "x" * 100_000)
    assert store.get("k") == "x"
    store.close()


WRITER = """
import sys
from pathlib import Path
from programs.lms.calls.reply_cache import ReplyStore
store = ReplyStore(Path(sys.argv[1]), max_bytes=10_000_000)
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
print(sum(store.put(f"{sys.argv[2]}-{n}", {"text": str(n)}) for n in range(100)))
"""


@pytest.mark.slow
def test_several_processes_create_and_fill_one_file(path: Path) -> None:
    root = Path(__file__).parents[4]
    command = [sys.executable, "-W", "error", "-c", WRITER, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": root}
    processes = [subprocess.Popen([*command, str(number)], **pipes) for number in range(4)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [int(process.communicate()[0]) for process in processes] == [100] * 4
    store = ReplyStore(path, max_bytes=SIZE)
    assert len(store) == 400
    store.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_opens_the_file_again(store: ReplyStore) -> None:
    store.put("parent", 1)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, json.dumps([store.get("parent"), store.put("child", 2)]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert json.loads(os.read(reader, 100)) == [1, True]
    assert store.get("child") == 2
    os.close(reader)
    os.close(writer)


def damaged(path: Path) -> None:
    path.write_bytes(b"this is no database" * 1000)


def of_another_program(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE replies (something TEXT)")
    connection.close()


def in_place_of_a_file(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("ruin", [damaged, of_another_program, in_place_of_a_file])
def test_a_file_that_cannot_be_used_is_one_notice_and_no_cache(path: Path, ruin) -> None:
    path.parent.mkdir()
    ruin(path)
    store = ReplyStore(path, max_bytes=SIZE)
    with pytest.warns(UserNotice) as notices:
        outcomes = [(store.put(f"k{number}", 1), store.get(f"k{number}")) for number in range(3)]
    assert outcomes == [(False, None)] * 3
    assert len(notices) == 1
    assert str(path) in str(notices[0].message)
    assert "\n" not in str(notices[0].message)
    store.close()


def test_pages_damaged_while_the_file_is_in_use_are_one_notice(path: Path) -> None:
    store = ReplyStore(path, max_bytes=SIZE)
    for number in range(200):
        store.put(f"k{number}", "x" * 2000)
    store.close()
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with pytest.warns(UserNotice) as notices:
        assert [store.get(f"k{number}") for number in range(200)] == [None] * 200
    assert len(notices) == 1
    store.close()


def test_a_full_disk_is_one_notice_and_what_is_there_is_still_read(store: ReplyStore) -> None:
    store.put("k", 1)
    assert store._connection is not None
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")  # as if there was no more space
    with pytest.warns(UserNotice, match="full") as notices:
        assert [store.put(f"other{number}", "x" * 10_000) for number in range(3)] == [False] * 3
    assert len(notices) == 1
    assert store.get("k") == 1


def test_a_locked_file_is_one_notice(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("programs.lms.calls.reply_cache.LOCKED_SECONDS", 0.01)
    store = ReplyStore(path, max_bytes=SIZE)
    store.put("k", 1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.warns(UserNotice, match="locked") as notices:
        assert (store.put("a", 1), store.put("b", 2)) == (False, False)
    assert len(notices) == 1
    assert store.get("k") == 1
    other.close()
    store.close()


def test_a_store_that_works_says_nothing(store: ReplyStore) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.put("k", 1)
        store.delete("k")
        assert store.get("k") is None
