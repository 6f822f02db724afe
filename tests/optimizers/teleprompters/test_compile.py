from pathlib import Path

import dspy
import pytest

from optimizers.teleprompters.catalog import OPTIMIZERS
from optimizers.teleprompters.compile import compile
from optimizers.teleprompters.task import Task
from programs.closed_book.cot import CoT
from programs.genground import GenGround
from programs.lms.adapter import JsonForm
from programs.single_step.rag import RAG
from signatures.common.errors import UserError
from tests.conftest import load_module

tasks = load_module(Path(__file__).parent / "tasks.py")
examples, score = tasks.examples, tasks.exact


def even_are_right(system, user):
    number = tasks.number_of(user)
    right = number % 2 == 0
    return {
        "finished": "1. " in user,
        "sub_question": f"Sub of {number}",
        "evidence": "",
        "answer": "right" if right else "wrong",
    }


def test_only_right_answers_become_demonstrations(scripted, retriever):
    scripted(even_are_right)
    compiled = compile(GenGround(retriever, k=2, batch_size=2), Task(examples(10), score, max_demos=3))
    assert compiled.accepted == {"deduction": 3, "grounding": 3, "conclusion": 0}
    for predictor in compiled.program.predictors():
        for demo in predictor.demos:
            assert int(demo.question.split()[-1].rstrip("?")) % 2 == 0


def test_the_student_stays_as_it_was(scripted, retriever):
    scripted(even_are_right)
    student = RAG(retriever)
    before = student.dump_state()
    compile(student, Task(examples(4), score))
    assert student.dump_state() == before


def test_the_same_seed_gives_the_same_program_at_any_width(scripted, retriever):
    states = []
    for threads in (1, 4):
        scripted(even_are_right, cache=True)
        compiled = compile(RAG(retriever), Task(examples(9), score, threads=threads, seed=3, max_demos=2))
        states.append((compiled.program.dump_state(), compiled.tried))
    assert states[0] == states[1]


def test_parallel_bootstrapping_makes_no_call_twice(scripted, retriever):
    engine = scripted(even_are_right, cache=True)
    compile(RAG(retriever), Task(examples(8), score, threads=4, max_demos=8))
    assert len(engine.requests) == 8


def test_none_accepted_is_a_result_too(scripted, retriever):
    scripted(lambda system, user: {"answer": "wrong"})
    compiled = compile(RAG(retriever), Task(examples(5), score))
    assert (compiled.accepted, compiled.tried) == ({"reading": 0}, 5)


def test_a_score_of_zero_or_none_never_makes_a_demonstration(scripted, retriever):
    scripted(lambda system, user: {"answer": "x"})
    for value in (0.0, None, 0.99):
        assert compile(RAG(retriever), Task(examples(3), lambda e, p, v=value: v)).accepted == {"reading": 0}


@pytest.mark.parametrize(
    ("program", "said"),
    [(GenGround, "no predictor's outputs"), (lambda _: CoT(), r"no predictor's outputs.*reasoning")],
)
def test_labels_that_no_predictor_can_show_are_refused(program, said, retriever):
    with pytest.raises(UserError, match=said):
        compile(program(retriever), Task(examples(9), score, max_demos=2), optimizer="labeled")


def test_labels_of_plain_questions_go_to_readers(retriever):
    compiled = compile(RAG(retriever), Task(examples(9), score, max_demos=2), optimizer="labeled")
    assert compiled.accepted == {"reading": 2}
    assert set(compiled.program.reading.demos[0].keys()) == {"question", "answer"}


def test_a_gold_decomposition_shows_each_step_and_the_end(scripted, retriever):
    steps = [{"question": "Who built it?", "answer": "Ansa"}, {"question": "Where was Ansa born?", "answer": "Quillon"}]
    gold = {"question": "Where was its builder born?", "answer": "Quillon", "sub_questions": steps}
    task = Task([dspy.Example(**gold).with_inputs("question")], score, max_demos=9)
    compiled = compile(GenGround(retriever), task, optimizer="labeled")
    shown = [
        (len(demo.hops), demo.finished, demo.sub_question, demo.answer) for demo in compiled.program.deduction.demos
    ]
    assert shown == [
        (0, False, "Who built it?", "Ansa"),
        (1, False, "Where was Ansa born?", "Quillon"),
        (2, True, "Where was its builder born?", "Quillon"),
    ]
    (end,) = compiled.program.conclusion.demos
    assert [hop.answer for hop in end.hops] == ["Ansa", "Quillon"]
    assert compiled.accepted["grounding"] == 0
    engine = scripted(lambda system, user: {"finished": True, "sub_question": "", "answer": "x", "evidence": ""})
    compiled.program("Question?")
    assert "1. Who built it? -> Ansa" in str(engine.requests[0].messages)


def test_a_gold_yes_or_no_is_shown_as_such_where_a_bool_is_asked_for_and_another_answer_is_not(scripted, retriever):
    steps = [{"question": "Who built it?", "answer": "Ansa"}]
    golds = [dspy.Example(question=f"{gold}?", answer=gold, sub_questions=steps) for gold in ("yes", "no", "Quillon")]
    task = Task([gold.with_inputs("question") for gold in golds], score, max_demos=9)
    program = compile(GenGround(retriever, true_false=True), task, optimizer="labeled").program
    assert {demo.question: demo.answer for demo in program.truth.demos} == {"yes?": True, "no?": False}
    messages = JsonForm().format(program.truth.signature, program.truth.demos, {"question": "Q?", "hops": []})
    shown = [messages[n + 1]["content"] for n, message in enumerate(messages) if "no?" in message["content"]]
    assert shown == ["no"]


