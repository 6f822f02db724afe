"""The files of a record: what is written is read again, what is damaged or of something else is refused."""

import contextlib
import errno
import gzip
import json
import os

import dspy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optimizers.replay.memory import MemberLog, Memory, read_members
from optimizers.replay.record import (
    BRANCHES,
    REPLIES,
    SCHEMA,
    Record,
    RecordLog,
    gold_sha256,
    has_record,
    load_record,
)
from optimizers.replay.replaying import replay
from signatures.common.errors import UserError
from signatures.types import Passage, make_passage


@pytest.fixture
def written(oracle, tmp_path):
    """Write the record of two questions of CoV-RAG; return its folder and the record."""
    record, runner = oracle.recorded("cov_rag")
    with RecordLog(tmp_path) as log, oracle.connection():
        log.begin(record.run)
        for number in range(2):
            question, memory = oracle.example(number), Memory()
            for knobs in ({}, {"gate": "revision", "max_revisions": 3}):
                leaf = runner.run(question, knobs, memory)
                record.add(question.id, question.question, leaf, gold_sha256(question))
                log.add_memory(question.id, memory)
                log.add_leaves(question, [leaf])
    return tmp_path, record


def test_a_record_is_read_as_it_was_written(written):
    folder, record = written
    found = load_record(folder)
    assert found.questions == record.questions
    for knobs in ({}, {"gate": "revision"}, {"bias_above": 0.1}):
        assert replay(found, knobs, metric="luck") == replay(record, knobs, metric="luck")


def memories_in(folder):
    """Return what is known of each question, by id."""
    with RecordLog(folder) as log:
        return {id: log.memory(id) for id in {value["id"] for value in read_members(folder / REPLIES)}}


def test_replies_that_were_read_are_not_asked_for_again(oracle, written):
    folder, _ = written
    _, runner = oracle.recorded("cov_rag")
    memories, engine = memories_in(folder), oracle.ScriptedEngine(oracle.reply)
    with oracle.connection(engine):
        leaf = runner.run(oracle.example(0), {}, memories["q0"])
    assert engine.requests == []
    assert runner.program.retrieve.searches == 0
    assert leaf.costs["calls"] > 0


def test_the_files_are_readable_by_others(written):
    folder, record = written
    lines = gzip.decompress((folder / BRANCHES).read_bytes()).decode().splitlines()
    assert json.loads(lines[0])["run"]["program"]["name"] == "cov_rag"
    assert {json.loads(line)["id"] for line in lines[1:]} == set(record.questions)


def test_an_incomplete_end_is_ignored_and_then_removed(written):
    folder, _ = written
    path = folder / BRANCHES
    whole = list(read_members(path))
    path.write_bytes(path.read_bytes()[:-5])
    assert list(read_members(path)) == whole[:-1]
    with MemberLog(path) as log:
        log.append(whole[-1])
    assert list(read_members(path)) == whole


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_changed_byte_is_found(written, data):
    """Gzip's checksums cover the content; changes of its header that change nothing are harmless."""
    folder, _ = written
    for name, read in ((BRANCHES, load_record), (REPLIES, memories_in)):
        path = folder / name
        good = path.read_bytes()
        expected = list(read_members(path))
        place = data.draw(st.integers(0, len(good) - 1))
        bad = bytearray(good)
        bad[place] ^= data.draw(st.integers(1, 255))
        path.write_bytes(bad)
        with contextlib.suppress(UserError):
            found = list(read_members(path))
            assert found == expected[: len(found)]
            read(folder)
        path.write_bytes(good)


def member(value) -> bytes:
    return gzip.compress(json.dumps(value).encode() + b"\n")


HEADER = {"program": {"name": "cov_rag", "knobs": {}}, "metrics": {"fog": ""}}


