import dspy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from programs.parts.prediction import observe_hops
from programs.parts.steps.decomposition import answer_by_sub_questions
from signatures.closed_book.genread import AskNext
from signatures.genground import ConcludeAnswer
from signatures.types import Hop
from tests.programs.fakes import traced


def ask(sub_question="Who is the harbour master?"):
    return {"finished": False, "sub_question": sub_question, "answer": ""}


def end(answer="the end", sub_question=""):
    return {"finished": True, "sub_question": sub_question, "answer": answer}


def story(*steps, conclusion="concluded"):
    """Reply with the steps in order; a conclusion is asked for once."""
    left = iter(steps)

    def reply(system, user):
        if "from the settled hops" in system:
            return {"answer": conclusion} if conclusion is not None else "?"
        return next(left)

    return reply


def run(question="Question?", *, most=7, answers=lambda number: f"answer {number}"):
    """Return what the loop returns, the questions that were solved, and the outputs left in the trace."""
    solved = []

    def solve(sub_question, number):
        solved.append((number, sub_question))
        return Hop(question=sub_question, answer=answers(number))

    asking, concluding = dspy.Predict(AskNext), dspy.Predict(ConcludeAnswer)
    found, trace = traced(
        answer_by_sub_questions, question, asking=asking, concluding=concluding, solve=solve, most=most
    )
    return found, solved, [reply for _, _, reply in trace]


def test_each_sub_question_sees_the_hops_before_it_until_the_lm_finishes(scripted):
    engine = scripted(story(ask(), ask("Where was Ansa Merrow born?"), end()))
    found, solved, trace = run()
    assert (found.answer, found.stop_reason) == ("the end", "finished")
    assert solved == [(1, "Who is the harbour master?"), (2, "Where was Ansa Merrow born?")]
    assert [(hop.question, hop.answer) for hop in found.hops] == [
        ("Who is the harbour master?", "answer 1"),
        ("Where was Ansa Merrow born?", "answer 2"),
    ]
    assert "(none)" in engine.prompts[0]
    settled = "1. Who is the harbour master? -> answer 1\n2. Where was Ansa Merrow born? -> answer 2\n"
    assert settled in engine.prompts[2]
    assert (len(engine.requests), len(trace)) == (3, 3)


def test_each_hop_is_settled_before_the_next_is_asked_for(scripted):
    engine = scripted(story(ask(), ask("What comes second?"), end()))
    asked = []
    with observe_hops(lambda hop: asked.append(len(engine.requests))):
        run()
    assert asked == [1, 2]


def test_the_cap_forces_a_conclusion(scripted):
    engine = scripted(story(*(ask(f"What is number {number}?") for number in range(9))))
    found, solved, _ = run(most=3)
    assert (found.answer, found.stop_reason, len(solved)) == ("concluded", "cap", 3)
    assert len(engine.requests) == 3 + 1
    assert "3. What is number 2? -> answer 3" in engine.prompts[-1]


def test_finished_before_any_hop_answers_the_question_itself_and_the_loop_goes_on(scripted):
    scripted(story(end("from memory", "Who is the harbour master?"), end("read")))
    found, solved, trace = run()
    assert (found.answer, solved) == ("read", [(1, "Question?")])
    assert [reply.answer for reply in trace] == ["read"]


@pytest.mark.parametrize("first", [*map(ask, ["", "Who?", "None", "No further question is needed."]), "?"])
def test_without_a_usable_sub_question_the_question_itself_is_answered(scripted, first):
    scripted(story(first, end()))
    found, solved, trace = run()
    assert (found.answer, solved, len(trace)) == ("the end", [(1, "Question?")], 1)


@pytest.mark.parametrize("again", ["who is THE harbour master", "港务长是谁。"])
def test_a_repeated_sub_question_ends_the_loop_and_becomes_no_demonstration(scripted, again):
    scripted(story(ask(), ask("港务长是谁？"), ask(again)))
    found, solved, trace = run()
    assert (found.answer, found.stop_reason, len(solved)) == ("concluded", "repeated", 2)
    assert [reply.get("sub_question") for reply in trace] == ["Who is the harbour master?", "港务长是谁？", None]


@pytest.mark.parametrize("answer", ["", "unknown", "未知"])
def test_finished_without_an_answer_is_concluded(scripted, answer):
    scripted(story(ask(), end(answer)))
    found, _, trace = run()
    assert (found.answer, found.stop_reason, len(trace)) == ("concluded", "finished", 2)


def test_an_unparseable_later_reply_ends_the_loop(scripted):
    scripted(story(ask(), "?"))
    found, solved, _ = run()
    assert (found.answer, found.stop_reason, len(solved)) == ("concluded", "unparseable", 1)


@pytest.mark.parametrize("conclusion", [None, " "])
def test_without_a_conclusion_the_last_answer_stands(scripted, conclusion):
    scripted(story(ask(), ask("What comes second?"), "?", conclusion=conclusion))
    assert run(answers=lambda number: "first" if number == 1 else "")[0].answer == "first"
    scripted(story("?", "?", conclusion=conclusion))
    assert run(answers=lambda number: "")[0].answer == ""


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.sampled_from(["?", ask(), ask("What comes second?"), ask(""), end(), end("")]), min_size=9),
    most=st.integers(1, 8),
)
def test_calls_are_bounded_and_hops_are_distinct(scripted, steps, most):
    engine = scripted(story(*steps))
    found, solved, _ = run(most=most)
    assert 1 <= len(solved) == len(found.hops) <= most
    assert len(engine.requests) <= most + 1
    assert len({hop.question for hop in found.hops}) == len(found.hops)
