"""Documents and their index are kept the same."""

import json
import shutil
from pathlib import Path

import pytest

from corpora.index.build import build_index
from corpora.index.manifest import read_info
from corpora.index.open import open_index
from corpora.index.update import update_index
from corpora.ingest.ingest import CutSettings, ingest
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.settings import RetrievalSettings
from corpora.sync import record
from corpora.sync import sync as syncing
from corpora.sync.sync import Synced
from signatures.common.errors import UserError
from tests.corpora.sync.conftest import sync_documents, write

FISH = "trout fish"
GERMAN = "Dr. Rau ging z. B. nach Ulm. Er kam am 3. Mai 1908 an."


def sync(docs: Path, **options) -> Synced:
    return sync_documents([docs], docs.parent / "index", **{"retriever": "bm25", **options})


def ids(docs: Path, query: str = FISH) -> dict[str, str]:
    return {passage.id: passage.metadata["source"] for passage in open_index(docs.parent / "index")(query, 50)}


def counts(report: Synced) -> tuple[int, ...]:
    return tuple(report.passages.values())


def test_documents_are_added_changed_and_removed(docs):
    first = sync(docs)
    assert (first.added, counts(first)) == (["marn.md", "ossa.md", "veld.txt"], (0, 4, 0, 0))
    before = ids(docs)
    same = sync(docs)
    assert (same.unchanged, counts(same)) == (first.added, (4, 0, 0, 0))
    write(docs / "ossa.md", "# Ossa\n\nThe Ossa ends in the sea.\n\n## Fish\n\nTrout live in the Ossa.\n")
    write(docs / "new.txt", "Something new.")
    (docs / "veld.txt").unlink()
    report = sync(docs)
    assert (report.added, report.changed, report.removed, report.unchanged) == (
        ["new.txt"], ["ossa.md"], ["veld.txt"], ["marn.md"],
    )  # fmt: skip
    assert counts(report) == (2, 2, 2, 0)
    assert before.items() & ids(docs).items() == before.items()  # that on fish, in a document that has changed


def test_it_is_the_index_of_what_ingest_writes(docs, tmp_path, fake_embedder):
    sync(docs, retriever=None, embedder=fake_embedder)
    ingest([docs], tmp_path / "p.jsonl")
    build_index(tmp_path / "p.jsonl", tmp_path / "fresh", embedder=fake_embedder)
    opened = open_index(tmp_path / "index", tmp_path / "p.jsonl", embedder=fake_embedder)  # which compares the passages
    assert opened.many([FISH, "lake"], 9) == open_index(tmp_path / "fresh", embedder=fake_embedder).many(
        [FISH, "lake"], 9
    )


def test_a_passage_of_two_documents_stays_while_one_of_them_does(docs):
    write(docs / "copy.md", (docs / "ossa.md").read_text())
    sync(docs)
    assert set(ids(docs).values()) == {"copy.md"}
    (docs / "copy.md").unlink()
    report = sync(docs)
    assert (report.removed, counts(report)) == (["copy.md"], (4, 0, 0, 0))
    assert set(ids(docs).values()) == {"ossa.md"}


def test_a_document_that_moves_is_not_embedded_again_nor_taken_for_lost(docs, fake_embedder):
    for name in ("marn.md", "veld.txt"):
        (docs / name).unlink()
    sync(docs, retriever="dense", embedder=fake_embedder)
    (docs / "sub").mkdir()
    (docs / "ossa.md").rename(docs / "sub" / "river.md")
    report = sync(docs, retriever=None, embedder=None)  # `fake` is no model that could be loaded
    assert (report.added, report.removed, counts(report)) == (["sub/river.md"], ["ossa.md"], (2, 0, 0, 0))


