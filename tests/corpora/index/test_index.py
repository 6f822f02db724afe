import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from corpora.index import embedding
from corpora.index.build import build_index
from corpora.index.database import table_of
from corpora.index.manifest import exclusive
from corpora.index.open import open_index
from corpora.index.update import update_index
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.settings import make_settings
from signatures.common.errors import UserError

ROOT = Path(__file__).parents[3]


def test_an_opened_index_needs_no_corpus_file(tmp_path, make_corpus, fake_embedder):
    path = make_corpus(tmp_path / "passages.jsonl", 5)
    first = json.loads(path.read_text().splitlines()[0])
    info = build_index(path, tmp_path / "i", embedder=fake_embedder)
    path.unlink()
    assert info.passages == 5
    found = open_index(tmp_path / "i", embedder=fake_embedder)(f"{first['title']} {first['text']}", 1)[0]
    assert found.model_dump(exclude={"score"}) == first


def test_letters_of_any_script_come_back_as_they_were(tmp_path):
    lines = [{"id": "é", "title": "Zürich 東京", "text": "naïve\nline 😀"}, {"id": "b", "title": "", "text": "naïve ß"}]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    build_index(tmp_path / "p.jsonl", tmp_path / "i", retriever="bm25")
    found = sorted(open_index(tmp_path / "i")("naïve", 2), key=lambda passage: passage.id, reverse=True)
    assert [passage.model_dump(exclude={"score"}) for passage in found] == lines


def test_an_index_of_another_corpus_is_refused(tmp_path, hybrid_folder, corpus, make_corpus, fake_embedder):
    open_index(hybrid_folder, corpus, embedder=fake_embedder)
    other = make_corpus(tmp_path / "other.jsonl", seed=1)
    with pytest.raises(UserError, match=r"another corpus.*rebuild it with overwrite"):
        open_index(hybrid_folder, other, embedder=fake_embedder)


def test_another_embedder_is_refused(hybrid_folder):
    other = Embedder("other", encode=lambda texts: np.ones((len(texts), 64)))
    with pytest.raises(UserError, match="not the one the index was built with"):
        open_index(hybrid_folder, embedder=other)


def test_the_precision_of_the_passages_is_recorded_and_kept_by_updates(tmp_path, corpus, make_corpus, fake_embedder):
    def model(precision: str) -> Embedder:
        return Embedder("fake", encode=fake_embedder, precision=precision)

    exact, fast = (build_index(corpus, tmp_path / each, embedder=model(each)) for each in ("f32", "bf16"))
    written = [json.loads((tmp_path / each / "index.json").read_text()) for each in ("f32", "bf16")]
    assert "precision" not in written[0]["embedder"]
    # Before, both were of version 1, and who did not know of precisions took the second for the first.
    assert [each["schema_version"] for each in written] == [1, 2]
    assert len({open_index(tmp_path / each, retriever="bm25").fingerprint for each in ("f32", "bf16")}) == 1
    assert fast.embedder.precision == "bf16"
    assert fast.fingerprint() != exact.fingerprint()
    opened = open_index(tmp_path / "bf16", embedder=model("f32"))  # queries have a precision of their own
    assert opened.fingerprint == fast.fingerprint()
    assert opened("lock", 3)
    more = make_corpus(tmp_path / "more.jsonl", 3, seed=7)
    lines = [{**json.loads(line), "id": f"new {n}"} for n, line in enumerate(more.read_text().splitlines())]
    more.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(UserError, match=r"was embedded with precision bf16, not f32: use bf16"):
        update_index(tmp_path / "bf16", add=[more], embedder=model("f32"))
    updated = update_index(tmp_path / "bf16", add=[more], embedder=model("bf16")).info
    assert updated.embedder == fast.embedder
    assert updated.passages == fast.passages + 3
    with pytest.raises(UserError, match="was started with another precision"):
        build_index(corpus, tmp_path / "f32", embedder=model("bf16"), resume=True)
    assert table_of(tmp_path / "i", exact, "milvus", 1).name != table_of(tmp_path / "i", fast, "milvus", 1).name


def test_changed_and_missing_files_are_found_on_opening(tmp_path, corpus):
    for number, spoil in enumerate((lambda f: f.write_bytes(f.read_bytes()[:-1] + b"x"), lambda f: f.unlink())):
        folder = tmp_path / str(number)
        build_index(corpus, folder, retriever="bm25")
        spoil(folder / "passages.txt")
        with pytest.raises(UserError, match=r"passages.txt is missing or not the file"):
            open_index(folder)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"schema_version": 99}', '{"schema_version": 1}'])
