"""A killed update: at every moment the old or the new index opens, and the same call finishes it."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from corpora.index import build, embedding, manifest, replace, update
from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.index.update import update_index
from corpora.retrievers.embedder import Embedder
from signatures.common.errors import UserError
from tests.corpora.conftest import hashed_words
from tests.corpora.index.test_index import ROOT
from tests.corpora.index.test_replace import Killed, killing

pytestmark = pytest.mark.slow

QUERIES = ["amber brook", "cedar", "oasis prairie"]


@pytest.fixture
def added(tmp_path: Path, make_corpus: Any) -> Path:
    """More passages, with ids of their own."""
    path = make_corpus(tmp_path / "more.jsonl", 25, seed=1)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**line, "id": f"n{line['id']}", "page": 1}) + "\n" for line in lines))
    return path


def test_wherever_it_is_killed_the_old_or_the_new_index_opens_and_the_same_call_finishes(
    tmp_path: Path, corpus: Path, added: Path, fake_embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_index(corpus, tmp_path / "old", embedder=fake_embedder)
    answers = {}

    def answer(folder: Path) -> str:
        found = open_index(folder, embedder=fake_embedder).many(QUERIES, 90)
        return next(name for name, known in answers.items() if known == found)

    def change(folder: Path) -> Any:
        return update_index(folder, add=[added], remove=["p3", "p17"], embedder=fake_embedder)

    answers["old"] = open_index(tmp_path / "old", embedder=fake_embedder).many(QUERIES, 90)
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    change(tmp_path / "new")
    answers["updated"] = open_index(tmp_path / "new", embedder=fake_embedder).many(QUERIES, 90)
    opened, folder = [], tmp_path / "i"
    for number in range(1, 200):
        shutil.copytree(tmp_path / "old", folder)
        (folder / "notes.txt").write_text("mine")
        countdown, ended = [number], False
        with monkeypatch.context() as patch:
            for owner, name in ((Path, "unlink"), (shutil, "rmtree"), (replace, "_link"), (replace, "atomic_write"),
                                (manifest, "atomic_write"), (update, "write_stored"), (build, "step_bm25"),
                                (embedding, "write_npy"), (build, "write_info")):  # fmt: skip
                patch.setattr(owner, name, killing(getattr(owner, name), countdown))
            try:
                change(folder)
                ended = True
            except Killed:
                pass
        opened.append(answer(folder))
        change(folder)
        assert answer(folder) == "updated"
        assert {path.name for path in folder.iterdir()} == {path.name for path in (tmp_path / "new").iterdir()} | {
            "notes.txt"
        }
        shutil.rmtree(folder)
        if ended:
            break
    assert opened == sorted(opened)  # first the old one, then the new one
    assert set(opened) == {"old", "updated"}
    assert len(opened) > 20


KILLED = """
import os, signal, sys
sys.path[:0] = [{root!r}, {tests!r}]
import conftest
from corpora.index import embedding
from corpora.index.update import update_index
from corpora.retrievers.embedder import Embedder

embedding.SHARD, embedding._STEP = 10, 5
count = 0

def encode(texts):
    global count
    count += len(texts)
    print(len(texts), flush=True)
    if {fatal} and count >= {fatal}:
        os.kill(os.getpid(), signal.SIGKILL)
    return conftest.hashed_words(texts)

update_index({folder!r}, add=[{added!r}], remove=["p3"], embedder=Embedder("fake", encode=encode))
"""


def test_after_kill_minus_nine_finished_shards_are_not_embedded_again(
    tmp_path: Path, corpus: Path, added: Path, fake_embedder: Embedder
) -> None:
    build_index(corpus, tmp_path / "i", embedder=fake_embedder)
    before = open_index(tmp_path / "i", embedder=fake_embedder)

    def run(fatal: int) -> subprocess.CompletedProcess[str]:
        names = {"root": str(ROOT), "tests": str(Path(__file__).parents[1]), "folder": str(tmp_path / "i")}
        script = KILLED.format(**names, added=str(added), fatal=fatal)
        return subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)

    assert run(25).returncode == -signal.SIGKILL
    assert open_index(tmp_path / "i", embedder=fake_embedder).many(QUERIES, 9) == before.many(QUERIES, 9)
    finished = run(0)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split() == ["5"]  # two shards of ten were kept
    assert len(open_index(tmp_path / "i", embedder=fake_embedder)) == 60 - 1 + 25


def test_another_update_does_not_resume_it(
    tmp_path: Path, corpus: Path, added: Path, fake_embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_index(corpus, tmp_path / "i", embedder=fake_embedder)
    with monkeypatch.context() as patch:
        patch.setattr(build, "write_info", killing(build.write_info, [1]))
        with pytest.raises(Killed):
            update_index(tmp_path / "i", add=[added], embedder=fake_embedder)
    with pytest.raises(UserError, match="another corpus hash"):  # nor does a build
        build_index(corpus, tmp_path / "i", embedder=fake_embedder, resume=True)
    info, _ = update_index(tmp_path / "i", remove=["p0"], embedder=fake_embedder)
    assert (info.passages, info.update.added) == (59, 0)


def test_a_full_disk_changes_nothing_and_the_same_call_finishes(
    tmp_path: Path, corpus: Path, added: Path, fake_embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object, **_keywords: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    build_index(corpus, tmp_path / "i", embedder=fake_embedder)
    for owner, step in ((update, "write_stored"), (build, "step_bm25"), (embedding, "write_npy")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, step, full)
            with pytest.raises(UserError, match="The disk is full: free some space, then make the same update again"):
                update_index(tmp_path / "i", add=[added], embedder=fake_embedder)
        assert len(open_index(tmp_path / "i", embedder=fake_embedder)) == 60
    assert update_index(tmp_path / "i", add=[added], embedder=fake_embedder).info.passages == 85


def test_an_embedder_of_another_dimension_is_one_line(tmp_path: Path, corpus: Path, added: Path) -> None:
    """Two models without weights of their own may have one name."""
    build_index(corpus, tmp_path / "i", retriever="dense", embedder=Embedder("fake", encode=hashed_words))
    narrow = Embedder("fake", encode=lambda texts: hashed_words(texts)[:, :32])
    with pytest.raises(UserError, match="32 and 64 dimensions"):
        update_index(tmp_path / "i", add=[added], embedder=narrow)
