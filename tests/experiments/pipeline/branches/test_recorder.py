"""A recorded run: its rows are those of any run, and its record answers other settings without an LM."""

import pytest

from experiments.pipeline.branches import recorder
from experiments.pipeline.evaluate import evaluate
from experiments.runs.config import RunConfig
from experiments.runs.files import read_rows
from optimizers.metrics.scoring import COSTS
from optimizers.replay.record import BRANCHES, REPLIES, RecordLog, load_record
from optimizers.replay.replaying import count_unseen, replay
from programs.catalog import build
from programs.lms.calls.budget import Budget
from signatures.common.errors import UserError

QUESTIONS = 6


@pytest.fixture
def setup(world):
    """Return a function that opens program, questions and connection anew."""
    from corpora.index.open import open_index
    from corpora.questions import read_questions
    from experiments.world.connect import connect_any

    def opened(budget=None, **knobs):
        program = build("cov_rag", open_index(world / "index"), **{"gate": "threshold", **knobs})
        asked = list(read_questions(world / "questions.jsonl"))[:QUESTIONS]
        return program, asked, connect_any("simulated", cache=False, budget=budget)

    return opened


def config(branches=8, **settings):
    return RunConfig(metrics=["em", "f1[hotpot]"], threads=2, branches=branches, **settings)


def run(setup, folder, *, budget=None, resume=False, **settings):
    program, questions, connection = setup(budget)
    summary = evaluate(
        program, questions, config(**settings), connection=connection, folder=folder, resume=resume, progress=False
    )
    return summary, connection.lm.budget.spent["calls"]


def rows_of(folder):
    return {row["id"]: {**row, "seconds": 0} for row in read_rows(folder)}


def test_a_recorded_run_has_the_rows_of_any_other(setup, tmp_path):
    run(setup, tmp_path / "plain", branches=0)
    run(setup, tmp_path / "recorded")
    assert rows_of(tmp_path / "plain") == rows_of(tmp_path / "recorded")
    assert not (tmp_path / "plain" / BRANCHES).exists()


def test_the_record_replays_the_run_and_other_settings(setup, tmp_path):
    run(setup, tmp_path / "run")
    record = load_record(tmp_path / "run")
    rows = rows_of(tmp_path / "run")
    natural = replay(record, {}, metric="em")
    assert {each.id: each.score for each in natural} == {id: row["scores"]["em"] for id, row in rows.items()}
    assert {each.id: each.cost("calls") for each in natural} == {id: row["calls"] for id, row in rows.items()}
    never = replay(record, {"truthfulness_below": 0.0, "bias_above": 1.0, "combine": "all"}, metric="em")
    assert count_unseen(never) == 0
    assert sum(each.cost("calls") for each in never) < sum(each.cost("calls") for each in natural)


def test_nothing_is_asked_twice(setup, tmp_path):
    _, calls = run(setup, tmp_path / "run")
    with RecordLog(tmp_path / "run") as log:
        kept = sum(len(log.memory(id)) for id in rows_of(tmp_path / "run"))
    assert calls < kept  # a call each, and the searches
    _, again = run(setup, tmp_path / "run", resume=True)
    assert again == 0


@pytest.mark.slow
def test_a_spent_budget_keeps_what_was_recorded_and_a_resumed_run_goes_on(setup, tmp_path):
    _, whole = run(setup, tmp_path / "whole")
    plain, asked = run(setup, tmp_path / "plain", branches=0)
    summary, first = run(setup, tmp_path / "run", budget=Budget(calls=int(asked) + 3))
    assert summary.stopped
    assert summary.answered == plain.answered == QUESTIONS
    summary, second = run(setup, tmp_path / "run", resume=True)
    assert not summary.stopped
    assert first + second == whole
    expected, found = load_record(tmp_path / "whole"), load_record(tmp_path / "run")
    for metric in ("em", "f1[hotpot]"):
        for knobs in ({}, {"max_revisions": 3}, {"truthfulness_below": 0.3}):
            assert by_id(replay(found, knobs, metric=metric)) == by_id(replay(expected, knobs, metric=metric))


