"""Compressed files that become absurdly large, and lines without an end."""

import bz2
import gzip
import io
import resource
import subprocess
import sys
import tarfile

import pytest
import zstandard

from corpora.compressed import LIMIT_VARIABLE, read_chunks, read_lines
from corpora.datasets.archives import read_archive
from corpora.passages import read_passages
from corpora.questions import read_questions
from signatures.common.errors import UserError

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
    (tmp_path / "p.jsonl").write_bytes(b"a" * 3000)
    with pytest.raises(UserError, match="a line of more than 1,000 bytes"):
        list(read_lines(tmp_path / "p.jsonl"))


def test_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "p.jsonl").symlink_to(tmp_path / "p.jsonl")
    with pytest.raises(UserError, match="link to itself"):
        list(read_lines(tmp_path / "p.jsonl"))


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
