"""Synthesis over the generated world: what is written, and that a stopped one ends in the same file."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from corpora.passages import PassageRecord, read_passages, write_passages
from corpora.questions import Question, read_questions, write_questions
from experiments.pipeline.synthesis.opened import open_synthesis
from experiments.pipeline.synthesis.sources import open_seeds
from experiments.runs.files import RowLog, run_lock
from experiments.runs.specs import ProgramSpec
from optimizers.distill.examples import read_examples
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError


def files(folder: Path) -> tuple[bytes, dict]:
    manifest = json.loads((folder / "manifest.json").read_text())
    return (folder / "examples.jsonl").read_bytes(), manifest


def same_in_both(manifest: dict) -> dict:
    return {name: value for name, value in manifest.items() if name not in ("started", "git_revision", "versions")}


def test_a_program_of_several_predictors_is_distilled(request_for, world, tmp_path):
    made = open_synthesis(request_for()).run(tmp_path / "out", progress=False)
    examples = read_examples(tmp_path / "out" / "examples.jsonl")
    assert examples == made.examples
    assert {example.skill for example in examples} >= {"deduction", "grounding"}
    assert {(example.source, example.labels) for example in examples} == {("world", "teacher:simulated")}
    assert all(json.loads(example.completion) for example in examples)

    _, manifest = files(tmp_path / "out")
    rejected = sum(manifest["rejected"]["trajectories"].values())
    assert manifest["complete"]
    assert manifest["asked"] == manifest["trajectories"] == 12
    assert {example.question_id for example in examples} == {
        row["id"] for row in rows(tmp_path / "out") if row["examples"]
    }
    assert len({example.question_id for example in examples}) == 12 - rejected
    assert manifest["counts"]["examples"] == len(examples)
    assert manifest["lms"]["teacher"]["weights_hash"]
    assert manifest["sources"][0]["licence"].startswith("Apache-2.0")
    assert manifest["cost"]["calls"] > 24
    assert str(tmp_path) not in json.dumps(manifest)


def rows(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "questions" / "rows.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("program", ["rag", "cov_rag", "retro_rag", "self_completion", "multihop"])
def test_any_program_can_be_distilled(request_for, program, world, tmp_path):
    made = open_synthesis(request_for(program, limit=8, metric="f1[hotpot]", accept=0.3)).run(
        tmp_path / "out", progress=False
    )
    assert {example.program for example in made.examples} == {program}
    assert {example.split for example in made.examples} <= {"train", "validation"}


def test_trajectories_without_all_gold_passages_are_left_out(request_for, world, tmp_path):
    def made(name, **changes):
        return open_synthesis(request_for("rag", metric="f1[hotpot]", **changes)).run(tmp_path / name, progress=False)

    every, kept = made("every"), made("kept", gold_read=True)
    assert kept.manifest["rejected"]["trajectories"]["gold_is_read"] > 0
    assert {one.question_id for one in kept.examples} < {one.question_id for one in every.examples}
    for name, gold_read in (("every", True), ("kept", False)):
        with pytest.raises(UserError, match="contains another run: arguments.gold_read"):
            open_synthesis(request_for("rag", metric="f1[hotpot]", gold_read=gold_read)).run(
                tmp_path / name, resume=True, progress=False
            )
    with pytest.raises(UserError, match="gold_is_read .* name questions that have them"):
        memory = replace(request_for(gold_read=True), program=ProgramSpec(program="cot"))
        open_synthesis(memory).run(tmp_path / "memory", progress=False)


def test_a_spent_budget_keeps_what_is_done_and_resuming_gives_the_same_file(request_for, world, tmp_path):
    open_synthesis(request_for()).run(tmp_path / "whole", progress=False)
    with pytest.raises(BudgetExceeded):
        open_synthesis(request_for(), Budget(calls=25)).run(tmp_path / "part", progress=False)
    _, partial = files(tmp_path / "part")
    assert 0 < partial["asked"] < 12
    assert not partial["complete"]
    with pytest.raises(UserError, match="already contains examples"):
        open_synthesis(request_for()).run(tmp_path / "part", progress=False)
    open_synthesis(request_for()).run(tmp_path / "part", resume=True, progress=False)
    whole, part = files(tmp_path / "whole"), files(tmp_path / "part")
    assert part[0] == whole[0]
    assert same_in_both(part[1]) == same_in_both(whole[1])


def test_a_mixture_is_not_overwritten_by_resuming(request_for, tmp_path):
    folder = tmp_path / "mixture"
    folder.mkdir()
    (folder / "examples.jsonl").write_text("{}")
    with pytest.raises(UserError, match="that no synthesis wrote"):
        open_synthesis(request_for()).run(folder, resume=True, progress=False)
    assert (folder / "examples.jsonl").read_text() == "{}"


def test_ctrl_c_keeps_what_is_done(request_for, tmp_path, monkeypatch):
    append, written = RowLog.append, []

    def interrupted(log, row):
        append(log, row)
        written.append(row["id"])
        if len(written) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(RowLog, "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_synthesis(request_for()).run(tmp_path / "out", progress=False)
    monkeypatch.undo()
    _, manifest = files(tmp_path / "out")
    assert 3 <= manifest["asked"] == len(rows(tmp_path / "out")) < 12
    assert not manifest["complete"]
    made = open_synthesis(request_for()).run(tmp_path / "out", resume=True, progress=False)
    assert made.manifest["complete"]


def test_the_calls_are_estimated_first(request_for, tmp_path, capsys):
    open_synthesis(request_for(limit=2)).run(tmp_path / "out")
    assert "2 questions: at most 32 LM calls" in capsys.readouterr().err


def test_another_synthesis_is_not_resumed(request_for, world, tmp_path):
    open_synthesis(request_for(limit=3)).run(tmp_path / "out", progress=False)
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    with pytest.raises(UserError, match="contains another run: arguments.metric was"):
        open_synthesis(request_for(limit=3, metric="f1[hotpot]", accept=0.5)).run(
            tmp_path / "out", resume=True, progress=False
        )
    with pytest.raises(UserError, match="contains another run"):
        open_synthesis(request_for(limit=2)).run(tmp_path / "out", resume=True, progress=False)
    with run_lock(tmp_path / "out" / "questions"), pytest.raises(UserError, match="Another process"):
        open_synthesis(request_for(limit=3)).run(tmp_path / "out", resume=True, progress=False)
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before


SCRIPT = """
import os, sys
from pathlib import Path
from experiments.pipeline.synthesis.opened import open_synthesis
from experiments.pipeline.synthesis.opened import SynthesisRequest
from experiments.runs.specs import ProgramSpec
from programs.lms.spec import LMSpec
from experiments.runs.files import RowLog
append = RowLog.append
def told(log, row):
    append(log, row)
    os.write(1, b"row\\n")
    if len(log.path.read_bytes().splitlines()) == 5:
        sys.stdin.readline()  # wait to be killed
