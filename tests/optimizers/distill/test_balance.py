"""Neither of two verdicts is more frequent for any predictor."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.distill.balance import balanced, verdict_of, verdict_of_call
from optimizers.distill.examples import Example, Message

VERDICTS = ["", "yes", "no", "first", "second"]


@pytest.mark.parametrize(
    ("question", "reply", "verdict"),
    [
        ("Is Tarn old?", "Yes", "yes"),
        ("Is Tarn old?", False, "no"),
        ("", "true", "yes"),
        ("Which is older, Tarn or Brook?", "Tarn", "first"),
        ("Which is older, Tarn or Brook?", "Brook", "second"),
        ("Between Tarn and Brook, which is older?", "Brook", "second"),
        ("When was Tarn built?", "1640", ""),
        ("Which is older, Tarn or Brook?", "neither", ""),
        ("How many towns are there?", 3, ""),
        ("Which towns are there?", ["Tarn", "Brook"], ""),
        ("When was Tarn built?", None, ""),
    ],
)
def test_what_a_reply_decides_for(question, reply, verdict):
    assert verdict_of(question, reply) == verdict


@pytest.mark.parametrize(
    ("inputs", "outputs", "verdict"),
    [
        ({"question": "Is it old?"}, {"reasoning": "It is.", "answer": "no"}, "no"),
        ({"question": "Is A or B older?"}, {"finished": False, "sub_question": "Is A old?", "answer": "1640"}, ""),
        ({"claim": "It is old."}, {"stated": True}, "yes"),
        ({"question": "Is it old?"}, {"correctness": 1.0, "judgement": "false"}, "no"),
        ({"question": "Is it old?"}, {"response": "It is. The answer is yes."}, "yes"),
        ({"question": "Is it old?"}, {"missing": "all", "sufficient": False, "response": "I'm sorry."}, ""),
        ({"question": "Is it old?"}, {"query": "its age"}, ""),
    ],
)  # fmt: skip
def test_what_a_call_decides_for(inputs, outputs, verdict):
    assert verdict_of_call(inputs, outputs, "yes") == verdict


def example(number: int, predictor: str, verdict: str) -> Example:
    return Example(messages=(Message(role="user", content=f"{predictor} {number}"),), completion="a", program="rag",
                   predictor=predictor, skill="reading", question_id=f"q{number}", source="toy", licence="MIT",
                   labels="gold", verdict=verdict)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(VERDICTS)), max_size=40), st.integers(0, 3))
def test_each_predictor_has_as_many_of_both(drawn, seed):
    examples = [example(number, *each) for number, each in enumerate(drawn)]
    kept = balanced(examples, seed)
    assert kept == [one for one in examples if one in kept]
    before = Counter((one.predictor, one.verdict) for one in examples)
    after = Counter((one.predictor, one.verdict) for one in kept)
    for predictor in "ab":
        assert after[predictor, ""] == before[predictor, ""]
        for one, other in (("yes", "no"), ("first", "second")):
            fewer = min(before[predictor, one], before[predictor, other])
            assert after[predictor, one] == after[predictor, other] == fewer


def test_the_choice_depends_on_the_seed_alone():
    examples = [example(number, "a", "yes") for number in range(20)] + [example(99, "a", "no")]
    assert balanced(examples, 1) == balanced(examples, 1)
    assert len({balanced(examples, seed)[0].question_id for seed in range(12)}) > 1


def test_answers_are_balanced_within_each_source_and_judgements_over_all():
    def made(number: int, source: str, verdict: str, skill: str) -> Example:
        changes = {"source": source, "skill": skill, "predictor": skill}
        return example(number, skill, verdict).model_copy(update=changes)

    counts = {("a", "yes"): 5, ("a", "no"): 1, ("b", "yes"): 2, ("b", "no"): 6}
    given = [
        made(100 * place + number, source, verdict, skill)
        for skill in ("reading", "judgement")
        for place, ((source, verdict), count) in enumerate(counts.items())
        for number in range(count)
    ]
    kept = Counter((one.skill, one.source, one.verdict) for one in balanced(given, 0))
    assert {place[1:]: count for place, count in kept.items() if place[0] == "reading"} == {
        ("a", "yes"): 1, ("a", "no"): 1, ("b", "yes"): 2, ("b", "no"): 2,
    }  # fmt: skip
    assert sum(count for place, count in kept.items() if place[0] == "judgement") == 14
