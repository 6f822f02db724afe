"""A program remembers where it comes from, wherever the process is, and its artifacts say so."""

import json

import pytest

import verihop
from programs.artifact import read_artifact
from programs.parts.knobs import with_knobs
from signatures.common.errors import UserError, UserNotice
from signatures.common.files import sha256_file


def compiled(program, world, out):
    return verihop.compile(program, world / "questions.jsonl", out, split="train", progress=False, max_demos=2)


def evaluated(program, world, run) -> dict:
    verihop.evaluate(program, world / "questions.jsonl", run, split="dev", metrics="em", progress=False)
    return json.loads((run / "run.json").read_text())


@pytest.mark.slow
def test_it_does_not_matter_where_the_process_is_later(rag, world, tmp_path, monkeypatch):
    compiled(rag, world, tmp_path / "made")
    monkeypatch.chdir(tmp_path)
    again = verihop.load("made")
    monkeypatch.chdir(world)
    by_name = verihop.load(program="rag", index="index", lm="simulated")
    by_retriever = verihop.load(program="rag", index=verihop.open_index("index", rerank="own-light"), lm="simulated")
    made = compiled(by_name, world, tmp_path / "later")
    monkeypatch.chdir(tmp_path)
    for number, program in enumerate((by_name, by_retriever, again, made)):
        verihop.freeze(program, f"frozen-{number}")
        assert verihop.load(f"frozen-{number}").config.index == world / "index"
        assert evaluated(program, world, tmp_path / f"run-{number}")["corpus"] == {
            "fingerprint": program.retrieve.fingerprint
        }


def test_a_run_names_the_artifact_that_was_loaded_not_one_that_replaced_it(rag, world, tmp_path):
    verihop.freeze(rag, tmp_path / "a")
    digest = sha256_file(tmp_path / "a" / "artifact.json")
    program = verihop.load(tmp_path / "a")
    verihop.freeze(verihop.load(tmp_path / "a", knobs={"k": 2}), tmp_path / "a", overwrite=True)
    assert evaluated(program, world, tmp_path / "run")["program"]["artifact_sha256"] == digest


def test_a_compiled_program_that_is_frozen_again_says_what_compiled_it_and_what_was_changed(rag, world, tmp_path):
    compiled(rag, world, tmp_path / "made")
    made = read_artifact(tmp_path / "made")
    as_it_was = verihop.freeze(verihop.load(tmp_path / "made"), tmp_path / "as-it-was")
    request = {"request_sha256": made.optimizer["request_sha256"]}  # of the other folder
    assert {**as_it_was.optimizer, **request} == made.optimizer
    assert (as_it_was.metric, as_it_was.revision) == (made.metric, made.revision)
    assert as_it_was.data == made.data
    changed = verihop.freeze(verihop.load(tmp_path / "made", knobs={"k": 2}), tmp_path / "changed")
    assert changed.optimizer["changed"] == [{"what": "knob k", "before": made.knobs["k"], "now": 2}]
    assert changed.metric == {name: value for name, value in made.metric.items() if name != "scores"}
    again = verihop.load(tmp_path / "changed")
    again.program = with_knobs(again.program, k=1)
    again.program.predictors()[0].demos = []
    rows = verihop.freeze(again, tmp_path / "again").optimizer["changed"]
    assert [(row["what"], row["now"]) for row in rows[:2]] == [("knob k", 2), ("knob k", 1)]
    assert [row["what"] for row in rows[2:]] == ["prompts"]


def test_what_was_changed_is_shown(rag, world, tmp_path, request):
    compiled(rag, world, tmp_path / "made")
    verihop.freeze(verihop.load(tmp_path / "made", knobs={"k": 2}), tmp_path / "changed")
    code, out, _ = request.getfixturevalue("verihop")("artifact", "show", tmp_path / "changed")
    assert code == 0
    assert "before it was changed" in " ".join(out.split())
    assert "knob k" in out


def test_the_revision_is_recorded_of_every_program(rag, tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.pipeline.compiling.frozen.git_revision", lambda: "abc")
    assert verihop.freeze(rag, tmp_path / "a").revision == "abc"


def test_an_opened_index_is_frozen_with_its_folder_and_reranker(world, tmp_path):
    retrieve = verihop.open_index(world / "index", rerank="own-light")
    program = verihop.load(program="rag", index=retrieve, lm="simulated")
    assert verihop.freeze(program, tmp_path / "a").data["rerank"] == "own-light"
    again = verihop.load(tmp_path / "a")
    assert again.retrieve.fingerprint == retrieve.fingerprint


def test_an_artifact_of_a_server_says_how_its_lm_is_named(rag, tmp_path):
    verihop.freeze(rag, tmp_path / "a")
    record = json.loads((tmp_path / "a" / "artifact.json").read_text())
    record["lm"] |= {"id": "m", "model": "server-1/m"}
    record.pop("digest")
    from programs.artifact import digest_of

    (tmp_path / "a" / "artifact.json").write_text(json.dumps({**record, "digest": digest_of(record)}))
    with pytest.raises(UserError, match=r"on a server: name it as lm=verihop.connect\('m', api_base="):
        verihop.load(tmp_path / "a")


def test_a_compilation_says_what_the_command_says(world, tmp_path):
    program = verihop.load(program="standard", lm="simulated:7")
    with pytest.warns(UserNotice) as noted:
        compiled(program, world, tmp_path / "made")
    first, last = (str(each.message) for each in noted)
    assert "knows only the generated world of seed 7" in first
    assert "The compiled program has no demonstrations" in last
    assert "Try the metric f1[hotpot] with accept=0.5" in last


def test_a_compilation_says_that_its_budget_ended_it(world, tmp_path):
    lm = verihop.connect("simulated", budget={"calls": 3}, cache=False)
    program = verihop.load(program="rag", index=world / "index", lm=lm)
    with pytest.warns(UserNotice, match="is frozen. Resume with the same arguments, resume=True and a larger budget"):
        compiled(program, world, tmp_path / "made")


def test_a_study_says_what_the_command_says(world, tmp_path):
    program = verihop.load(program="rag", index=world / "index", lm="simulated:7")
    with pytest.warns(UserNotice, match="knows only the generated world of seed 7"):
        verihop.tune(program, world / "questions.jsonl", tmp_path / "study", split="dev", trials=1, progress=False)
