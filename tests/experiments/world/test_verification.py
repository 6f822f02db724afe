"""Verifying a response: scores, the judgement that follows, and the revised question."""

import itertools

import dspy
import pytest

from corpora.index.build import build_index
from corpora.index.open import open_index
from experiments.world.generate import generate, records
from experiments.world.grammar import parse_question
from programs.lms.adapter import JsonForm
from signatures.cov_rag import ReviseQuestion, RewriteQuestion, VerifyAnswer
from signatures.types import Passage


@pytest.fixture(scope="module")
def asked() -> list[tuple[str, list[str], list[Passage]]]:
    """Chains of two hops: the question, its key facts and its two gold passages."""
    passages, questions = records(400, seed=0)
    texts = {item["id"]: Passage(id=item["id"], title=item["title"], text=item["text"]) for item in passages}
    chains = [item for item in questions if item["type"] == "bridge-2"]
    return [(item["question"], item["key_facts"], [texts[gold] for gold in item["gold_ids"]]) for item in chains]


def marked(facts: list[str], *numbers: int) -> str:
    return " ".join(f"{fact.removesuffix('.')} [{number}]." for fact, number in zip(facts, numbers, strict=True))


def scores(verdict: dspy.Prediction) -> tuple[float, ...]:
    return (
        verdict.reference_correctness,
        verdict.correctness,
        verdict.citation_accuracy,
        verdict.truthfulness,
        verdict.bias,
        verdict.conciseness,
    )


@pytest.mark.parametrize("adapter", [None, JsonForm()])
def test_a_right_response_gets_full_scores_and_no_revision(running, faultless, asked, adapter):
    with running(faultless(), adapter):
        for question, facts, gold in asked[:20]:
            verdict = dspy.Predict(VerifyAnswer)(question=question, passages=gold, response=marked(facts, 1, 2))
            assert scores(verdict) == (1, 1, 1, 1, 0, 1)
            assert (verdict.judgement, verdict.revised_question) == ("true", "")


def test_each_score_detects_its_own_fault(running, faultless, films, about):
    question = f"Where was the director of {films[0]} born?"
    told = [about(films[0], "director", "Ansa Merrow"), about("Ansa Merrow", "birthplace", "Quillon")]
    first, second = f"{films[0]} was directed by Ansa Merrow [1].", "Ansa Merrow was born in the town of Quillon [2]."
    elsewhere = "Ansa Merrow was born in the town of Zadel [2]."

    def examine(response: str, passages=told) -> tuple[float, ...]:
        return scores(dspy.Predict(VerifyAnswer)(question=question, passages=passages, response=response))

    with running(faultless(memory_unknown=1.0)):
        assert examine(f"{first} {second}") == (1, 1, 1, 1, 0.5, 1)  # nothing remembered: no own answer
        assert examine(f"{first} {second.replace('[2]', '[1]')}") == (1, 1, 0.5, 1, 0.5, 1)
        assert examine(f"{first} {elsewhere}") == (1, 0, 0.5, 0.5, 0.5, 1)
        assert examine(f"{first} {second}", told[:1]) == (0.5, 0.5, 0.5, 1, 0.5, 1)
        assert examine(f"{first} {second} {'It is nice there. ' * 4}".strip()) == (1, 1, 1, 1, 0.5, 0.5)
        assert examine("") == (1, 0, 0, 0, 0.5, 1)


def test_bias_is_the_distance_to_the_examiners_own_answer_whatever_the_passages_say(
    running, faultless, world, films, about
):
    question, director = f"Where was the director of {films[0]} born?", world.value(films[0], "director")
    town = world.value(director, "birthplace")
    first = f"{films[0]} was directed by {director} [1]."
    for said, passages_agree in itertools.product((town, "Zadel"), (True, False)):
        told = [about(films[0], "director"), about(director, "birthplace", said if passages_agree else "Quillon")]
        response = f"{first} {director} was born in the town of {said} [2]."
        with running(faultless()):  # remembers everything
            verdict = dspy.Predict(VerifyAnswer)(question=question, passages=told, response=response)
        assert verdict.bias == (0 if said == town else 1)
        # A clearly biased response is never "true", even if the passages state all of it.
        assert (verdict.judgement == "true") == (said == town and passages_agree)


def test_the_revision_keeps_the_question_and_names_the_bridge(running, faultless, films, about):
    question = f"Where was the director of {films[0]} born?"
    told = [about(films[0], "director", "Ansa Merrow")]
    response = f"{films[0]} was directed by Ansa Merrow [1]. Ansa Merrow was born in the town of Zadel."
    with running(faultless(memory_unknown=1.0)):
        for signature in (VerifyAnswer, ReviseQuestion):
            revised = dspy.Predict(signature)(question=question, passages=told, response=response).revised_question
            assert revised.startswith(f"{question} ")
            assert "Ansa Merrow" in revised.removeprefix(question)
            assert revised.endswith("?")
            assert parse_question(revised) == parse_question(question)


def test_if_only_the_response_is_wrong_the_revision_asks_for_its_last_fact(running, faultless, asked):
    question, _, gold = asked[0]
    with running(faultless()):
        verdict = dspy.Predict(VerifyAnswer)(question=question, passages=gold, response="So the answer is unknown.")
    assert verdict.judgement == "false"
    assert verdict.revised_question.startswith(question)
    assert gold[1].title in verdict.revised_question


