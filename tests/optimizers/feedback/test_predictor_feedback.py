import dspy
import pytest

from optimizers.feedback.gold import gold_of
from optimizers.feedback.metric import ObservedCall, describe_call, feedback
from signatures.types import Hop, Passage

BRIDGE = Passage(id="bridge", title="Old Bridge", text="The Old Bridge was built by Ansa Merrow.")
ANSA = Passage(id="ansa", title="Ansa Merrow", text="Ansa Merrow was born in Quillon in 1801.")
FOG = Passage(id="fog", title="Fog", text="Fog is a cloud that touches the ground.")
QUESTION = "Where was the builder of the Old Bridge born?"
STEPS = [
    {"question": "Who built the Old Bridge?", "answer": "Ansa Merrow", "gold_ids": ["bridge"]},
    {"question": "Where was Ansa Merrow born?", "answer": "Quillon", "gold_ids": ["ansa"]},
]
EXAMPLE = dspy.Example(
    question=QUESTION, answers=["Quillon"], gold_ids=["bridge", "ansa"], sub_questions=STEPS
).with_inputs("question")
FIRST = Hop(question="Who built the Old Bridge?", answer="Ansa Merrow")
SECOND = Hop(question="Where was Ansa Merrow born?", answer="Quillon")


def said(inputs, **outputs):
    result = dspy.Prediction(answer="x", passages=[BRIDGE, ANSA, FOG], hops=[])
    return " ".join(describe_call(ObservedCall(QUESTION, inputs, outputs, gold_of(EXAMPLE, result))))


def deduced(hops, **outputs):
    return said(
        {"question": QUESTION, "hops": hops}, **{"finished": False, "sub_question": "", "answer": "", **outputs}
    )


def test_a_deduction_is_compared_with_the_first_gold_step_that_is_open():
    wrong = deduced([FIRST], sub_question="How long is the Old Bridge?", answer="90 m")
    assert 'With 1 of 2 steps settled, the next is "Where was Ansa Merrow born?".' in wrong
    assert 'It asked "How long is the Old Bridge?" instead. The answer of that step is "Quillon".' in wrong
    right = deduced([FIRST], sub_question="Where was Ansa Merrow born?", answer="Marle")
    assert 'The answer is "Marle"; expected is "Quillon".' in right


def test_a_deduction_that_ends_too_early_or_too_late_is_told_so():
    assert "It should not have finished." in deduced([FIRST], finished=True, sub_question=QUESTION, answer="x")
    late = deduced([FIRST, SECOND], sub_question="Who built it?", answer="x")
    assert "All steps were settled, so it should have finished." in late
    assert 'The answer "Quillon" is right.' in deduced([FIRST, SECOND], finished=True, answer="Quillon")


def test_a_reader_is_told_what_it_saw_and_what_was_expected():
    text = said({"question": QUESTION, "passages": [FOG, ANSA]}, answer="Marle")
    assert 'It saw, of the passages needed: "Ansa Merrow". Not among those it saw: "Old Bridge".' in text
    assert 'expected is "Quillon"' in text
    assert "None of the passages needed" in said({"question": QUESTION, "passages": [FOG]}, answer="Marle")


def test_a_reader_of_a_sub_question_is_compared_with_that_step():
    text = said({"question": "Who built the Old Bridge?", "passages": [BRIDGE]}, answer="Bo Tarn")
    assert 'expected is "Ansa Merrow"' in text
    assert said({"question": "How tall is a lighthouse?", "passages": []}, answer="Bo Tarn") == ""


@pytest.mark.parametrize(
    ("passages", "evidence", "text"),
    [
        ([FOG, BRIDGE], "The Old Bridge was built by Ansa Merrow.", 'from a passage needed, "Old Bridge"'),
        ([FOG, BRIDGE], "", 'It should have quoted from "Old Bridge".'),
        ([FOG, BRIDGE], "Nobody ever wrote such a sentence anywhere.", "in none of the passages"),
        ([FOG], "Fog is a cloud that touches the ground.", "It should have been left empty."),
        ([FOG], "", "It rightly quoted nothing."),
    ],
)
def test_evidence_must_stand_in_a_passage_that_is_needed(passages, evidence, text):
    inputs = {"question": QUESTION, "sub_question": "Who built the Old Bridge?", "draft": "x", "passages": passages}
    assert text in said(inputs, evidence=evidence, answer="Ansa Merrow")