def test_a_new_index_has_the_precision_that_is_named_and_keeps_it(docs, fake_embedder, monkeypatch):
    def opened(name, api_base, precision):
        return Embedder(name, encode=fake_embedder, precision=precision)

    monkeypatch.setattr(syncing, "open_embedder", opened)
    named = {"retriever": "dense", "embedder": "fake"}
    assert sync(docs, **named, precision="bf16").info.embedder.precision == "bf16"
    with pytest.raises(UserError, match="was embedded with precision bf16, not f32"):
        sync(docs, retriever=None, precision="f32")  # of its own embedder


def test_a_precision_is_refused_where_there_are_no_vectors(docs):
    sync(docs)
    for retriever in ("bm25", None):
        with pytest.raises(UserError, match="a bm25 index has no vectors"):
            sync(docs, retriever=retriever, precision="bf16")


def test_only_documents_that_changed_are_read(docs, monkeypatch):
    sync(docs)
    read = []
    real = syncing.read_documents
    monkeypatch.setattr(
        syncing, "read_documents", lambda sources, *a, **o: read.extend(sources) or real(sources, *a, **o)
    )
    (docs / "marn.md").touch()  # other times, the same content
    write(docs / "veld.txt", "Veld is a land!!!!")  # as many bytes as before
    assert sync(docs).changed == ["veld.txt"]
    assert read == ["veld.txt"]


def test_a_change_in_the_same_moment_is_seen(docs):
    """Times of files are too coarse to tell it; so they count only where the file was older than that."""
    path = docs / "veld.txt"
    path.write_text("Veld is a country.")
    sync(docs)
    known = record.read_known(docs.parent / "index" / ".documents" / record.HELD)[1]
    assert known["veld.txt"].stamp is None
    assert sync(docs).unchanged == ["marn.md", "ossa.md", "veld.txt"]


def test_unreadable_documents_are_named_and_hold_nothing(docs):
    (docs / "bad.pdf").write_bytes(b"no pdf")
    (docs / "map.png").write_bytes(b"\x89PNG")
    report = sync(docs)
    assert (len(report.unreadable), report.left_out, len(report.added)) == (1, {".png": 1}, 3)
    assert "bad.pdf: it cannot be read as PDF" in report.unreadable[0]
    (docs / "veld.txt").write_bytes(b"\x00\x01\x02" * 100)
    report = sync(docs)
    assert (len(report.unreadable), report.removed, counts(report)) == (2, [], (3, 0, 1, 0))
    assert "veld.txt" not in ids(docs, "country Veld").values()


def test_where_nothing_can_be_read_nothing_is_left_behind(docs, tmp_path):
    for path in docs.iterdir():
        path.unlink()
    (docs / "bad.pdf").write_bytes(b"no pdf")
    with pytest.raises(UserError, match=r"No document could be read.*bad.pdf"):
        sync(docs)
    assert not (tmp_path / "index").exists()


def test_the_index_may_lie_among_the_documents(docs):
    for _ in range(2):
        report = sync_documents([docs], docs / "index", retriever="bm25")
    assert report.unchanged == ["marn.md", "ossa.md", "veld.txt"]
    with pytest.raises(UserError, match="no document outside of the index"):
        sync_documents([docs / "index"], docs / "index")


def test_most_documents_do_not_vanish_by_mistake(docs):
    sync(docs)
    shutil.move(docs / "ossa.md", docs.parent)
    shutil.move(docs / "marn.md", docs.parent)
    plan = sync(docs, dry_run=True)
    assert (plan.removed, "2 of the 3 documents" in plan.refused) == (["marn.md", "ossa.md"], True)
    with pytest.raises(UserError, match="Is a folder not mounted, or another one meant"):
        sync(docs)
    assert set(ids(docs).values()) == {"ossa.md"}
    assert sync(docs, allow_removal=True).removed == ["marn.md", "ossa.md"]
    (docs / "veld.txt").unlink()
    with pytest.raises(UserError, match="there is no document"):
        sync(docs, allow_removal=True)


