"""Every gold reply is what the program accepts: it parses, its quotes are quotable, its marks point to gold."""

from pathlib import Path

import pytest

from optimizers.distill.cov_rag import gold_verification
from optimizers.distill.gold import cov_rag, genground, reading, retro_rag
from optimizers.distill.gold.catalog import GOLD, gold_calls, gold_examples, signature_of
from programs.lms.adapter import ChatForm, JsonForm
from programs.parts.longform import cited_passages, gives_answer
from programs.parts.passages import find_quote
from programs.parts.questions import find_question
from signatures.common.errors import UserError
from signatures.text_words import contains_words
from tests.conftest import load_module

toy = load_module(Path(__file__).parent / "conftest.py")
ABOUT = {"source": "toy", "licence": "CC0", "labels": "gold"}
PREDICTORS = [(program, predictor) for program, makers in GOLD.items() for predictor in makers]


def calls(maker, question=toy.TWO_HOPS, seeds=range(25)):
    return [call for seed in seeds for call in maker(toy.annotated(question), toy.material(seed))]


@pytest.mark.parametrize("form", [JsonForm(), ChatForm()], ids=["json", "chat"])
@pytest.mark.parametrize(("program", "predictor"), PREDICTORS)
def test_every_predictor_gets_replies_that_parse(program, predictor, form):
    signature = signature_of(program, predictor)
    made = 0
    for question in toy.QUESTIONS:
        for maker in GOLD[program][predictor]:
            for call in maker(toy.annotated(question), toy.material()):
                assert set(call.inputs) == set(signature.input_fields)
                reply = form.format_assistant_message_content(signature, call.outputs)
                parsed = form.parse(signature, reply)
                assert parsed == {name: call.outputs[name] for name in signature.output_fields}
                made += 1
    assert made


def test_examples_are_the_prompts_of_the_predictor():
    made = list(gold_examples("rag", toy.ONE_HOP, toy.CORPUS, toy.material(), JsonForm(), **ABOUT))
    (example,) = made
    assert example.completion == '{"answer": "1640"}'
    assert example.messages[-1].content.endswith("when was Tarn built\n\nReply with a JSON object: `answer`.")
    assert (example.program, example.predictor, example.skill) == ("rag", "reading", "reading")


