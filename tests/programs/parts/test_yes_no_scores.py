import dspy
import pytest

from programs.lms.adapter import ChatForm
from programs.parts.meter import metered
from programs.parts.probability import YesNoQuestion, YesNoScores, even_groups, listed_scores
from programs.parts.threads import in_parallel
from signatures.types import Passage


class Supports(dspy.Signature):
    """Do the passages support the claim?"""

    passages: list[Passage] = dspy.InputField()
    claim: str = dspy.InputField()
    supported: bool = dspy.OutputField()


PREDICT, OTHER = dspy.Predict(Supports), dspy.Predict(Supports)


def asking(claim: str = "c", *, predictor=PREDICT, score: float | None = None, id: str = "p") -> YesNoQuestion:
    return YesNoQuestion(predictor, passages=[Passage(id=id, text="t", score=score)], claim=claim)


@pytest.fixture
def numbers(scripted):
    """Return an engine that gives P(yes) as a plain number: 0.9 for what is sure, "?" for what is odd."""
    return scripted(
        lambda system, user: (
            "?" if "odd" in user else "[[ ## probability ## ]]\n" + ("0.9" if "sure" in user else "0.2")
        ),
        ChatForm(probability_mode="verbalised"),
    )


def test_the_same_question_is_asked_once(numbers):
    scores = YesNoScores()
    scores.ask(dict(enumerate([asking("sure"), asking("sure"), asking("sure", score=0.3)])))
    assert scores.ask({"a": asking("sure"), "b": asking("other")}) == {"a": 0.9, "b": 0.2}
    assert len(numbers.requests) == 2
    assert scores.mode == "verbalised"


def test_another_predictor_or_passage_makes_another_question(numbers):
    YesNoScores().ask(dict(enumerate([asking(), asking(predictor=OTHER), asking(id="q")])))
    assert len(numbers.requests) == 3


def test_an_unparseable_reply_is_remembered_as_that(numbers):
    scores = YesNoScores()
    assert scores.ask({1: asking("odd")}) == {1: None}
    assert scores.ask({2: asking("odd")}) == {2: None}
    assert scores.mode is None
    assert len(numbers.requests) == 1


def test_without_questions_nothing_is_asked(numbers):
    scores = YesNoScores()
    assert scores.ask({}) == {}
    assert scores.mode is None
    assert numbers.requests == []


def test_scores_asked_for_in_parallel_take_one_round(numbers):
    scores = YesNoScores()
    with metered() as meter:
        first, second = in_parallel(lambda: scores.ask({"a": asking("sure")}), lambda: scores.ask({"b": asking()}))
    assert (first, second) == ({"a": 0.9}, {"b": 0.2})
    assert meter.rounds == 1


@pytest.mark.parametrize(
    ("count", "size", "groups"),
    [(0, 5, []), (1, 5, [1]), (5, 5, [5]), (6, 5, [3, 3]), (11, 5, [3, 4, 4]), (3, 2, [1, 2]), (3, 1, [1, 1, 1])],
)
def test_groups_are_few_and_even(count, size, groups):
    found = even_groups(range(count), size)
    assert [len(group) for group in found] == groups
    assert [item for group in found for item in group] == list(range(count))


@pytest.mark.parametrize(
    ("numbers", "scores"),
    [
        ([0.2, 0, 1], [0.2, 0.0, 1.0]),
        ([20, 0, 100], [0.2, 0.0, 1.0]),
        ([0.2, -1, 0.4], [0.2, None, 0.4]),
        ([20, 101, 40], [0.2, None, 0.4]),
        ([0.2, 0.4], [None] * 3),
        ([0.2] * 4, [None] * 3),
    ],
)
def test_a_list_of_the_right_length_is_read_number_by_number(numbers, scores):
    assert listed_scores(numbers, 3) == scores


def test_questions_asked_together_are_asked_in_lists_and_never_again(numbers):
    scores, asked = YesNoScores(), []

    def listed(group):
        asked.append([question.inputs["claim"] for question in group])
        return [0.7 if "listed" in question.inputs["claim"] else None for question in group]

    first = {name: asking(name) for name in ("listed a", "sure", "listed b", "odd")}
    assert scores.ask_together(first, 2, listed) == {"listed a": 0.7, "sure": 0.9, "listed b": 0.7, "odd": None}
    assert scores.mode == "verbalised"
    assert scores.ask_together({**first, "other": asking("other")}, 2, listed)["other"] == 0.2
    assert asked == [["listed a", "sure"], ["listed b", "odd"]]
    assert len(numbers.requests) == 3  # sure, odd, and other, which would be alone in a list


def test_listed_scores_are_no_p_yes(numbers):
    scores = YesNoScores()
    assert scores.ask_together({1: asking("a"), 2: asking("b")}, 5, lambda group: [0.1, 0.2]) == {1: 0.1, 2: 0.2}
    assert scores.mode is None
    assert scores.ask({1: asking("a")}) == {1: 0.1}
    assert numbers.requests == []
