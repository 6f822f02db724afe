import dspy
import pytest

from programs.parts.evidence.candidate_records import Answer, answer_hop, drop_unused, final_answer, refusal, verdict


def answer(text: str = "Quillon", reached: str | None = "disagreed") -> Answer:
    return Answer([], text, "because", "Fog", 0.9, 0.4, reached)


@pytest.mark.parametrize(
    ("answered", "agreement", "expected"),
    [
        (0.9, 0.71, "accepted"),
        (0.9, 0.7, "disagreed"),
        (0.5, 0.9, "no answer"),
        (0.1, None, "no answer"),
        (None, 0.9, "unparseable"),
        (0.9, None, "unparseable"),
    ],
)
def test_the_verdict_follows_from_both_numbers(answered, agreement, expected):
    assert verdict(answered, agreement, threshold=0.7) == expected


def test_an_earlier_answer_is_returned_if_it_was_not_refused():
    nothing = answer("unknown", "no answer")
    assert final_answer([answer("a"), answer("b"), answer("c", "final")]).text == "c"
    assert final_answer([answer("a"), answer("b"), answer("c", "no answer"), nothing]).text == "b"
    assert final_answer([answer("a", None), answer("b", None), answer("unknown", None)]).text == "b"
    assert final_answer([answer("a", None), answer("", None), answer("unknown", None)]).text == "a"
    assert final_answer([]) is None


def test_a_refused_answer_is_returned_rather_than_none():
    """The judgement that refused it may be wrong, and the paper's loop never abstains."""
    nothing = answer("", "unparseable")
    assert final_answer([answer("a", "unparseable"), answer("b", "no answer"), nothing]).text == "b"
    assert final_answer([answer("a"), answer("b", "no answer"), nothing]).text == "a"
    assert (
        final_answer([answer("a", "no answer"), answer("The passages do not say.", "no answer"), nothing]).text == "a"
    )
    assert final_answer([answer("unknown", "no answer"), nothing]) is None


@pytest.mark.parametrize("verdict", ["no answer", "unparseable", "disagreed"])
def test_the_last_answer_is_returned_whatever_was_judged_of_it(verdict):
    rejected = answer("Lies in a sea", verdict)
    assert final_answer([answer("a"), rejected]) is rejected


@pytest.mark.parametrize("text", ["Cannot be determined from the passages.", "The answer is unknown"])
def test_a_last_reply_that_declines_gives_way_to_an_earlier_answer(text):
    declined, earlier = answer(text, "no answer"), answer("a")
    assert final_answer([earlier, declined]) is earlier
    doubted = answer("b", "no answer")
    assert final_answer([doubted, declined]) is doubted


def test_a_refusal_is_no_answer_although_nothing_judged_it():
    earlier = answer("a", None)
    assert final_answer([earlier, answer("It cannot be determined.", None)]) is earlier


@pytest.mark.parametrize(
    ("text", "parsed", "expected"),
    [
        ("Quillon", True, None),
        ("Unknown.", True, "no answer"),
        ("", True, "no answer"),
        ("", False, "unparseable"),
        ("Cannot be determined from the passages.", True, "no answer"),
    ],
)
def test_a_reply_without_an_answer_is_refused_unjudged(text, parsed, expected):
    reply = dspy.Prediction(answer=text) if parsed else None
    assert refusal(Answer([reply], text, "", None)) == expected


@pytest.mark.parametrize(
    ("text", "reached", "final", "expected"),
    [
        ("Quillon", "disagreed", True, "final"),
        ("Quillon", "disagreed", False, "disagreed"),
        ("Quillon", "accepted", True, "accepted"),
        ("Quillon", None, True, "final"),
        ("unknown", "no answer", False, "no answer"),
    ],
)
def test_a_hop_has_the_verdict_final_if_its_answer_is_the_output_but_not_accepted(text, reached, final, expected):
    hop = answer_hop("sea of Quillon", ["p1"], answer(text, reached), [], final=final)
    assert (hop.question, hop.answer, hop.draft, hop.passage_ids, hop.verdict) == (
        "sea of Quillon",
        text,
        "Fog",
        ["p1"],
        expected,
    )


@pytest.mark.parametrize(("reached", "left"), [("accepted", [2, 3]), ("disagreed", [2])])
def test_only_replies_that_led_to_the_answer_stay_in_the_trace(reached, left):
    replies = [dspy.Prediction(answer=str(number)) for number in range(4)]
    first, last = (answer("a")._replace(replies=replies[:2]), answer("b", reached)._replace(replies=replies[2:]))
    with dspy.context(trace=[(None, {}, reply) for reply in replies]):
        drop_unused([first, last], last)
        assert [entry[2] for entry in dspy.settings.trace] == [replies[number] for number in left]