def test_a_folder_that_is_not_there_is_told_apart_from_a_run_without_a_record(tmp_path):
    with pytest.raises(UserError, match=r"nothing is not the folder of a run\. Check the path"):
        load_record(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "has no recorded branches"),
        ([[]], "damaged"),
        ([{"record": SCHEMA}], "damaged .'run': field required"),
        ([{"record": 1, "run": HEADER}], "has version 1, this verihop reads 2.*Record the run again"),
        ([{"record": 9, "run": HEADER}], "has version 9, this verihop reads 2.*Record the run again"),
        ([{"record": SCHEMA, "run": {"metrics": {"fog": ""}}}], "states no 'program'"),
        ([{"record": SCHEMA, "run": {**HEADER, "metrics": {}}}], "states no 'metrics'"),
        ([{"record": SCHEMA, "run": {**HEADER, "program": {"name": "rag", "knobs": {}}}}], "'rag' has no gates"),
        (
            [{"record": SCHEMA, "run": {**HEADER, "program": {"name": "os.system", "knobs": {}}}}],
            "'os.system' has no gates",
        ),
    ],
)
def test_what_is_no_record_is_refused(tmp_path, values, reason):
    (tmp_path / BRANCHES).write_bytes(b"".join(map(member, values)))
    with pytest.raises(UserError, match=reason):
        load_record(tmp_path)
    assert has_record(tmp_path) is bool(values)


STEP = {"gate": "rounds", "values": {"done": 0}, "decision": False}
LEAF = {"path": [STEP], "scores": {"luck": 0.5, "fog": 0.0}, "costs": {"calls": 1.0}, "answer": "a", "abstained": False}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"path": [{**STEP, "gate": "door"}]}, "no gate 'door'"),
        ({"path": [{**STEP, "values": {}}]}, "values of gate 'rounds' are not its own"),
        ({"path": [{**STEP, "values": {"done": 1}}]}, "made by different values"),
        ({"path": []}, "ends where it goes on"),
        ({"path": [STEP, STEP]}, "made by different values"),
        ({"scores": {"luck": 0.5}}, "scores of other metrics"),
        ({"scores": {"luck": 0.6, "fog": 0.0}}, "two ends with other scores"),
        ({"answer": "b"}, "two ends with other scores"),
        ({"scores": {"luck": 777.0, "fog": 0.0}}, "score 777 of luck is not from 0 to 1"),
        ({"costs": {"calls": -5.0}}, "greater than or equal to 0"),
        ({"costs": {"evil": 3.0}}, "no cost 'evil'"),
        ({"path": [{**STEP, "decision": "banana"}]}, "does not decide 'banana'"),
        ({"root": {"evil": 3}}, "Unknown knob of CoVRAG 'evil'"),
        ({"root": {"k": 300}}, "Knob k must be"),
        ({"root": {"max_revisions": 3}}, "max_revisions is one of the gates"),
        ({"costs": {"calls": "many"}}, "valid number"),
        ({"other": 1}, "not permitted"),
        ({"answer": None}, "valid string"),
    ],
)
def test_leaves_that_are_none_or_contradict_others_are_refused(written, changes, reason):
    folder, record = written
    good = {"id": "q0", "question": record.questions["q0"], "gold": "g", "leaves": [{**LEAF, **changes}]}
    first = {**good, "leaves": [LEAF]}
    (folder / BRANCHES).write_bytes(b"".join(map(member, [{"record": SCHEMA, "run": record.run}, first, good])))
    with pytest.raises(UserError, match=reason):
        load_record(folder)


@pytest.mark.parametrize("value", [None, 3, "high"])
def test_knobs_of_the_header_are_checked(tmp_path, value):
    program = {"name": "cov_rag", "knobs": {"truthfulness_below": value}}
    (tmp_path / BRANCHES).write_bytes(member({"record": SCHEMA, "run": {**HEADER, "program": program}}))
    with pytest.raises(UserError, match="Knob truthfulness_below must be"):
        load_record(tmp_path)


