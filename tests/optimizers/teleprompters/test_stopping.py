"""A budget that is spent, questions that no optimizer may see, and DSPy's own evaluations."""

import threading
from dataclasses import replace
from pathlib import Path

import dspy
import pytest
from dspy.teleprompt.utils import eval_candidate_program

from optimizers.examples import graded_metric, hold_out
from optimizers.teleprompters.compile import checked_task, compile, on_our_threads
from optimizers.teleprompters.task import Recording, Task, score_candidate
from programs.genground import GenGround
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.lms.calls.control import Stopped, controlled
from programs.parts.meter import Meter, metered
from programs.single_step.rag import RAG
from signatures.common.errors import UserError
from tests.conftest import ScriptedEngine, load_module

tasks = load_module(Path(__file__).with_name("tasks.py"))
examples, exact = tasks.examples, tasks.exact


def search(**fields):
    given = {"valset": examples(4, 10), "options": {"candidates": 4}, "max_demos": 2, "threads": 2}
    return Task(examples(8), exact, **{**given, **fields})


@pytest.mark.parametrize("calls", range(1, 24, 3))
def test_a_spent_budget_returns_the_best_complete_candidate_or_the_student(calls, metered_engine, retriever):
    engine, _ = metered_engine(Budget(calls=calls))
    student = RAG(retriever)
    found = compile(student, search(), optimizer="random_search")
    assert len(engine.requests) <= calls
    assert found.costs["calls"] == len(engine.requests)
    assert found.stopped.startswith(f"The budget of {calls} calls is used up")
    complete = [each for each in found.candidates if each.complete]
    assert len(complete) == len(found.candidates)  # what was scored in part is no candidate of a search
    best = max(complete, key=lambda each: each.mean, default=None)
    assert found.chosen == (best.label if best else None)
    assert found.program.dump_state() == (best.program if best else student).dump_state()
    assert found.program is not student


def test_only_the_share_of_an_arm_is_spent(metered_engine, retriever):
    engine, lm = metered_engine(Budget(calls=100))
    with lm.budget.within(calls=9) as share:
        found = compile(RAG(retriever), search(), optimizer="random_search")
    assert found.stopped.startswith("The share of 9 calls is used up")
    assert share.spent["calls"] == len(engine.requests) <= 9
    assert [each.label for each in found.candidates] == ["uncompiled", "labeled"]
    assert compile(RAG(retriever), search(options={}), optimizer="bootstrap").stopped is None


def test_candidates_are_handed_out_as_they_are_scored(metered_engine, retriever):
    metered_engine(Budget(calls=10))
    seen, runs = [], []
    task = search(on_candidate=seen.append, on_run=lambda: runs.append(threading.get_ident()))
    found = compile(RAG(retriever), task, optimizer="random_search")
    assert [each.label for each in seen] == [each.label for each in found.candidates] == ["uncompiled", "labeled"]
    assert [each.n_calls for each in seen] == [4, 8]
    assert len(runs) >= 8


def test_known_candidates_are_not_scored_again_and_count_when_the_budget_is_spent(metered_engine, retriever):
    metered_engine()
    whole = compile(RAG(retriever), search(), optimizer="random_search")
    known = {each.label: each for each in whole.candidates}
    engine, _ = metered_engine(Budget(calls=20))
    again = compile(RAG(retriever), search(known=known), optimizer="random_search")
    assert len(engine.requests) <= 8  # the training examples: what makes the demonstrations is not kept
    assert [(each.label, each.mean, each.n_calls) for each in again.candidates] == [
        (each.label, each.mean, each.n_calls) for each in whole.candidates
    ]
    engine, _ = metered_engine(Budget(calls=1))
    stopped = compile(RAG(retriever), search(known=known), optimizer="random_search")
    assert (stopped.chosen, bool(stopped.stopped)) == (whole.chosen, True)


