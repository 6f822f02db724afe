"""Artifacts from strangers: hashes are computed anew, as an attacker would, and still nothing but a program loads."""

import hashlib
import json
import os

import dspy
import pytest

from programs.artifact import freeze, load, read_artifact
from programs.genground import GenGround
from programs.single_step.rag import RAG
from signatures.common.errors import UserError
from signatures.types import Hop, Passage


def seal(folder):
    """Compute both hashes of an artifact anew."""
    path = folder / "artifact.json"
    record = json.loads(path.read_text())
    record["state_sha256"] = hashlib.sha256((folder / "program.json").read_bytes()).hexdigest()
    record.pop("digest", None)
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    if record["schema_version"] > 1:
        record["digest"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(record))


def edit(folder, name, change):
    path = folder / name
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    seal(folder)


def edit_state(folder, change):
    edit(folder, "program.json", change)


def edit_record(folder, change):
    edit(folder, "artifact.json", change)


@pytest.fixture
def folder(tmp_path, retriever):
    program = RAG(retriever)
    program.reading.demos = [
        dspy.Example(augmented=True, question="Q?", passages=[Passage(id="1", text="t", score=1.5)], answer="a")
    ]
    freeze(program, tmp_path / "artifact")
    return tmp_path / "artifact"


def refusal(folder):
    """Return the error of loading, which must be one line."""
    with pytest.raises(UserError) as caught:
        load(folder)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 2000
    return str(caught.value)


def test_a_stranger_s_lm_is_never_called(folder, retriever, server, monkeypatch):
    """DSPy strips `api_base` from the LM of a state, but not LiteLLM's `fallbacks`, each with an address of its own."""
    monkeypatch.setenv("OPENAI_API_KEY", "the-user-s-key")
    fallback = {"model": "openai/y", "api_base": server.base, "api_key": None}
    lm = {"model": "openai/x", "api_base": None, "fallbacks": [fallback], "num_retries": 0, "cache": False}
    lm |= {"timeout": 0.2, "base_url": server.base}
    edit_state(folder, lambda state: state["reading"].update(lm=lm))
    try:
        program = load(folder, retriever)
        program(question="Where do the user's passages go?")
    except UserError as error:
        refused = str(error)
    assert server.seen == []
    assert "predictor reading: 'lm'" in refused


def test_every_part_of_a_demo_comes_back_unchanged(tmp_path, retriever, scripted):
    program = GenGround(retriever)
    hop = Hop(question="h?", answer="x", evidence="e", passage_ids=["1"])
    program.deduction.demos = [
        dspy.Example(augmented=True, question="Q?", hops=[hop], finished=False, sub_question="s?", answer="b"),
        dspy.Example(question="R?", hops=[], finished=True, sub_question="R?", answer="c"),
    ]
    program.grounding.signature = program.grounding.signature.with_instructions("Check it. «ü»\n\nTwice.")
    freeze(program, tmp_path / "a")
    loaded = load(tmp_path / "a", retriever)
    assert loaded.dump_state() == program.dump_state()
    prompts = []
    for each in (program, loaded):
        engine = scripted(lambda system, user: "[[ ## answer ## ]]\nx\n\n[[ ## completed ## ]]")
        each(question="Q?")
        prompts.append([(str(request.system), request.messages) for request in engine.requests])
    assert prompts[0] == prompts[1]
    freeze(loaded, tmp_path / "b")
    assert (tmp_path / "b" / "program.json").read_bytes() == (tmp_path / "a" / "program.json").read_bytes()


def test_what_a_reply_carries_beside_its_fields_is_left_out_of_a_frozen_demo(tmp_path, retriever):
    program = RAG(retriever)
    extra = {"reasoning_content": "hmm", "logprobs": {"content": []}}
    program.reading.demos = [dspy.Example(question="Q?", passages=[], answer="a", **extra)]
    freeze(program, tmp_path / "a")
    assert load(tmp_path / "a", retriever).reading.demos == [{"question": "Q?", "passages": [], "answer": "a"}]


