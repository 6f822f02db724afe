"""Compressed files that become absurdly large, and lines without an end."""

import bz2
import gzip
import io
import json
import os
import resource
import subprocess
import sys
import tarfile

import pytest
import zstandard

from corpora.compressed import LIMIT_VARIABLE, read_chunks, read_lines
from corpora.datasets.readers import read_archive, read_source
from corpora.passages import read_passages
from corpora.questions import read_questions
from signatures.common.errors import UserError
from signatures.common.files import sha256_file

PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstandard.ZstdCompressor().compress}


@pytest.fixture
def bomb(tmp_path, monkeypatch, request):
    """Write 4 MB of one letter; the limit is 1 MB."""
    monkeypatch.setenv(LIMIT_VARIABLE, "1000000")
    path = tmp_path / f"passages.jsonl{request.param}"
    path.write_bytes(PACK[request.param](b'{"id": "1", "text": "' + b"a" * 4_000_000 + b'"}\n'))
    return path


@pytest.mark.parametrize("bomb", PACK, indirect=True)
@pytest.mark.parametrize("read", [read_passages, read_questions, read_chunks])
def test_a_bomb_ends_at_the_limit_in_one_line_that_names_it(bomb, read):
    with pytest.raises(UserError, match=rf"limit of 1,000,000 bytes.*set {LIMIT_VARIABLE}") as caught:
        list(read(bomb))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bomb", PACK, indirect=True)
def test_a_raised_limit_lets_the_file_pass(bomb, monkeypatch):
    monkeypatch.setenv(LIMIT_VARIABLE, "5000000")
    assert len(next(read_passages(bomb)).text) == 4_000_000


@pytest.mark.parametrize("value", ["", "0", "-1", "1e9", "²"])
def test_a_limit_that_is_no_number_is_refused(value, tmp_path, monkeypatch):
    monkeypatch.setenv(LIMIT_VARIABLE, value)
    (tmp_path / "p.jsonl.gz").write_bytes(gzip.compress(b"{}"))
    with pytest.raises(UserError, match="must be a number of bytes"):
        list(read_chunks(tmp_path / "p.jsonl.gz"))


def test_a_large_file_that_compresses_as_usual_needs_no_raised_limit(tmp_path, monkeypatch):
    monkeypatch.setenv(LIMIT_VARIABLE, "1")
    content = b"".join(b"line %d of an ordinary text\n" % number for number in range(1000))
    (tmp_path / "p.gz").write_bytes(gzip.compress(content))
    assert b"".join(read_chunks(tmp_path / "p.gz")) == content


def test_an_archive_stops_before_the_part_that_is_beyond_the_limit(tmp_path, monkeypatch):
    monkeypatch.setenv(LIMIT_VARIABLE, "100000")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        header = tarfile.TarInfo("other")
        header.size = 3_000_000
        archive.addfile(header, io.BytesIO(bytes(3_000_000)))
    with pytest.raises(UserError, match=LIMIT_VARIABLE):
        list(read_archive(str(tmp_path / "a.tar.gz")))


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("corpora.compressed.LONGEST_LINE", 1000)
    monkeypatch.setattr("corpora.compressed._CHUNK", 500)
    (tmp_path / "p.jsonl").write_bytes(b"b\n\n" + b"a" * 3000)
    with pytest.raises(UserError, match="line 3 has more than 1,000 bytes"):
        list(read_lines(tmp_path / "p.jsonl"))


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["", *PACK])
def test_chunks_are_small_however_well_the_file_compresses(suffix, tmp_path):
    path = tmp_path / f"p{suffix}"
    path.write_bytes(PACK.get(suffix, bytes)(b"ab\n" * (8 << 20)))
    sizes = [len(chunk) for chunk in read_chunks(path)]
    assert sum(sizes) == 24 << 20
    assert max(sizes) <= 1 << 20


def test_a_header_that_would_fill_the_memory_is_refused(tmp_path):
    header = tarfile.TarInfo("pax")
    header.type, header.size = b"x", 40 << 20
    content = header.tobuf(tarfile.USTAR_FORMAT) + b"a" * header.size + bytes(1 << 14)
    (tmp_path / "a.tar.bz2").write_bytes(bz2.compress(content))
    with pytest.raises(UserError, match="a header of more than 1,048,576 bytes"):
        list(read_archive(str(tmp_path / "a.tar.bz2")))


@pytest.mark.parametrize(
    "text", ['[{"a": ' + "[" * 600, '{"data": [{"a": "\\\\", "b":' + '[{"c": "]\\""},' * 200 + "[" * 600]
)
def test_json_that_is_nested_deeply_is_refused_before_it_is_parsed(text, tmp_path):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UserError, match="nested deeper than 500 levels"):
        list(read_source(str(tmp_path / "a.json"), ("data",))[0])


def test_brackets_in_texts_are_no_levels(tmp_path):
    records = [{"text": '[{\\"[' * 300_000 + "\\" * number} for number in range(3)]
    (tmp_path / "a.json").write_text(json.dumps(records))
    assert [record for _, record in read_source(str(tmp_path / "a.json"))[0]] == records


def test_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "p.jsonl").symlink_to(tmp_path / "p.jsonl")
    with pytest.raises(UserError, match="link to itself"):
        list(read_lines(tmp_path / "p.jsonl"))


@pytest.mark.parametrize("name", ["p.jsonl", "p.jsonl.gz"])
def test_a_pipe_that_nothing_writes_to_is_refused(name, tmp_path):
    """Before, reading it waited for ever."""
    os.mkfifo(tmp_path / name)
    for path in (tmp_path / name, os.devnull):
        for read in (read_questions, sha256_file):
            with pytest.raises(UserError, match="is a device or a pipe"):
                read(path)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", PACK)
def test_a_bomb_is_refused_in_little_memory(suffix, tmp_path):
    path = tmp_path / f"p.jsonl{suffix}"
    zeros = bytes(1 << 20)
    with {".gz": gzip.open, ".bz2": bz2.open, ".zst": zstandard.open}[suffix](path, "wb") as file:
        for _ in range(64):
            file.write(zeros)
    code = (
        "import sys\nfrom corpora.compressed import read_chunks\nfrom signatures.common.errors import UserError\n"
        "try: [None for chunk in read_chunks(sys.argv[1])]\nexcept UserError as error: print(error)"
    )
    limit = 300 << 20
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ".", LIMIT_VARIABLE: str(1 << 21)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
    )
    assert LIMIT_VARIABLE in done.stdout, done.stderr