def test_candidates_of_one_label_are_told_apart(retriever):
    recording = Recording(examples(1))
    for label in ("uncompiled", "uncompiled", None, "uncompiled"):
        recording.add(RAG(retriever), {"q0": 1.0}, label)
    labels = [each.label for each in recording.everything()]
    assert labels == ["uncompiled", "uncompiled (2)", "candidate 3", "uncompiled (3)"]


def test_a_known_candidate_of_other_prompts_is_scored_again(metered_engine, retriever):
    engine, _ = metered_engine()
    other = RAG(retriever)
    other.reading.signature = other.reading.signature.with_instructions("Other.")
    task = search()
    stale = score_candidate(other, replace(task, recording=Recording(task.valset)), "uncompiled")
    engine.requests.clear()
    found = compile(RAG(retriever), search(known={"uncompiled": stale}), optimizer="random_search")
    assert found.candidates[0].label == "uncompiled"
    assert found.costs["calls"] == len(engine.requests)


def test_costs_reach_the_meter_outside_even_if_the_work_fails(metered_engine, retriever):
    engine, _ = metered_engine()

    def broken(example, prediction):
        raise RuntimeError("a metric with a bug")

    with metered() as meter, pytest.raises(RuntimeError, match="a metric with a bug"):
        compile(RAG(retriever), replace(search(), score=broken), optimizer="random_search")
    assert meter.calls == len(engine.requests) > 0


def test_errors_score_0_and_are_counted_and_a_program_that_always_fails_is_refused(metered_engine, retriever):
    class Broken(tasks.Scripted):
        def complete(self, request):
            if "Question 1" in request.messages[-1].text:
                raise RuntimeError("a bug")
            return super().complete(request)

    metered_engine(engine=Broken())
    mixed = [*examples(1, 24), *examples(1, 12)]
    found = compile(RAG(retriever), search(valset=mixed), optimizer="random_search")
    assert [each.errors for each in found.candidates] == [1] * len(found.candidates)
    assert found.candidates[0].scores == {"q24": 1.0, "q12": 0.0}
    with pytest.raises(UserError, match=r"All 4 validation examples ended in an error; the first: .*a bug"):
        compile(RAG(retriever), search(valset=examples(4, 10)), optimizer="random_search")


@pytest.mark.parametrize("split", ["test", "Test", "testset", "test-unseen", "wiki_test"])
def test_test_questions_are_refused_by_id(split, retriever):
    bad = examples(1, 7, split=split)
    for task in (Task([*examples(3), *bad], exact), Task(examples(3), exact, valset=bad)):
        with pytest.raises(UserError, match=f"Question 'q7' is of the split {split}: no optimizer may see it"):
            compile(RAG(retriever), task)


@pytest.mark.parametrize("split", ["train", "latest", "contest", None])
def test_questions_of_other_splits_are_not(split, retriever):
    compile(RAG(retriever), Task(examples(3, split=split), exact), optimizer="labeled")


def test_one_question_cannot_teach_and_judge(retriever):
    reworded = [
        [dspy.Example(id="other", question=text).with_inputs("question")]
        for text in ("question  1", "The question, 1?", "Ｑｕｅｓｔｉｏｎ １？")
    ]
    for valset in (examples(1, 2), *reworded):
        with pytest.raises(UserError, match="is in the training set and in the validation set"):
            compile(RAG(retriever), Task(examples(3), exact, valset=valset))


def test_a_part_is_held_out_by_default_the_same_for_the_same_seed(retriever):
    def sets(order, seed):
        task = checked_task(RAG(retriever), Task(order, exact, seed=seed), "random_search")
        return {each.id for each in task.trainset}, {each.id for each in task.valset}

    train, val = sets(examples(10), 0)
    assert (len(train), len(val), train & val) == (5, 5, set())
    assert sets(examples(10)[::-1], 0) == (train, val)
    assert sets(examples(10), 1) != (train, val)
    assert checked_task(RAG(retriever), Task(examples(4), exact), "bootstrap").valset == ()
    with pytest.raises(UserError, match="at least two different questions"):
        sets(examples(1) * 3, 0)


