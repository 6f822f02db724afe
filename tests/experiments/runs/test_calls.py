"""The file of the LM calls of a run: appended by question, cut where a kill tore it, refused where it is damaged."""

import json

import pytest

from corpora.compressed import read_lines
from experiments.runs.calls import CallFile, call_frames, last_frames, packed_calls, raw_frame, read_calls
from experiments.runs.files import CALLS, discard_empty
from signatures.common.errors import UserError
from signatures.common.secrets import register


def call(text, number=1):
    return {"call": number, "messages": [{"role": "user", "content": text}], "replies": []}


def write(folder, *questions):
    with CallFile(folder) as file:
        for key, *texts in questions:
            records = [call(text, number) for number, text in enumerate(texts, start=1)]
            file.append(key, packed_calls(key, records) if records else None)


def contents(folder):
    frames = last_frames(folder)
    return {key: [each["messages"][0]["content"] for each in read_calls(folder, frames[key])] for key in frames}


def test_calls_come_back_by_question_and_the_last_attempt_counts(tmp_path):
    write(tmp_path, (("a", 1), "one", "two"), (("b", 1), "x"))
    write(tmp_path, (("a", 2), "again"), (("b", 1), "y\ud800"))
    assert contents(tmp_path) == {("a", 1): ["one", "two"], ("b", 1): ["y?"], ("a", 2): ["again"]}
    assert [frame.calls for frame in call_frames(tmp_path)] == [2, 1, 1, 1]


def test_any_tool_for_zstandard_reads_the_lines(tmp_path):
    write(tmp_path, (("a", 1), "one", "two"), (("b", 1), "x"))
    lines = [json.loads(line) for line in read_lines(tmp_path / CALLS)]
    assert [(line["id"], line["repeat"], line["call"]) for line in lines] == [("a", 1, 1), ("a", 1, 2), ("b", 1, 1)]


def test_what_a_kill_tore_is_ignored_and_then_removed(tmp_path):
    write(tmp_path, (("a", 1), "one"))
    whole = (tmp_path / CALLS).read_bytes()
    more = packed_calls(("b", 1), [call("x" * 50)])
    for cut in range(1, len(more)):
        (tmp_path / CALLS).write_bytes(whole + more[:cut])
        assert list(contents(tmp_path)) == [("a", 1)]
    write(tmp_path, (("c", 1), "next"))
    assert contents(tmp_path) == {("a", 1): ["one"], ("c", 1): ["next"]}


def test_a_question_that_calls_nothing_replaces_an_attempt_that_did(tmp_path):
    write(tmp_path, (("a", 1),))
    assert not (tmp_path / CALLS).exists()  # no call at all, no file
    write(tmp_path, (("a", 1), "one"))
    write(tmp_path, (("a", 1),))
    assert contents(tmp_path) == {("a", 1): []}


def test_damage_is_an_error_that_names_the_file(tmp_path):
    write(tmp_path, (("a", 1), "one two three four"), (("b", 1), "x"))
    whole = (tmp_path / CALLS).read_bytes()
    for place in range(len(whole)):
        (tmp_path / CALLS).write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            found = contents(tmp_path)
        except UserError as error:
            assert CALLS in str(error)  # noqa: PT017 - of many places, some are lengths that make the rest a torn end
        else:
            assert found != {("a", 1): ["one two three four"], ("b", 1): ["x"]}
    (tmp_path / CALLS).write_bytes(b"no frame at all")
    with pytest.raises(UserError, match="Restore it, or delete it"):
        CallFile(tmp_path).__enter__()


def test_a_frame_can_be_copied_into_another_file(tmp_path):
    write(tmp_path, (("a", 1), "one"), (("b", 1), "x"))
    other = tmp_path / "other"
    other.mkdir()
    (other / CALLS).write_bytes(raw_frame(tmp_path, last_frames(tmp_path)["b", 1]))
    assert contents(other) == {("b", 1): ["x"]}


def test_keys_are_hidden_and_a_run_without_rows_is_discarded_whole(tmp_path):
    register("sk-4f9a8b7c6d5e4f3a2b1c")
    write(tmp_path / "", (("a", 1), "the key is sk-4f9a8b7c6d5e4f3a2b1c"))
    assert contents(tmp_path) == {("a", 1): ["the key is ***"]}
    discard_empty(tmp_path)
    assert not tmp_path.exists()
