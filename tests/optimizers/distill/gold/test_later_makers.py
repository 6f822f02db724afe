"""Gold replies of the strategies that the four papers are compared with: sub-questions and queries."""

from pathlib import Path

import pytest

from optimizers.distill.gold import reading
from optimizers.distill.gold.catalog import GOLD
from programs.catalog import PROGRAMS, build
from tests.conftest import load_module

toy = load_module(Path(__file__).parent / "conftest.py")
LAKE, COUNTRY = (step.question for step in toy.TWO_HOPS.sub_questions)


def calls(maker, question=toy.TWO_HOPS, seeds=(0,)):
    return [call for seed in seeds for call in maker(toy.annotated(question), toy.material(seed))]


def test_a_sub_question_is_asked_after_those_before_it_and_not_answered():
    made = calls(reading.ask_or_finish)
    assert [[hop.answer for hop in call.inputs["hops"]] for call in made] == [[], ["Lake Marn"], ["Lake Marn", "Veld"]]
    assert [tuple(call.outputs.values()) for call in made] == [
        (False, LAKE, ""),
        (False, COUNTRY, ""),
        (True, "", "Veld"),
    ]
    assert [call.outputs["sub_question"] for call in calls(reading.ask_further)] == [LAKE, COUNTRY]


def test_questions_of_one_passage_or_without_steps_teach_no_decomposition():
    makers = (reading.ask_or_finish, reading.ask_further, reading.conclude, reading.judge_chain)
    for maker in makers:
        assert calls(maker, toy.ONE_HOP) == calls(maker, toy.NO_STEPS) == []


def test_a_follow_up_is_answered_from_its_passage_and_else_unknown():
    made = calls(reading.answer_or_unknown, seeds=range(10))
    assert {call.outputs["answer"] for call in made} == {"Lake Marn", "Veld", "unknown"}
    for call in made:
        shown = {passage.id for passage in call.inputs["passages"]}
        asked = {LAKE: "ossa", COUNTRY: "marn"}[call.inputs["question"]]
        assert (asked in shown) == (call.outputs["answer"] != "unknown")


def test_the_chain_is_concluded_beside_what_the_question_finds():
    (call,) = calls(reading.conclude_with_passages)
    assert call.outputs == {"answer": "Veld"}
    assert list(call.inputs) == ["passages", "hops", "question"]
    assert [call.outputs["sufficient"] for call in calls(reading.judge_chain)] == [True, False]


def test_queries_ask_what_can_be_asked_before_reading():
    (bridge,) = calls(reading.write_queries)
    assert bridge.outputs == {"reasoning": f"It depends on this: {LAKE} {COUNTRY}", "queries": [LAKE]}
    (comparison,) = calls(reading.write_queries, toy.YES_NO)
    assert comparison.outputs["queries"] == [step.question for step in toy.YES_NO.sub_questions]
    (unknown_steps,) = calls(reading.write_queries, toy.NO_STEPS)
    assert unknown_steps.outputs["queries"] == [calls(reading.write_query, toy.NO_STEPS)[0].outputs["query"]]


def test_a_long_answer_without_marks_states_the_answer():
    (call,) = calls(reading.answer_at_length)
    assert call.outputs["response"].endswith("The answer is Veld.")
    assert "[" not in call.outputs["response"]


def test_passages_suffice_if_none_of_the_gold_is_lacking():
    for call in calls(reading.judge_sufficient, seeds=range(10)):
        assert ({"ossa", "marn"} <= {passage.id for passage in call.inputs["passages"]}) == call.outputs["sufficient"]


README = Path(__file__).parents[4] / "optimizers" / "distill" / "README.md"


def test_the_readme_names_every_program_and_predictor_without_gold_replies():
    listed = README.read_text().partition("no replies can be derived from gold")[2].partition("\n## ")[0]
    for program in PROGRAMS:
        names = {name.removesuffix(".predict") for name, _ in build(program, None).named_predictors()}
        made = {name.removesuffix(".predict") for name in GOLD.get(program, {})}
        if not made:
            assert f"`{program}`" in listed
        for name in names - made if made else ():
            assert f"`{name}`" in listed, (program, name)


def compared(question="Which was built earlier, Tarn or Brook?", answer="Tarn", values=("3 May 1702", "1640")):
    steps = [
        step.model_copy(update={"answer": value})
        for step, value in zip(toy.COMPARED.sub_questions, values, strict=True)
    ]
    asked = {"question": question, "answers": [answer], "sub_questions": steps}
    return [call.outputs for call in calls(reading.compare, toy.COMPARED.model_copy(update=asked))]


def test_a_comparison_states_both_values_in_the_order_of_the_question():
    (outputs,) = compared()
    assert list(outputs.values()) == ["Tarn", "1640", "Brook", "3 May 1702", "lower", "Tarn"]


@pytest.mark.parametrize(
    ("question", "answer", "values", "wanted"),
    [
        ("Which was built later, Tarn or Brook?", "Brook", ("1702", "1640"), "higher"),
        ("Was Tarn built before Brook?", "yes", ("1702", "1640"), "lower"),
        ("Was Brook built before Tarn?", "no", ("1702", "1640"), "lower"),
        ("Are Tarn and Brook in the same country?", "yes", ("Veld", "Veld"), "same"),
        ("Do Tarn and Brook share a country?", "no", ("Hovia", "Veld"), "same"),
        ("Are Tarn and Brook in the same country?", "yes", ("the US", "America"), "other"),  # not equal in writing
        ("Which has more people, Tarn or Brook?", "Brook", ("many", "few"), "other"),
    ],
)
def test_which_value_a_comparison_wants_is_told_by_its_answer(question, answer, values, wanted):
    (outputs,) = compared(question, answer, values)
    assert (outputs["wanted"], outputs["answer"]) == (wanted, answer)


def test_what_names_neither_side_or_compares_nothing_is_no_comparison():
    assert not compared("Which of the two was built first or last?")
    assert not compared("In which country are Tarn and Brook?", "Veld")
    assert not compared("Are both Tarn and Brook villages?", "yes", ("village", "village"))
