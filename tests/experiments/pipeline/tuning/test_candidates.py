"""Where demonstrations and instructions of a study come from."""

import pytest

from corpora.questions import Question
from experiments.pipeline.tuning.config import Candidates
from optimizers.tuning.prompts import PRESENT
from programs.artifact import freeze, load, read_artifact
from programs.closed_book.cot import CoT
from programs.lms.calls.budget import Budget
from programs.parts.knobs import with_knobs
from programs.single_step.rag import RAG
from signatures.common.errors import UserError
from tests.conftest import ListRetriever, ScriptedEngine

BETTER = "Answer with the single word right."


def obeys(system: str, user: str) -> str:
    """Write an instruction if asked for one; answer right if told so or shown how, else wrong."""
    if "proposed_instruction" in system:
        return f"[[ ## proposed_instruction ## ]]\n{BETTER}\n\n[[ ## completed ## ]]"
    if "observations" in system or "summary" in system:
        field = "summary" if "[[ ## summary ## ]]" in system else "observations"
        return f"[[ ## {field} ## ]]\nQuestions about fog.\n\n[[ ## completed ## ]]"
    lucky = any(f"Question {n}?" in user for n in range(0, 24, 3))
    told = BETTER in system
    return f"[[ ## answer ## ]]\n{'right' if told or lucky else 'wrong'}\n\n[[ ## completed ## ]]"


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine(obeys)


def test_instructions_are_written_tried_and_frozen(tune, tmp_path, passages):
    found = tune(candidates=Candidates(instructions=2), searched=(), trials=6, sampler="random")
    assert set(found.present) == {"instruction.reading"}
    assert found.findings.best.setting == {"instruction.reading": "written-1"}
    assert found.findings.best.score() == 1.0
    program = load(tmp_path / "s" / "artifact", ListRetriever(passages))
    assert program.reading.signature.instructions == BETTER
    assert found.record["request"]["trainset"]["n"] == 8  # a third of the questions
    assert len(found.record["questions"]) == 16
    assert found.record["spent"]["calls"] >= 2 + 6 * 16 - 16


def test_sets_of_demonstrations_are_compiled_from_questions_that_no_trial_asks(tune, engine, passages, tmp_path):
    train = [Question(id=f"t{n}", question=f"Train: Question {3 * n}?", answers=["right"]) for n in range(6)]
    found = tune(
        candidates=Candidates(optimizers=("bootstrap",), seeds=2, max_demos=2),
        trainset=train,
        searched=(),
        sampler="grid",
        trials=9,
    )
    assert found.present == {"demos": PRESENT}
    assert {trial.setting["demos"] for trial in found.findings.trials} == {PRESENT, "bootstrap-1", "bootstrap-2"}
    assert len(found.findings.trials) == 4  # the grid and the program as it was
    asked = set(found.record["questions"])
    assert not asked & {question.id for question in train}
    number = next(trial.number for trial in found.findings.trials if trial.setting["demos"] == "bootstrap-2")
    again = tune(
        candidates=Candidates(optimizers=("bootstrap",), seeds=2, max_demos=2),
        trainset=train,
        searched=(),
        sampler="grid",
        trials=9,
        resume=True,
        chosen=number,
    )
    program = load(again.artifact, ListRetriever(passages))
    assert [demo["answer"] for demo in program.reading.demos] == ["right", "right"]
    assert read_artifact(again.artifact).optimizer["accepted"] == {"reading": 2}


def test_no_optimizer_sees_the_questions_of_the_study(tune, monkeypatch):
    from optimizers.teleprompters import compile as compiling

    def seen(student, task, *, optimizer):
        tasks.append(compiling.checked_task(student, task, optimizer))
        return original(student, task, optimizer=optimizer)

    tasks, original = [], compiling.compile
    monkeypatch.setattr(compiling, "compile", seen)
    train = [Question(id=f"t{n}", question=f"Train: Question {3 * n}?", answers=["right"]) for n in range(8)]
    found = tune(candidates=Candidates(optimizers=("random_search",), seeds=1, max_demos=1), trainset=train, trials=1)
    (task,) = tasks
    assert len(task.valset) == 4
    assert {example.id for example in [*task.trainset, *task.valset]} == {question.id for question in train}
    assert found.record["counts"] == {"complete": 1}