def test_a_query_is_told_what_is_still_missing():
    text = said({"question": QUESTION, "passages": [BRIDGE]}, query="fog")
    assert 'The search should find "Ansa Merrow".' in text
    assert 'Still open is the step "Where was Ansa Merrow born?".' in text
    assert "no search was needed" in said({"question": QUESTION, "passages": [BRIDGE, ANSA]}, query="fog")


def test_a_revision_is_judged_by_whether_the_response_has_the_answer():
    inputs = {"question": QUESTION, "passages": [BRIDGE], "response": "In Quillon [1]."}
    assert "should not have been revised" in said(inputs, revised_question="Where was Ansa born?")
    assert "no revision: right" in said(inputs, revised_question="")
    wrong = {**inputs, "response": "In Marle [1]."}
    assert "so the question should have been revised" in said(wrong, revised_question="")
    assert 'The search should find "Ansa Merrow".' in said(wrong, revised_question="Where was Ansa born?")


def test_a_long_response_is_judged_by_its_marks():
    inputs = {"question": QUESTION, "passages": [FOG, ANSA]}
    text = said(inputs, response="In Marle [1][7].")
    assert 'does not contain the expected answer "Quillon"' in text
    assert "It cites [7], but there are only 2 passages." in text
    assert 'Cited and not needed: "Fog". Needed and not cited: "Ansa Merrow".' in text
    assert "The response contains the expected answer." in said(inputs, response="In Quillon [2].")


def test_the_final_content_of_a_chain_cites_steps_and_may_be_empty():
    inputs = {"question": QUESTION, "transcript": []}
    assert said(inputs, chain=["Who? -> Ansa Merrow"], response="She was born in Quillon [1].") == (
        "The response contains the expected answer."
    )
    assert "does not contain" in said(inputs, chain=[], response="So the answer is: Marle.")
    assert said(inputs, chain=["Who? -> unknown"], response="") == ""


def test_a_refusal_is_right_only_if_something_was_missing():
    refusal = "I'm sorry, I cannot answer the question based on the provided references."
    assert "It was right to decline." in said({"question": QUESTION, "passages": [ANSA]}, response=refusal)
    complete = said({"question": QUESTION, "passages": [ANSA, BRIDGE]}, response=refusal, sufficient=False)
    assert "It should have answered" in complete
    assert "The passages suffice" in complete


def test_a_judge_is_told_whether_the_response_has_the_answer():
    inputs = {"question": QUESTION, "passages": [ANSA], "response": "In Quillon [1]."}
    assert "The response contains the expected answer" in said(inputs, judgement="false")


def test_evidence_is_weighed_by_whether_its_passage_is_needed():
    inputs = {"question": QUESTION, "query": "", "evidence": f"Fog: {FOG.text}"}
    assert "This passage is not needed: the expected reply is no." in said(inputs, contributes=True)


def test_a_field_that_nothing_is_known_about_gets_no_feedback():
    assert said({"question": QUESTION}, entities=["Old Bridge"]) == ""


def test_the_calls_of_the_named_predictor_follow_what_is_said_of_the_program():
    result = dspy.Prediction(answer="Marle", response="Marle", passages=[FOG], hops=[], citations=[])
    call = (None, {"question": QUESTION, "passages": [FOG]}, dspy.Prediction(answer="Marle"))
    text = feedback(EXAMPLE, result, 0.0, pred_name="reading", pred_trace=[call])
    program, of_call = text.split("\nThis call of reading: ")
    assert program.startswith("The score of the whole program is 0.00.")
    assert of_call.startswith("None of the passages needed was among those it saw.")
