"""Replacing an index: at every moment the old or the new one opens."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corpora.index import build, replace
from corpora.index.build import build_index
from corpora.index.open import open_index
from signatures.common.errors import UserError

OLD, NEW = "bm25", "bm25s"


class Killed(BaseException):
    """Stands in for `kill -9`; no code of ours may catch it."""


def killing(function: Callable[..., Any], countdown: list[int]) -> Callable[..., Any]:
    """Return the function, which raises in front of the call that the countdown reaches."""

    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        countdown[0] -= 1
        if countdown[0] == 0:
            raise Killed
        return function(*arguments, **keywords)

    return wrapped


@pytest.fixture
def kill_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], Any]], bool]:
    """Return a function that does some work, killed in front of its n-th change; it returns whether it got so far."""

    def run(number: int, work: Callable[[], Any]) -> bool:
        countdown = [number]
        with monkeypatch.context() as patch:
            for owner, name in ((Path, "unlink"), (shutil, "rmtree"), (replace, "_link"), (replace, "atomic_write"),
                                (build, "step_bm25s"), (build, "write_store"), (build, "write_info")):  # fmt: skip
                patch.setattr(owner, name, killing(getattr(owner, name), countdown))
            try:
                work()
            except Killed:
                return True
        return False

    return run


def kind(folder: Path) -> str:
    """Return the retriever of the index that opens, which must answer."""
    index = open_index(folder)
    assert index("amber", 1)
    return index.fingerprint.split("-")[0]


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["resume", "overwrite"])
def test_wherever_it_is_killed_the_old_or_the_new_index_opens_and_the_next_call_finishes(
    tmp_path: Path, corpus: Path, kill_at, flag: str
) -> None:
    opened = []
    for number in range(1, 200):
        folder = tmp_path / str(number)
        build_index(corpus, folder, retriever=OLD)
        (folder / "notes.txt").write_text("mine")
        killed = kill_at(number, lambda: build_index(corpus, folder, retriever=NEW, overwrite=True))  # noqa: B023
        opened.append(kind(folder))
        if not killed:
            break
        if flag == "resume" and opened[-1] == OLD and not (folder / replace.REBUILD).exists():
            continue  # killed before anything was started: there is nothing to resume
        build_index(corpus, folder, retriever=NEW, **{flag: True})
        names = {path.name for path in folder.iterdir()}
        assert names == {"index.json", "passages.txt", "passages.offsets.npy", "passages.ids.npy", NEW, "notes.txt"}
        assert kind(folder) == NEW
    assert opened == sorted(opened)  # first the old one, then the new one
    assert set(opened) == {OLD, NEW}
    assert len(opened) > 10


def test_a_stopped_replacement_is_not_resumed_with_another_request(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "i"
    build_index(corpus, folder, retriever=OLD)
    with monkeypatch.context() as patch:
        patch.setattr(build, "write_info", killing(build.write_info, [1]))
        with pytest.raises(Killed):
            build_index(corpus, folder, retriever=NEW, overwrite=True)
    with pytest.raises(UserError, match="another retriever"):
        build_index(corpus, folder, retriever=OLD, resume=True)
    assert kind(folder) == OLD


def test_without_hard_links_the_files_are_copied(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: Any) -> None:
        raise OSError("no hard links")

    monkeypatch.setattr(replace.os, "link", refused)
    build_index(corpus, tmp_path / "i", retriever=OLD)
    build_index(corpus, tmp_path / "i", retriever=NEW, overwrite=True)
    assert kind(tmp_path / "i") == NEW


def test_what_a_killed_build_left_before_its_first_file_hinders_no_build(tmp_path: Path, corpus: Path) -> None:
    folder = tmp_path / "i"
    folder.mkdir()
    for name in ("build.lock", ".build.json.abcdef12.tmp"):
        (folder / name).touch()
    build_index(corpus, folder, retriever=OLD, resume=True)
    passages = {"passages.txt", "passages.offsets.npy", "passages.ids.npy"}
    assert {path.name for path in folder.iterdir()} == {"index.json", OLD} | passages


def test_temporary_files_of_a_killed_replacement_are_removed(tmp_path: Path, corpus: Path) -> None:
    folder = tmp_path / "i"
    build_index(corpus, folder, retriever=OLD)
    for name in (".index.json.abcdef12.tmp", f"{OLD}/.part.tmp", ".mine.tmp"):
        (folder / name).touch()
    build_index(corpus, folder, retriever=OLD, resume=True)  # complete: nothing is built
    left = {str(path.relative_to(folder)) for path in folder.rglob("*.tmp")}
    assert left == {".mine.tmp"}