def test_questions_of_the_same_words_stay_together():
    twins = [dspy.Example(question=text) for text in ("Who?", "who", "Where?", "WHERE ?", "When?", "Why?")]
    for seed in range(9):
        train, val = hold_out(twins, seed=seed)
        words = [{"".join(filter(str.isalpha, each.question.lower())) for each in part} for part in (train, val)]
        assert words[0] & words[1] == set()
        assert words[0] | words[1] == {"who", "where", "when", "why"}


def evaluation(**fields):
    given = {"devset": examples(12), "metric": graded_metric(exact), "num_threads": 4}
    return dspy.Evaluate(**{**given, **fields})


def test_dspys_own_evaluations_count_their_calls_and_record_the_program(metered_engine, retriever):
    engine, _ = metered_engine()
    meter, program, seen = Meter(), RAG(retriever), []
    recording = Recording(examples(12), meter, on_candidate=seen.append)
    with metered(meter), on_our_threads(), dspy.context(callbacks=[recording]):
        result = evaluation()(program)
        program.reading.signature = program.reading.signature.with_instructions("Changed afterwards.")
        evaluation(devset=examples(3))(program)
        evaluation(devset=examples(3, 50))(program)  # of training examples
    assert result.score == 50.0
    assert meter.calls == len(engine.requests) == 18
    assert [(each.complete, len(each.scores), each.mean) for each in seen] == [(True, 12, 0.5), (False, 3, 2 / 3)]
    assert "Changed" not in seen[0].program.reading.signature.instructions
    assert recording.best() is seen[0]


@pytest.mark.parametrize("threads", [1, 4])
def test_no_evaluation_of_dspys_swallows_a_spent_budget(threads, metered_engine, retriever):
    engine, _ = metered_engine(Budget(calls=5))
    recording = Recording(examples(12))
    evaluate = evaluation(num_threads=threads)
    with on_our_threads(), dspy.context(callbacks=[recording]), pytest.raises(BudgetExceeded, match="5 calls"):
        eval_candidate_program(20, examples(12), RAG(retriever), evaluate)  # MIPROv2's: other errors score 0 there
    assert len(engine.requests) == 5
    assert recording.candidates == []


def test_a_stop_reaches_dspys_evaluations(metered_engine, retriever):
    metered_engine()
    with on_our_threads(), controlled() as control:
        control.stop()
        with pytest.raises(Stopped):
            evaluation()(RAG(retriever))


def test_an_error_is_one_failed_question_and_no_server_ends_the_evaluation(scripted, retriever):
    def reply(system, user):
        if "Question 3?" in user:
            raise RuntimeError("broken")
        return {"answer": "right"}

    scripted(reply)
    recording = Recording(examples(12))
    with on_our_threads(), dspy.context(callbacks=[recording]):
        result = evaluation(max_errors=1)(RAG(retriever))
    assert recording.candidates[0].errors == 1
    assert [score for *_, score in result.results] == [1.0] * 3 + [0.0] + [1.0] * 8

    def gone(system, user):
        raise UserError("no server")

    scripted(gone)
    with on_our_threads(), pytest.raises(UserError, match="no server"):
        evaluation()(RAG(retriever))


def test_dspys_threads_are_its_own_again_afterwards():
    import dspy.evaluate.evaluate as module
    from dspy.utils.parallelizer import ParallelExecutor

    with on_our_threads(), on_our_threads():
        assert module.ParallelExecutor is not ParallelExecutor
    assert module.ParallelExecutor is ParallelExecutor


def test_the_calls_of_a_question_that_a_budget_ended_are_counted(metered_engine, retriever):
    def steps(system, user):
        return {"finished": "1. " in user, "sub_question": "Who?", "evidence": "", "answer": "right"}

    engine, _ = metered_engine(Budget(calls=5), engine=ScriptedEngine(steps))
    found = compile(GenGround(retriever, k=2, batch_size=2), search(threads=1), optimizer="random_search")
    assert found.stopped
    assert found.costs["calls"] == len(engine.requests) == 5
