"""The passage file: what is written comes back, and what is broken is named by file and line."""

import gzip
import hashlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpora import passages as module
from corpora.passages import PassageRecord, corpus_hash, read_passages, write_passages
from signatures.common.errors import UserError
from signatures.types import Passage

SUFFIXES = ("passages.jsonl", "passages.jsonl.gz", "passages.jsonl.bz2", "passages.jsonl.zst")
words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(str.strip)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
known = set(PassageRecord.model_fields)
records = st.builds(
    lambda extra, **fields: PassageRecord(**fields, **extra),
    extra=st.dictionaries(words.filter(lambda key: key not in known), values, max_size=3),
    id=words,
    title=words | st.just(""),
    text=words,
    sentences=st.none() | st.lists(words, max_size=3),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(records, min_size=1, max_size=5, unique_by=lambda record: record.id), st.sampled_from(SUFFIXES))
def test_every_record_survives_a_round_trip_with_its_unknown_keys(tmp_path: Path, written, name):
    assert write_passages(tmp_path / name, written) == len(written)
    assert list(read_passages(tmp_path / name)) == written


def test_a_plain_passage_is_written_without_its_absent_score(tmp_path: Path):
    write_passages(tmp_path / "p.jsonl", [Passage(id="a", title="T", text="é / x")])
    assert (tmp_path / "p.jsonl").read_text("utf-8") == '{"id":"a","title":"T","text":"é / x"}\n'


def test_half_a_surrogate_pair_in_an_unknown_key_is_kept(tmp_path: Path):
    (tmp_path / "p.jsonl").write_text('{"id": "a", "text": "t", "odd": "\\ud800"}\n')
    write_passages(tmp_path / "q.jsonl", read_passages(tmp_path / "p.jsonl"))
    assert next(read_passages(tmp_path / "q.jsonl")).model_extra == {"odd": "\ud800"}


@pytest.mark.parametrize("name", SUFFIXES)
def test_the_corpus_hash_is_that_of_the_content_not_of_its_packing(tmp_path: Path, name):
    first, second = Passage(id="a", text="one"), Passage(id="b", text="two")
    write_passages(tmp_path / name, [first, second])
    write_passages(tmp_path / "plain", [first, second])
    write_passages(tmp_path / "turned", [second, first])
    assert corpus_hash(tmp_path / name) == hashlib.sha256((tmp_path / "plain").read_bytes()).hexdigest()
    assert corpus_hash(tmp_path / name) != corpus_hash(tmp_path / "turned")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{broken", "not JSON"),
        ("[1, 2]", "a JSON list"),
        ('"text"', "a JSON str"),
        ('{"id": "b"}', "'text': field required"),
        ('{"id": 7, "text": "t"}', "'id': input should be a valid string"),
        ('{"id": " ", "text": "t"}', "'id': is empty"),
        ('{"id": "b", "title": "", "text": " "}', "both empty"),
        ('{"id": "b", "text": "t", "sentences": "s"}', "'sentences'"),
        ('{"id": "a", "text": "t"}', "is already on line 1"),
    ],
)
def test_a_bad_line_is_named_by_file_and_line(tmp_path: Path, line, why):
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "a", "text": "t"}\n\n' + line + "\n")  # a blank line counts, but is no record
    with pytest.raises(UserError, match=r"p\.jsonl, line 3") as caught:
        list(read_passages(path))
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_line_that_is_not_utf8_is_named(tmp_path: Path):
    (tmp_path / "p.jsonl").write_bytes(b'{"id": "a", "text": "t"}\n{"id": "b", "text": "\xff"}\n')
    with pytest.raises(UserError, match="line 2: not UTF-8"):
        list(read_passages(tmp_path / "p.jsonl"))


def test_a_byte_order_mark_and_a_line_separator_inside_text_are_read(tmp_path: Path):
    (tmp_path / "p.jsonl").write_bytes('\ufeff{"id": "a", "text": "one\u2028two"}\r\n'.encode())
    assert next(read_passages(tmp_path / "p.jsonl")).text == "one\u2028two"


def test_equal_hashes_of_different_ids_are_no_duplicate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_passages(tmp_path / "p.jsonl", [Passage(id="a", text="one"), Passage(id="b", text="two")])
    monkeypatch.setattr(module, "hash", lambda _: 1, raising=False)
    assert [passage.id for passage in read_passages(tmp_path / "p.jsonl")] == ["a", "b"]


def test_an_empty_or_missing_file_is_refused(tmp_path: Path):
    (tmp_path / "empty.jsonl").write_text("\n\n")
    for name, why in [("empty.jsonl", "contains no passage"), ("none.jsonl", "No file"), ("", "is a folder")]:
        with pytest.raises(UserError, match=why):
            list(read_passages(tmp_path / name))


@pytest.mark.parametrize("name", SUFFIXES[1:])
def test_a_cut_off_or_damaged_archive_is_refused_not_read_in_part(tmp_path: Path, name):
    path = tmp_path / name
    write_passages(path, [Passage(id=str(n), text=f"text {n * 7919}") for n in range(500)])
    whole = path.read_bytes()
    for broken in (whole[:-20], whole[: len(whole) // 2], b"not packed at all"):
        path.write_bytes(broken)
        with pytest.raises(UserError, match="cannot be decompressed"):
            list(read_passages(path))


def test_archives_of_several_members_are_read_to_the_end(tmp_path: Path):
    lines = [b'{"id": "a", "text": "t"}\n', b'{"id": "b", "text": "t"}\n']
    (tmp_path / "p.gz").write_bytes(b"".join(map(gzip.compress, lines)))
    (tmp_path / "p.zst").write_bytes(b"".join(map(zstandard.compress, lines)))
    for name in ("p.gz", "p.zst"):
        assert [passage.id for passage in read_passages(tmp_path / name)] == ["a", "b"]


@pytest.mark.parametrize("name", SUFFIXES)
def test_a_refused_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, name):
    path = tmp_path / name
    write_passages(path, [Passage(id="a", text="old")])
    with pytest.raises(UserError, match="have the id 'b'"):
        write_passages(path, [Passage(id="b", text="one"), Passage(id="b", text="two")])
    with pytest.raises(UserError, match="Nothing to write"):
        write_passages(path, [])
    assert [passage.text for passage in read_passages(path)] == ["old"]
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_reading_is_lazy(tmp_path: Path):
    (tmp_path / "p.jsonl").write_text('{"id": "a", "text": "t"}\n{broken')
    assert next(read_passages(tmp_path / "p.jsonl")).id == "a"