def test_a_search_with_the_revision_finds_both_passages(running, faultless, asked, tmp_path):
    passages, _ = generate(tmp_path, questions=1, seed=0)
    build_index(passages, tmp_path / "index", retriever="bm25")
    retrieve = open_index(tmp_path / "index")

    def both(query: str, gold: list[Passage]) -> bool:
        return {item.id for item in gold} <= {item.id for item in retrieve(query, 5)}

    found: dict[str, list[bool]] = {"question": [], "revision": []}
    with running(faultless(memory_unknown=1.0)):
        for question, _, gold in asked:
            verdict = dspy.Predict(VerifyAnswer)(question=question, passages=gold[:1], response="")
            found["question"].append(both(question, gold))
            found["revision"].append(both(verdict.revised_question, gold))
    assert sum(found["revision"]) / len(asked) > 0.85
    assert sum(found["revision"]) > sum(found["question"]) + 0.3 * len(asked)


def judged_right(running, dials, signature, asked) -> float:
    """Share of right and wrong responses (half each) that are distinguished by whether a revision is written."""
    right = []
    with running(dials):
        for question, facts, gold in asked:
            wrong = [facts[0], facts[1].replace(facts[1].split()[-1], "Zadel.")]
            for response, fine in ((marked(facts, 1, 2), True), (marked(wrong, 1, 2), False)):
                verdict = dspy.Predict(signature)(question=question, passages=gold, response=response)
                right.append((verdict.revised_question == "") == fine)
    return sum(right) / len(right)


@pytest.mark.slow
def test_scores_in_writing_make_the_judgement_better(running, faultless, asked):
    dials = faultless(judging_error=0.12, judging_unwritten=0.15)
    asked = asked[:60]
    assert judged_right(running, faultless(), VerifyAnswer, asked) == 1
    assert judged_right(running, faultless(), ReviseQuestion, asked) == 1
    direct = judged_right(running, dials, ReviseQuestion, asked)
    assert direct == pytest.approx(1 - 0.252, abs=0.06)
    assert judged_right(running, dials, VerifyAnswer, asked) > direct + 0.1


@pytest.mark.slow
def test_an_examiner_with_a_wrong_memory_judges_worse(running, faultless, asked):
    for signature in (VerifyAnswer, ReviseQuestion):
        some = asked[:40]
        rights = [judged_right(running, faultless(memory_wrong=wrong), signature, some) for wrong in (0.0, 0.3, 0.6)]
        assert rights[0] == 1 > rights[1] > rights[2]


@pytest.mark.slow
def test_an_examiner_with_a_wrong_memory_rarely_finds_a_right_response_true(running, faultless, asked):
    def found_true(**dials: float) -> float:
        with running(faultless(memory_wrong=1.0, memory_lookalike=0.0, **dials)):
            verdicts = [
                dspy.Predict(VerifyAnswer)(question=question, passages=gold, response=marked(facts, 1, 2)).judgement
                for question, facts, gold in asked
            ]
        return sum(verdict == "true" for verdict in verdicts) / len(verdicts)

    assert found_true() < found_true(judging_error=0.3) < 0.5  # a score of bias that is random may be low


def test_scores_are_random_as_often_as_the_dial_says(running, faultless, asked):
    with running(faultless(judging_error=0.3)):
        verdicts = [
            dspy.Predict(VerifyAnswer)(question=question, passages=gold, response=marked(facts, 1, 2))
            for question, facts, gold in asked
        ]
    exact = sum(verdict.truthfulness == 1 for verdict in verdicts) / len(verdicts)
    assert exact == pytest.approx(0.7, abs=0.1)
    assert all(0 <= score <= 1 for verdict in verdicts for score in scores(verdict))


def test_a_blind_rewrite_says_the_same_or_drifts_as_often_as_the_dial_says(running, faultless, asked):
    rewrite = dspy.Predict(RewriteQuestion)
    with running(faultless()):
        for question, _, _ in asked:
            assert parse_question(rewrite(question=question).revised_question) == parse_question(question)
    with running(faultless(reasoning_drift=0.4)):
        kept = [parse_question(rewrite(question=q).revised_question) == parse_question(q) for q, _, _ in asked]
    assert sum(kept) / len(kept) == pytest.approx(0.6, abs=0.1)


def test_a_drifted_rewrite_contains_the_remembered_value(running, faultless, world, films):
    question = f"Where was the director of {films[0]} born?"
    pair = f"Which film was released first, {films[0]} or {films[1]}?"
    with running(faultless(reasoning_drift=1.0)):
        drifted = dspy.Predict(RewriteQuestion)(question=question).revised_question
        lost = dspy.Predict(RewriteQuestion)(question=pair).revised_question
    assert world.value(films[0], "director") in drifted
    assert films[0] not in drifted
    assert films[0] in lost
    assert films[1] not in lost


def test_a_question_not_about_the_world_is_unchanged(running, faultless):
    passages = [Passage(id="a", title="T", text="Text.")]
    with running(faultless()):
        verdict = dspy.Predict(VerifyAnswer)(question="Why?", passages=passages, response="Because [1].")
        assert (verdict.judgement, verdict.revised_question) == ("unclear", "Why?")
        assert dspy.Predict(RewriteQuestion)(question="Why?").revised_question == "Why?"
