"""Programs that have seen the questions of a study are refused before any call."""

import dspy
import pytest

from experiments.pipeline.compiling.request import describe
from experiments.pipeline.tuning.config import Candidates
from experiments.pipeline.tuning.unseen import check_unseen
from experiments.runs.config import describe_questions
from programs.artifact import freeze
from programs.nearest_demos import NearestDemos, PoolQuestion
from programs.single_step.rag import RAG
from signatures.common.errors import UserError
from tests.conftest import ListRetriever


@pytest.fixture
def shown(passages):
    """Return a function that makes a program with a demonstration of a question."""

    def make(question):
        program = RAG(ListRetriever(passages), k=3)
        program.reading.demos = [dspy.Example(question=question, context="[1] x", answer="right")]
        return program

    return make


def test_an_artifact_with_the_studys_questions_as_demonstrations_is_refused(tune, shown, engine, tmp_path):
    freeze(shown("question 5"), tmp_path / "compiled")
    with pytest.raises(UserError, match="compiled has question 'q5' of the study among its demonstrations"):
        tune(candidates=Candidates(artifacts=(tmp_path / "compiled",)), trials=2)
    assert engine.requests == []


def test_a_program_that_shows_the_studys_questions_is_refused(tune, shown, engine):
    with pytest.raises(UserError, match="The program has question 'q5' of the study"):
        tune(student=shown("Question 5?"), trials=2)
    assert engine.requests == []


@pytest.mark.parametrize(("name", "record"), [("train", describe), ("val", describe), ("tuned", describe_questions)])
def test_an_artifact_of_the_studys_questions_is_refused(name, record, tune, shown, questions, engine, tmp_path):
    freeze(shown("Another?"), tmp_path / "compiled", data={name: record(questions)})
    with pytest.raises(UserError, match="on the questions of the study"):
        tune(candidates=Candidates(artifacts=(tmp_path / "compiled",)), questions=questions, trials=2)
    assert engine.requests == []


def test_a_pool_with_the_studys_questions_is_refused(shown, questions):
    pool = [PoolQuestion("Unknown?", {}), PoolQuestion("QUESTION 7?", {})]
    program = NearestDemos(shown("Another?"), pool, lambda left, right: [[1.0] * len(right)])
    with pytest.raises(UserError, match="The program has question 'q7'"):
        check_unseen(program, (), questions)


def test_other_questions_are_no_reason_to_refuse(tune, shown, tmp_path, questions):
    freeze(shown("Another?"), tmp_path / "compiled", data={"train": describe(questions[:3])})
    found = tune(candidates=Candidates(artifacts=(tmp_path / "compiled",)), trials=2)
    assert found.record["counts"] == {"complete": 2}
