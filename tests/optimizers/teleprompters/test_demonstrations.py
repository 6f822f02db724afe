"""Bootstrapping, random search, demonstrations per question, ensembles: what is made, and what it costs."""

from dataclasses import replace
from pathlib import Path

import dspy
import pytest

from optimizers.examples import bootstrap_metric
from optimizers.teleprompters.bootstrap import DemoPool, with_demos
from optimizers.teleprompters.catalog import OPTIMIZERS
from optimizers.teleprompters.compile import compile
from optimizers.teleprompters.task import Task
from programs.ensemble import Ensemble
from programs.genground import GenGround
from programs.lms.calls.metered import metered_lm
from programs.nearest_demos import NearestDemos
from programs.single_step.rag import RAG
from signatures.common.errors import UserError
from signatures.types import Passage
from tests.conftest import load_module

tasks = load_module(Path(__file__).with_name("tasks.py"))
examples, exact, SharedWords = tasks.examples, tasks.exact, tasks.SharedWords


def hops(system, user):
    question = user.split("[[ ## question ## ]]\n")[1].split("\n")[0]
    return {
        "finished": "2. " in user,
        "sub_question": f"Sub of {question}",
        "evidence": "",
        "answer": "wrong" if "3" in question else "right",
    }


def test_the_pool_makes_the_demonstrations_of_dspy(scripted, retriever):
    scripted(hops)
    student, task = GenGround(retriever, k=2, batch_size=2), Task(examples(9), exact, max_demos=4)
    dspys = dspy.BootstrapFewShot(
        bootstrap_metric(exact), max_bootstrapped_demos=4, max_labeled_demos=0, teacher_settings={}
    ).compile(student, trainset=list(task.trainset))
    ours = with_demos(student, DemoPool(student, task).first(range(9), 4))
    assert ours.dump_state() == dspys.dump_state()
    assert [len(predictor.demos) for predictor in ours.predictors()][:2] == [4, 4]


def test_an_answer_without_an_lm_call_takes_no_place_of_a_demonstration(scripted):
    class Shelf:
        fingerprint = "shelf"

        def __call__(self, query, k):
            return [
                Passage(id="orn", title="Orn", text="Orn is a herb."),
                Passage(id="tarn", title="Tarn", text="A shrub."),
            ]

    scripted(lambda system, user: {"answer": "right"})
    asked = ("Which is a herb, Orn or Tarn?", "Orn"), ("Where is Orn?", "right")
    task = Task([dspy.Example(question=q, answers=[a]).with_inputs("question") for q, a in asked], exact, max_demos=1)
    student = RAG(Shelf(), compare=True)
    (demos,) = DemoPool(student, task).first(range(2), 1)
    assert demos["reading"].question == "Where is Orn?"


def test_each_training_example_runs_once_for_all_candidates(metered_engine, retriever):
    engine, _ = metered_engine()
    task = Task(examples(6), exact, valset=examples(4, 10), options={"candidates": 5}, max_demos=2)
    found = compile(RAG(retriever), task, optimizer="random_search")
    # Candidates that equal an earlier one are not scored again.
    assert len(engine.requests) == found.costs["calls"] == 6 + 4 * len(found.candidates)
    assert found.candidates[-1].n_calls == found.costs["calls"]
    assert (found.tried, found.failed, found.stopped) == (6, 0, None)


@pytest.mark.parametrize(("optimizer", "options", "extra"), [("random_search", {}, 0), ("ensemble", {"size": 2}, 8)])
def test_the_estimate_is_what_it_takes_if_no_candidates_are_equal(optimizer, options, extra, metered_engine, retriever):
    engine, _ = metered_engine()
    student, options = RAG(retriever), {"candidates": 4, **options}
    task = Task(examples(24), exact, valset=examples(4, 30), options=options, max_demos=4, threads=1)
    found = compile(student, task, optimizer=optimizer)
    runs = OPTIMIZERS[optimizer].estimate(student, task)
    assert [each.label for each in found.candidates][:3] == ["uncompiled", "labeled", "bootstrap 0"]
    assert runs.student == 6 * 4 + extra
    assert len(engine.requests) == found.costs["calls"] == runs.student + found.tried
    assert found.tried <= runs.teacher


def test_the_best_candidate_is_returned_and_named(metered_engine, retriever):
    metered_engine()
    task = Task(examples(6), exact, valset=examples(4, 10), options={"candidates": 2})
    found = compile(RAG(retriever), task, optimizer="random_search")
    assert [each.mean for each in found.candidates][:2] == [0.5, 1.0]
    assert found.chosen == "labeled"
    assert found.program.reading.demos
    assert all(each.complete for each in found.candidates)


