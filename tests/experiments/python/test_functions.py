"""`import verihop` does what the command line does: the same programs, defaults, runs and artifacts."""

import asyncio
import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import verihop
from experiments.runs.files import read_rows
from optimizers.tuning.objective import Goal
from programs.artifact import read_artifact
from programs.inference import Answerer
from programs.lms.calls.budget import BudgetExceeded
from signatures.common.errors import UserError, UserNotice
from signatures.types import Hop

CLOCKS = {"seconds", "wait_seconds"}


def rows_by_question(run: Path, *names: str) -> dict[str, dict]:
    """Return the rows, or some of their fields, without what a clock says."""
    return {
        row["id"]: {name: row[name] for name in row if name not in CLOCKS and (not names or name in names)}
        for row in read_rows(run)
    }


def first_question(world: Path) -> str:
    return json.loads((world / "questions.jsonl").read_text().partition("\n")[0])["question"]


def test_the_import_loads_nothing_else():
    code = "import sys, verihop; print(sorted({'dspy', 'numpy', 'pydantic', 'programs', 'corpora'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_a_run_is_that_of_the_command_line(rag, world, tmp_path, request):
    command_line = request.getfixturevalue("verihop")  # by its name it would hide the module
    questions = world / "questions.jsonl"
    summary = verihop.evaluate(rag, questions, tmp_path / "ours", split="dev", progress=False)
    theirs = ("eval", questions, "--split", "dev", "--program", "rag", "--lm", "simulated", "--index", world / "index")
    code, out, _ = command_line(*theirs, "--out", tmp_path / "theirs", "--no-cache", "--quiet", "--json")
    printed = json.loads(out)
    assert code == 0
    assert summary.answered > 10
    assert {name: mean["mean"] for name, mean in summary.as_dict()["metrics"].items()} == {
        name: mean["mean"] for name, mean in printed["metrics"].items()
    }
    assert rows_by_question(tmp_path / "ours") == rows_by_question(tmp_path / "theirs")
    ours, other = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("ours", "theirs"))
    for part in ("program", "lm", "metrics", "questions", "corpus", "seed"):
        assert ours[part] == other[part], part


def test_what_is_compiled_is_loaded_with_its_index_and_its_lm(rag, world, tmp_path):
    questions = world / "questions.jsonl"
    compiled = verihop.compile(rag, questions, tmp_path / "made", split="train", progress=False, max_demos=2)
    artifact = read_artifact(tmp_path / "made")
    assert artifact.optimizer["name"] == "bootstrap"
    assert artifact.data["train_path"] == str(questions)
    again = verihop.load(tmp_path / "made")
    one, other = (
        verihop.evaluate(program, questions, tmp_path / name, split="dev", metrics="em", progress=False)
        for program, name in ((compiled, "one"), (again, "other"))
    )
    seen = ("answer", "passage_ids", "scores", "calls")  # replies to the second come from the cache
    assert rows_by_question(tmp_path / "one", *seen) == rows_by_question(tmp_path / "other", *seen)
    assert one.costs["lm_calls"].mean == other.costs["lm_calls"].mean == 1
    run = json.loads((tmp_path / "one" / "run.json").read_text())
    assert (run["program"]["artifact_sha256"] is not None, run["lm"]["id"]) == (True, "simulated")


def test_an_artifact_can_have_another_retriever_and_lm(rag, world, tmp_path):
    (tmp_path / "moved").mkdir()
    verihop.freeze(rag, tmp_path / "moved" / "artifact")
    (tmp_path / "moved").rename(tmp_path / "a")  # so that it does not find its index
    opened = verihop.open_index(world / "index", retriever="bm25")
    lm = verihop.connect("simulated", budget={"calls": 1}, cache=False)
    program = verihop.load(tmp_path / "a" / "artifact", index=opened, lm=lm)
    assert program.retrieve is opened
    assert program(first_question(world)).passages
    with pytest.raises(BudgetExceeded):
        program(first_question(world))
    with pytest.raises(UserError, match="name the reranker own where you open its index"):
        verihop.load(tmp_path / "a" / "artifact", index=opened, lm=lm, rerank="own")
    with pytest.raises(UserError, match="name sentences=8 where you open its index"):
        verihop.load(tmp_path / "a" / "artifact", index=opened, lm=lm, sentences=8)


@pytest.mark.slow
def test_the_best_trial_of_a_study_is_loaded(world, tmp_path):
    program = verihop.load(program="rag", index=world / "index", lm="simulated", knobs={"k": 1})
    goal = Goal(at_most={"calls": 2})
    found = verihop.tune(
        program, world / "questions.jsonl", tmp_path / "study", split="dev", trials=4, goal=goal, progress=False
    )
    assert len(found.findings.trials) == 4
    assert found.artifact is not None
    best = verihop.load(found.artifact)
    assert best.program.k == found.chosen.setting["k"]
    assert best(first_question(world)).answer