def test_equal_seeds_give_equal_examples():
    first, again, other = (
        [e.key for e in gold_examples("genground", toy.TWO_HOPS, toy.CORPUS, toy.material(seed), JsonForm(), **ABOUT)]
        for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize(("program", "predictors"), [("nope", None), ("rag", ("deduction",))])
def test_what_has_no_gold_replies_is_named(program, predictors):
    with pytest.raises(UserError, match="gold replies"):
        list(
            gold_examples(program, toy.ONE_HOP, toy.CORPUS, toy.material(), JsonForm(), predictors=predictors, **ABOUT)
        )


def test_a_predictor_that_no_variant_has():
    with pytest.raises(UserError, match="no predictor 'nothing'"):
        signature_of("rag", "nothing")


def test_reading_shows_all_gold():
    for call in calls(reading.read):
        assert {"ossa", "marn"} <= {passage.id for passage in call.inputs["passages"]}
        assert len(call.inputs["passages"]) <= 5


def test_the_order_of_passages_says_nothing():
    first = {call.inputs["passages"][0].id for call in calls(reading.read)}
    assert len(first) > 2


def test_grounding_quotes_a_passage_or_keeps_the_draft():
    found = calls(genground.ground)
    cited = [call for call in found if call.outputs["evidence"]]
    kept = [call for call in found if not call.outputs["evidence"]]
    assert cited
    assert kept
    for call in cited:
        assert find_quote(call.outputs["evidence"], call.inputs["passages"]).passage
        assert contains_words(call.outputs["evidence"], call.outputs["answer"])
    for call in kept:
        assert call.outputs["answer"] == call.inputs["draft"]
        right = {"Into which lake does the Ossa flow?": "Lake Marn", "In which country does Lake Marn lie?": "Veld"}
        answer = right[call.inputs["sub_question"]]
        assert not any(contains_words(passage.text, answer) for passage in call.inputs["passages"])


def test_drafts_are_right_and_wrong():
    drafts = {call.inputs["draft"] for call in calls(genground.ground)}
    assert {"Lake Marn", "Veld"} & drafts
    assert drafts - {"Lake Marn", "Veld"}


def test_deduction_finishes_after_all_hops():
    first, second, last = calls(genground.deduce, seeds=[0])
    assert [len(call.inputs["hops"]) for call in (first, second, last)] == [0, 1, 2]
    assert [call.outputs["finished"] for call in (first, second, last)] == [False, False, True]
    assert last.outputs["sub_question"] == toy.TWO_HOPS.question
    assert last.outputs["answer"] == "Veld"


def test_truth_is_decided_for_yes_no_questions_alone():
    assert calls(genground.decide_truth, toy.TWO_HOPS) == []
    (call,) = calls(genground.decide_truth, toy.YES_NO, seeds=[0])
    assert call.outputs == {"answer": True}


def test_marks_point_to_gold():
    for call in calls(reading.cite):
        assert set(cited_passages(call.outputs["response"], call.inputs["passages"])) == {"ossa", "marn"}
        assert gives_answer(call.outputs["response"])


def test_the_response_that_is_read_states_the_answer():
    (call,) = calls(reading.read_response, seeds=[0])
    (passage,) = call.inputs["passages"]
    assert passage.text.endswith("The answer is Veld.")
    assert "[" not in passage.text


def test_right_and_wrong_responses_are_verified():
    for right, wrong in zip(*[iter(calls(cov_rag.verify))] * 2, strict=True):
        assert (right.outputs["correctness"], right.outputs["judgement"]) == (1.0, "true")
        assert right.outputs["revised_question"] == ""
        assert (wrong.outputs["correctness"], wrong.outputs["judgement"]) == (0.0, "false")
        assert "Veld " not in wrong.inputs["response"]
        shown = {passage.id for passage in wrong.inputs["passages"]}
        assert wrong.outputs["reference_correctness"] == len({"ossa", "marn"} & shown) / 2


def test_wrong_responses_have_the_form_of_right_ones():
    for right, wrong in zip(*[iter(calls(cov_rag.verify))] * 2, strict=True):
        for call in (right, wrong):
            *stated, answer = call.inputs["response"].removesuffix(".").split(". ")
            assert stated
            assert answer.startswith("The answer is ")
            assert answer.endswith("]")


def test_verification_has_the_labels_that_synthesis_gives_the_same_response():
    made = calls(cov_rag.verify)
    assert {call.outputs["judgement"] for call in made} == {"true", "false"}
    for call in made:
        labels = gold_verification(toy.TWO_HOPS, call.inputs["passages"], call.inputs["response"])
        assert labels == {name: call.outputs[name] for name in labels}


def test_a_right_response_needs_no_revision():
    made = calls(cov_rag.revise)
    assert {bool(call.outputs["revised_question"]) for call in made} == {True, False}
    for call in made:
        assert contains_words(call.inputs["response"], "Veld") != bool(call.outputs["revised_question"])


@pytest.mark.parametrize("maker", [reading.query, retro_rag.search, reading.search_missing])
@pytest.mark.parametrize("question", [toy.TWO_HOPS, toy.NO_STEPS], ids=lambda question: question.id)
def test_what_is_searched_for_is_not_shown(maker, question):
    for call in calls(maker, question):
        shown = {passage.id for passage in call.inputs["passages"]}
        missing = [name for name in ("ossa", "marn") if name not in shown]
        assert missing
        wanted = toy.annotated(question).missing_query(frozenset(shown))
        assert call.outputs["query"] == wanted


def test_some_settled_hops_have_no_evidence():
    hops = [hop for call in calls(genground.deduce) for hop in call.inputs["hops"]]
    assert {hop.evidence is None for hop in hops} == {True, False}


@pytest.mark.parametrize("question", toy.QUESTIONS, ids=lambda question: question.id)
def test_a_wrong_response_gets_a_question_that_is_searched_for(question):
    for call in calls(cov_rag.verify, question):
        if call.outputs["judgement"] == "false":
            revised = find_question(call.outputs["revised_question"])
            assert revised
            assert revised != question.question


def test_the_refusal_comes_with_what_is_missing():
    for call in calls(reading.reflect):
        shown = {passage.id for passage in call.inputs["passages"]}
        assert call.outputs["sufficient"] == ({"ossa", "marn"} <= shown)
        assert bool(call.outputs["missing"]) != call.outputs["sufficient"]
        assert gives_answer(call.outputs["response"]) == call.outputs["sufficient"]


def test_unknown_is_the_answer_without_gold():
    for call in calls(retro_rag.answer):
        shown = {passage.id for passage in call.inputs["passages"]}
        assert (call.outputs["answer"] == "unknown") == (not {"ossa", "marn"} & shown)


@pytest.mark.parametrize(
    "maker",
    [reading.judge_sufficient, reading.judge_passage, reading.judge_support,
     retro_rag.weigh, retro_rag.judge_relevance, retro_rag.judge_attribution, retro_rag.judge_agreement,
     retro_rag.judge_answer],
)  # fmt: skip
def test_judgements_are_half_yes(maker):
    verdicts = [value for call in calls(maker) for value in call.outputs.values()]
    assert verdicts.count(True) == verdicts.count(False) > 0


def test_a_claim_with_another_answer_is_not_stated():
    false = [call for call in calls(retro_rag.judge_attribution) if not call.outputs["stated"]]
    assert all(not any(call.inputs["claim"] in passage.text for passage in call.inputs["passages"]) for call in false)


def test_what_is_compared_is_stated_before_the_answer():
    facts = "It was built in 1640. Its market opens at noon."
    compared = toy.YES_NO.model_copy(update={"type": "comparison"})
    for call in calls(reading.read_with_reasons, compared):  # its two steps do not ask for the same
        assert call.outputs == {"reasoning": facts, "answer": "yes"}
    alike = [
        step.model_copy(update={"question": f"When is the day of {name}?"})
        for step, name in zip(compared.sub_questions, ("Tarn", "Brook"), strict=True)
    ]
    for call in calls(reading.read_with_reasons, compared.model_copy(update={"sub_questions": alike})):
        assert call.outputs == {"reasoning": "Tarn: 1640; Brook: at noon.", "answer": "yes"}
    (call,) = calls(reading.read_with_reasons, toy.TWO_HOPS, seeds=[0])
    assert call.outputs["reasoning"] == "It flows into Lake Marn after forty miles. It lies in the country of Veld."


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["3 May 1950", "875"], " 1950 is after 875."),
        (["1640", "May 1701"], " 1640 is before 1701."),
        (["1640", "3 May 1640"], ""),
        (["1640 to 1650", "1701"], ""),
        (["Danish", "Polish"], ""),
        ([], ""),
    ],
)
def test_the_order_of_two_years_is_stated(values, said):
    assert reading._order(values) == said