def test_the_uncompiled_program_is_returned_if_no_candidate_beats_it(scripted, retriever):
    scripted(lambda system, user: {"answer": "right"})
    student = RAG(retriever)
    found = compile(student, Task(examples(6), exact, valset=examples(4, 10)), optimizer="random_search")
    assert found.chosen == "uncompiled"
    assert found.program.dump_state() == student.dump_state()


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["bootstrap", "random_search", "ensemble", "knn", "labeled"])
def test_the_same_seed_gives_the_same_program_and_another_seed_another(optimizer, metered_engine, retriever):
    def state(seed, threads=8):
        metered_engine()
        task = Task(examples(30), exact, valset=examples(3, 50), seed=seed, max_demos=2, threads=threads)
        found = compile(RAG(retriever), replace(task, similarity=SharedWords()), optimizer=optimizer)
        labels = [(each.label, each.program.dump_state()) for each in found.candidates]
        return found.program.dump_state(), labels

    assert state(0) == state(0, threads=1)
    if optimizer != "knn":  # its pool holds every example, whatever the seed
        assert state(0) != state(1)


def test_a_teacher_does_not_see_the_example_that_it_answers(scripted, retriever):
    engine = scripted(lambda system, user: {"answer": "right"})
    teacher = compile(RAG(retriever), Task(examples(4), exact), optimizer="labeled").program
    compile(RAG(retriever), Task(examples(4), exact, teacher=teacher), optimizer="bootstrap")
    assert len(engine.requests) == 4
    for request in engine.requests:
        shown = [message.text for message in request.messages[:-1]]
        asked = request.messages[-1].text.split("Question ")[1].split("?")[0]
        assert len(shown) == 2 * 3
        assert not any(f"Question {asked}?" in text for text in shown)


def test_another_program_cannot_teach(retriever):
    with pytest.raises(UserError, match="The teacher GenGround has other predictors than the student RAG"):
        compile(RAG(retriever), Task(examples(2), exact, teacher=GenGround(retriever)))


def test_the_teacher_runs_on_its_lm_and_adapter(metered_engine, retriever):
    engine, _ = metered_engine()
    other = tasks.Scripted()
    teacher_lm = metered_lm("scripted/teacher", engine=other, cache=False)
    task = Task(examples(6), exact, valset=examples(4, 10), teacher_lm=teacher_lm, options={"candidates": 1})
    found = compile(RAG(retriever), task, optimizer="random_search")
    assert len(other.requests) == 6
    assert found.costs["calls"] == len(engine.requests) + 6


def test_demonstrations_per_question_come_from_a_pool_made_once(metered_engine, retriever):
    engine, _ = metered_engine()
    task = Task(examples(9), exact, similarity=SharedWords(), max_demos=2)
    found = compile(RAG(retriever), task, optimizer="knn")
    assert isinstance(found.program, NearestDemos)
    assert found.accepted == {"reading": 5}
    assert len(engine.requests) == found.costs["calls"] == 9
    found.program(question="Question 4?")
    (asked,) = engine.requests[9:]
    assert len(asked.messages) == 2 * 2 + 1


def test_a_pool_of_nothing_is_the_program_as_it_was(scripted, retriever):
    scripted(lambda system, user: {"answer": "wrong"})
    student = RAG(retriever)
    found = compile(student, Task(examples(3), exact, similarity=SharedWords()), optimizer="knn")
    assert (type(found.program), found.accepted) == (RAG, {"reading": 0})


def test_an_ensemble_is_of_the_best_candidates(metered_engine, retriever):
    metered_engine()
    task = Task(examples(9), exact, valset=examples(4, 10), options={"candidates": 3, "size": 2})
    found = compile(RAG(retriever), task, optimizer="ensemble")
    assert isinstance(found.program, Ensemble)
    assert found.chosen == "ensemble of labeled, bootstrap 0"
    assert found.program.max_calls() == 2


def test_an_ensemble_of_one_is_that_one(scripted, retriever):
    scripted(lambda system, user: {"answer": "wrong"})
    unlabeled = [example.without("answer") for example in examples(4)]
    task = Task(unlabeled, exact, valset=examples(2, 10))
    found = compile(RAG(retriever), task, optimizer="ensemble")
    assert (type(found.program), found.chosen) == (RAG, "uncompiled")
