"""Opening a record for a study: what does not belong to it is refused by name, what it lacks is bought once."""

import json
import re
from types import SimpleNamespace

import pytest

from experiments.pipeline.branches.recorder import buying, checked_record
from experiments.pipeline.evaluate import evaluate
from experiments.runs.config import RunConfig
from optimizers.replay.record import load_record
from optimizers.replay.replaying import ReplayEvaluator, count_unseen
from optimizers.replay.trees import leaves_of
from programs.catalog import build
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.parts.knobs import with_knobs
from signatures.common.errors import UserError

METRIC = "f1[hotpot]"
OTHER = {"max_revisions": 3, "gate": "revision"}


@pytest.fixture
def setup(world, tmp_path):
    """Record a run with its own branches only; return program, questions, and a function that connects."""
    from corpora.index.open import open_index
    from corpora.questions import read_questions
    from experiments.world.connect import connect_any

    def connect(lm="simulated", **settings):
        return connect_any(lm, cache=False, **settings)

    program = build("cov_rag", open_index(world / "index"), gate="threshold")
    questions = list(read_questions(world / "questions.jsonl"))[:5]
    config = RunConfig(metrics=["em", METRIC], threads=2, branches=1)
    evaluate(program, questions, config, connection=connect(), folder=tmp_path / "run", progress=False)
    return program, questions, connect


def test_a_study_needs_neither_program_nor_lm(setup, tmp_path):
    _, questions, _ = setup
    evaluator = ReplayEvaluator(checked_record(tmp_path / "run", metric=METRIC, questions=questions), METRIC)
    assert count_unseen(evaluator.evaluate({}, {}, questions)) == 0
    assert [each.id for each in evaluator.evaluate({}, {}, questions[3:])] == [each.id for each in questions[3:]]
    assert count_unseen(evaluator.evaluate(OTHER, {}, questions)) > 0
    assert count_unseen(evaluator.evaluate({"k": 3}, {}, questions)) == len(questions)
    with pytest.raises(UserError, match=r"one set of prompts, so demos cannot be searched"):
        evaluator.evaluate({}, {"demos": "first"}, questions)
    with pytest.raises(UserError, match="Unknown knob of CoVRAG 'threshold'"):
        evaluator.evaluate({"threshold": 0.5}, {}, questions)


def test_settings_start_from_the_knobs_of_the_program_that_is_tuned(setup, tmp_path):
    program, questions, _ = setup
    given = {"metric": METRIC, "questions": questions}
    recorded = ReplayEvaluator(checked_record(tmp_path / "run", **given), METRIC)
    tuned = ReplayEvaluator(checked_record(tmp_path / "run", program=with_knobs(program, **OTHER), **given), METRIC)
    assert tuned.evaluate({}, {}, questions) == recorded.evaluate(OTHER, {}, questions)
    assert tuned.evaluate({"max_revisions": 1, "gate": "threshold"}, {}, questions) == recorded.evaluate(
        {}, {}, questions
    )
    wider = ReplayEvaluator(checked_record(tmp_path / "run", program=with_knobs(program, k=3), **given), METRIC)
    assert count_unseen(wider.evaluate({}, {}, questions)) == len(questions)


def test_what_is_unseen_is_bought_once_for_all_trials(setup, tmp_path):
    program, questions, connect = setup
    first = connect()
    with buying(tmp_path / "run", metric=METRIC, questions=questions, program=program, connection=first) as evaluator:
        bought = evaluator.evaluate(OTHER, {}, questions)
        calls = first.lm.budget.spent["calls"]
        assert evaluator.evaluate(OTHER, {}, questions) == bought
        assert first.lm.budget.spent["calls"] == calls > 0
        assert evaluator.buyer.bought > 0
    assert count_unseen(bought) == 0
    assert sum(each.cost("calls") for each in bought) > calls  # the shared beginning is not paid again
    record = checked_record(tmp_path / "run", metric=METRIC, questions=questions)
    assert ReplayEvaluator(record, METRIC).evaluate(OTHER, {}, questions) == bought


def test_another_knob_that_no_gate_reads_is_bought_too(setup, tmp_path):
    program, questions, connect = setup
    given = {"metric": METRIC, "questions": questions, "connection": connect()}
    with buying(tmp_path / "run", program=with_knobs(program, max_revisions=2), **given) as evaluator:
        assert count_unseen(evaluator.evaluate({"k": 2}, {}, questions)) == 0
        assert count_unseen(evaluator.evaluate({"k": 2, "max_revisions": 2}, {}, questions)) == 0
    assert {root for _, root, _ in load_record(tmp_path / "run").trees()} == {(), (("k", 2),)}


