"""The final test: a program that is no better than the uncompiled one seldom replaces it."""

import hashlib

import dspy
import pytest

from optimizers.teleprompters.compile import compile
from optimizers.teleprompters.race.race import divided, least_questions, plan
from optimizers.teleprompters.task import Task
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.single_step.rag import RAG

SEEDS = 50


class Lottery(dspy.Module):
    """Right on half of all questions, by a hash of question and demonstrations: every program is worth the same."""

    def __init__(self, seed):
        super().__init__()
        self.seed, self.reading = seed, dspy.Predict("question -> answer")

    def forward(self, question):
        shown = [demo["question"] for demo in self.reading.demos]
        lucky = hashlib.sha256(f"{self.seed} {shown} {question}".encode()).digest()[0] < 128
        return dspy.Prediction(answer="right" if lucky else "wrong")


def raced(make_examples, score, seed):
    """Return the compiled program of a race between programs that are worth the same."""
    sets = {"trainset": make_examples(12), "valset": make_examples(24, 1000)}
    options = {"arms": "labeled", "rungs": 1}
    return compile(Lottery(seed), Task(**sets, score=score, seed=seed, threads=1, options=options), optimizer="race")


@pytest.mark.slow
def test_a_program_that_is_worth_the_same_replaces_in_at_most_about_a_tenth(make_examples, score):
    races = [raced(make_examples, score, seed).details["race"] for seed in range(SEEDS)]
    finals = [row for race in races for row in race["rows"] if "p" in row]
    assert len(finals) > SEEDS / 3  # the best of several candidates did better on the questions that chose it
    replaced = sum(race["winner"] != "uncompiled" for race in races)
    assert replaced <= SEEDS / 10


def test_no_arm_is_given_a_question_of_the_final_test(retriever, make_examples, score):
    options = {"keep_one_in": 3, "rungs": 4, "fewest": 4, "held_back": 0.5}
    task = Task(make_examples(12), score, valset=make_examples(12, 100), options=options)
    chosen, held = divided(task)
    assert (len(chosen), len(held)) == (6, 6)
    ids = {each.id for each in held}
    assert all(not ids & {each.id for each in rung.valset} for rung in plan(task, 9))
    assert plan(task, 9)[-1].valset == chosen


def test_too_few_questions_for_the_final_test_leave_the_program_as_it_was(world, retriever, make_examples):
    here = world()
    sets = {"trainset": make_examples(6), "valset": make_examples(6, 100)}
    with here.context():
        task = here.task(options={"arms": "infer_rules"}, **sets)
        compiled = compile(RAG(retriever), task, optimizer="race")
    race = compiled.details["race"]
    assert race["winner"] == "uncompiled"
    assert "p cannot be below 0.1 on the 3 validation questions that were held back (at least 4 must be)" in race["why"]
    assert compiled.program.dump_state() == RAG(retriever).dump_state()


@pytest.mark.parametrize(("limit", "number"), [(1.0, 1), (0.5, 2), (0.1, 4), (0.05, 5), (0.0, float("inf"))])
def test_how_many_questions_the_final_test_needs(limit, number):
    assert least_questions(limit) == number


@pytest.mark.slow
@pytest.mark.parametrize("stop", range(20, 120, 20))
def test_a_race_that_is_stopped_hands_back_a_program_that_was_scored_completely(stop, world, retriever, make_examples):
    here = world(budget=Budget(calls=400), cache=False)
    asked = here.task_engine.complete

    def until(request):
        if len(here.task_engine.requests) >= stop:
            raise BudgetExceeded("The budget is used up.")
        return asked(request)

    here.task_engine.complete = until
    options = {"arms": "infer_rules,labeled", "keep_one_in": 2, "fewest": 4, "replace_below": 0.6}
    sets = {"trainset": make_examples(8), "valset": make_examples(12, 100)}
    with here.context():
        compiled = compile(RAG(retriever), here.task(options=options, threads=1, **sets), optimizer="race")
    assert compiled.stopped
    assert compiled.details["race"]["winner"] == "uncompiled"
    assert compiled.program.dump_state() == RAG(retriever).dump_state()
