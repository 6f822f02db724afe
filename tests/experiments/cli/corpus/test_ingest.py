"""`verihop ingest`: from a folder of documents to an answer with its source."""

import json
import re

import pytest

from corpora.ingest.formats import BY_SUFFIX
from tests.corpora.ingest.make_office import make_eml, make_epub, make_pptx, make_xlsx


def test_a_folder_becomes_passages_an_index_and_an_answer(verihop, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "ossa.md").write_text("# Ossa\n\nThe Ossa ends in Lake Marn.\n\n## Fish\n\nTrout live in it.\n")
    (docs / "bad.pdf").write_bytes(b"no pdf")
    (docs / "map.png").write_bytes(b"\x89PNG")
    out = tmp_path / "passages.jsonl"
    code, said, err = verihop("ingest", docs, "--out", out, "--quiet")
    assert code == 0
    assert f"Wrote 2 passages of 1 documents (1 Markdown; 1 could not be read) to {out}." in said
    assert "Not read: " in err
    assert "bad.pdf: it cannot be read as PDF" in err
    assert "Files of other kinds were left out: 1 .png." in err
    assert f"Next: verihop index {out}" in err
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["title"], row["source"], row.get("headings")) for row in rows] == [
        ("Ossa", "ossa.md", None),
        ("Ossa > Fish", "ossa.md", ["Fish"]),
    ]
    assert verihop("index", out, "--retriever", "bm25", "--quiet")[0] == 0


def test_json_and_mistakes(verihop, tmp_path):
    (tmp_path / "a.txt").write_text("The Ossa ends in Lake Marn.")
    out = tmp_path / "p.jsonl"
    command = ("ingest", tmp_path / "a.txt", "--out", out, "--quiet")
    report = json.loads(verihop(*command, "--json")[1])
    assert (report["passages"], report["documents"], report["errors"]) == (1, {"text": 1}, [])
    code, _, err = verihop(*command)
    assert (code, "replace it with --overwrite" in err) == (2, True)
    assert verihop(*command, "--overwrite")[0] == 0
    code, _, err = verihop(*command, "--overwrite", "--titles", "long")
    assert (code, "Unknown titles 'long'" in err) == (2, True)
    code, _, err = verihop("ingest", tmp_path / "gone", "--out", tmp_path / "q.jsonl")
    assert (code, "does not exist" in err) == (2, True)


def test_rows_pages_and_formats_from_the_command_line(verihop, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "parts.xlsx").write_bytes(make_xlsx({"Parts": [["Part", "Age"], ["wick", 3]]}))
    (docs / "talk.pptx").write_bytes(make_pptx([("The lamp", "It was lit.", [], ""), ("Oil", "From Pen.", [], "")]))
    (docs / "book.epub").write_bytes(make_epub({"one": "<body><h1>One</h1><p>Ansa went to sea.</p></body>"}))
    (docs / "mail.eml").write_bytes(make_eml("The lamp is out."))
    (docs / "broken.pptx").write_bytes(b"PK")
    out = tmp_path / "p.jsonl"
    code, said, err = verihop("ingest", docs, "--out", out)
    assert code == 0
    assert "4 documents" in said
    assert "broken.pptx: it is not a valid PowerPoint document" in err
    assert "MB" in err
    rows = {(row["source"], row.get("page")): row["text"] for row in map(json.loads, out.read_text().splitlines())}
    assert rows["parts.xlsx", None] == "Part: wick; Age: 3"
    assert (rows["talk.pptx", 1], rows["talk.pptx", 2]) == ("It was lit.", "From Pen.")
    code, _, err = verihop("ingest", docs, "--out", tmp_path / "q.jsonl", "--reader", "dockling")
    assert (code, "Unknown reader 'dockling'" in err) == (2, True)


@pytest.mark.parametrize("given", ["docs", "manual.docx"])
def test_documents_that_are_no_passages_yet_are_to_be_ingested(given, tmp_path, monkeypatch, verihop):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "manual.docx").write_bytes(b"PK")
    code, _, err = verihop("index", given)
    assert (code, f"`verihop ingest {given} --out passages.jsonl`" in err) == (2, True)


def test_the_help_names_every_suffix_that_is_read(verihop):
    named = verihop("ingest", "--help")[1].partition("subfolders:")[2].partition("[required]")[0]
    assert set(re.findall(r"\.\w+", named)) == set(BY_SUFFIX)