def test_brackets_of_a_sentence_stay_where_they_have_the_answer():
    sentence = "Ann Orn (née Velt) (born 1950) is a painter."
    assert reading._without_brackets(sentence, ["1950"]) == "Ann Orn (born 1950) is a painter."


def test_hops_are_read_with_their_sentences():
    alone, after = calls(reading.read_hops, seeds=[4]), calls(reading.read_hops_with_reasons, seeds=[4])
    assert [call.inputs for call in after] == [call.inputs for call in alone]
    assert [tuple(call.outputs.values()) for call in after] == [
        ("It flows into Lake Marn after forty miles.", "Lake Marn"),
        ("It lies in the country of Veld.", "Veld"),
    ]


@pytest.mark.parametrize("maker", [retro_rag.answer, reading.answer_or_unknown])
def test_a_tenth_of_the_prompts_that_offer_unknown_lack_the_gold(maker):
    replies = [call.outputs["answer"] for call in calls(maker, seeds=range(300))]
    assert replies.count("unknown") / len(replies) == pytest.approx(0.1, abs=0.03)


def test_unknown_is_the_reply_where_the_prompt_offers_it_alone():
    for program, makers in GOLD.items():
        for predictor, used in makers.items():
            offered = '"unknown"' in signature_of(program, predictor).instructions
            made = [call for maker in used for call in calls(maker, seeds=range(40))]
            assert offered == any(call.outputs.get("answer") == "unknown" for call in made), (program, predictor)


CLAIM = toy.ONE_HOP.model_copy(update={"question": "Tarn was built in 1640.", "answers": ["no"], "type": "claim"})


def test_a_claim_is_judged_by_its_passage_and_gives_nothing_else():
    material = toy.material()
    (call,) = gold_calls("retro_rag", "attribution", CLAIM, toy.CORPUS, material)
    assert call.inputs["claim"] == CLAIM.question
    assert [passage.id for passage in call.inputs["passages"]] == ["tarn"]
    assert call.outputs == {"stated": False}
    assert not list(gold_calls("rag", "reading", CLAIM, toy.CORPUS, material))
    asked = list(gold_calls("retro_rag", "attribution", toy.ONE_HOP, toy.CORPUS, material))
    assert CLAIM.question not in [call.inputs["claim"] for call in asked]


PROOF = toy.NO_STEPS.model_copy(update={"inferences": ["The Ossa ends in Lake Marn.", "The Ossa ends in Veld."]})


def test_conclusions_of_a_proof_are_inferred_and_answered_from():
    (call,) = calls(retro_rag.infer_steps, PROOF, seeds=[0])
    assert call.outputs == {"inferences": ["The Ossa ends in Lake Marn.", "The Ossa ends in Veld."]}
    (call,) = calls(retro_rag.conclude_from_steps, PROOF, seeds=[0])
    assert call.inputs["inferences"] == ["The Ossa ends in Lake Marn."]
    assert call.outputs == {"reasoning": "The Ossa ends in Veld.", "answer": "Veld"}
    assert calls(retro_rag.infer_steps) == calls(retro_rag.conclude_from_steps) == []


@pytest.mark.parametrize(("program", "predictor"), PREDICTORS)
def test_cut_passages_keep_what_the_reply_rests_on(program, predictor):
    for seed in range(6):
        material = toy.material(seed)
        material.cut = 1.0
        for call in gold_calls(program, predictor, toy.TWO_HOPS, toy.CORPUS, material):
            passages = call.inputs.get("passages") or []
            if call.skill in ("reading", "reading_with_reasons") and call.outputs["answer"] != "unknown":
                assert any(contains_words(passage.text, call.outputs["answer"]) for passage in passages)
            if call.skill == "grounding" and call.outputs.get("evidence"):
                assert find_quote(call.outputs["evidence"], passages).passage


def test_answers_that_agree_are_spelled_differently():
    for question in (toy.TWO_HOPS, toy.ONE_HOP, toy.YES_NO):
        for call in calls(retro_rag.judge_agreement, question):
            assert call.inputs["answer"] != call.inputs["other_answer"]