def test_a_broken_index_json_is_one_line(tmp_path, content):
    (tmp_path / "index.json").write_text(content)
    with pytest.raises(UserError, match="rebuild the index") as error:
        open_index(tmp_path)
    assert "\n" not in str(error.value)


def test_no_index_and_unknown_names_are_named(tmp_path, corpus, hybrid_folder, fake_embedder):
    with pytest.raises(UserError, match="contains no index"):
        open_index(tmp_path / "nothing")
    with pytest.raises(UserError, match="Unknown retriever 'bm52'.*bm25, bm25s, dense, graph, graph-multihop, hybrid"):
        build_index(corpus, tmp_path / "i", retriever="bm52")
    with pytest.raises(UserError, match="cannot serve bm25s"):
        open_index(hybrid_folder, retriever="bm25s", embedder=fake_embedder)
    with pytest.raises(UserError, match="k1 is fixed"):
        open_index(hybrid_folder, embedder=fake_embedder, k1=2)
    with pytest.raises(UserError, match="choose one"):
        build_index(corpus, tmp_path / "i", resume=True, overwrite=True)


def test_existing_folders_are_changed_only_with_overwrite(tmp_path, corpus, make_corpus):
    folder = tmp_path / "i"
    build_index(corpus, folder, retriever="bm25")
    before = (folder / "index.json").read_bytes()
    with pytest.raises(UserError, match="already contains an index: add passages.*--add.*--overwrite"):
        build_index(corpus, folder, retriever="bm25")
    other = make_corpus(tmp_path / "other.jsonl", seed=1)
    with pytest.raises(UserError, match="another corpus hash"):
        build_index(other, folder, retriever="bm25", resume=True)
    assert (folder / "index.json").read_bytes() == before
    build_index(other, folder, retriever="bm25", overwrite=True)
    open_index(folder, other)


def test_overwrite_deletes_an_index_and_nothing_else(tmp_path, corpus):
    folder = tmp_path / "i"
    build_index(corpus, folder, retriever="bm25")
    (folder / "notes.txt").write_text("mine")
    build_index(corpus, folder, retriever="bm25s", overwrite=True)
    assert (folder / "notes.txt").read_text() == "mine"
    assert not (folder / "bm25").exists()
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(UserError, match="is not empty and contains no index"):
            build_index(corpus, foreign, retriever="bm25", overwrite=overwrite)
    assert (foreign / "thesis.txt").exists()
    with pytest.raises(UserError, match="is a file"):
        build_index(corpus, foreign / "thesis.txt", retriever="bm25")


def test_resuming_a_finished_index_does_nothing(tmp_path, corpus):
    folder = tmp_path / "i"
    info = build_index(corpus, folder, retriever="bm25")
    stamp = (folder / "index.json").stat().st_mtime_ns
    assert build_index(corpus, folder, retriever="bm25", resume=True) == info
    assert (folder / "index.json").stat().st_mtime_ns == stamp


def test_a_resumed_build_keeps_its_settings(tmp_path, corpus):
    folder = tmp_path / "i"
    build_index(corpus, folder, retriever="bm25")
    with pytest.raises(UserError, match="another settings"):
        build_index(corpus, folder, retriever="bm25", resume=True, settings=make_settings(title_boost=2))


def test_two_builds_in_one_folder_exclude_each_other(tmp_path, corpus):
    with exclusive(tmp_path / "i"), pytest.raises(UserError, match="being built by another process"):
        build_index(corpus, tmp_path / "i", retriever="bm25")


@pytest.mark.parametrize(
    ("lines", "message"),
    [([], "no passage"), ([{"id": "a", "text": "x"}, {"id": "a", "text": "y"}], "'a'|\"a\"|id")],
)
def test_an_unusable_corpus_leaves_no_index(tmp_path, lines, message):
    path = tmp_path / "passages.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(UserError, match=message):
        build_index(path, tmp_path / "i", retriever="bm25")
    with pytest.raises(UserError):
        open_index(tmp_path / "i")


def test_after_a_refused_corpus_the_same_command_works_once_it_is_fixed(tmp_path):
    path = tmp_path / "passages.jsonl"
    path.write_text('{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n')
    with pytest.raises(UserError):
        build_index(path, tmp_path / "i", retriever="bm25")
    assert not (tmp_path / "i").exists()
    path.write_text('{"id": "a", "text": "x"}\n{"id": "b", "text": "y"}\n')
    assert build_index(path, tmp_path / "i", retriever="bm25").passages == 2