def test_one_of_several_folders_does_not_vanish_by_mistake(docs, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    write(other / "a.txt", "Another folder.")
    out = tmp_path / "index"
    assert "other/a.txt" in sync_documents([docs, other], out, retriever="bm25").added
    (other / "a.txt").unlink()
    with pytest.raises(UserError, match="1 of the 4 documents"):
        sync_documents([docs, other], out)
    assert sync_documents([docs, other], out, allow_removal=True).removed == ["other/a.txt"]


def test_passages_of_others_are_not_removed_by_mistake(docs, tmp_path):
    sync(docs)
    more = tmp_path / "more.jsonl"
    more.write_text(json.dumps({"id": "mine", "title": "Mine", "text": "Ossa trout."}) + "\n")
    update_index(tmp_path / "index", add=[more])
    with pytest.raises(UserError, match=r"has 1 passages .* none of the documents \(the first names no source\)"):
        sync(docs)
    assert counts(sync(docs, allow_removal=True)) == (4, 0, 1, 0)


def test_an_index_of_the_same_documents_is_taken_over(docs, tmp_path):
    ingest([docs], tmp_path / "p.jsonl")
    build_index(tmp_path / "p.jsonl", tmp_path / "index", retriever="bm25")
    write(docs / "new.txt", "Something new.")
    assert counts(sync(docs)) == (4, 1, 0, 0)
    assert sync(docs).unchanged == ["marn.md", "new.txt", "ossa.md", "veld.txt"]


def test_an_index_that_is_taken_over_keeps_its_language(docs, tmp_path):
    write(docs / "rau.txt", GERMAN)
    ingest([docs], tmp_path / "p.jsonl", settings=CutSettings(8, language="de"))
    build_index(tmp_path / "p.jsonl", tmp_path / "index", retriever="bm25", settings=RetrievalSettings(language="de"))
    before = read_info(tmp_path / "index")
    with pytest.raises(UserError, match="in the language 'de', not 'pl'"):
        sync(docs, language="pl")
    assert counts(sync(docs, words=8)) == (before.passages, 0, 0, 0)
    assert language(docs) == ("de", "de")


@pytest.mark.parametrize("code", ["pl", "zh", "ja"])
def test_a_language_without_a_stemmer_has_its_rules_for_sentences(code, docs, tmp_path):
    with pytest.raises(UserError, match="'xx' is not known"):
        sync(docs, language="xx")
    sync(docs, language=code)
    assert language(docs) == (code, "en")
    write(docs / "new.txt", "Something new.")
    assert sync(docs, language=code).added == ["new.txt"]
    assert sync(docs).unchanged
    with pytest.raises(UserError, match=f"cut in the language '{code}', not 'en': omit the language"):
        sync(docs, language="en")
    assert language(docs) == (code, "en")


def language(docs: Path) -> tuple[str, str]:
    """Return the languages of the documents and of BM25."""
    index = docs.parent / "index"
    cut, _ = record.read_known(index / ".documents" / record.HELD)
    assert cut is not None
    return cut.language, read_info(index).settings.language


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"words": 50}, "has passages of 100 words, not 50: omit words"),
        ({"headings_in_title": False}, "with the titles of headings: omit titles"),
        ({"language": "pl"}, "cut in the language 'en', not 'pl'"),
        ({"ocr": True}, "documents read by verihop: omit --reader and --ocr"),
        ({"reader": "docling"}, "documents read by verihop"),
        ({"retriever": "dense"}, "is a bm25 index, not "),
    ],
)
def test_other_options_than_those_of_the_index_are_refused(options, message, docs):
    sync(docs)
    for dry_run in (True, False):
        with pytest.raises(UserError, match=message):
            sync(docs, dry_run=dry_run, **options)


def test_what_was_said_first_holds_later(docs):
    sync(docs, words=3)
    assert sync(docs).unchanged
    assert read_info(docs.parent / "index").passages > 4


def test_a_dry_run_reads_and_writes_nothing(docs, tmp_path, monkeypatch):
    monkeypatch.setattr(syncing, "read_documents", None)
    assert sync(docs, dry_run=True).added == ["marn.md", "ossa.md", "veld.txt"]
    assert not (tmp_path / "index").exists()


