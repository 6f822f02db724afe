"""`verihop sync`: from a folder of documents to an index that stays up to date."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path

import pytest

import verihop as library
from corpora.sync import sync as syncing
from signatures.common.errors import UserError
from signatures.common.work import locked_folder
from tests.corpora.sync.conftest import in_this_process

ROOT = Path(__file__).parents[4]


@pytest.fixture
def docs(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr("corpora.ingest.ingest.run_in_processes", in_this_process)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "ossa.md").write_text("# Ossa\n\nThe Ossa ends in Lake Marn.\n\n## Fish\n\nTrout live in it.\n")
    (folder / "marn.md").write_text("# Marn\n\nLake Marn lies in Veld.\n")
    return folder


def sync(verihop, *options):
    return verihop("sync", "docs", "--retriever", "bm25", "-q", *options)


def test_documents_become_an_index_that_follows_them(docs, verihop):
    (docs / "bad.pdf").write_bytes(b"no pdf")
    (docs / "map.png").write_bytes(b"\x89PNG")
    code, said, err = sync(verihop)
    assert code == 0
    assert (
        "Synced index (bm25, 3 passages). Documents: 2 added, 0 changed, 0 removed, 0 unchanged, 1 unreadable." in said
    )
    assert "bad.pdf: it cannot be read as PDF" in err
    assert "Files of other kinds were left out: 1 .png." in err
    assert "Next: verihop ask --program rag --index index" in err
    (docs / "bad.pdf").unlink()
    (docs / "marn.md").write_text("# Marn\n\nLake Marn lies in Velden.\n")
    code, said, err = sync(verihop, "--dry-run", "--names")
    assert (code, "  changed: marn.md" in said, "  unchanged: ossa.md" in said) == (0, True, True)
    assert "Next: verihop sync docs --retriever bm25 --out index" in err
    code, said, _ = sync(verihop, "--json")
    found = json.loads(said)
    assert found["documents"] == {"added": 0, "changed": 1, "removed": 0, "unchanged": 1, "unreadable": 0}
    assert (found["changed"], found["passages"]) == (["marn.md"], {"kept": 2, "added": 1, "removed": 1, "embedded": 0})
    assert "Velden" in verihop("search", "Marn", "--index", "index")[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--words", "50"], "has passages of 100 words, not 50: omit words"),
        (["--words", "0"], "--words"),
        (["--titles", "document"], "omit titles"),
        (["--titles", "long"], "Unknown titles 'long'"),
        (["--retriever", "hybrid"], "is a bm25 index, not hybrid: omit the retriever"),
        (["--retriever", "bm52"], "Unknown retriever 'bm52'"),
        (["--precision", "bf16"], "a bm25 index has no vectors: omit"),
        (["--precision", "f8"], "Unknown precision 'f8'"),
        (["--out", "docs"], "is not empty and contains no index"),
        (["gone"], "gone does not exist"),
        (["map.png"], "map.png: files of this kind cannot be read"),
        (["--dry-run", "--watch"], "choose one"),
    ],
)
def test_mistakes_are_one_line_with_the_cure(options, message, docs, verihop):
    Path("map.png").write_bytes(b"\x89PNG")
    assert sync(verihop)[0] == 0
    code, said, err = sync(verihop, *options)
    assert (code, said, message in err) == (2, "", True), err
    assert "Traceback" not in err


def test_a_folder_that_is_not_mounted_removes_nothing(docs, verihop):
    assert sync(verihop)[0] == 0
    for path in docs.iterdir():
        path.rename(docs.parent / path.name)
    code, _, err = sync(verihop)
    assert (code, "there is no document" in err) == (2, True)
    (docs / "new.md").write_text("Something new.")
    code, _, err = sync(verihop)
    assert (code, "add --allow-removal" in err) == (2, True)
    code, said, err = sync(verihop, "--dry-run")
    assert (code, "2 removed" in said, "This would be refused." in err) == (0, True, True)
    assert "Next:" not in err
    assert sync(verihop, "--allow-removal")[0] == 0


def watching(monkeypatch, *acts) -> None:
    """Let watched documents be looked at after each of the acts, twice, and then let Ctrl-C come."""

    def looks(paths, **_):
        yield 0
        for number, act in enumerate(acts, start=1):
            act()
            yield from (number, number)
        raise KeyboardInterrupt

    monkeypatch.setattr("corpora.sync.watch.looks", looks)


def test_watching_syncs_after_each_change_until_ctrl_c(docs, verihop, monkeypatch):
    away = docs.parent / "away"
    watching(
        monkeypatch,
        lambda: (docs / "new.txt").write_text("Something new."),
        lambda: docs.rename(away),
        lambda: away.rename(docs),
        (docs / "marn.md").unlink,
    )
    code, said, err = sync(verihop, "--watch", "--json")
    documents = [json.loads(line)["documents"] for line in said.splitlines()]
    assert [(each["added"], each["removed"], each["unchanged"]) for each in documents] == [
        (2, 0, 0), (1, 0, 2), (0, 0, 3), (0, 1, 2),
    ]  # fmt: skip
    assert (code, err.count("Not synced: docs does not exist"), "Stopped watching." in err) == (130, 1, True)
    assert "Traceback" not in err


@contextmanager
def looked_at(monkeypatch, *acts):
    """Let documents, which seem not to change, be looked at twenty times after each of the acts; then comes Ctrl-C."""

    def looks(paths, **_):
        yield 0
        for act in acts:
            act()
            yield from [0] * 20
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("corpora.sync.watch.looks", looks)
        yield


def test_a_sync_that_failed_is_tried_again_though_no_document_changes(docs, verihop, monkeypatch):
    """Another sync has the lock for a while."""
    assert sync(verihop)[0] == 0
    held = ExitStack()

    def other_begins():
        held.enter_context(locked_folder(Path("index/.documents"), "sync.lock", "busy"))
        (docs / "new.txt").write_text("Something new.")

    def changed(paths, **_):
        yield 0
        other_begins()
        yield from [1] * 30
        held.close()
        yield from [1] * 20
        raise KeyboardInterrupt

    monkeypatch.setattr("corpora.sync.watch.looks", changed)
    code, said, err = sync(verihop, "--watch")
    assert (code, err.count("Not synced: index is being synced by another process")) == (130, 1)
    assert said.count("Documents: 1 added") == 1
    assert said.count("Synced") == 2


def test_watching_waits_for_the_first_document_and_for_the_folder(docs, verihop, monkeypatch):
    away = docs.parent / "away"
    docs.rename(away)
    with looked_at(monkeypatch, lambda: None, docs.mkdir, lambda: (docs / "new.txt").write_text("Something new.")):
        code, said, err = sync(verihop, "--watch")
    assert (code, said.count("Documents: 1 added")) == (130, 1)
    assert (err.count("docs does not exist"), err.count("there is no document"), "Watching" in err) == (1, 1, True)


def test_the_cure_of_an_interrupted_first_sync_is_the_same_sync(docs, verihop, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("corpora.index.build.write_info", interrupted)
        assert sync(verihop)[0] == 130
    code, _, err = verihop("search", "Ossa", "--index", "index")
    assert (code, "run the same `verihop sync` again" in err, "resume" in err) == (2, True, False), err
    assert sync(verihop)[0] == 0
    assert verihop("search", "Ossa", "--index", "index")[0] == 0


def test_a_mistake_ends_watching_at_once(docs, verihop, monkeypatch):
    assert sync(verihop)[0] == 0
    watching(monkeypatch)
    code, _, err = sync(verihop, "--watch", "--words", "7")
    assert (code, "omit words" in err) == (2, True)


def test_ctrl_c_says_that_the_same_command_goes_on(docs, verihop, monkeypatch):
    def interrupted(work, tasks, *_, **__):
        yield from in_this_process(work, tasks[:1])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("corpora.ingest.ingest.run_in_processes", interrupted)
        code, _, err = sync(verihop)
    assert (code, err) == (130, "Interrupted. Rerun the same command to continue.\n")
    code, said, _ = sync(verihop)
    assert (code, "2 added" in said) == (0, True)


@pytest.mark.slow
def test_ctrl_c_ends_a_real_process_that_watches(tmp_path):
    (tmp_path / "a.txt").write_text("The Ossa ends in Lake Marn.")
    command = [sys.executable, "-m", "experiments.cli.main", "sync", str(tmp_path / "a.txt"), "--watch", "-q"]
    options = ["--out", str(tmp_path / "index"), "--retriever", "bm25"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "VERIHOP_CONFIG": "none"}
    process = subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    )
    assert "Watching" in next(iter(process.stderr))
    (tmp_path / "a.txt").write_text("The Ossa ends in the sea.")
    lines = [next(iter(process.stdout)) for _ in range(3)]
    assert "1 changed" in lines[2]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "Stopped watching.\n")


def test_it_is_the_same_in_python(docs, tmp_path):
    planned = library.sync(docs, dry_run=True)
    assert (planned.added, planned.info) == (["marn.md", "ossa.md"], None)
    report = library.sync(str(docs), "index", retriever="bm25", words=5, progress=False)
    assert report.added == ["marn.md", "ossa.md"]
    assert library.open_index("index")("trout", 1)[0].metadata["source"] == "ossa.md"
    assert library.sync([docs], "index", progress=False).unchanged == report.added
    with pytest.raises(UserError, match="omit words"):
        library.sync(docs, "index", words=6, progress=False)
    with pytest.raises(UserError, match="words must be a whole number"):
        library.sync(docs, "index", words="6")
    with pytest.raises(TypeError, match=r"verihop.sync\(\) has no argument word: did you mean words"):
        library.sync(docs, "index", word=6)
    with pytest.raises(UserError, match="documents or out"):
        library.sync(3)


def test_watched_looks_begin_before_the_first_sync(docs, verihop, monkeypatch):
    """Else what changes during the first sync would wait for the next change."""
    order = []

    def looks(paths, **_):
        order.append("look")
        yield from chain([0], [0])
        raise KeyboardInterrupt

    real = syncing.sync_documents
    monkeypatch.setattr(syncing, "sync_documents", lambda *a, **o: order.append("sync") or real(*a, **o))
    monkeypatch.setattr("corpora.sync.watch.looks", looks)
    assert sync(verihop, "--watch")[0] == 130
    assert order == ["look", "sync"]