RowLog.append = told
world, out = Path(sys.argv[1]), Path(sys.argv[2])
open_synthesis(SynthesisRequest(
    files=[("world", world / "questions.jsonl")], teacher=LMSpec(id="simulated", cache=False), student="json", limit=12,
    program=ProgramSpec(program="genground", index=world / "index", knobs={"k": 4}), threads=2,
)).run(out, progress=False)
"""


@pytest.mark.slow
def test_a_killed_synthesis_resumes_to_the_same_file(request_for, world, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(world), str(tmp_path / "killed")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
    )
    assert process.stdout is not None
    for _ in range(5):
        assert process.stdout.readline() == b"row\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert process.stdin is not None
    process.stdin.close()
    assert len(rows(tmp_path / "killed")) == 5
    assert not (tmp_path / "killed" / "examples.jsonl").exists()

    open_synthesis(request_for()).run(tmp_path / "killed", resume=True, progress=False)
    open_synthesis(request_for()).run(tmp_path / "whole", progress=False)
    assert files(tmp_path / "killed")[0] == files(tmp_path / "whole")[0]


def test_nothing_learnt_is_an_error_that_says_why(request_for, world, tmp_path):
    teacher = LMSpec(id="simulated:7", cache=False)  # remembers another world, and one passage states too little
    asked = [q.model_copy(update={"answers": ["never said"]}) for q in read_questions(world / "questions.jsonl")]
    write_questions(tmp_path / "q.jsonl", asked)
    wanted = request_for("rag", knobs={"k": 1}, teacher=teacher, files=[("world", tmp_path / "q.jsonl")], limit=4)
    with pytest.raises(UserError, match="No example was made: .*answer_is_right"):
        open_synthesis(wanted).run(tmp_path / "out", progress=False)


@pytest.mark.slow
def test_an_embedded_student_is_taught_on_the_prompts_it_is_asked_with(request_for, tmp_path):
    wanted = request_for(None, knobs={}, student="embedded", metric="f1[hotpot]", accept=0.3, limit=6)
    opened = open_synthesis(wanted)
    assert opened.notes[0] == "rag with preset small: k=3, compare=True, reranker own"
    made = opened.run(tmp_path / "out", progress=False)
    assert made.manifest["arguments"]["program"]["knobs"]["k"] == 3
    assert made.manifest["arguments"]["corpus"].startswith("rerank20")
    named = request_for("rag", knobs={"k": 5}, student="embedded").opened_program
    assert named.knobs == {"k": 5}
    assert request_for("rag", student="json").note is None


def test_the_recipe_of_a_paper_keeps_its_program(request_for, world):
    wanted = request_for(None, student="embedded", recipe="genground", passages=world / "passages.jsonl")
    assert (wanted.opened_program.program, wanted.opened_program.preset, wanted.note) == ("genground", None, None)


@pytest.mark.slow
def test_gold_that_lacks_what_the_program_needs_says_what(request_for, world, tmp_path):
    plain = [q.model_copy(update={"sub_questions": []}) for q in read_questions(world / "questions.jsonl")]
    write_questions(tmp_path / "q.jsonl", plain)
    gold = {"teacher": LMSpec(id="gold"), "passages": world / "passages.jsonl", "limit": 4}
    wanted = request_for("genground", files=[("world", tmp_path / "q.jsonl")], **gold)
    with pytest.raises(UserError, match=r"gold_is_complete 4\. .*for hops gold sub-questions"):
        open_synthesis(wanted).run(tmp_path / "out", progress=False)


def test_a_corpus_without_the_gold_passages_is_named_as_the_reason(request_for, tmp_path):
    other = tmp_path / "passages.jsonl"
    other.write_text('{"id": "p", "title": "Port", "text": "It is old."}\n')
    wanted = request_for(None, recipe="genground", passages=other, knobs={}, limit=4)
    with pytest.raises(UserError, match="gold_passage_in_corpus .*not in the corpus: name that of the questions"):
        open_synthesis(wanted).run(tmp_path / "out", progress=False)


def test_prompts_from_gold_have_no_k_so_that_the_note_names_none(request_for, world):
    gold = {"teacher": LMSpec(id="gold"), "passages": world / "passages.jsonl", "student": "embedded"}
    assert request_for(None, knobs={}, **gold).note == "rag, reranker own"


def test_evaluation_questions_and_their_gold_are_not_asked(world, tmp_path):
    questions = read_questions(world / "questions.jsonl")
    write_questions(tmp_path / "held.jsonl", questions[:6])
    seeds = open_seeds([("world", world / "questions.jsonl")], exclude=[tmp_path / "held.jsonl"])
    held = {name for question in questions[:6] for name in question.gold_ids}
    assert seeds.refused["same_question"] == 6
    assert all(held.isdisjoint(item.question.gold_ids) for item in seeds.seeds)
    assert seeds.files[0]["questions"] == len(seeds.seeds) == 40 - seeds.refused.total()


def test_gold_is_compared_by_text_where_passages_are_beside_the_questions(world, tmp_path):
    first, *others = read_questions(world / "questions.jsonl")
    texts = {passage.id: passage.text for passage in read_passages(world / "passages.jsonl")}
    (tmp_path / "held").mkdir()
    held = Question(id="e", question="Never asked?", gold_ids=["e1"])
    write_questions(tmp_path / "held" / "questions.jsonl", [held])
    exclude = [tmp_path / "held" / "questions.jsonl"]
    asked = [("world", world / "questions.jsonl")]
    assert first.id in {seed.id for seed in open_seeds(asked, exclude=exclude).seeds}
    longer = PassageRecord(id="e1", text=f"Before. {texts[first.gold_ids[0]]} And after.")
    write_passages(tmp_path / "held" / "passages.jsonl", [longer])
    screened = open_seeds(asked, exclude=exclude)
    assert first.id not in {seed.id for seed in screened.seeds}
    assert 1 <= screened.refused["same_gold_passage"] < len(others)


def test_unusable_questions_are_refused(world, tmp_path):
    path = world / "questions.jsonl"
    with pytest.raises(UserError, match="Unknown data set 'x'. Choose from: .*world"):
        open_seeds([("x", path)])
    with pytest.raises(UserError, match=r"both have the question id"):
        open_seeds([("world", path), ("own", path)])
    with pytest.raises(UserError, match=r"No question may be trained on \(same_question: 40\)"):
        open_seeds([("world", path)], exclude=[path])
    again = [item.model_copy(update={"id": f"x{item.id}"}) for item in read_questions(path)]
    write_questions(tmp_path / "again.jsonl", again)
    seeds = open_seeds([("world", path), ("own", tmp_path / "again.jsonl")])
    assert (len(seeds.seeds), seeds.refused["asked_twice"]) == (40, 40)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompts": "x"}, "Unknown kind of prompts 'x'"),
        ({"predictors": ["x"]}, "Unknown predictor of genground 'x'"),
        ({"metric": "abstention"}, "cannot say whether an answer is right"),
        ({"student": "nothing"}, "Unknown LM 'nothing'"),
        ({"validation": 1.0}, "validation share"),
    ],
)
def test_unknown_settings_are_refused(request_for, changes, message, world):
    with pytest.raises(UserError, match=message):
        open_synthesis(request_for(**changes))


def test_an_evaluation_question_that_a_teacher_asks_as_a_step_is_not_learnt(request_for, tmp_path):
    """The gold of its hops is not that of the evaluation, so only the text of the step gives it away."""
    made = open_synthesis(request_for()).run(tmp_path / "all", progress=False)
    deductions = [json.loads(example.completion) for example in made.examples if example.skill == "deduction"]
    asked = {question.question for question in read_questions_of(request_for())}
    step = next(reply["sub_question"] for reply in deductions if reply["sub_question"] not in asked)
    write_questions(tmp_path / "held.jsonl", [Question(id="held", question=step.upper())])
    less = open_synthesis(request_for(exclude=[tmp_path / "held.jsonl"])).run(tmp_path / "less", progress=False)
    assert less.manifest["rejected"]["examples"]["evaluation_question_is_asked"] > 0
    assert not any(step in reply for reply in [example.completion for example in less.examples])


def read_questions_of(request):
    return [question for _, path in request.files for question in read_questions(path)]