def test_a_compiled_program_shows_its_demonstrations(scripted, retriever):
    engine = scripted(even_are_right)
    program = compile(RAG(retriever), Task(examples(6), score, max_demos=2)).program
    engine.requests.clear()
    program("Question 2?")
    assert len(engine.requests[0].messages) == 5


@pytest.mark.parametrize("optimizer", ["labeled", "bootstrap", "random_search"])
def test_a_compiled_program_can_be_compiled_again(optimizer, scripted, retriever):
    scripted(even_are_right)
    once = compile(RAG(retriever), Task(examples(4), score), optimizer="labeled").program
    again = compile(once, Task(examples(8)[4:], score), optimizer=optimizer)
    assert again.accepted["reading"] >= 1


def test_an_lm_that_is_not_there_ends_the_work_at_once(scripted, retriever):
    def gone(system, user):
        raise UserError("no server")

    engine = scripted(gone, cache=True)
    with pytest.raises(Exception, match="no server"):
        compile(RAG(retriever), Task(examples(20), score, threads=2))
    assert len(engine.requests) < 20


@pytest.mark.parametrize(
    ("number", "optimizer", "said"),
    [(1, "magic", r"Unknown optimizer 'magic'. Choose from: .*labeled"), (0, "bootstrap", "training set is empty")],
)
def test_an_unknown_optimizer_or_nothing_to_learn_from_is_refused(number, optimizer, said, retriever):
    with pytest.raises(UserError, match=said):
        compile(RAG(retriever), Task(examples(number), score), optimizer=optimizer)


def test_nothing_goes_to_standard_output(scripted, retriever, capsys):
    scripted(even_are_right, JsonForm())
    compile(RAG(retriever), Task(examples(4), score))
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_another_process_draws_the_same_demonstrations():
    """DSPy hashes the trace to choose among several calls of one predictor; no set may take part in that hash."""
    import os
    import subprocess
    import sys

    code = (
        "import dspy; from dspy.utils.hasher import Hasher; from signatures.types import Hop, Passage; "
        "hop = Hop(question='q', answer='a', draft='d'); passage = Passage(id='1', title='t', text='x'); "
        "print(Hasher.hash((dspy.Example(hops=[hop], passages=[passage], answer='a'),)))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in (1, 2, 3)
    }
    assert len(found) == 1


def test_the_cost_of_compiling_counts_every_call_once(scripted, retriever):
    from uuid import uuid4

    from programs.lms.calls.metered import metered_lm
    from programs.parts.meter import metered

    engine = scripted(even_are_right, cache=True)
    lm = metered_lm("scripted/cost", engine=engine, cache=True)
    for threads in (1, 4):
        with dspy.context(lm=lm.copy(model=f"scripted/{uuid4()}")), metered() as meter:
            compile(RAG(retriever), Task(examples(8), score, threads=threads, max_demos=8))
        assert (meter.calls, meter.cached_calls) == (8, 0)


def test_replies_that_the_strategy_overrode_become_no_demonstrations(scripted, retriever):
    def reply(system, user):
        return {
            "finished": "1. " in user,
            "sub_question": "answer",
            "evidence": "words that are in no passage",
            "answer": "right",
        }

    scripted(reply)
    compiled = compile(GenGround(retriever, k=2, batch_size=2), Task(examples(4), score))
    assert compiled.accepted["grounding"] == 0
    assert all(demo.hops for demo in compiled.program.deduction.demos)


def test_what_could_change_the_result_is_among_the_arguments(scripted, retriever):
    scripted(even_are_right)
    teacher = dspy.LM("scripted/teacher", engine=dspy.settings.lm.engine, cache=False)
    task = Task(examples(2), score, teacher_lm=teacher, prompt_lm=teacher, feedback=lambda *args: "why", seed=3)
    assert compile(RAG(retriever), task).arguments == {
        "accept": 1.0,
        "max_demos": 4,
        "seed": 3,
        "teacher_lm": "scripted/teacher",
        "prompt_lm": "scripted/teacher",
    }


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_an_option_the_optimizer_does_not_know_is_refused(optimizer, retriever):
    known = ", ".join(OPTIMIZERS[optimizer].options) or "none"
    with pytest.raises(UserError, match=f"Optimizer {optimizer} has no option 'magic'. It has: {known}"):
        compile(RAG(retriever), Task(examples(2), score, options={"magic": "light"}), optimizer=optimizer)


def test_a_compilation_in_which_nothing_worked_is_no_success(scripted, retriever):
    def broken(system, user):
        raise RuntimeError("no such parameter")

    scripted(broken)
    with pytest.raises(UserError, match="All 3 training examples ended in an error"):
        compile(RAG(retriever), Task(examples(3), score, threads=1))


def test_a_negative_seed_is_refused():
    with pytest.raises(UserError, match="A seed must be at least 0, got -1"):
        Task(trainset=[], score=lambda gold, prediction: 1.0, seed=-1)
