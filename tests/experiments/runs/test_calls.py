"""The file of the LM calls of a run: appended by question, cut where a kill tore it, refused where it is damaged."""

import contextlib
import json
import os
import struct
from pathlib import Path

import pytest
import zstandard

from corpora.compressed import read_lines
from experiments.runs.calls import CallFile, call_frames, last_frames, packed_calls, raw_frame, read_calls
from experiments.runs.files import CALLS, ROWS, RowLog, discard_empty
from signatures.common.errors import UserError, UserNotice
from signatures.common.secrets import register


def call(text, number=1):
    return {"call": number, "messages": [{"role": "user", "content": text}], "replies": []}


def write(folder, *questions):
    with CallFile(folder) as file:
        for key, *texts in questions:
            records = [call(text, number) for number, text in enumerate(texts, start=1)]
            file.append_calls(key, packed_calls(key, records) if records else None)


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


def test_one_wrong_byte_is_an_error_that_names_the_file_and_nothing_is_removed(tmp_path):
    write(tmp_path, (("a", 1), "one two three four"), (("b", 1), "x"), (("c", 1), "y"))
    whole = (tmp_path / CALLS).read_bytes()
    for place in range(len(whole)):
        wrong = whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :]
        (tmp_path / CALLS).write_bytes(wrong)
        with pytest.raises(UserError, match=CALLS):
            contents(tmp_path)
        with contextlib.suppress(UserError), CallFile(tmp_path):
            pass
        assert (tmp_path / CALLS).read_bytes() == wrong


@pytest.mark.parametrize("question", [0, 1, 2])
@pytest.mark.parametrize("digit", b"0123456789")
def test_a_wrong_digit_in_a_length_removes_no_calls(digit, question, tmp_path):
    write(tmp_path, (("a", 1), "one two three four"), (("b", 1), "x"), (("c", 1), "y" * 500))
    whole = (tmp_path / CALLS).read_bytes()
    place = whole.index(b'"bytes": ', [*call_frames(tmp_path)][question].start) + len(b'"bytes": ')
    for at in range(place, whole.index(b"}", place)):
        if whole[at] == digit:
            continue
        wrong = whole[:at] + bytes([digit]) + whole[at + 1 :]
        (tmp_path / CALLS).write_bytes(wrong)
        with pytest.raises(UserError, match="is damaged at byte"):
            CallFile(tmp_path).__enter__()
        assert (tmp_path / CALLS).read_bytes() == wrong


def test_what_has_no_calls_at_all_is_not_removed(tmp_path):
    (tmp_path / CALLS).write_bytes(b"no frame at all")
    with pytest.raises(UserError, match="Restore it, or move it out of the folder"):
        CallFile(tmp_path).__enter__()


@pytest.mark.parametrize("tail", [bytes(4096), b"garbage and more garbage", b"abc", b"\x28\xb5\x2f\xfd no frame"])
def test_a_tail_without_calls_is_left_out_with_a_notice(tail, tmp_path):
    write(tmp_path, (("a", 1), "one"))
    with open(tmp_path / CALLS, "ab") as file:
        file.write(tail)
    with pytest.warns(UserNotice, match=f"ends in {len(tail):,} bytes that are not calls"):
        assert contents(tmp_path) == {("a", 1): ["one"]}
    with pytest.warns(UserNotice, match="left out"):
        write(tmp_path, (("b", 1), "two"))
    assert contents(tmp_path) == {("a", 1): ["one"], ("b", 1): ["two"]}


def test_calls_that_unfold_to_gigabytes_are_refused(tmp_path):
    spaces = " " * (1 << 20)
    key, record = ("a", 1), {"id": "a", "repeat": 1, **call("one")}
    packed = zstandard.compress("".join(f"{json.dumps(record)}{spaces}\n" for _ in range(70)).encode())
    label = json.dumps({"id": "a", "repeat": 1, "calls": 70, "bytes": len(packed)}).encode()
    (tmp_path / CALLS).write_bytes(struct.pack("<II", 0x184D2A5E, len(label)) + label + packed)
    assert (tmp_path / CALLS).stat().st_size < 20_000
    with pytest.raises(UserError, match="VERIHOP_DECOMPRESS_LIMIT"):
        read_calls(tmp_path, last_frames(tmp_path)[key])


def test_calls_are_on_the_disk_before_the_rows_to_which_they_belong(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(Path(f"/proc/self/fd/{number}").readlink().name))
    with CallFile(tmp_path) as calls, RowLog(tmp_path, first=calls.sync) as log:
        calls.append_calls(("a", 1), packed_calls(("a", 1), [call("one")]))
        log.append({"id": "a"})
        assert synced == [CALLS, ROWS]
        log.append({"id": "b"})
    assert synced == [CALLS, ROWS, ROWS]  # once, where nothing was appended since


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
