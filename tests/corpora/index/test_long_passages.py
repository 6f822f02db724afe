"""A notice of passages that are documents."""

import json
import warnings

import pytest

from corpora.index.build import LONG, build_index
from signatures.common.errors import UserNotice


def write(path, sizes):
    lines = [{"id": f"p{n}", "title": "", "text": ("ab " * size)[:size]} for n, size in enumerate(sizes)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_ten_megabytes_in_one_passage_are_named_with_the_cure(tmp_path):
    path = write(tmp_path / "p.jsonl", [50, 10_000_000, 20_000, 70])
    with pytest.warns(UserNotice) as notices:
        build_index(path, tmp_path / "i", retriever="bm25")
    (text,) = {str(notice.message) for notice in notices}
    assert text.startswith(
        "2 of 4 passages are longer than 10,000 bytes (about 1,600 words); the longest, 'p1', has 10.0 "
    )
    for part in ("first few hundred words", "context of an LM", "passages of about 100 words"):
        assert part in text
    assert "--" not in text
    assert "verihop" not in text


def test_passages_up_to_the_limit_say_nothing(tmp_path):
    path = write(tmp_path / "p.jsonl", [50, LONG - 3])  # with two bytes of the id and a line feed
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build_index(path, tmp_path / "i", retriever="bm25")
    write(path, [LONG - 2])
    with pytest.warns(UserNotice, match=r"1 of 1 .* has 10 kB"):
        build_index(path, tmp_path / "i", retriever="bm25", overwrite=True)
