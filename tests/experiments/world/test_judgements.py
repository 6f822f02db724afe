"""Judgements by field: each in the polarity in which it asks, by its own words, and with an error of its own."""

from typing import Any, Literal

import dspy
import pytest

from experiments.world.generate import records
from experiments.world.roles.polarity import asks_for_the_contrary
from programs.lms.adapter import ChatForm
from programs.parts.prediction import try_predict
from signatures.types import Passage


def made(inputs: dict[str, Any], outputs: dict[str, tuple[Any, str]], instruction: str) -> dspy.Predict:
    """Return a predictor for a signature; outputs have a type and a description, which may be empty."""
    fields = {name: (kind, dspy.InputField()) for name, kind in inputs.items()}
    for name, (kind, description) in outputs.items():
        fields[name] = (kind, dspy.OutputField(**({"desc": description} if description else {})))
    return dspy.Predict(dspy.Signature(fields, instruction))


CHECK = {"question": str, "passages": list[Passage], "answer": str}


@pytest.mark.parametrize("kind", [bool, Literal["yes", "no"]])
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(
    ("name", "description", "of_right", "of_wrong"),
    [
        ("is_right", "is the answer right?", True, False),
        ("is_wrong", "is the answer wrong?", False, True),
        ("unsupported", "true if the passages do not support the answer", False, True),
        ("hallucinated", "is the answer hallucinated?", False, True),
        ("has_errors", "true if the answer contains an error", False, True),
        ("contradicted", "do the references contradict the answer?", False, True),
        ("needs_revision", "does the answer need to be revised?", False, True),
        ("verdict", "is the answer free of errors?", True, False),
        ("supported", "true if the passages support it, false if they contradict it", True, False),
    ],
)
def test_a_judgement_has_the_polarity_in_which_it_asks(
    running, faultless, world, films, about, name, description, of_right, of_wrong, kind, beside
):
    outputs = {**({"critique": (str, "")} if beside else {}), name: (kind, description)}
    judge = made(CHECK, outputs, description)
    inputs = {"question": f"Who directed {films[0]}?", "passages": [about(films[0], "director")]}
    with running(faultless()):
        for answer, verdict in ((world.value(films[0], "director"), of_right), ("Nobody Atall", of_wrong)):
            told = judge(answer=answer, **inputs)[name]
            assert told == (verdict if kind is bool else "yes" if verdict else "no")


def test_passages_and_pairs_of_answers_are_judged_in_their_polarity_too(running, faultless, films, about):
    passage = about(films[0], "director")
    irrelevant = made(
        {"question": str, "passage": str}, {"irrelevant": (bool, "")}, "Is the passage irrelevant to the question?"
    )
    differ = made({"answer": str, "other_answer": str}, {"differ": (bool, "")}, "Do the two answers differ?")
    with running(faultless()):
        text = f"{passage.title}: {passage.text}"
        assert not irrelevant(question=f"Who directed {films[0]}?", passage=text).irrelevant
        assert irrelevant(question=f"Who directed {films[1]}?", passage=text).irrelevant
        assert not differ(answer="Quillon", other_answer="Quillon").differ
        assert differ(answer="Quillon", other_answer="Zadel").differ


@pytest.mark.parametrize(
    ("kind", "name", "description", "contrary"),
    [
        ("stated", "verdict", "is it supported or contradicted?", False),
        ("correct", "verdict", "", False),
        ("correct", "not_wrong", "", False),
        ("contributes", "verdict", "does it state the missing fact?", False),
        ("search", "search_needed", "is retrieval needed because a fact is missing?", False),
        ("search", "unnecessary", "", True),
        ("suffices", "verdict", "do the passages lack anything?", True),
    ],
)
def test_only_clear_words_turn_a_judgement(kind, name, description, contrary):
    assert asks_for_the_contrary(kind, name, description, "Judge.") == contrary


