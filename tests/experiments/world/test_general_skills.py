"""Skills that no program here asks for yet, and fields that were agreed on: each through a prompt made here."""

from typing import Literal

import dspy
import pytest

from experiments.world.grammar import key
from experiments.world.relations import BY_NAME
from experiments.world.roles.history import answered_pairs, told_facts
from signatures.types import Passage


def fact(name: str, relation: str, value: str) -> str:
    return BY_NAME[relation].statements[0].format(x=name, y=value)


@pytest.fixture
def chain(films, about, question) -> dict:
    """A bridge question whose passages state a made-up chain, and whose second passage alone leaves it open."""
    told = [about(films[0], "director", "Ansa Merrow"), about("Ansa Merrow", "birthplace", "Quillon")]
    return {"question": question, "passages": told}


class Decide(dspy.Signature):
    """Say what the passages lack, decide whether they suffice, and answer only if they do."""

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    missing: str = dspy.OutputField(desc="what the passages lack; empty if nothing")
    sufficient: bool = dspy.OutputField()
    response: str = dspy.OutputField(desc="full sentences with passage numbers in square brackets")


class DecideAloud(Decide):
    """Answer the question from the passages. If they do not suffice, say "I'm sorry, I cannot answer that." """


class Queries(dspy.Signature):
    """Write the queries that find what is missing."""

    passages: list[Passage] = dspy.InputField()
    question: str = dspy.InputField()
    queries: list[str] = dspy.OutputField(desc="one query per missing fact")


class Infer(dspy.Signature):
    """State what follows from the passages. Give no more inferences than the limit."""

    passages: list[Passage] = dspy.InputField()
    entities: list[str] = dspy.InputField()
    question: str = dspy.InputField()
    limit: int = dspy.InputField(desc="at most so many inferences")
    inferences: list[str] = dspy.OutputField()


class RespondFromMemory(dspy.Signature):
    """Answer the question in one to four full sentences from what you know."""

    question: str = dspy.InputField()
    response: str = dspy.OutputField(desc="full sentences")


def test_what_is_missing_agrees_with_the_decision(running, faultless, films, chain):
    for signature, refusal in ((Decide, ""), (DecideAloud, "I'm sorry, I cannot answer that.")):
        with running(faultless()):
            whole = dspy.Predict(signature)(**chain)
            part = dspy.Predict(signature)(question=chain["question"], passages=chain["passages"][:1])
        assert (whole.missing, whole.sufficient) == ("", True)
        assert whole.response.endswith("Quillon [2].")
        assert "Ansa Merrow" in part.missing
        assert (part.sufficient, part.response) == (False, refusal)
    with running(faultless(judging_error=1.0)):
        wrong = dspy.Predict(Decide)(**chain)
    assert (wrong.sufficient, wrong.response) == (False, "")
    assert "Ansa Merrow" in wrong.missing


def test_there_is_one_query_for_each_missing_fact_whose_entity_is_known(running, faultless, films, chain, about):
    pair = f"Which film was released first, {films[0]} or {films[1]}?"
    ask = dspy.Predict(Queries)
    with running(faultless()):
        both = ask(question=pair, passages=[]).queries
        one = ask(question=pair, passages=[about(films[0], "release_year")]).queries
        bridge = ask(question=chain["question"], passages=[]).queries
    assert [films[0] in both[0], films[1] in both[1], len(both)] == [True, True, 2]
    assert [films[1] in one[0], len(one)] == [True, 1]
    assert [films[0] in bridge[0], len(bridge)] == [True, 1]


def test_a_list_has_no_more_items_than_the_limit(running, faultless, films, chain):
    with running(faultless()):
        drawn = [dspy.Predict(Infer)(**chain, entities=[films[0]], limit=limit).inferences for limit in (1, 5)]
    first, second = fact(films[0], "director", "Ansa Merrow"), fact("Ansa Merrow", "birthplace", "Quillon")
    assert drawn == [[first], [first, second]]


def test_a_response_from_memory_has_sentences_without_marks(running, faultless, world, films, question):
    director = world.value(films[0], "director")
    with running(faultless()):
        response = dspy.Predict(RespondFromMemory)(question=question).response
    expected = [
        fact(films[0], "director", director),
        fact(director, "birthplace", world.value(director, "birthplace")),
    ]
    assert response == " ".join(expected)


class Background(dspy.Signature):
    """Write a background document that helps to answer the question."""

    question: str = dspy.InputField()
    document: str = dspy.OutputField()


class ReadDocument(dspy.Signature):
    """Answer the question from the document."""

    document: str = dspy.InputField()
    question: str = dspy.InputField()
    result: str = dspy.OutputField()