def test_the_same_leaf_twice_is_one(written):
    folder, record = written
    good = {"id": "q0", "question": record.questions["q0"], "gold": "g", "leaves": [LEAF]}
    (folder / BRANCHES).write_bytes(b"".join(map(member, [{"record": SCHEMA, "run": record.run}, good, good])))
    assert load_record(folder).count("q0") == 1


@pytest.mark.parametrize("value", [[], {"id": "q0"}, {"id": "q0", "calls": [], "retrievals": [], "passages": {}}, 5])
def test_replies_that_are_none_are_refused(tmp_path, value):
    (tmp_path / REPLIES).write_bytes(member(value))
    with pytest.raises(UserError, match="damaged"):
        memories_in(tmp_path)


def test_a_question_cannot_have_two_texts(written):
    folder, record = written
    with RecordLog(folder) as log:
        log.add_leaves(dspy.Example(id="q0", question="Another?"), [])
    assert load_record(folder).questions == record.questions  # no leaf, no question
    (folder / BRANCHES).write_bytes(
        member({"record": SCHEMA, "run": record.run})
        + member({"id": "q0", "question": "One?", "gold": "g", "leaves": [LEAF]})
        + member({"id": "q0", "question": "Two?", "gold": "g", "leaves": [LEAF]})
    )
    with pytest.raises(UserError, match="'q0' has two texts"):
        load_record(folder)


def test_a_full_disk_is_said_and_keeps_what_was_written(written):
    folder, _ = written
    before = list(read_members(folder / BRANCHES))
    with open(folder / "full", "wb", buffering=0) as file, MemberLog(folder / BRANCHES) as log:

        class Full:
            left = 3

            def write(self, content):
                if not self.left:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                part = file.write(content[: self.left])
                self.left -= part
                return part

            def close(self):
                return None

            def fileno(self):
                return file.fileno()

        real, log._file = log._file, Full()
        with pytest.raises(UserError, match="cannot be written .No space left"):
            log.append({"id": "q9"})
        log._file = real
        log.append({"id": "q9"})
    assert list(read_members(folder / BRANCHES)) == [*before, {"id": "q9"}]


def test_passages_survive_with_their_scores(tmp_path):
    memory = Memory()
    found = [Passage(id="a", title="Fog", text="There is fog.", score=0.25), Passage(id="b", text="None\u2028.")]
    memory.add_found("Where?", 2, found)
    with RecordLog(tmp_path) as log:
        log.add_memory("q", memory)
        log.add_memory("q", memory)  # nothing new
    assert len(list(read_members(tmp_path / REPLIES))) == 1
    assert memories_in(tmp_path)["q"].found("Where?", 2) == found
    assert memories_in(tmp_path)["q"].found("Where?", 3) is None


def test_keys_in_replies_are_hidden(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_API_KEY", "sk-abcdefghijklmnopqrstuvwxyz0123")
    memory = Memory()
    memory.add("call", {"text": "the key is sk-abcdefghijklmnopqrstuvwxyz0123"})
    with RecordLog(tmp_path) as log:
        log.add_memory("q", memory)
    assert "sk-abcdef" not in gzip.decompress((tmp_path / REPLIES).read_bytes()).decode()


def test_a_program_that_was_not_recorded_is_refused(written, oracle):
    folder, record = written
    with pytest.raises(UserError, match="program.name was 'cov_rag' and is now 'retro_rag'"):
        load_record(folder, oracle.built("retro_rag"))
    assert Record(record.run, oracle.built("cov_rag")).knobs == record.knobs


def test_other_keys_of_passages_are_kept(tmp_path):
    keyed = make_passage({"id": "a", "title": "A", "text": "x", "score": 0.5, "source": "report.pdf", "page": 3})
    found = [keyed, Passage(id="b", text="y", score=0.25)]
    memory = Memory()
    memory.add_found("query", 2, found)
    with RecordLog(tmp_path) as log:
        log.add_memory("q", memory)
    assert memories_in(tmp_path)["q"].found("query", 2) == found
