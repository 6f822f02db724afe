"""Gold annotations as the teacher: the recipe around the makers of `gold/`."""

import pytest

from corpora.questions import Question
from optimizers.distill.recipes import GoldDistillation
from optimizers.distill.student import QuestionSource, StudentPrompts
from optimizers.distill.trajectories import prompts_of
from programs.catalog import build
from programs.lms.adapter import JsonForm


@pytest.fixture
def recipe(question_with_gold, retriever):
    """Return a function that makes the recipe for a program and an adapter."""
    _, corpus, material = question_with_gold

    def make(program="genground", adapter=None, **settings):
        student = StudentPrompts(adapter or JsonForm(), prompts_of(build(program, None)), program)
        return GoldDistillation(student, corpus, retriever, material.wrong, **settings)

    return make


def test_every_predictor_with_gold_is_taught_and_the_question_alone_decides(recipe, question_with_gold, source):
    question = question_with_gold[0]
    made = recipe()(question, source)
    assert {example.predictor for example in made.examples} >= {"deduction", "grounding", "conclusion"}
    assert {example.labels for example in made.examples} == {"gold"}
    again = recipe()
    again(question.model_copy(update={"id": "another"}), source)
    assert again(question, source).examples == made.examples
    assert recipe(seed=1)(question, source).examples != made.examples


def test_the_world_is_made_and_not_gold(recipe, question_with_gold):
    made = recipe(predictors=["deduction"])(question_with_gold[0], QuestionSource("world", "any"))
    assert {(example.predictor, example.labels) for example in made.examples} == {("deduction", "made")}


def test_what_the_student_cannot_be_asked_and_questions_without_gold_are_counted(recipe, question_with_gold, source):
    made = recipe("rag", JsonForm(context_size=330))(question_with_gold[0], source)
    assert made.rejected_examples["prompt_fits_student"] > 0
    made = recipe()(Question(id="x", question="Who?", answers=["Nobody"], gold_ids=["absent"]), source)
    assert (made.examples, dict(made.rejected_trajectories)) == ([], {"gold_is_complete": 1})
