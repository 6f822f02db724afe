"""The large corpora: read one line at a time, in memory that does not grow, and complaining with file and line."""

import bz2
import gzip
import io
import json
import tarfile
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from corpora.datasets.convert import convert
from corpora.paragraphs import paragraph
from corpora.passages import PassageRecord, read_passages
from signatures.common.errors import UserError

HEADER = "id\ttext\ttitle\n"


def passages_of(tmp_path: Path, name: str, source: Path, **options: Any) -> list[PassageRecord]:
    result = convert(name, source, tmp_path / "out", overwrite=True, **options)
    assert result.questions_path is None
    assert result.passages_path is not None
    return list(read_passages(result.passages_path))


def archive(path: Path, parts: dict[str, Iterable[Any]]) -> Path:
    with tarfile.open(path, "w:bz2") as tar:
        for name, records in parts.items():
            content = bz2.compress("".join(json.dumps(record) + "\n" for record in records).encode())
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def abstract(number: int) -> dict[str, Any]:
    sentences = [f"River {number} is long.", " It ends."]
    return {"id": str(number), "url": "u", "title": f"River {number}", "text": sentences, "charoffset": [[]]}


@pytest.mark.parametrize("pack", [None, gzip.compress, bz2.compress])
def test_dpr_passages_keep_their_ids_and_their_quotation_marks(tmp_path: Path, pack):
    content = HEADER + '1\t"Ossa, ""the long"", is a river"\tOssa\n2\tMarn is a lake\t"""Marn"""\n'
    suffix = {None: "", gzip.compress: ".gz", bz2.compress: ".bz2"}[pack]
    source = tmp_path / f"psgs_w100.tsv{suffix}"
    source.write_bytes(pack(content.encode()) if pack else content.encode())
    first, second = passages_of(tmp_path, "psgs_w100", source)
    assert (first.id, first.title, first.text) == ("1", "Ossa", 'Ossa, "the long", is a river')
    assert (second.id, second.title) == ("2", '"Marn"')


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (HEADER + "1\ttext\n", "line 2: 2 fields instead of 3"),
        (HEADER + '1\ta\tA\n2\t"open\tB\n3\tc\tC\n', "line 3: a quotation mark is opened"),
        (HEADER + "1\ta\tA\n\n2\t\t\n", "line 4: .*'title' and 'text' are both empty"),
        ("id\ttext\n1\ta\n", "line 2 has the keys id, text: no shape of psgs_w100"),
        (HEADER, "contains no record"),
    ],
)
def test_a_bad_row_is_reported_with_its_line(tmp_path: Path, content, why):
    source = tmp_path / "p.tsv"
    source.write_text(content)
    with pytest.raises(UserError, match=why):
        passages_of(tmp_path, "psgs_w100", source)


def test_an_open_quotation_mark_in_a_csv_and_other_bytes_are_refused(tmp_path: Path):
    (tmp_path / "p.csv").write_text('id,text,title\n1,"open,A\n')
    with pytest.raises(UserError, match="line 2: not a row of a table"):
        passages_of(tmp_path, "psgs_w100", tmp_path / "p.csv")
    (tmp_path / "p.tsv").write_bytes(HEADER.encode() + b"1\t\xff\tA\n")
    with pytest.raises(UserError, match="line 2: not UTF-8"):
        passages_of(tmp_path, "psgs_w100", tmp_path / "p.tsv")


def test_abstracts_get_the_ids_that_hotpotqa_gives_the_same_paragraphs(tmp_path: Path):
    source = archive(
        tmp_path / "wiki.tar.bz2", {"wiki/AA/wiki_00.bz2": [abstract(1)], "wiki/AB/wiki_00.bz2": [abstract(2)]}
    )
    first, second = passages_of(tmp_path, "hotpotqa_abstracts", source)
    assert first.id == paragraph("River 1", abstract(1)["text"]).id
    assert (first.text, first.sentences) == ("River 1 is long. It ends.", ["River 1 is long.", " It ends."])
    assert (second.title, second.model_extra) == ("River 2", {"source_id": "2"})


def test_an_unpacked_folder_gives_the_same_as_its_archive(tmp_path: Path):
    source = archive(tmp_path / "wiki.tar.bz2", {"wiki/AA/wiki_00.bz2": map(abstract, range(3)), "wiki/notes.txt": []})
    with tarfile.open(source) as tar:
        tar.extractall(tmp_path / "folder", filter="data")
    packed = passages_of(tmp_path, "hotpotqa_abstracts", source)
    assert packed == passages_of(tmp_path, "hotpotqa_abstracts", tmp_path / "folder")
    assert len(packed) == 3


def test_a_damaged_or_foreign_archive_is_refused(tmp_path: Path):
    source = archive(tmp_path / "wiki.tar.bz2", {"AA/wiki_00.bz2": map(abstract, range(2000))})
    (tmp_path / "cut.tar.bz2").write_bytes(source.read_bytes()[:-2000])
    with pytest.raises(UserError, match="cut.tar.bz2"):
        passages_of(tmp_path, "hotpotqa_abstracts", tmp_path / "cut.tar.bz2")
    with pytest.raises(UserError, match=r"contains no wiki_\*.bz2"):
        passages_of(tmp_path, "hotpotqa_abstracts", archive(tmp_path / "other.tar.bz2", {"a.txt": []}))
    with pytest.raises(UserError, match="AA/wiki_00.bz2, line 2: a JSON list"):
        bad = archive(tmp_path / "bad.tar.bz2", {"AA/wiki_00.bz2": [abstract(1), []]})
        passages_of(tmp_path, "hotpotqa_abstracts", bad)
    (tmp_path / "x.json.bz2").write_bytes(b"no bzip2")
    with pytest.raises(UserError, match="cannot be decompressed"):
        passages_of(tmp_path, "plain", tmp_path / "x.json.bz2")
    with pytest.raises(UserError, match="is a ZIP archive: unpack it"):
        convert("strategyqa", tmp_path / "x.zip", tmp_path / "out")


def peak(name: str, source: Path, out: Path) -> int:
    """Return the most bytes that Python held while converting."""
    tracemalloc.start()
    try:
        convert(name, source, out, packed="gz")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def table(tmp_path: Path, rows: int) -> Path:
    path = tmp_path / f"{rows}.tsv"
    words = "long river mouth " * 20
    path.write_text(HEADER + "".join(f'{n}\t"{words}{n}"\tRiver {n}\n' for n in range(rows)))
    return path


def shards(tmp_path: Path, rows: int) -> Path:
    records = [[abstract(n) for n in range(start, start + 100)] for start in range(0, rows, 100)]
    return archive(tmp_path / f"{rows}.tar.bz2", {f"{n}/wiki_00.bz2": part for n, part in enumerate(records)})


@pytest.mark.slow
@pytest.mark.parametrize(("name", "make", "rows"), [("psgs_w100", table, 3000), ("hotpotqa_abstracts", shards, 1500)])
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, name, make, rows):
    convert(name, make(tmp_path, 100), tmp_path / "first")  # what is imported on the way does not count
    small = peak(name, make(tmp_path, rows), tmp_path / "small")
    large = peak(name, make(tmp_path, 3 * rows), tmp_path / "large")
    assert large < 1.05 * small + 50_000