def test_artifacts_are_tried_whole_right_after_the_program_as_it_is(tune, tmp_path, passages):
    other = with_knobs(RAG(ListRetriever(passages)), k=9)
    other.reading.signature = other.reading.signature.with_instructions(BETTER)
    freeze(other, tmp_path / "compiled")
    found = tune(candidates=Candidates(artifacts=(tmp_path / "compiled",)), trials=2)
    assert [trial.setting for trial in found.findings.trials] == [
        {"k": 3, "reader": "direct", "instruction.reading": PRESENT},
        {"k": 9, "reader": "direct", "instruction.reading": "compiled"},
    ]
    assert found.findings.best.score() == 1.0


def test_artifacts_of_one_name_keep_their_own_instructions(tune, tmp_path, passages):
    texts, folders = ("Answer in a word.", BETTER), (tmp_path / "a" / "same", tmp_path / "b" / "same")
    for text, folder in zip(texts, folders, strict=True):
        other = RAG(ListRetriever(passages))
        other.reading.signature = other.reading.signature.with_instructions(text)
        freeze(other, folder)
    found = tune(candidates=Candidates(artifacts=folders), trials=3)
    assert [trial.setting["instruction.reading"] for trial in found.findings.trials] == [PRESENT, "same", "same-2"]
    assert found.findings.trials[1].score() < found.findings.trials[2].score() == 1.0


def test_compiled_candidates_are_tried_with_the_knobs_as_they_are_before_the_sampler_chooses(tune):
    train = [Question(id=f"t{n}", question=f"Train: Question {3 * n}?", answers=["right"]) for n in range(6)]
    found = tune(
        candidates=Candidates(optimizers=("bootstrap",), seeds=2, max_demos=2, instructions=1),
        trainset=train,
        trials=3,
        sampler="random",
    )
    settings = [trial.setting for trial in found.findings.trials]
    assert settings == [{**found.present, "demos": demos} for demos in (PRESENT, "bootstrap-1", "bootstrap-2")]


def test_an_artifact_of_another_program_is_refused(tune, tmp_path):
    freeze(CoT(), tmp_path / "cot")
    with pytest.raises(UserError, match="contains the program cot, the study is of rag"):
        tune(candidates=Candidates(artifacts=(tmp_path / "cot",)))


def test_half_of_a_budget_is_left_for_the_trials(tune):
    found = tune(candidates=Candidates(instructions=40), searched=(), trials=1, budget=Budget(calls=40))
    assert found.record["counts"] == {"complete": 1}
    assert found.record["spent"]["calls"] <= 40


@pytest.mark.parametrize("name", ["ensemble", "knn"])
def test_an_optimizer_that_makes_another_kind_of_program_is_refused_before_any_call(name, tune, engine):
    with pytest.raises(UserError, match=f"Optimizer {name} makes a program of another kind"):
        tune(candidates=Candidates(optimizers=("bootstrap", name)), trials=1)
    assert engine.requests == []


def test_an_optimizer_that_does_not_fit_is_refused_before_any_call(tune, engine):
    with pytest.raises(UserError, match="better_together does not fit this program"):
        tune(candidates=Candidates(optimizers=("bootstrap", "better_together")), trials=1)
    assert engine.requests == []


def test_without_any_candidate_the_program_as_it_is_remains(tune, link):
    silent = ScriptedEngine(lambda system, user: "")
    found = tune(candidates=Candidates(instructions=1), searched=(), trials=5, connection=link(silent))
    assert found.record["counts"] == {"complete": 1}
    assert found.findings.verdict == "No setting scored higher than the program as it was."
