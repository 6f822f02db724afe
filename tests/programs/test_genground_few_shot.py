"""The demonstrations of GenGround's preset `few_shot`: shown, replaced by compiling, frozen, and left to the knob."""

import dspy
import pytest

from optimizers.teleprompters.compile import compile
from optimizers.teleprompters.task import Task
from programs.artifact import freeze, load
from programs.catalog import build
from programs.genground import DEDUCTIONS, GenGround
from programs.parts.knobs import with_knobs
from signatures.types import Hop

QUESTION = "In which sea lies Quillon?"
OWN = "The Glass Orchard"  # a name of the demonstrations


def reply(system, user):
    if "Check the draft" in system:
        return {"evidence": "", "answer": "the Amber Sea"}
    return {"finished": "1. " in user, "sub_question": "Which sea surrounds Quillon?", "answer": "the Amber Sea"}


def score(example, prediction):
    return float(prediction.answer in example.answers)


def shown(engine):
    """Return all messages of the first deduction as one text."""
    return "\n".join(message.text for message in engine.requests[0].messages)


def gold(question=QUESTION):
    steps = [{"question": "Which sea surrounds Quillon?", "answer": "the Amber Sea"}]
    example = dspy.Example(question=question, answer="the Amber Sea", answers=["the Amber Sea"], sub_questions=steps)
    return example.with_inputs("question")


def test_the_preset_shows_demonstrations_and_the_others_none(scripted, retriever):
    engine = scripted(reply)
    build("genground", retriever, preset="few_shot")(QUESTION)
    assert shown(engine).count(OWN) > 1
    for preset in ("paper", "code"):
        assert build("genground", retriever, preset=preset).deduction.demos == []


def test_the_demonstrations_take_no_further_calls(scripted, retriever):
    plain, few_shot = (build("genground", retriever, preset=preset) for preset in ("paper", "few_shot"))
    assert few_shot.max_calls() == plain.max_calls()


def test_every_demonstration_is_a_deduction_that_the_loop_could_have_made():
    """One hop at a time, none repeated, built on settled hops; at the end, the question with its answer."""
    fields = set(GenGround().deduction.signature.fields)
    questions = dict.fromkeys(demo.question for demo in DEDUCTIONS)
    assert len(questions) == 2
    for question in questions:
        demos = [demo for demo in DEDUCTIONS if demo.question == question]
        assert all(set(demo.keys()) == fields for demo in demos)
        assert [len(demo.hops) for demo in demos] == list(range(len(demos)))
        assert [demo.finished for demo in demos] == [False] * (len(demos) - 1) + [True]
        asked = [demo.sub_question for demo in demos]
        assert len(set(asked)) == len(asked)
        assert asked[-1] == question
        assert [hop.question for hop in demos[-1].hops] == asked[:-1]
        assert all(hop.answer.removeprefix("the ") in hop.evidence for hop in demos[-1].hops)


@pytest.mark.parametrize("optimizer", ["labeled", "bootstrap"])
def test_compiling_replaces_them(scripted, retriever, optimizer):
    scripted(reply)
    student = GenGround(retriever, few_shot=True)
    compiled = compile(student, Task([gold()], score, max_demos=2), optimizer=optimizer)
    assert {demo.question for demo in compiled.program.deduction.demos} == {QUESTION}
    assert [demo.question for demo in student.deduction.demos] == [demo.question for demo in DEDUCTIONS]


def test_bootstrapping_runs_with_them(scripted, retriever):
    engine = scripted(reply)
    compile(GenGround(retriever, few_shot=True), Task([gold()], score, max_demos=1), optimizer="bootstrap")
    assert OWN in shown(engine)


def test_a_loaded_artifact_shows_what_was_frozen(scripted, retriever, tmp_path):
    program = GenGround(retriever, few_shot=True)
    freeze(program, tmp_path / "uncompiled")
    program.deduction.demos = [
        dspy.Example(question="Own?", hops=[Hop(question="a", answer="b")], finished=True, sub_question="s", answer="a")
    ]
    freeze(program, tmp_path / "compiled")
    for name, expected in (("uncompiled", True), ("compiled", False)):
        engine = scripted(reply)
        load(tmp_path / name, retriever)(QUESTION)
        assert (OWN in shown(engine)) is expected
        assert ("Own?" in shown(engine)) is not expected


def test_the_knob_decides_on_a_live_program_until_it_was_compiled(retriever):
    few_shot, plain = GenGround(retriever, few_shot=True), GenGround(retriever)
    assert len(with_knobs(plain, few_shot=True).deduction.demos) == len(DEDUCTIONS)
    assert with_knobs(few_shot, few_shot=False).deduction.demos == []
    assert len(with_knobs(few_shot, k=3).deduction.demos) == len(DEDUCTIONS)
    few_shot.deduction.demos = few_shot.deduction.demos[:1]
    assert len(with_knobs(few_shot, few_shot=False).deduction.demos) == 1
