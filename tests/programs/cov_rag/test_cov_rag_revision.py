"""Which texts CoV-RAG searches for, and the definitions that its prompts give."""

import dspy
import pytest

from programs.cov_rag import CoVRAG
from programs.parts.verification import SCORES, Verification
from signatures.cov_rag import BIAS, VerifyAnswer
from signatures.dimensions import CompareAnswers, CompareCitations
from tests.programs.fakes import traced

BETTER = "Who runs Quillon's harbour?"
GOOD = dict.fromkeys(SCORES, 1.0) | {"bias": 0.0, "judgement": "true", "revised_question": ""}
BAD = dict.fromkeys(SCORES, 0.1) | {"bias": 0.9, "judgement": "false", "revised_question": BETTER}
QUESTION = "Who is the harbour master?"


@pytest.mark.parametrize("verdict", [GOOD, BAD, BAD | {"judgement": "unclear"}])
@pytest.mark.parametrize(
    "nothing",
    ["", "None", "N/A", '""', "(empty)", None, "No revision is needed.", "None needed", "not required", "无", "不需要"],
)
def test_what_is_no_question_is_not_searched_for(scripted, library, nothing, verdict, story, kinds):
    engine = scripted(story(verdict | {"revised_question": nothing}))
    result = CoVRAG(library)(QUESTION)
    assert kinds(engine) == "AVR"
    assert library.asked == [(QUESTION, 5)]
    assert (result.answer, result.hops[0].verdict) == ("Bert Oyle", "kept")
    assert result.details["verifications"][0]["revised_question"] == ""


@pytest.mark.parametrize("judgement", ["true", "false", "unclear"])
@pytest.mark.parametrize(
    ("written", "query"),
    [
        (BETTER, BETTER),
        ("Who runs Quillon's harbour", "Who runs Quillon's harbour"),
        (f"Revised question: {BETTER}", BETTER),
        (f"**{BETTER}**", BETTER),
        ("Name the harbour master of Quillon.", "Name the harbour master of Quillon."),
        ("奎龙港的港务长是谁", "奎龙港的港务长是谁"),
    ],
)
def test_a_question_is_found_whatever_is_around_it_and_the_judgement(
    scripted, library, written, query, judgement, story
):
    scripted(story(BAD | {"revised_question": written, "judgement": judgement}))
    CoVRAG(library)(QUESTION)
    assert library.asked[1:] == [(query, 5)]


def test_a_chinese_question_that_was_searched_for_is_no_revision(scripted, library, story, kinds):
    engine = scripted(story(BAD | {"revised_question": "港务长是谁"}))
    CoVRAG(library)("港务长是谁？")
    assert kinds(engine) == "AVR"


def test_without_the_chain_only_a_question_is_searched_for_too(scripted, library, story, kinds):
    engine = scripted(story({"revised_question": "The response is right, so nothing is revised."}))
    CoVRAG(library, chain=False)(QUESTION)
    assert kinds(engine) == "AIR"


@pytest.mark.parametrize("rewritten", ["The question needs no rewriting.", "无需改写"])
def test_a_rewriting_that_is_no_question_is_not_searched_for(scripted, library, rewritten, story):
    rest = story()
    scripted(lambda system, user: {"revised_question": rewritten} if "Rewrite" in system else rest(system, user))
    CoVRAG(library, revise="start")(QUESTION)
    assert library.asked == [(QUESTION, 5)]


@pytest.mark.parametrize(("written", "left"), [("No revision is needed.", 0), ("", 1), (BETTER, 1)])
def test_a_refusal_in_place_of_an_empty_revision_is_no_example_to_follow(scripted, library, written, left, story):
    scripted(story(BAD | {"revised_question": written}))
    program = CoVRAG(library)
    _, trace = traced(program, QUESTION)
    assert [predictor for predictor, *_ in trace].count(program.verifying) == left


def desc(signature: type[dspy.Signature], field: str) -> str:
    return signature.output_fields[field].json_schema_extra["desc"]


def test_bias_is_the_distance_to_the_examiner_s_own_answer_everywhere():
    """Table 8 of the paper: it does not rely on the references, 1 is a big difference, 0 none."""
    assert desc(VerifyAnswer, "bias") == BIAS.format(text="response")
    assert desc(CompareAnswers, "bias") == BIAS.format(text="answer")
    for word in ("depart", "the one that you would give yourself", "without relying on any passages"):
        assert word in BIAS
    assert "0: no difference" in BIAS
    assert "1: a big difference" in BIAS
    documented = " ".join((Verification.__doc__ or "").split())
    assert "departs from the verifier's own answer, which does not rely on the references" in documented


def test_the_prompt_weighs_bias_and_asks_for_a_question_mark(scripted, library, story):
    engine = scripted(story(GOOD))
    CoVRAG(library)(QUESTION)
    prompt = " ".join(str(engine.requests[1].system).split())
    assert "The judgement follows from the scores, above all from the bias." in prompt
    assert "end with a question mark" in prompt
    assert "how much of the information that the question needs is in the passages?" in prompt
    for score in SCORES:
        (line,) = (line for line in str(engine.requests[1].system).splitlines() if line.startswith(f"- {score} ("))
        assert [anchor in line for anchor in ("0: ", "0.5: ", "1: ")] == [True] * 3


def test_the_verifier_reads_of_a_response_and_the_judge_of_answers():
    asked = {name: field.json_schema_extra["desc"] for name, field in VerifyAnswer.fields.items()}
    assert not any("answer" in asked[name] for name in ("citation_accuracy", "truthfulness", "bias", "conciseness"))
    assert "it has none" in asked["citation_accuracy"]
    judged = [*CompareAnswers.output_fields.values(), *CompareCitations.output_fields.values()]
    assert not any("{" in field.json_schema_extra["desc"] for field in judged)
    assert "if they suffice, so that it is\neasier to answer" in VerifyAnswer.instructions
