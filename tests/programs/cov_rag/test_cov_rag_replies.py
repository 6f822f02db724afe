"""What CoV-RAG makes of replies: numbers, judgements, marks, short answers, and which may become demos."""

import dspy
import pytest

from programs.cov_rag import CoVRAG
from programs.lms.adapter import ChatForm
from programs.parts.longform import cited_passages
from programs.parts.verification import SCORES
from tests.programs.fakes import traced

BETTER = "Who runs Quillon's harbour?"
GOOD = dict.fromkeys(SCORES, 1.0) | {"bias": 0.0, "judgement": "true", "revised_question": ""}
BAD = dict.fromkeys(SCORES, 0.1) | {"bias": 0.9, "judgement": "false", "revised_question": BETTER}
QUESTION = "Who is the harbour master?"


NUMBERS = {
    "reference_correctness": "0.9 (high)",
    "correctness": "0.21/1",
    "citation_accuracy": "**0.8**",
    "truthfulness": ".5",
    "bias": "Score: 0.75.",
    "conciseness": "1",
}
READ = [0.9, 0.21, 0.8, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(("spelt", "judgement"), [("True.", "true"), ("**false**", "false"), ('"Unclear"', "unclear")])
@pytest.mark.parametrize("form", ["json", "chat"])
def test_numbers_and_judgements_are_read_as_lms_write_them(scripted, library, spelt, judgement, form, story):
    fields = NUMBERS | {"judgement": spelt, "revised_question": ""}
    if form == "json":
        scripted(story(fields))
    else:
        chat = "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items())
        rest = story(chat)

        def reply(system, user):
            value = rest(system, user)
            return value if isinstance(value, str) else "\n".join(f"[[ ## {k} ## ]]\n{v}" for k, v in value.items())

        scripted(reply, adapter=ChatForm())
    (verification,) = CoVRAG(library)(QUESTION).details["verifications"]
    assert [verification[name] for name in SCORES] == READ
    assert verification["judgement"] == judgement


def test_scores_out_of_range_are_clamped_and_counted(scripted, library, story):
    scripted(story(GOOD | {"correctness": 9, "bias": "-0.5", "conciseness": 1}))
    details = CoVRAG(library)(QUESTION).details
    assert (details["verifications"][0]["correctness"], details["verifications"][0]["bias"]) == (1.0, 0.0)
    assert details["clamped_scores"] == 2


@pytest.mark.parametrize(
    ("written", "counted", "cited"),
    [
        ("She is [2].", "She is [5].", ["p4"]),
        ("She is. [1, 2][5]", "She is. [4, 5][8]", ["p3", "p4", "p7"]),
        ("She is [6][0][9] [a].", "She is [14][0][9] [a].", []),  # 6 would otherwise point to what it did not mean
        ("She is [2,7].", "She is [5,15].", ["p4"]),
    ],
)
def test_the_marks_of_a_revised_response_count_all_passages_read(scripted, library, written, counted, cited, story):
    scripted(story(BAD, responses=("Bert Oyle is [1].", written)))
    result = CoVRAG(library)(QUESTION)
    assert (result.response, result.citations, result.hops[-1].answer) == (counted, cited, written)
    assert cited_passages(result.response, result.passages) == cited


def test_the_marks_of_a_kept_response_point_nowhere_still_when_more_was_read(scripted, library, story):
    scripted(story(BAD, responses=("Bert Oyle is [1][5].", "??")))
    result = CoVRAG(library)(QUESTION)
    assert (result.response, result.citations) == ("Bert Oyle is [1][13].", ["p0"])


@pytest.mark.parametrize(
    ("response", "cited"),
    [
        ("She is.[1][2] He too.", ["p0", "p1"]),
        ("She is [1, 2].", ["p0", "p1"]),
        ("She is [2][1].", ["p1", "p0"]),
        ("She is. [3]", ["p2"]),
        ("She is [4][9][0].", ["p3"]),
        ("She is [9].", []),
        ("She is.", []),
    ],
)
def test_marks_of_every_usual_style_become_citations(scripted, library, response, cited, story):
    engine = scripted(story(GOOD, responses=(response,)))
    result = CoVRAG(library)(QUESTION)
    assert result.citations == cited
    assert result.response == response
    read = engine.prompts[-1]  # the short answer is read from the response without its marks
    assert "[1] She is." in read
    assert "[2]" not in read
    assert "[9]" not in read


def test_the_short_answer_may_be_left_out(scripted, library, story, kinds):
    engine = scripted(story(GOOD))
    program = CoVRAG(library, short=False)
    assert program(QUESTION).answer == "Bert Oyle is."
    assert kinds(engine) == "AV"
    assert "reading" not in dict(program.named_predictors())


def test_an_unparseable_short_answer_leaves_the_response(scripted, library, story):
    rest = story(GOOD)
    scripted(lambda system, user: '["no"]' if "as short as" in system else rest(system, user))
    result = CoVRAG(library)(QUESTION)
    assert (result.answer, result.abstained) == ("Bert Oyle is.", False)


def test_a_last_response_that_declines_is_an_abstention(scripted, library, story):
    refusal = "I'm sorry, I cannot answer the question based on the provided references."
    engine = scripted(story(GOOD, responses=(refusal,)))
    result = CoVRAG(library)(QUESTION)
    assert (result.answer, result.response, result.abstained) == ("", refusal, True)
    assert len(engine.requests) == 2  # answered and verified; there is nothing to read


def test_marks_alone_are_no_response(scripted, library, story):
    scripted(story(GOOD, responses=("[1][2]",)))
    result = CoVRAG(library)(QUESTION)
    assert (result.response, result.citations, result.abstained) == ("", [], True)
    assert [hop.verdict for hop in result.hops] == ["unparseable"]


@pytest.mark.parametrize("overridden", [{"revised_question": QUESTION}, {"correctness": 7}])
def test_an_overridden_verification_is_no_example_to_follow(scripted, library, overridden, story):
    for change, left in ((overridden, 0), ({}, 1)):
        scripted(story(GOOD | change))
        program = CoVRAG(library)
        with dspy.context(trace=[]):
            program(QUESTION)
            asked = [predictor for predictor, *_ in dspy.settings.trace]
        assert asked.count(program.verifying) == left
        assert asked.count(program.answering) == 1


@pytest.mark.parametrize(
    ("second", "followed"),
    [("Ansa Merrow is [2].", "Ansa Merrow is [2]."), ("??", "Bert Oyle is [1]."), ("", "Bert Oyle is [1].")],
)
def test_only_the_answer_that_stands_is_an_example_to_follow(scripted, library, second, followed, story):
    scripted(story(BAD, responses=("Bert Oyle is [1].", second)))
    program = CoVRAG(library)
    _, trace = traced(program, QUESTION)
    said = [reply.response for predictor, _, reply in trace if predictor is program.answering]
    assert said == [followed]


@pytest.mark.parametrize(("rewritten", "left"), [("none", 0), (BETTER, 1)])
def test_a_rewriting_that_asks_nothing_is_no_example_to_follow(scripted, library, rewritten, left, story):
    rest = story()
    scripted(lambda system, user: {"revised_question": rewritten} if "Rewrite" in system else rest(system, user))
    program = CoVRAG(library, revise="start")
    _, trace = traced(program, QUESTION)
    assert [predictor for predictor, *_ in trace].count(program.rewriting) == left
