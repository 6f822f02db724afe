"""Folders of documents become one file of passages; nothing is left out silently."""

import os
import sys
import zlib

import pytest
import ujson

from corpora.ingest.ingest import CutSettings, find_documents, ingest
from corpora.passages import read_passages
from signatures.common.errors import UserError


@pytest.fixture
def folder(tmp_path, make_pdf, make_docx):
    """A folder with a document of each kind, files of other kinds, and hidden ones."""
    docs = tmp_path / "docs"
    (docs / "deep").mkdir(parents=True)
    (docs / ".git").mkdir()
    (docs / ".git" / "x.md").write_text("hidden")
    (docs / "b.md").write_text("# Bees\n\nBees make wax.\n")
    (docs / "a_note.txt").write_text("The lamp burns wax.")
    (docs / "deep" / "c.HTML").write_text("<h1>Candles</h1><p>Candles are wax.</p>")
    (docs / "deep" / "d.pdf").write_bytes(make_pdf([["Wax melts."]], title="Wax"))
    (docs / "e.docx").write_bytes(make_docx([("Normal", "Wicks are cotton.")], title="Wicks"))
    (docs / "picture.png").write_bytes(b"\x89PNG")
    (docs / "link.md").symlink_to(docs / "b.md")
    return docs


@pytest.mark.slow
def test_every_kind_is_read_with_source_and_title(folder, tmp_path):
    report = ingest([folder], tmp_path / "p.jsonl")
    passages = list(read_passages(tmp_path / "p.jsonl"))
    assert {(p.title, p.text, p.model_extra["source"]) for p in passages} == {
        ("a note", "The lamp burns wax.", "a_note.txt"),
        ("Bees", "Bees make wax.", "b.md"),
        ("Candles", "Candles are wax.", "deep/c.HTML"),
        ("Wax", "Wax melts.", "deep/d.pdf"),
        ("Wicks", "Wicks are cotton.", "e.docx"),
    }
    assert [p.model_extra["source"] for p in passages] == sorted(p.model_extra["source"] for p in passages)
    assert dict(report.documents) == {"text": 1, "Markdown": 1, "HTML": 1, "PDF": 1, "DOCX": 1}
    assert (report.passages, report.left_out, report.errors) == (5, {".png": 1}, [])


@pytest.mark.slow
def test_a_document_that_cannot_be_read_is_named_and_the_others_go_on(folder, tmp_path):
    (folder / "bad.pdf").write_bytes(b"no pdf")
    (folder / "empty.md").write_text("\n")
    report = ingest([folder], tmp_path / "p.jsonl")
    assert report.documents.total() == 5
    assert [line.split(":")[0] for line in report.errors] == [str(folder / "bad.pdf"), str(folder / "empty.md")]
    assert "it contains no text" in report.errors[1]
    with pytest.raises(UserError, match=r"No document could be read.*bad\.pdf: it cannot be read as PDF"):
        ingest([folder / "bad.pdf"], tmp_path / "none.jsonl")
    assert not (tmp_path / "none.jsonl").exists()


@pytest.mark.slow
def test_processes_give_the_same_file(folder, tmp_path):
    for number in range(12):
        (folder / f"more{number}.md").write_text(
            f"# Lamp {number}\n\nLamp {number} is lit.\n\n## Wax\n\nBees make wax.\n"
        )
    (folder / "bad.pdf").write_bytes(b"no pdf")
    one = ingest([folder], tmp_path / "one.jsonl")
    two = ingest([folder], tmp_path / "two.jsonl", processes=2)
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()
    assert one == two
    assert len(two.errors) == 1


@pytest.mark.slow
def test_equal_passages_are_written_once(folder, tmp_path):
    (folder / "copy.md").write_text("# Bees\n\nBees make wax.\n")
    report = ingest([folder], tmp_path / "p.jsonl")
    assert (report.passages, report.repeated) == (5, 1)