def test_several_judgements_in_one_reply_each_have_their_own_verdict(running, faultless, world, films, about):
    judge = made(
        CHECK,
        {
            "relevant": (bool, "does a passage contribute to the question?"),
            "supported": (bool, "do the passages support the answer?"),
            "should_retrieve": (bool, ""),
        },
        "Reflect on the answer and the passages.",
    )
    question, right = f"Who directed {films[0]}?", world.value(films[0], "director")

    def told(passages: list[Passage], answer: str) -> tuple[bool, bool, bool]:
        reply = judge(question=question, passages=passages, answer=answer)
        return reply.relevant, reply.supported, reply.should_retrieve

    with running(faultless()):
        assert told([about(films[0], "director")], right) == (True, True, False)
        assert told([about(films[0], "director")], "Nobody Atall") == (True, False, False)
        assert told([about(films[1], "release_year")], right) == (False, False, True)
        assert told([], right) == (False, False, False)  # memory knows it


@pytest.mark.slow
def test_judgements_of_different_kinds_on_the_same_inputs_err_independently(running, faultless):
    passages, questions = records(300, seed=0)
    texts = {item["id"]: Passage(id=item["id"], title=item["title"], text=item["text"]) for item in passages}
    asked = [(item["question"], [texts[name] for name in item["gold_ids"]]) for item in questions]
    judges = [
        made({"question": str, "passages": list[Passage]}, {"verdict": (bool, "")}, instruction)
        for instruction in ("Do the passages contribute to the answer?", "Do the passages suffice?")
    ]

    def verdicts(error: float) -> list[list[bool]]:
        with running(faultless(judging_error=error)):
            return [[judge(question=question, passages=gold).verdict for question, gold in asked] for judge in judges]

    wrong = [
        [one != other for one, other in zip(right, noisy, strict=True)]
        for right, noisy in zip(verdicts(0.0), verdicts(0.3), strict=True)
    ]
    both = sum(one and other for one, other in zip(*wrong, strict=True))
    assert 0 < both < 0.6 * min(map(sum, wrong))


def test_numbers_have_the_scale_that_the_prompt_states(running, faultless, world, films):
    inputs, question = {"question": str, "answer": str}, f"Who directed {films[0]}?"
    right = world.value(films[0], "director")
    useful = made(inputs, {"utility": (int, "")}, "Rate how useful the answer is, from 1 to 5.")
    likely = made(inputs, {"confidence": (float, "between 0 and 100")}, "How likely is the answer right?")
    hops = made({"question": str}, {"answer": (str, ""), "hops_needed": (int, "")}, "Answer, and count the hops.")
    with running(faultless()):
        for judge, name, low, high in ((useful, "utility", 1, 5), (likely, "confidence", 0, 100)):
            good, bad = (judge(question=question, answer=given)[name] for given in (right, "Nobody Atall"))
            assert low <= bad < (low + high) / 2 < good <= high
        assert hops(question=question).hops_needed == 1
        assert hops(question=f"Where was the director of {films[0]} born?").hops_needed == 2


def test_a_reply_with_query_and_answer_leaves_empty_what_its_description_lets_it(running, faultless, world, films):
    step = made(
        {"question": str, "reasoning_so_far": str},
        {"search_query": (str, "empty if no search is needed"), "final_answer": (str, "empty until finished")},
        "Ask for a search while knowledge is missing, then give the final answer.",
    )
    film = films[0]
    director = world.value(film, "director")
    town = world.value(director, "birthplace")
    with running(faultless()):
        first = step(question=f"Where was the director of {film} born?", reasoning_so_far="")
        assert (bool(first.search_query), first.final_answer) == (True, "")
        thoughts = f"{film} was directed by {director}. {director} was born in the town of {town}."
        last = step(question=f"Where was the director of {film} born?", reasoning_so_far=thoughts)
        assert (last.search_query, last.final_answer) == ("", town)


@pytest.mark.parametrize("name", ["rationale", "thoughts"])
def test_reasoning_under_another_name_leaves_the_other_field_alone(running, name):
    passages, questions = records(40, seed=0)
    found = [Passage(id=item["id"], title=item["title"], text=item["text"]) for item in passages[:6]]

    def told(reasoning: str) -> list[Any]:
        outputs = {reasoning: (str, ""), "x": (str, "")}
        ask = made({"question": str, "passages": list[Passage]}, outputs, "Ask the next sub-question.")
        with running(adapter=ChatForm()):
            replies = [try_predict(ask, question=item["question"], passages=found) for item in questions]
        return [reply and reply.x for reply in replies]

    assert told(name) == told("reasoning")
    assert any(str(question).endswith("?") for question in told(name))