def test_a_program_is_frozen_with_its_index_and_reranker(world, tmp_path):
    program = verihop.load(
        program="genground", index=world / "index", lm="simulated", rerank="own", knobs={"k": 3, "max_hops": 2}
    )
    artifact = verihop.freeze(program, tmp_path / "frozen")
    assert (artifact.knobs["k"], artifact.data["rerank"], artifact.lm.id) == (3, "own", "simulated")
    again = verihop.load(tmp_path / "frozen")
    assert (again.config.rerank, again.program.max_hops) == ("own", 2)
    question = first_question(world)
    assert again(question).toDict() == program(question).toDict()
    with pytest.raises(UserError, match="exists"):
        verihop.freeze(program, tmp_path / "frozen")


@pytest.mark.slow
def test_sentences_in_place_of_passages_decide_a_run_and_go_into_artifacts(world, tmp_path):
    opened = verihop.open_index(world / "index", rerank="own-light", sentences=2)
    program = verihop.load(program="rag", index=opened, lm="simulated")
    read = program(first_question(world)).passages
    whole = {each.id: each.text for each in opened.passages([each.id for each in read])}
    assert 1 <= len(read) <= 2
    assert any(len(each.text) < len(whole[each.id]) for each in read)
    assert verihop.freeze(program, tmp_path / "a").data["sentences"] == 2
    again = verihop.load(tmp_path / "a")
    assert (again.config.rerank, again.config.sentences) == ("own-light", 2)
    assert again(first_question(world)).passages == read
    assert verihop.freeze(again, tmp_path / "b").data["sentences"] == 2
    with pytest.warns(UserNotice, match="was compiled on corpus sentences2/"):
        assert verihop.load(tmp_path / "a", sentences=0).config.sentences == 0

    def run(sentences, **how):
        asked = verihop.load(program="rag", index=world / "index", lm="simulated", sentences=sentences)
        verihop.evaluate(asked, world / "questions.jsonl", tmp_path / "run", limit=3, progress=False, **how)

    run(2)
    run(2, resume=True)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["corpus"]["fingerprint"].startswith("sentences2/")
    with pytest.raises(UserError, match="corpus"):
        run(3, resume=True)


def test_questions_may_be_given_and_an_answerer_of_ones_own_too(rag, world, tmp_path):
    from corpora.questions import read_questions

    asked = [question for question in read_questions(world / "questions.jsonl") if question.split == "dev"][:3]
    mine = Answerer(rag.program, rag.connection)
    assert verihop.evaluate(mine, asked, tmp_path / "run", metrics="em", progress=False, threads=2).answered == 3
    assert verihop.freeze(mine, tmp_path / "frozen").data["index"] is None
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (run["threads"], run["paths"]["questions"]) == (2, None)


def test_it_is_asked_in_every_way(world):
    program = verihop.load(program="multihop", index=world / "index", lm="simulated")
    question = first_question(world)
    program.warm()
    expected = program(question)
    assert asyncio.run(program.acall(question)).answer == expected.answer
    assert [each.prediction.answer for each in program.batch([question, question])] == [expected.answer] * 2
    *hops, last = program.stream(question)
    assert (hops, last.answer) == (expected.hops, expected.answer)
    assert [type(hop) for hop in hops] == [Hop, Hop]


def test_the_defaults_of_the_embedded_lm_are_those_of_the_command_line(world):
    from experiments.pipeline.setup import with_defaults
    from experiments.runs.specs import ProgramSpec
    from programs.lms.spec import LMSpec

    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        program = verihop.load(index=world / "index")
    expected = with_defaults(ProgramSpec(index=world / "index"), LMSpec())
    assert program.config == expected.program
    assert (program.config.program, program.config.preset, program.config.rerank) == ("rag", "small", "own")
    assert [str(each.message) for each in noted] == [expected.note]


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ({"lm": "simulated"}, "Name either a program or an artifact"),
        ({"program": "rag", "lm": "simulated"}, "This program retrieves passages"),
        ({"program": "rga", "lm": "simulated"}, "rga"),
        ({"artifact": "nowhere"}, "nowhere"),
        ({"program": "rag", "lm": "simulated", "index": "nowhere"}, "nowhere"),
    ],
)
def test_what_cannot_be_loaded_is_an_error_that_names_it(named, reason):
    with pytest.raises(UserError, match=reason):
        verihop.load(**named)


def test_a_metric_that_would_be_0_for_every_answer_is_refused(rag, world, tmp_path):
    questions, refused = world / "questions.jsonl", "sp_f1 needs .*, and rag quotes nothing"
    with pytest.raises(UserError, match=refused):
        verihop.evaluate(rag, questions, tmp_path / "run", split="dev", metrics="em,sp_f1", progress=False)
    for improve in (verihop.compile, verihop.tune):
        with pytest.raises(UserError, match=refused):
            improve(rag, questions, tmp_path / "made", split="train", metric="sp_f1", progress=False)
    assert not list(tmp_path.glob("[rm]*"))