def test_words_and_titles_are_settings(folder, tmp_path):
    (folder / "f.md").write_text("# Lamps\n\n## Oil\n\nOne two. Three four.\n")
    ingest([folder / "f.md"], tmp_path / "p.jsonl", settings=CutSettings(2, headings_in_title=False))
    rows = [ujson.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [(row["title"], row["text"], row["headings"]) for row in rows] == [
        ("Lamps", "One two.", ["Oil"]),
        ("Lamps", "Three four.", ["Oil"]),
    ]
    with pytest.raises(UserError, match="at least 1 word, got 0"):
        CutSettings(0)


def test_names_in_the_corpus(folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.md").write_text("B.")
    names = list(find_documents([folder, other]).sources)
    assert names == ["docs/a_note.txt", "docs/b.md", "docs/deep/c.HTML", "docs/deep/d.pdf", "docs/e.docx", "other/b.md"]
    assert list(find_documents([folder / "b.md", folder / "b.md"]).sources) == ["b.md"]
    with pytest.raises(UserError, match="would both be named 'b.md'"):
        find_documents([folder / "b.md", other / "b.md"])


def test_what_is_not_there_or_no_document_is_an_error(folder, tmp_path):
    with pytest.raises(UserError, match="nowhere does not exist"):
        find_documents([tmp_path / "nowhere"])
    with pytest.raises(UserError, match=r"picture\.png: files of this kind cannot be read"):
        find_documents([folder / "picture.png"])
    (tmp_path / "void").mkdir()
    with pytest.raises(UserError, match=r"there is no document\. Suffixes"):
        find_documents([tmp_path / "void"])


def test_a_folder_that_cannot_be_read_is_an_error_and_not_an_empty_one(folder, monkeypatch):
    """Else sync would remove its passages."""
    scandir = os.scandir
    refused = {"deep": PermissionError(13, "Permission denied", str(folder / "deep"))}

    def guarded(path):
        if error := refused.get(os.path.basename(path)):
            raise error
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    with pytest.raises(UserError, match=r"docs/deep: it cannot be read \(Permission denied\)\. Allow it"):
        find_documents([folder])
    refused["deep"] = FileNotFoundError(2, "No such file", str(folder / "deep"))  # removed meanwhile
    refused[".git"] = PermissionError(13, "Permission denied", str(folder / ".git"))  # hidden: nobody asked for it
    assert list(find_documents([folder]).sources) == ["a_note.txt", "b.md", "e.docx"]


def test_links_of_folders_are_not_followed(folder):
    (folder / "deep" / "loop").symlink_to(folder, target_is_directory=True)
    found = find_documents([folder]).sources
    assert list(found) == ["a_note.txt", "b.md", "deep/c.HTML", "deep/d.pdf", "e.docx"]


@pytest.mark.slow
def test_readers_that_fail_in_other_ways_cost_their_document_only(folder, tmp_path, make_pdf):
    (folder / "odd.pdf").write_bytes(make_pdf([["Text of it."]], title="Odd").replace(b"(Odd)", b"<FEFFD8000041>"))
    (folder / "s.md").write_text('---\ntitle: "\\ud800 x"\nkey: "\\ud800"\n---\nLamp.\n')
    report = ingest([folder], tmp_path / "p.jsonl")
    passages = {passage.model_extra["source"]: passage for passage in read_passages(tmp_path / "p.jsonl")}
    assert report.errors == []
    assert passages["odd.pdf"].title == "odd"
    assert passages["s.md"].title.endswith(" x")


@pytest.mark.slow
def test_names_that_are_no_unicode_and_guesses_are_told(folder, tmp_path):
    (folder / "caf\udce9.txt").write_bytes("Ein Café am Fluß.".encode("cp1252"))
    report = ingest([folder], tmp_path / "p.jsonl")
    texts = [passage.text for passage in read_passages(tmp_path / "p.jsonl")]
    assert "Ein Café am Fluß." in texts
    assert [note.rpartition(": ")[2] for note in report.notes] == ["its encoding was guessed to be cp1252."]


@pytest.mark.slow
def test_a_file_given_with_its_folder_is_read_once(folder, tmp_path):
    assert ingest([folder, folder / "b.md"], tmp_path / "p.jsonl").documents.total() == 5


def _unfolding_pdf(make_pdf, size):
    """Return a PDF of a few kB with a page of `size` bytes of operators, compressed twice."""
    page = b"BT /F1 10 Tf 60 760 Td (Wax) Tj ET\n"
    packer = zlib.compressobj(9)
    once = b"".join(packer.compress(page * (1 << 15)) for _ in range(size // (len(page) << 15))) + packer.flush()
    packed = zlib.compress(once, 9)
    start, _, rest = make_pdf([["here"]]).partition(b"<< /Length")
    stream = b" %d /Filter [/FlateDecode /FlateDecode] >>\nstream\n" % len(packed) + packed
    return start + b"<< /Length" + stream + b"\nendstream" + rest.partition(b"endstream")[2]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory of a process")
def test_a_document_that_unfolds_to_gigabytes_is_refused_in_a_line_and_the_others_go_on(folder, tmp_path, make_pdf):
    (folder / "unfolds.pdf").write_bytes(_unfolding_pdf(make_pdf, 80 << 20))
    assert (folder / "unfolds.pdf").stat().st_size < 5000
    report = ingest([folder], tmp_path / "p.jsonl", memory=300)
    assert report.documents.total() == 5
    [line] = report.errors
    assert "unfolds.pdf" in line
    assert "memory than 300 MiB" in line
    assert ingest([folder / "unfolds.pdf"], tmp_path / "q.jsonl", memory=4000).documents.total() == 1


def test_long_headings_titles_and_keys_are_not_repeated_in_every_passage(tmp_path):
    long = "wax " * 2000
    (tmp_path / "a.md").write_text(f"---\nkey: {long}\n---\n# {long}\n\n" + "Lamps burn oil. " * 500)
    (tmp_path / "b.html").write_text(f"<title>{long}</title><link rel=canonical href='x{long}'><h2>Oil</h2>" + long)
    (tmp_path / "c.md").write_text("---\n" + "key: value\n" * 7000 + "---\nLamps.\n")
    ingest([tmp_path], tmp_path / "p.jsonl")
    lines = (tmp_path / "p.jsonl").read_text().splitlines()
    assert len(lines) > 5
    assert max(map(len, lines)) < 4000


def test_the_name_of_a_file_cannot_break_a_line(tmp_path):
    (tmp_path / "a.md").write_text("Lamps.")
    (tmp_path / "b\nNot read: \x1b[2Jc.pdf").write_bytes(b"no pdf")
    [line] = ingest([tmp_path], tmp_path / "p.jsonl").errors
    assert line.isprintable()
