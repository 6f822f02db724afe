"""Long answers with marks, the short reader behind them, and the judgement whether passages suffice."""

import dspy
import pytest

from experiments.world.dials import read_dials
from experiments.world.generate import records
from experiments.world.grammar import Comparison, parse_question
from experiments.world.passage_text import parse_sentences
from experiments.world.question_generator import true_answer
from programs.parts.longform import cited_passages, gives_answer, short_answer
from signatures.reading import CiteAnswer, ReadAnswer
from signatures.self_completion import AnswerOrAbstain, SearchMissing
from signatures.text import normalize_answer
from signatures.types import Passage


@pytest.fixture(scope="module")
def asked() -> list[tuple[str, str, list[Passage]]]:
    """Questions of all kinds with their answers and their gold passages."""
    passages, questions = records(150, seed=0)
    texts = {item["id"]: Passage(id=item["id"], title=item["title"], text=item["text"]) for item in passages}
    return [(item["question"], item["answers"][0], [texts[gold] for gold in item["gold_ids"]]) for item in questions]


def test_each_sentence_ends_with_the_number_of_the_passage_it_was_read_from(running, faultless, world, films, about):
    director = world.value(films[0], "director")
    told = [about(films[1], "director"), about(director, "birthplace"), about(films[0], "director")]
    with running(faultless()):
        response = dspy.Predict(CiteAnswer)(
            question=f"Where was the director of {films[0]} born?", passages=told
        ).response
    town = world.value(director, "birthplace")
    assert response == f"{films[0]} was directed by {director} [3]. {director} was born in the town of {town} [2]."


def test_a_comparison_ends_with_its_result(running, faultless, films, about):
    told = [about(films[0], "release_year", "1960"), about(films[1], "release_year", "1950")]
    with running(faultless()):
        response = dspy.Predict(CiteAnswer)(
            question=f"Which film was released first, {films[0]} or {films[1]}?", passages=told
        ).response
    assert response.endswith(f"{films[1]} was released in 1950 [2]. So the answer is {films[1]}.")


def test_what_comes_from_memory_carries_no_mark(running, faultless, world, films, about):
    director = world.value(films[0], "director")
    with running(faultless()):
        response = dspy.Predict(CiteAnswer)(
            question=f"Where was the director of {films[0]} born?", passages=[about(films[0], "director")]
        ).response
    assert response.endswith(f"[1]. {director} was born in the town of {world.value(director, 'birthplace')}.")


def test_the_response_says_unknown_if_nothing_is_known(running, faultless, films):
    noise = [Passage(id="n", title="Fog", text="Fog lay on the water.")]
    question = f"Who directed {films[0]}?"
    with running(faultless(memory_unknown=1.0)):
        response = dspy.Predict(CiteAnswer)(question=question, passages=noise).response
        assert response == "So the answer is unknown."
        assert short_answer(dspy.Predict(ReadAnswer), question, response) == ""  # it declines to answer


def test_the_short_reader_finds_the_answer_in_the_response_alone(running, faultless, asked):
    """Its memory is empty, so that the response is the only source."""
    with running(faultless(memory_unknown=1.0)):
        for question, answer, gold in asked:
            response = dspy.Predict(CiteAnswer)(question=question, passages=gold).response
            assert set(cited_passages(response, gold)) == {passage.id for passage in gold}
            assert short_answer(dspy.Predict(ReadAnswer), question, response) == answer


def test_the_short_reader_adds_no_mistake_of_its_own(running, faultless, asked):
    """Facts stated in one text need not be composed, and a stated conclusion is accepted."""
    dials = read_dials().with_values(form_malformed=0.0)
    writing, reading = dspy.Predict(CiteAnswer), dspy.Predict(ReadAnswer)
    with running(faultless()):
        responses = [writing(question=question, passages=gold).response for question, _, gold in asked]
    with running(dials):
        read = [
            short_answer(reading, question, response)
            for (question, _, _), response in zip(asked, responses, strict=True)
        ]
    assert read == [answer for _, answer, _ in asked]


def test_marks_point_elsewhere_as_often_as_the_dial_says(running, faultless, asked):
    def wrong(dials) -> float:
        marks = []
        with running(dials):
            for question, _, gold in asked:
                response = dspy.Predict(CiteAnswer)(question=question, passages=gold).response
                for sentence in response.split(". "):
                    if "[" in sentence:
                        (cited,) = cited_passages(sentence, gold)
                        ((told, _),) = parse_sentences(f"{sentence.removesuffix('.')}.")
                        marks.append(next(p for p in gold if p.id == cited).title != told.head)
        return sum(marks) / len(marks)

    assert wrong(faultless()) == 0
    assert wrong(faultless(citing_wrong_mark=0.3)) == pytest.approx(0.3, abs=0.08)


@pytest.mark.slow
def test_long_answers_are_right_without_errors_and_less_so_with_errors_of_reading(running, faultless, asked):
    def right(**dials: float) -> float:
        found = []
        with running(faultless(**dials)):
            for question, answer, gold in asked:
                response = dspy.Predict(CiteAnswer)(question=question, passages=gold).response
                short = short_answer(dspy.Predict(ReadAnswer), question, response)
                found.append(normalize_answer(short) == normalize_answer(answer))
        return sum(found) / len(found)

    assert right() == 1 > right(reading_distraction=0.5, reasoning_composition=0.5)


def test_only_passages_that_state_every_fact_suffice(running, faultless, asked):
    decide = dspy.Predict(AnswerOrAbstain)
    with running(faultless()):
        for question, answer, gold in asked[:60]:
            whole = decide(question=question, passages=gold)
            assert whole.sufficient
            assert short_answer(dspy.Predict(ReadAnswer), question, whole.response) == answer
            part = decide(question=question, passages=gold[1:])
            assert part.missing
            assert (part.sufficient, gives_answer(part.response)) == (False, False)


def test_sufficiency_is_misjudged_as_often_as_the_dial_says(running, faultless, asked):
    decide = dspy.Predict(AnswerOrAbstain)
    with running(faultless(judging_error=0.2)):
        wrong = [decide(question=q, passages=gold[1:]).sufficient for q, _, gold in asked]
        wrong += [not decide(question=q, passages=gold).sufficient for q, _, gold in asked]
    assert sum(wrong) / len(wrong) == pytest.approx(0.2, abs=0.07)


def test_the_search_for_what_is_missing_names_the_bridge_found_in_the_passages(running, faultless, world, films, about):
    search = dspy.Predict(SearchMissing)
    with running(faultless()):
        (query,) = search(
            question=f"Where was the director of {films[0]} born?",
            passages=[about(films[0], "director", "Ansa Merrow"), about(films[1], "director")],
        ).queries
        (pair,) = search(
            question=f"Which film was released first, {films[0]} or {films[1]}?",
            passages=[about(films[0], "release_year")],
        ).queries
    assert "Ansa Merrow" in query
    assert "born" in query
    assert films[1] in pair
    assert films[0] not in pair


def test_questions_of_every_kind_were_asked(asked, world):
    plans = [parse_question(question) for question, _, _ in asked]
    assert {plan.kind for plan in plans if isinstance(plan, Comparison)} == {"earlier", "same"}
    assert [true_answer(world, plan) for plan in plans] == [answer for _, answer, _ in asked]
