"""Runs in which every question comes with references that were chosen for it."""

import json

import pytest
from typer.testing import CliRunner

from corpora.questions import Question
from experiments.cli.main import app
from experiments.runs.files import read_rows
from experiments.runs.fixed_contexts import COMPLETE, choose_contexts
from experiments.world.generate import generate
from signatures.common.errors import UserError
from signatures.types import Passage

CORPUS = [Passage(id=f"p{number}", title=f"T{number}", text=f"Text {number}.") for number in range(12)]


def question(number, gold=("p0", "p1"), context=()):
    return Question(
        id=f"q{number}", question=f"What of {number}?", answers=["x"], gold_ids=list(gold), context_ids=list(context)
    )


QUESTIONS = [question(number) for number in range(6)]


@pytest.mark.parametrize(("knowledge", "gold"), [("closed", 0), ("partial", 1), ("complete", 2)])
def test_references_hold_as_much_gold_as_was_asked_for(knowledge, gold):
    kept, given, left_out = choose_contexts(QUESTIONS, CORPUS, knowledge=knowledge, n=5)
    assert left_out == 0
    for item in kept:
        ids = [passage.id for passage in given.of(item.id)]
        assert len({"p0", "p1"} & set(ids)) == gold
        assert len(ids) == (0 if knowledge == "closed" else 5)
        assert getattr(item, COMPLETE) is (knowledge == "complete")


def test_balanced_means_as_many_complete_as_partial():
    kept, _, left_out = choose_contexts([*QUESTIONS, question(9)], CORPUS, knowledge="balanced")
    assert sorted(getattr(item, COMPLETE) for item in kept) == [False] * 3 + [True] * 3
    assert left_out == 1


def test_what_cannot_be_asked_is_left_out_and_counted():
    kept, _, left_out = choose_contexts([*QUESTIONS, question(9, gold=["nowhere"])], CORPUS, knowledge="complete")
    assert (len(kept), left_out) == (6, 1)


def test_noise_is_what_the_benchmark_shows_with_the_question():
    context = ["p0", "p1", "p7", "p8", "p9"]
    _, given, _ = choose_contexts([question(1, context=context)], CORPUS, knowledge="complete")
    assert {passage.id for passage in given.of("q1")} == set(context)


@pytest.mark.parametrize("knowledge", ["complete", "balanced"])
def test_each_question_draws_from_its_own_context_where_it_has_one(knowledge):
    context = ["p0", "p1", "p6", "p7", "p8", "p9"]
    questions = [question(1, context=context), question(2), question(3, context=context), question(4)]
    kept, given, _ = choose_contexts(questions, CORPUS, knowledge=knowledge)
    for item in kept:
        assert len(given.of(item.id)) == 5
        if item.context_ids:
            assert {passage.id for passage in given.of(item.id)} <= set(context)


def test_a_run_can_be_told_apart_from_one_with_other_references():
    one, other = (choose_contexts(QUESTIONS, CORPUS, knowledge="complete", seed=seed)[1].describe() for seed in (0, 1))
    assert one != other
    assert one == choose_contexts(QUESTIONS, CORPUS, knowledge="complete", seed=0)[1].describe()


@pytest.mark.parametrize("knowledge", ["perfect", "partial"])
def test_what_nobody_can_be_given_is_refused(knowledge):
    with pytest.raises(UserError):
        choose_contexts([question(1, gold=["p0"])], CORPUS, knowledge=knowledge)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("world"), questions=12, seed=0)


def run(*arguments):
    result = CliRunner().invoke(app, ["eval", *map(str, arguments)])
    if isinstance(result.exception, UserError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def test_eval_gives_references_and_needs_no_index(files, tmp_path):
    passages, questions = files
    program = ["--program", "self_completion", "--preset", "reflection", "--lm", "simulated", "--quiet"]
    run(questions, "--out", tmp_path / "run", *program, "--references", "balanced", "--passages", passages)
    rows = read_rows(tmp_path / "run")
    assert len(rows) == 12
    assert sum(row["about"][COMPLETE] for row in rows) == 6
    assert all(len(row["passage_ids"]) == 5 for row in rows)
    described = json.loads((tmp_path / "run" / "run.json").read_text())["given"]
    assert (described["knowledge"], described["n"]) == ("balanced", 5)


def test_eval_says_what_references_need(files, tmp_path):
    passages, questions = files
    program = ["--program", "rag", "--lm", "simulated", "--quiet"]
    with pytest.raises(UserError, match="--passages"):
        run(questions, "--out", tmp_path / "run", *program, "--references", "complete")
    with pytest.raises(UserError, match="--references"):
        run(questions, "--out", tmp_path / "run", *program, "--passages", passages)
