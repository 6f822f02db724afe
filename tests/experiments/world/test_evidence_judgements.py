"""Judgements on single pieces of evidence: answers, replies, passages and claims."""

import itertools

import dspy
import pytest

from experiments.world.relations import BY_NAME
from programs.lms.adapter import ChatForm
from programs.parts.probability import probability
from signatures import retro_rag as prompts
from signatures.types import Passage


def fact(name: str, relation: str, value: str) -> str:
    return BY_NAME[relation].statements[0].format(x=name, y=value)


def yes(signature, **inputs) -> bool:
    (name,) = signature.output_fields
    return dspy.Predict(signature)(**inputs)[name]


def test_two_answers_agree_only_when_both_say_the_same(running, faultless, question):
    def agree(one: str, other: str) -> bool:
        return yes(prompts.JudgeAgreement, question=question, answer=one, other_answer=other)

    with running(faultless()):
        assert agree("The Quillon", "quillon.")
        assert not agree("Quillon", "Zadel")
        assert not agree("Quillon", "")
        assert not agree("", "")


@pytest.mark.parametrize(
    ("reply", "answered"),
    [("Quillon", True), ("no", True), ("1899", True), ("unknown", False), ("", False), ("It cannot be told.", False)],
)
def test_a_reply_is_definite_or_not(running, faultless, question, reply, answered):
    with running(faultless()):
        assert yes(prompts.JudgeAnswer, question=question, reply=reply) == answered


def test_evidence_contributes_when_it_states_what_question_or_query_needs(
    running, faultless, world, films, about, question
):
    director, stranger = world.value(films[0], "director"), world.value(films[1], "director")

    def contributes(passage: Passage, query: str = "") -> bool:
        evidence = f"{passage.title}: {passage.text}"
        return yes(prompts.WeighEvidence, evidence=evidence, question=question, query=query)

    with running(faultless()):
        assert contributes(about(films[0], "director"))
        assert contributes(about(director, "birthplace"))  # memory knows who that is
        assert not contributes(about(films[1], "director"))
        assert not contributes(about(films[0], "release_year"))
        assert not contributes(about(stranger, "birthplace"))
    with running(faultless(memory_unknown=1.0)):
        assert not contributes(about(director, "birthplace"))
        assert contributes(about(director, "birthplace"), query=f"Where was {director} born?")
        evidence = fact(films[0], "director", "Ansa Merrow")
        assert yes(prompts.WeighEvidence, evidence=evidence, question=question, query="")


def test_a_claim_is_relevant_when_it_is_a_hop_of_the_question(running, faultless, films, question):
    def relevant(claim: str, inferences=(), query: str = "") -> bool:
        return yes(
            prompts.JudgeRelevance, inferences=list(inferences), claim=claim, question=question, query=query
        )  # fmt: skip

    first = fact(films[0], "director", "Ansa Merrow")
    with running(faultless()):
        assert relevant(first)
        assert not relevant(fact(films[1], "director", "Ansa Merrow"))
        assert not relevant(fact(films[0], "release_year", "1950"))
        assert relevant(fact("Ansa Merrow", "birthplace", "Quillon"), [first])
        assert not relevant(fact("Bela Torrin", "birthplace", "Quillon"), [first])
        assert relevant(fact("Quillon", "mayor", "Ansa Merrow"), query="Who is the mayor of Quillon?")
        assert not relevant("Fog lay on the water.")


def test_a_claim_is_stated_when_a_passage_says_so_in_any_words(running, faultless, films):
    told = [Passage(id="a", title=films[0], text="It rained. Ansa Merrow directed the coast. The film reached nobody.")]
    told.append(Passage(id="b", title=films[1], text="The film is a work of the director Ansa Merrow."))
    with running(faultless()):
        assert yes(prompts.JudgeAttribution, passages=told, claim=fact(films[1], "director", "Ansa Merrow"))
        assert not yes(prompts.JudgeAttribution, passages=told, claim=fact(films[0], "director", "Ansa Merrow"))
        assert not yes(prompts.JudgeAttribution, passages=told, claim=fact(films[1], "director", "Bela Torrin"))
        assert not yes(prompts.JudgeAttribution, passages=[], claim=fact(films[1], "director", "Ansa Merrow"))


@pytest.mark.parametrize("mode", ["logprobs", "samples", "verbalised"])
def test_judgements_on_evidence_come_as_probabilities_in_all_modes(running, faultless, films, mode):
    told = [Passage(id="a", title=films[0], text="The film is a work of the director Ansa Merrow.")]
    judge = dspy.Predict(prompts.JudgeAttribution)
    with running(faultless(judging_overconfidence=0.9), ChatForm(probability_mode=mode)):
        right = probability(judge, passages=told, claim=fact(films[0], "director", "Ansa Merrow"), samples=15)
        wrong = probability(judge, passages=told, claim=fact(films[0], "director", "Bela Torrin"), samples=15)
    assert right.value > 0.5 > wrong.value


@pytest.mark.parametrize("error", [0.05, 0.3])
def test_calibration_of_judgements(running, faultless, world, films, about, error):
    """Calibration: the rate of errors that is measured is the one that is set."""

    def wrong() -> list[bool]:
        flags = []
        for film, other in itertools.pairwise(films):
            claim = fact(film, "director", world.value(film, "director"))
            flags.append(not yes(prompts.JudgeAttribution, passages=[about(film, "director")], claim=claim))
            flags.append(yes(prompts.JudgeAttribution, passages=[about(other, "director")], claim=claim))
        return flags

    with running(faultless(judging_error=error)):
        flags = wrong()
    assert sum(flags) / len(flags) == pytest.approx(error, abs=0.07)
