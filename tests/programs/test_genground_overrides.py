"""Replies of GenGround's LM that are overridden: what the hop becomes, and what must not become a demonstration."""

import pytest

from programs.genground import GenGround
from tests.programs.fakes import traced

EVIDENCE = "The harbour master of Quillon is Ansa Merrow."


def step(sub_question="Who is the harbour master?", answer="Bert Oyle", finished=False):
    return {"finished": finished, "sub_question": sub_question, "answer": answer}


END = step("", "the end", finished=True)


def replies(deductions, *, grounding=None, citing="", truth="yes"):
    steps = iter(deductions)

    def reply(system, user):
        if "Take the next step" in system:
            return next(steps)
        if "to check the draft" in system:
            return {"evidence": citing}
        if "Check the draft" in system:
            return grounding or {"evidence": "", "answer": "Bert Oyle"}
        return truth if "whether the answer to the question is yes" in system else {"answer": "concluded"}

    return reply


def outputs_of(program, predictor):
    result, trace = traced(program, "In which sea does Quillon lie?")
    return result, [output for called, _, output in trace if called is getattr(program, predictor)]


@pytest.mark.parametrize(("answer", "left"), [("Bert Oyle", 1), ("bert oyle.", 1), ("Ansa Merrow", 0), ("", 0)])
def test_without_evidence_only_an_unchanged_draft_may_become_a_demonstration(scripted, retriever, answer, left):
    scripted(replies([step(), END], grounding={"evidence": "", "answer": answer}))
    result, outputs = outputs_of(GenGround(retriever, k=3), "grounding")
    assert (result.hops[0].answer, result.hops[0].verdict, len(outputs)) == ("Bert Oyle", "kept", left)


@pytest.mark.parametrize(("quote", "left"), [("Nobody ever wrote those invented words", 0), ("", 2)])
def test_a_quote_that_is_in_no_passage_becomes_no_demonstration(scripted, retriever, quote, left):
    scripted(replies([step(), END], citing=quote))
    _, outputs = outputs_of(GenGround(retriever, k=9, early_stop=False), "citing")
    assert len(outputs) == left


@pytest.mark.parametrize("answer", ["unknown", "Unknown.", ""])
def test_evidence_without_an_answer_leaves_the_draft_and_the_next_batch_is_read(scripted, retriever, answer):
    scripted(replies([step(), END], grounding={"evidence": EVIDENCE, "answer": answer}))
    result, outputs = outputs_of(GenGround(retriever, k=9), "grounding")
    assert (result.hops[0].answer, result.hops[0].verdict, result.citations) == ("Bert Oyle", "kept", [])
    assert (len(result.passages), outputs) == (9, [])


def test_a_deduction_that_finishes_with_unknown_is_concluded(scripted, retriever):
    scripted(replies([step(), step("", "unknown", finished=True)]))
    result, outputs = outputs_of(GenGround(retriever, k=3), "deduction")
    assert (result.answer, [output.answer for output in outputs]) == ("concluded", ["Bert Oyle"])


def test_the_answer_of_an_unusable_sub_question_is_no_draft_of_the_question(scripted, retriever):
    scripted(replies([step("Merrow's birthplace?", "Quillon"), END]))
    result, _ = outputs_of(GenGround(retriever, k=3), "deduction")
    assert (result.hops[0].question, result.hops[0].draft) == ("In which sea does Quillon lie?", "")
    scripted(replies([step("Who?", "Merrow"), END]))
    assert GenGround(retriever, k=3)("Who?").hops[0].draft == "Merrow"


def test_articles_count_as_words_of_a_sub_question(scripted, retriever):
    scripted(replies([step("The Godfather director?", "Coppola"), END]))
    result, _ = outputs_of(GenGround(retriever, k=3), "deduction")
    assert (result.hops[0].question, result.hops[0].draft) == ("The Godfather director?", "Coppola")


def test_a_sub_question_about_another_language_repeats_none(scripted, retriever):
    scripted(replies([step("Who made the language C?"), step("Who made the language C++?"), END]))
    assert len(GenGround(retriever, k=3)("Question?").hops) == 2


@pytest.mark.parametrize("said", ["No one knows", "No doubt it is", "**No** passage says so", "True love is blind"])
def test_a_no_before_a_noun_is_no_verdict(scripted, retriever, said):
    scripted(replies([step(), step("", said, finished=True)], truth="yes"))
    assert GenGround(retriever, k=3, true_false=True)("Is it so?").answer == "yes"
    scripted(replies([step(), step("", said, finished=True)], truth="no"))
    assert GenGround(retriever, k=3, true_false=True)("Is it so?").answer == "no"


@pytest.mark.parametrize("said", ["No", "No.", "no because it lies inland", "No it does not", "No - it is inland"])
def test_a_no_with_a_reason_is_a_verdict(scripted, retriever, said):
    scripted(replies([step(), step("", said, finished=True)], truth="yes"))
    assert GenGround(retriever, k=3, true_false=True)("Is it so?").answer == "no"