@pytest.mark.slow
@pytest.mark.parametrize("first", [4, 25, 50])
def test_the_summary_has_what_all_sessions_paid_for_answers_and_for_branches(setup, tmp_path, first):
    _, answers = run(setup, tmp_path / "plain", branches=0)
    _, whole = run(setup, tmp_path / "whole")
    _, before = run(setup, tmp_path / "run", budget=Budget(calls=first))
    summary, after = run(setup, tmp_path / "run", resume=True)
    assert before + after == whole
    assert paid(summary.spent) == whole  # what an interrupted question had already paid counts once
    assert paid(summary.branches) == whole - answers
    assert summary.as_dict()["branches"]["prompt_tokens"] > 0
    table = summary.as_table().columns
    shown = dict(zip(table[0].cells, table[1].cells, strict=True))
    assert shown["paid calls for branches"] == str(int(whole - answers))


def test_rows_that_go_on_from_the_record_cost_the_same(setup, tmp_path):
    run(setup, tmp_path / "plain", branches=0)
    run(setup, tmp_path / "run", budget=Budget(calls=4))
    run(setup, tmp_path / "run", resume=True)
    for name, cost in COSTS.items():
        if not name.startswith("paid") and name != "seconds":
            expected, found = (
                {id: cost.function(row) for id, row in rows_of(tmp_path / each).items()} for each in ("plain", "run")
            )
            assert found == expected, name


def test_what_recording_cost_is_said(setup, tmp_path, capsys):
    program, questions, connection = setup()
    summary = evaluate(program, questions, config(), connection=connection, folder=tmp_path / "run", progress=True)
    calls, tokens = paid(summary.branches), summary.branches["prompt_tokens"] + summary.branches["completion_tokens"]
    said = " ".join(capsys.readouterr().err.split())
    assert f"with {calls:,.0f} further LM calls ({tokens:,.0f} tokens)" in said


def paid(costs):
    return costs["calls"] - costs["cached_calls"]


def by_id(outcomes):
    return {each.id: each for each in outcomes}


def test_a_killed_run_loses_at_most_the_question_that_was_being_written(setup, tmp_path):
    run(setup, tmp_path / "run")
    for name in (BRANCHES, REPLIES):
        path = tmp_path / "run" / name
        path.write_bytes(path.read_bytes()[:-20])
    run(setup, tmp_path / "run", resume=True)
    whole = replay(load_record(tmp_path / "run"), {}, metric="em")
    assert count_unseen(whole) == 0


def test_fewer_branches_can_be_recorded_and_more_later(setup, tmp_path):
    run(setup, tmp_path / "run", branches=1)
    few = load_record(tmp_path / "run")
    assert {few.count(id) for id in few.questions} == {1}
    run(setup, tmp_path / "run", branches=3, resume=True)
    more = load_record(tmp_path / "run")
    assert max(more.count(id) for id in more.questions) > 1


def test_a_program_without_gates_is_not_recorded(setup, tmp_path, world):
    from corpora.index.open import open_index

    _, questions, connection = setup()
    program = build("rag", open_index(world / "index"))
    with pytest.raises(UserError, match="'rag' has no gates.*cascade, cov_rag, retro_rag, selective, self_completion"):
        evaluate(program, questions, config(), connection=connection, folder=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_processes_cannot_record(setup, tmp_path):
    with pytest.raises(UserError, match="Branches are recorded in one process"):
        run(setup, tmp_path / "run", processes=2)
    assert not (tmp_path / "run").exists()


def test_the_record_names_no_paths_and_no_machine():
    assert recorder.described({"program": 1, "paths": "/home/me", "machine": "m"}) == {"program": 1}


def test_a_run_with_fixed_contexts_is_replayed_but_not_added_to(setup, world, tmp_path):
    from corpora.passages import read_passages
    from experiments.pipeline.branches.recorder import buying
    from experiments.runs.fixed_contexts import choose_contexts

    program, questions, connection = setup()
    passages = list(read_passages(world / "passages.jsonl"))
    chosen = choose_contexts(questions, passages, knowledge="complete", n=4, seed=0)
    evaluate(
        program,
        chosen.questions,
        config(contexts=chosen.contexts),
        connection=connection,
        folder=tmp_path / "run",
        progress=False,
    )
    rows, record = rows_of(tmp_path / "run"), load_record(tmp_path / "run")
    assert {each.id: each.score for each in replay(record, {}, metric="em")} == {
        id: row["scores"]["em"] for id, row in rows.items()
    }
    given = {"metric": "em", "questions": chosen.questions, "program": program, "connection": connection}
    with pytest.raises(UserError, match="had fixed contexts"), buying(tmp_path / "run", **given):
        pass
