"""A killed sync: whoever opens the index gets the one before or after it, and the same command goes on."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from corpora.index import build, manifest, renew, replace
from corpora.index.open import open_index
from corpora.sync import record
from corpora.sync import sync as syncing
from signatures.common import work
from tests.corpora.index.test_index import ROOT
from tests.corpora.index.test_replace import Killed, killing
from tests.corpora.sync.conftest import sync_documents, write

pytestmark = pytest.mark.slow
STEPS = (
    (Path, "unlink"), (shutil, "rmtree"), (replace, "_link"), (replace, "atomic_write"), (build, "step_bm25"),
    (manifest, "atomic_write"), (renew, "write_stored"), (build, "write_info"), (record, "atomic_write"),
    (work.AppendedFile, "write"),
)  # fmt: skip


def state(index: Path) -> list[tuple[str, str]]:
    return sorted((passage.id, passage.metadata["source"]) for passage in open_index(index)("lake ossa veld new", 99))


def change(docs: Path) -> None:
    write(docs / "marn.md", "# Marn\n\nLake Marn lies in the new Veld.\n")
    write(docs / "new.txt", "Something new.")
    (docs / "veld.txt").unlink(missing_ok=True)


@pytest.mark.parametrize("also", [False, True])
def test_wherever_it_is_killed_the_same_command_goes_on(also, docs, tmp_path, monkeypatch):
    def run(index: Path):
        return sync_documents([docs], index, retriever="bm25")

    shutil.copytree(docs, tmp_path / "before")
    run(tmp_path / "old")
    known = [state(tmp_path / "old")]
    change(docs)
    run(tmp_path / "new")
    known.append(state(tmp_path / "new"))
    opened, index, ended, number = [], tmp_path / "i", False, 0
    while not ended:
        number += 1
        shutil.rmtree(docs)
        shutil.copytree(tmp_path / "before", docs)
        shutil.rmtree(index, ignore_errors=True)
        shutil.copytree(tmp_path / "old", index)
        change(docs)
        countdown = [number]
        with monkeypatch.context() as patch:
            for owner, name in STEPS:
                patch.setattr(owner, name, killing(getattr(owner, name), countdown))
            try:
                run(index)
                ended = True
            except Killed:
                pass
        opened.append(known.index(state(index)))
        if also:  # another change before it goes on
            write(docs / "later.txt", "Lake Late.")
        run(index)
        assert [each for each in state(index) if each[1] != "later.txt"] == known[1]
        assert ("later.txt" in {source for _, source in state(index)}) == also
        assert not (index / ".rebuild").exists()
        assert [path.name for path in (index / ".documents").iterdir()] == [record.HELD]
    assert opened == sorted(opened)
    assert set(opened) == {0, 1}


def test_what_was_read_is_not_read_again(docs, tmp_path, monkeypatch):
    real, read = syncing.read_documents, []

    def until_two(sources, *arguments, **options):
        for each in real(sources, *arguments, **options):
            if len(read) == 2:
                raise KeyboardInterrupt
            read.append(each.source)
            yield each

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(syncing, "read_documents", until_two)
        sync_documents([docs], tmp_path / "index", retriever="bm25")
    read.clear()
    monkeypatch.setattr(syncing, "read_documents", until_two)
    assert len(sync_documents([docs], tmp_path / "index", retriever="bm25").added) == 3
    assert read == ["veld.txt"]


KILLED = """
import os, signal, sys
sys.path[:0] = [{root!r}]
from corpora.index import build
from corpora.sync.sync import SyncSettings, sync_documents
from corpora.sync.sync import sync_documents

def killed(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    if {fatal}:
        build.write_info = killed
    print(len(sync_documents([{docs!r}], {out!r}, SyncSettings(retriever="bm25")).unchanged))
"""


def test_kill_minus_nine_leaves_no_lock_and_the_old_index(docs, tmp_path):
    def run(fatal: bool) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "script.py"
        script.write_text(KILLED.format(root=str(ROOT), fatal=fatal, docs=str(docs), out=str(tmp_path / "index")))
        return subprocess.run([sys.executable, str(script)], check=False, capture_output=True, text=True)

    assert run(False).stdout == "0\n"
    before = state(tmp_path / "index")
    change(docs)
    assert run(True).returncode == -signal.SIGKILL
    assert state(tmp_path / "index") == before
    finished = run(False)
    assert finished.stdout == "1\n", finished.stderr
    assert state(tmp_path / "index") != before