def test_a_passage_is_written_from_memory_and_read_like_any_other(running, faultless, world, films, question):
    with running(faultless(memory_unknown=0.0, memory_wrong=1.0, memory_lookalike=1.0)):
        written = dspy.Predict(Background)(question=question).document
    with running(faultless(memory_unknown=1.0)):
        read = dspy.Predict(ReadDocument)(question=question, document=written).result
        nothing = dspy.Predict(ReadDocument)(question=question, document="Fog lay on the water.").result
    assert read != "unknown"
    assert read in written
    assert nothing == "unknown"


class Grade(dspy.Signature):
    """Do the passages support the text?"""

    passages: list[Passage] = dspy.InputField()
    response: str = dspy.InputField()
    grade: Literal["fully supported", "partially supported", "not supported"] = dspy.OutputField()


class Route(dspy.Signature):
    """How difficult is the question?"""

    question: str = dspy.InputField()
    level: Literal["simple", "moderate", "complex"] = dspy.OutputField()


def test_support_comes_in_degrees_and_is_misjudged_as_the_dial_says(running, faultless, films, chain):
    first, second = fact(films[0], "director", "Ansa Merrow"), fact("Ansa Merrow", "birthplace", "Quillon")
    wrong = fact("Ansa Merrow", "birthplace", "Zadel")
    grade = dspy.Predict(Grade)
    texts = (f"{first} {second}", f"{first} {wrong}", wrong)
    with running(faultless()):
        told = [grade(passages=chain["passages"], response=text).grade for text in texts]
    assert told == ["fully supported", "partially supported", "not supported"]
    with running(faultless(judging_error=1.0)):
        assert all(
            grade(passages=chain["passages"], response=text).grade != right
            for text, right in zip(texts, told, strict=True)
        )


def test_difficulty_is_the_number_of_facts_and_whether_they_are_remembered(running, faultless, films, question):
    single = f"Who directed {films[0]}?"
    with running(faultless()):
        assert dspy.Predict(Route)(question=single).level == "simple"
        assert dspy.Predict(Route)(question=question).level == "complex"
    with running(faultless(memory_unknown=1.0)):
        assert dspy.Predict(Route)(question=single).level == "moderate"


class Check(dspy.Signature):
    """Write a question that validates the sentence."""

    question: str = dspy.InputField(desc="the overall question")
    sentence: str = dspy.InputField()
    verifying_question: str = dspy.OutputField()


class Entails(dspy.Signature):
    """Does the premise support the whole statement?"""

    premise: str = dspy.InputField()
    statement: str = dspy.InputField()
    entailed: bool = dspy.OutputField()


def test_a_sentence_is_turned_into_the_question_it_answers(running, faultless, films, question):
    with running(faultless()):
        asked = dspy.Predict(Check)(question=question, sentence=fact(films[1], "director", "Ansa Merrow"))
    assert films[1] in asked.verifying_question


def test_a_premise_entails_what_it_states(running, faultless, films):
    premise = f"It rained. {fact(films[0], 'director', 'Ansa Merrow')}"
    with running(faultless()):
        judge = dspy.Predict(Entails)
        assert judge(premise=premise, statement=fact(films[0], "director", "Ansa Merrow")).entailed
        assert not judge(premise=premise, statement=fact(films[0], "director", "Bela Torrin")).entailed


@pytest.mark.parametrize(
    "text",
    [
        '1. Who directed {film}? (evidence: "so") -> Ansa Merrow\n2. Where was Ansa Merrow born? -> Quillon',
        "Follow up: Who directed {film}?\nIntermediate answer: Ansa Merrow.\nFollow up: Where was Ansa Merrow born?\n"
        "Intermediate answer: Ansa Merrow was born in the town of Quillon.",
        "[Query 1]: Who directed {film}? [Answer 1]: Ansa Merrow\n[Query 2]: Where was Ansa Merrow born?\n"
        "[Answer 2]: Quillon",
        "Q: Who directed {film}? A: Ansa Merrow\nQ: Where was Ansa Merrow born? A: Quillon\n"
        "Q: Who is the mayor of Quillon?\nA: No relevant information found",
    ],
)
def test_pairs_of_questions_and_answers_are_read_in_free_text(films, text):
    told = answered_pairs(text.format(film=films[0]))
    assert told == {(key(films[0]), "director"): "Ansa Merrow", ("ansa merrow", "birthplace"): "Quillon"}


def test_thoughts_and_observations_tell_facts(films):
    thought, seen = fact(films[0], "director", "Ansa Merrow"), "The film stars Bo Lund in the leading role."
    text = f"Thought 1: {thought}\nObservation 1: {films[1]}: {seen}"
    assert told_facts(text) == {
        (key(films[0]), "director"): "Ansa Merrow",
        (key(films[1]), "star"): "Bo Lund",
    }


class Strange(dspy.Signature):
    """Paint the question."""

    question: str = dspy.InputField()
    colour: str = dspy.OutputField()


def test_a_field_without_a_known_role_gets_unknown(running, faultless, question):
    with running(faultless()):
        assert dspy.Predict(Strange)(question=question).colour == "unknown"