def test_a_refused_folder_and_a_complete_index_contain_no_lock(tmp_path, corpus):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="contains no index"):
        build_index(corpus, tmp_path / "mine", retriever="bm25")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    build_index(corpus, tmp_path / "i", retriever="bm25")
    assert not (tmp_path / "i" / "build.lock").exists()


KILLED = """
import os, signal, sys
sys.path[:0] = [{root!r}, {tests!r}]
import conftest
from corpora.index import embedding
from corpora.index.build import build_index
from corpora.retrievers.embedder import Embedder

embedding.SHARD, embedding._STEP = 10, 5

def encode(texts):
    with open({log!r}, "a") as log:
        log.writelines(text.replace(chr(10), " ") + chr(10) for text in texts)
    if {fatal} and sum(1 for _ in open({log!r})) >= {fatal}:
        os.kill(os.getpid(), signal.SIGKILL)
    return conftest.hashed_words(texts)

build_index({corpus!r}, {folder!r}, resume={resume}, embedder=Embedder("fake", encode=encode))
"""


def run_build(tmp_path: Path, corpus: Path, *, fatal: int, resume: bool) -> subprocess.CompletedProcess[bytes]:
    script = KILLED.format(
        root=str(ROOT),
        tests=str(Path(__file__).parents[1]),
        log=str(tmp_path / "log"),
        corpus=str(corpus),
        folder=str(tmp_path / "i"),
        fatal=fatal,
        resume=resume,
    )
    return subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)


@pytest.mark.slow
def test_after_kill_minus_nine_resume_finishes_without_embedding_again(tmp_path, corpus, fake_embedder, hybrid_folder):
    assert run_build(tmp_path, corpus, fatal=35, resume=False).returncode == -signal.SIGKILL
    with pytest.raises(UserError, match=r"unfinished index: build it again with resume"):
        open_index(tmp_path / "i", embedder=fake_embedder)
    with pytest.raises(UserError, match=r"unfinished index: continue it .--resume"):
        build_index(corpus, tmp_path / "i", embedder=fake_embedder)
    finished = run_build(tmp_path, corpus, fatal=0, resume=True)
    assert finished.returncode == 0, finished.stderr.decode()
    assert len((tmp_path / "log").read_text().splitlines()) == 35 + 30  # three shards of ten were kept
    resumed = open_index(tmp_path / "i", corpus, embedder=fake_embedder)
    straight = open_index(hybrid_folder, embedder=fake_embedder)
    assert resumed.many(["amber brook", "north"], 10) == straight.many(["amber brook", "north"], 10)
    assert resumed.fingerprint == straight.fingerprint
    assert not [path for path in (tmp_path / "i").rglob("*") if path.name.startswith("shard") or "tmp" in path.name]


@pytest.mark.parametrize("step", ["write_store", "step_bm25", "step_dense", "write_info"])
def test_a_full_disk_leaves_no_index_and_resume_finishes(tmp_path, corpus, fake_embedder, monkeypatch, step):
    def full(*_args: object, **_kwargs: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    folder = tmp_path / "i"
    with monkeypatch.context() as patch:
        patch.setattr(f"corpora.index.build.{step}", full)
        with pytest.raises(UserError, match="disk is full.*with resume"):
            build_index(corpus, folder, embedder=fake_embedder)
    with pytest.raises(UserError, match="unfinished"):
        open_index(folder, embedder=fake_embedder)
    build_index(corpus, folder, embedder=fake_embedder, resume=True)
    assert open_index(folder, corpus, embedder=fake_embedder)("amber", 1)


LIMITED = """
import resource, signal, sys
sys.path[:0] = [{root!r}, {tests!r}]
import conftest
from corpora.index.build import build_index
from corpora.retrievers.embedder import Embedder
from signatures.common.errors import UserError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
try:
    build_index({corpus!r}, {folder!r}, embedder=Embedder("fake", encode=conftest.hashed_words))
except UserError as error:
    print(error)
    sys.exit(2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit", [300, 4000, 9000])
def test_writes_that_really_fail_leave_no_index(tmp_path, corpus, limit):
    values = {
        "root": str(ROOT),
        "tests": str(Path(__file__).parents[1]),
        "corpus": str(corpus),
        "folder": str(tmp_path / "i"),
    }
    script = LIMITED.format(limit=limit, **values)
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert (done.returncode, "ulimit -f" in done.stdout) == (2, True), done.stderr
    with pytest.raises(UserError):
        open_index(tmp_path / "i")


def test_progress_goes_to_stderr_only(tmp_path, corpus, fake_embedder, capsys, monkeypatch):
    monkeypatch.setattr(embedding, "SHARD", 16)
    build_index(corpus, tmp_path / "i", embedder=fake_embedder, progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Embedding" in captured.err