def test_a_dry_run_tells_what_the_last_sync_could_not_read(docs):
    (docs / "bad.pdf").write_bytes(b"no pdf")
    assert sync(docs, dry_run=True).added == ["bad.pdf", "marn.md", "ossa.md", "veld.txt"]  # nobody has looked
    failed = sync(docs).unreadable
    plan = sync(docs, dry_run=True)
    assert (plan.added, plan.unreadable, len(plan.unchanged)) == ([], failed, 3)
    (docs / "bad.pdf").write_bytes(b"no pdf either")
    assert sync(docs, dry_run=True).added == ["bad.pdf"]
    (docs / "bad.pdf").unlink()
    plan = sync(docs, dry_run=True)
    assert (plan.added, plan.removed, plan.unreadable) == ([], [], [])


def test_two_at_a_time_are_refused(docs, monkeypatch):
    real, refused = syncing.read_documents, []

    def also(*arguments, **options):
        with pytest.raises(UserError, match="is being synced by another process"):
            sync(docs)
        refused.append(True)
        return real(*arguments, **options)

    monkeypatch.setattr(syncing, "read_documents", also)
    assert len(sync(docs).added) == 3
    assert refused


def test_folders_of_others_and_links_are_refused(docs, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty and contains no index"):
        sync_documents([docs], tmp_path / "mine")
    sync(docs)
    shutil.move(tmp_path / "index" / ".documents", tmp_path / "elsewhere")
    (tmp_path / "index" / ".documents").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="is a link"):
        sync(docs)


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"\xff\xfe\n", b'{"schema_version":2}\n', b"[" * 100_000 + b"\n"])
def test_a_record_that_cannot_be_used_costs_another_reading(damage, docs, tmp_path):
    sync(docs)
    (tmp_path / "index" / ".documents" / record.HELD).write_bytes(damage)
    assert (len(sync(docs).added), len(sync(docs).unchanged)) == (3, 3)


def test_new_readers_read_everything_again(docs, monkeypatch):
    sync(docs)
    monkeypatch.setattr(record, "installed_versions", lambda packages: {"verihop": "99"})
    read = []
    real = syncing.read_documents
    monkeypatch.setattr(
        syncing, "read_documents", lambda sources, *a, **o: read.extend(sources) or real(sources, *a, **o)
    )
    report = sync(docs)
    assert (read, report.unchanged, counts(report)) == (
        report.unchanged,
        ["marn.md", "ossa.md", "veld.txt"],
        (4, 0, 0, 0),
    )
    sync(docs)
    assert len(read) == 3


def test_a_first_sync_that_was_stopped_while_reading_keeps_its_language(docs, monkeypatch):
    real = syncing.read_documents

    def stopped(*arguments, **options):
        yield next(real(*arguments, **options))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(syncing, "read_documents", stopped)
        sync(docs, language="de")
    sync(docs)
    assert language(docs) == ("de", "de")


@pytest.mark.parametrize("damage", ["gone", "cut", "older", "passages"])
def test_of_a_damaged_index_the_cure_is_one_that_helps(docs, tmp_path, damage):
    folder = tmp_path / "index"
    sync_documents([docs], folder, retriever="bm25")
    info = folder / "index.json"
    if damage == "gone":
        info.unlink()
    elif damage == "cut":
        info.write_text("{")
    elif damage == "older":
        info.write_text(info.read_text().replace('"schema_version": 1', '"schema_version": 0'))
    else:
        (folder / "passages.txt").write_text("")
    for dry_run in (True, False):
        with pytest.raises(UserError, match="then sync again") as error:
            sync_documents([docs], folder, dry_run=dry_run)
        assert "rebuild" not in str(error.value)
        assert "choose" not in str(error.value)
    shutil.rmtree(folder)
    assert len(sync_documents([docs], folder, retriever="bm25").added) == 3