def test_a_demo_of_another_type_cannot_be_frozen(tmp_path, retriever):
    program = RAG(retriever)
    program.reading.demos = [dspy.Example(question="Q?", passages="none", answer="a")]
    with pytest.raises(UserError, match="predictor reading, demo 1, field 'passages'"):
        freeze(program, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_program_with_an_lm_of_its_own_cannot_be_frozen(tmp_path, retriever):
    program = RAG(retriever)
    program.set_lm(dspy.LM("openai/gpt-4o-mini"))
    with pytest.raises(UserError, match="Predictor reading has an LM of its own"):
        freeze(program, tmp_path / "a")


def demo(change):
    return lambda state: change(state["reading"]["demos"][0])


STATES = {
    "'lm'": lambda state: state["reading"].update(lm={"model": "openai/x"}),
    "'signature.extended'": lambda state: state["reading"]["signature"].update(extended=1),
    "'callbacks'": lambda state: state["reading"].update(callbacks=[]),
    "'fields'": lambda state: state["reading"].update(fields={"answer": {"threshold": 1}}),
    "'lm': ": lambda state: state["reading"].update(lm=False),
    "traces and train must be empty": lambda state: state["reading"].update(traces=[None]),
    "the predictors reading, metadata": lambda state: state.update(metadata={}),
    "holds the predictors none": lambda state: state.clear(),
    "'signature.instructions'": lambda state: state["reading"]["signature"].update(instructions=["x"]),
    "it has 2 fields, the signature has 3": lambda state: state["reading"]["signature"]["fields"].pop(),
    "'signature.fields.0.prefix'": lambda state: state["reading"]["signature"]["fields"][0].pop("prefix"),
    "'demos'": lambda state: state["reading"].update(demos="many"),
    "at most 1000": lambda state: state["reading"].update(demos=[{}] * 1001),
    "'demos.0'": lambda state: state["reading"].update(demos=[None]),
    "demo 1: 'signature' is not a field": demo(lambda demo: demo.update(signature="x")),
    "demo 1: 'augmented' must be true": demo(lambda demo: demo.update(augmented="yes")),
    "demo 1, field 'answer'": demo(lambda demo: demo.update(answer=None)),
    "demo 1, field 'question'": demo(lambda demo: demo.update(question=7)),
    "demo 1, field 'passages': '0.text'": demo(lambda demo: demo["passages"][0].update(text=[])),
    "demo 1, field 'passages': '0.id'": demo(lambda demo: demo["passages"][0].pop("id")),
}


@pytest.mark.parametrize("fault", [name for name, change in STATES.items() if change])
def test_a_state_that_is_not_exactly_ours_is_refused_with_the_place_named(fault, folder):
    edit_state(folder, STATES[fault])
    assert fault in refusal(folder)


def test_unknown_keys_inside_a_passage_are_dropped(folder, retriever):
    edit_state(folder, demo(lambda demo: demo["passages"][0].update(model="openai/x")))
    assert "model" not in load(folder, retriever).reading.demos[0]["passages"][0]


RECORDS = {
    "knob": lambda record: record["knobs"].update(name="x"),
    "Unknown knob of RAG 'preset'": lambda record: record["knobs"].update(preset="code"),
    "Knob k must be": lambda record: record["knobs"].update(k=2**62),
    "'knobs": lambda record: record["knobs"].update(k=[3]),
    "Knob k must be int": lambda record: record["knobs"].update(k=3.5),
    "Unknown program": lambda record: record.update(program="own"),
    "'program'": lambda record: record.update(program=["rag"]),
    "'signatures": lambda record: record.update(signatures={"reading": [{"name": 1}]}),
    "'lm.fallbacks'": lambda record: record.update(
        lm={"id": "x", "adapter": "a", "probability_mode": "b", "fallbacks": []}
    ),
    "may not name the address": lambda record: record.update(
        lm={"id": "huggingface/https://evil.example/x", "adapter": "a", "probability_mode": "b"}
    ),
    "'owner'": lambda record: record.update(owner="me"),
    "'corpus'": lambda record: record.update(corpus="a\nb"),
    "'data'": lambda record: record.update(data=[]),
    "is damaged (it states no schema_version": lambda record: record.update(schema_version=2.0),
}


@pytest.mark.parametrize("fault", RECORDS)
def test_a_record_that_is_not_exactly_ours_is_refused(fault, folder):
    edit_record(folder, RECORDS[fault])
    assert fault in refusal(folder)


TEXTS = {
    "repeated": b'{"schema_version": 2, "schema_version": 2}',
    "NaN is no JSON number": b'{"metric": NaN}',
    "too large": b'{"metric": 1e999}',
    "the number 9999999": b'{"metric": ' + b"9" * 5000 + b"}",
    "nested deeper": b"[" * 50_000,
    "nested deeper than 64": b'{"a":' * 65 + b"1" + b"}" * 65,
    "surrogate": b'{"program": "\\ud800"}',
    "not UTF-8": b'{"program": "\xff"}',
    "not JSON": b"{" * 3,
    "larger than": None,
}


@pytest.mark.parametrize("fault", TEXTS)
@pytest.mark.parametrize("name", ["artifact.json", "program.json"])
def test_absurd_json_is_refused_in_one_line(fault, name, folder, monkeypatch):
    if TEXTS[fault] is None:
        monkeypatch.setattr("programs.artifacts.loading.read_limited.__defaults__", (10,))
        monkeypatch.setattr("programs.artifacts.record.read_strict_json.__defaults__", (10,))
    else:
        (folder / name).write_bytes(TEXTS[fault])
        if name == "program.json":
            seal(folder)
    assert fault in refusal(folder)


@pytest.mark.parametrize("name", ["artifact.json", "program.json"])
def test_what_is_no_file_is_refused(name, folder):
    (folder / name).unlink()
    (folder / name).mkdir()
    assert "not a file" in refusal(folder)
    (folder / name).rmdir()
    (folder / name).symlink_to(folder / name)
    assert "symbolic links" in refusal(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)  # opening it would wait for a writer
    assert "not a file" in refusal(folder)


def test_a_record_whose_digest_differs_is_refused(folder):
    record = json.loads((folder / "artifact.json").read_text())
    (folder / "artifact.json").write_text(json.dumps({**record, "corpus": "another"}))
    assert "its digest differs" in refusal(folder)
    del record["digest"]
    (folder / "artifact.json").write_text(json.dumps(record))
    assert "its digest differs" in refusal(folder)


def as_version(folder, version):
    """Rewrite an artifact as an earlier version of the schema had it."""

    def older(record):
        for name in ("kind", "children", "pool_sha256", "similarity"):
            del record[name]
        record["schema_version"] = version

    def without_names(state):
        for predictor in state.values():
            for field in predictor["signature"]["fields"]:
                del field["name"]

    edit_state(folder, without_names)
    edit_record(folder, older)


@pytest.mark.parametrize("version", [1, 2])
def test_an_artifact_of_an_earlier_version_still_loads(version, folder, retriever):
    expected = load(folder, retriever).dump_state()
    as_version(folder, version)
    assert ("digest" in json.loads((folder / "artifact.json").read_text())) == (version == 2)
    assert read_artifact(folder).schema_version == version
    assert load(folder, retriever).dump_state() == expected


def test_a_field_of_a_later_version_is_refused_in_an_earlier_one(folder):
    as_version(folder, 2)
    edit_record(folder, lambda record: record.update(children={}))
    assert "'children' is not a field of schema version 2" in refusal(folder)