def test_a_small_budget_buys_whole_questions_and_then_says_that_it_is_spent(setup, tmp_path):
    program, questions, connect = setup
    given = {"metric": METRIC, "questions": questions, "program": program}
    dearest = max(
        leaf.costs["calls"] for _, _, tree in load_record(tmp_path / "run").trees() for leaf in leaves_of(tree)
    )
    poor = connect(budget=Budget(calls=int(dearest)))
    with buying(tmp_path / "run", connection=poor, **given) as evaluator:
        with pytest.raises(BudgetExceeded, match=f"{int(dearest)} calls is used up"):
            evaluator.evaluate(OTHER, {}, questions)
        assert evaluator.buyer.bought > 0
        with pytest.raises(BudgetExceeded):  # also later, and without asking
            evaluator.evaluate(OTHER, {}, questions)
    assert poor.lm.budget.spent["calls"] <= dearest
    found = ReplayEvaluator(load_record(tmp_path / "run"), METRIC).evaluate(OTHER, {}, questions)
    assert 0 < count_unseen(found) < len(questions)


def test_questions_share_no_budget_that_is_too_small_for_all(setup, tmp_path):
    """In parallel, five questions would spend six calls before one has ended."""
    program, questions, connect = setup
    given = {"metric": METRIC, "questions": questions, "program": program, "threads": 5}
    with buying(tmp_path / "run", connection=connect(budget=Budget(calls=12)), **given) as evaluator:
        with pytest.raises(BudgetExceeded):
            evaluator.evaluate({"k": 2}, {}, questions)
        assert evaluator.buyer.bought > 0
    assert connect().lm.budget.left() == {}


def test_a_question_that_cannot_be_bought_is_named(setup, tmp_path, monkeypatch):
    program, questions, connect = setup

    def fails(*given):
        raise ValueError("no leaf")

    monkeypatch.setattr("optimizers.replay.replaying.Runner.run", fails)
    given = {"metric": METRIC, "questions": questions, "program": program, "connection": connect()}
    with buying(tmp_path / "run", **given) as evaluator:
        assert count_unseen(evaluator.evaluate({"k": 2}, {}, questions)) == len(questions)
        assert re.search(r"^5 questions ended in an error .* ValueError: no leaf$", evaluator.buyer.note())


def test_what_a_judge_scores_is_not_bought(setup, tmp_path, monkeypatch):
    program, questions, connect = setup
    judged = SimpleNamespace(name="acc[judge]", judged=True)
    monkeypatch.setattr("experiments.pipeline.branches.recorder.typed_metric", lambda name: judged)
    given = {"metric": METRIC, "questions": questions, "program": program, "connection": connect()}
    with pytest.raises(UserError, match=r"acc\[judge\].* without buying"), buying(tmp_path / "run", **given):
        pass


def test_one_process_buys_at_a_time(setup, tmp_path):
    program, questions, connect = setup
    given = {"metric": METRIC, "questions": questions, "program": program, "connection": connect()}
    with (
        buying(tmp_path / "run", **given),
        pytest.raises(UserError, match="Another process is writing"),
        buying(tmp_path / "run", **given),
    ):
        pass


def test_differences_are_named(setup, tmp_path, world):
    from corpora.index.open import open_index

    program, questions, connect = setup
    folder = tmp_path / "run"

    def refused(reason, **changed):
        given = {"metric": METRIC, "questions": questions, "program": program, "connection": connect(), **changed}
        with pytest.raises(UserError, match=reason):
            checked_record(folder, **given)

    refused(r"no scores of rouge: choose from em, f1\[hotpot\]", metric="rouge")
    refused(r"another run: lm.id was 'simulated' and is now 'simulated:1'", connection=connect("simulated:1"))
    refused(r"lm.\S+ was 0.0 and is now 0.5", connection=connect(temperature=0.5))
    refused(
        r"program.name was 'cov_rag' and is now 'retro_rag'", program=build("retro_rag", open_index(world / "index"))
    )
    other = with_knobs(program)
    other.answering.signature = other.answering.signature.with_instructions("Answer.")
    refused("program.state_sha256 was", program=other)
    refused("corpus.fingerprint was", program=build("cov_rag", open_index(world / "index", title_boost=2.0)))
    changed = questions[0].model_copy(update={"question": "Who?"})
    refused(f"{changed.id!r} was .* and is now 'Who\\?'", questions=[changed])
    for gold in ({"answers": ["Fog"]}, {"gold_ids": []}, {"key_facts": ["It is foggy."]}, {"type": "odd"}):
        refused(f"gold of question {changed.id!r} has changed", questions=[questions[0].model_copy(update=gold)])
    assert checked_record(folder, metric=METRIC, questions=[questions[0].model_copy(update={"split": "odd"})])
    refused("Question 'new' is not in the record", questions=[changed.model_copy(update={"id": "new"})])
    assert checked_record(folder, metric=METRIC, questions=questions, program=with_knobs(program, max_revisions=3))
    assert "key" not in json.dumps(load_record(folder).run["lm"])
