"""Trajectories: what a step keeps, what is left out, and that its example is what the program sends to the student."""

import dspy
import pytest

from optimizers.distill.gold.catalog import GOLD, gold_examples, signature_of
from optimizers.distill.recipes import Distillation, answer_is_right
from optimizers.distill.student import StudentPrompts, form_adapter
from optimizers.distill.trajectories import prompts_of, run_recorded, skill_of
from optimizers.metrics.catalog import get_metric
from programs.catalog import build
from programs.genground import GenGround
from programs.lms.adapter import ChatForm, JsonForm
from programs.lms.calls.metered import LMUnavailable
from programs.parts.meter import metered

RIGHT = answer_is_right(get_metric("em"))


def test_a_step_keeps_its_inputs_as_they_were_when_the_lm_was_asked(scripted, retriever, teacher):
    scripted(teacher(), ChatForm())
    trajectory = run_recorded(GenGround(retriever, k=6), "Where was the harbour master of Quillon born?")
    deductions = [step for step in trajectory.steps if step.predictor == "deduction"]
    assert [len(step.inputs["hops"]) for step in deductions] == [0, 1, 2]
    assert trajectory.prediction.answer == "Quillon"
    assert (trajectory.parse_failures, trajectory.truncated, trajectory.error) == (0, 0, None)


def test_replies_that_the_program_overrides_are_no_steps(scripted, retriever, teacher):
    scripted(teacher(evidence="Invented words that appear nowhere at all here"), ChatForm())
    trajectory = run_recorded(GenGround(retriever, k=6), "Question?")
    assert trajectory.overridden == 1
    groundings = [step for step in trajectory.steps if step.predictor == "grounding"]
    assert {step.outputs["evidence"] for step in groundings} == {""}


def test_a_reply_that_cannot_be_parsed_is_counted(scripted, retriever, teacher, in_chat_form):
    replies = teacher()

    def reply(system, user):
        return "no field" if "Check the draft" in system else replies(system, user)

    scripted(reply, ChatForm())
    trajectory = run_recorded(GenGround(retriever, k=3), "Question?")
    assert trajectory.parse_failures == 2
    assert {step.predictor for step in trajectory.steps} == {"deduction"}


def test_a_prompt_that_is_cut_is_counted(scripted, retriever, in_chat_form):
    scripted(lambda system, user: in_chat_form({"answer": "x"}), ChatForm(context_size=450))
    assert run_recorded(build("rag", retriever, k=10), "Question?").truncated == 1


def test_an_error_ends_the_trajectory_and_an_lm_that_is_away_ends_the_work(scripted, retriever):
    def fails(system, user):
        raise ZeroDivisionError("by zero")

    scripted(fails, ChatForm())
    trajectory = run_recorded(build("rag", retriever), "Question?")
    assert trajectory.prediction is None
    assert "by zero" in trajectory.error

    def away(system, user):
        raise LMUnavailable("it does not answer")

    scripted(away, ChatForm())
    with pytest.raises(Exception, match="does not answer"):
        run_recorded(build("rag", retriever), "Question?")


def test_the_caller_pays_for_the_calls(scripted, retriever, teacher):
    engine = scripted(teacher(), ChatForm())
    with metered() as meter:
        run_recorded(GenGround(retriever, k=6), "Question?")
    assert meter.replies == len(engine.requests) == 7


@pytest.mark.parametrize("form", ["json", "chat"])
def test_examples_are_byte_for_byte_what_the_program_sends_to_the_student(
    form, scripted, retriever, teacher, question, source
):
    program = GenGround(retriever, k=6)
    scripted(teacher(), ChatForm())
    adapter = form_adapter(form)
    student = StudentPrompts(adapter, prompts_of(program), "genground")
    made = Distillation(program, student, RIGHT, "teacher:x")(question, source)
    assert [example.predictor for example in made.examples] == [
        "deduction", "grounding", "grounding", "deduction", "grounding", "grounding", "deduction",
    ]  # fmt: skip
    learnt = {(m[0].content, m[1].content): e.completion for e in made.examples if (m := e.messages)}

    engine = scripted(lambda system, user: learnt[system, user], adapter)  # a KeyError is a prompt never trained on
    answer = program(question=question.question).answer
    sent = [(str(request.system), request.messages[-1].text) for request in engine.requests]
    assert answer == "Quillon"
    assert sent == list(learnt)


def test_plain_prompts_have_no_demonstrations_and_compiled_ones_do(scripted, retriever, teacher, question, source):
    program = GenGround(retriever, few_shot=True)
    program.grounding.signature = program.grounding.signature.with_instructions("Compiled words.")
    program.grounding.demos = [dspy.Example(question="Shown?", sub_question="s", draft="d", evidence="e", answer="a")]
    plain, compiled = prompts_of(program), prompts_of(program, "compiled")
    assert [len(prompt.demos) for prompt in plain.values()] == [0, 0, 0]
    assert "Compiled" not in plain["grounding"].signature.instructions
    assert len(compiled["deduction"].demos) == len(program.deduction.demos) > 0

    scripted(teacher(), ChatForm())
    made = Distillation(program, StudentPrompts(JsonForm(), compiled, "genground"), RIGHT, "teacher:x")(
        question, source
    )
    grounding = next(example for example in made.examples if example.predictor == "grounding")
    assert grounding.messages[0].content.startswith("Compiled words.")
    assert "Shown?" in grounding.messages[1].content


def test_only_named_predictors_are_learnt(scripted, retriever, teacher, question, source):
    scripted(teacher(), ChatForm())
    program = GenGround(retriever, k=6)
    student = StudentPrompts(JsonForm(), prompts_of(program), "genground")
    made = Distillation(program, student, RIGHT, "teacher:x", ["deduction"])(question, source)
    assert {(example.skill, example.labels, example.source) for example in made.examples} == {
        ("deduction", "teacher:x", "hotpotqa")
    }


def test_skills_are_those_of_gold():
    """What a teacher and gold annotations teach by the same predictor is one skill of a mixture."""
    found = {}
    for name in ("rag", "cot", *GOLD):
        for predictor, prompt in prompts_of(build(name, None)).items():
            found[name, predictor] = skill_of(predictor, prompt.signature, name)
    assert found["cot", "answering.predict"] == "memory"
    assert found["cov_rag", "answering"] == found["self_completion", "answering"] == "long_form"
    assert found["cov_rag", "reading"] == "short_answer"
    assert found["rag", "reading"] == "reading"
    assert found["multihop", "reading.predict"] == "reading_with_reasons"
    assert found["retro_rag", "weighing"] == found["retro_rag", "agreement"] == "judgement"
    assert found["self_completion", "searching"] == found["multihop", "querying.predict"] == "queries"
    assert {found["genground", name] for name in ("deduction", "grounding", "conclusion")} == {
        "deduction", "grounding", "conclusion",
    }  # fmt: skip
    assert skill_of("truth", signature_of("genground", "truth"), "genground") == "conclusion"


def test_gold_gives_the_same_skills(question_with_gold):
    question, corpus, material = question_with_gold
    differing = {}
    for program, predictors in GOLD.items():
        for predictor in predictors:
            for example in gold_examples(
                program, question, corpus, material, JsonForm(), predictors=(predictor,), source="s", licence="l",
                labels="gold",
            ):  # fmt: skip
                ours = skill_of(predictor, signature_of(program, predictor), program)
                if example.skill not in (ours, "abstention"):  # which the reply decides
                    differing[program, predictor] = (example.skill, ours)
    assert differing == {}
