"""DSP's recipe: the multi-hop program learns from searches that found the evidence without repeating themselves."""

from pathlib import Path

import pytest

from optimizers.feedback.metric import feedback
from optimizers.metrics.catalog import get_metric
from optimizers.teleprompters.compile import compile
from optimizers.teleprompters.task import Task
from programs.multi_step.multihop import MultiHop
from tests.conftest import load_module

tasks = load_module(Path(__file__).with_name("tasks.py"))
GOLD = {"gold_ids": ["p0", "p1"]}  # the list retriever finds them whatever it is asked


def searching(system, user):
    """Answer every question rightly; the second query of an odd question is the first in other words."""
    number = tasks.number_of(user)
    second = "Filler sentence" in user
    again = f"find the harbour master of {number}" if number % 2 else f"where was Ansa {number} born"
    query = again if second else f"harbour master of {number}, find"
    return {"reasoning": "So.", "query": query, "answer": "right"}


@pytest.mark.parametrize("metric", ["em", "multihop_trace[em]"])
def test_a_trajectory_with_a_repeated_query_is_no_demonstration(metric, scripted, retriever):
    scripted(searching)
    task = Task(tasks.examples(8, **GOLD), get_metric(metric), max_demos=4)
    found = compile(MultiHop(retriever), task, optimizer="bootstrap")
    shown = {predictor: [demo.question for demo in predictor.demos] for predictor in found.program.predictors()}
    assert [len(questions) for questions in shown.values()] == [4, 4]
    kept = {int(question.split()[1].strip("?")) % 2 for questions in shown.values() for question in questions}
    assert kept == ({0, 1} if metric == "em" else {0})


def test_the_feedback_names_the_query_that_repeats(scripted, retriever):
    scripted(searching)
    example = tasks.examples(1, 1, **GOLD)[0]
    said = feedback(example, MultiHop(retriever)(question=example.question), 0.0, pred_name="querying")
    assert "Query 2 repeats query 1." in said
    example = tasks.examples(1, 2, **GOLD)[0]
    said = feedback(example, MultiHop(retriever)(question=example.question), 0.0, pred_name="querying")
    assert "repeats" not in said
