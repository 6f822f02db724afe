"""Evidence: inferences from passages, listed facts, the search for missing facts, and rumours."""

import itertools

import dspy
import pytest

from experiments.world.dials import read_dials
from experiments.world.generate import records
from experiments.world.grammar import key
from experiments.world.passage_text import parse_passage
from experiments.world.relations import BY_NAME
from programs.lms.adapter import ChatForm, JsonForm
from signatures import retro_rag as prompts
from signatures.common.errors import UserError
from signatures.reading import ReadAnswer


def fact(name: str, relation: str, value: str) -> str:
    return BY_NAME[relation].statements[0].format(x=name, y=value)


def share(flags) -> float:
    flags = list(flags)
    return sum(flags) / len(flags)


def test_the_names_of_the_question_are_its_entities(running, faultless, films):
    with running(faultless()):
        name = dspy.Predict(prompts.NameEntities)
        assert name(question=f"Where was the director of {films[0]} born?").entities == [films[0]]
        pair = f"Which film was released first, {films[0]} or {films[1]}?"
        assert name(question=pair).entities == [films[0], films[1]]
        assert name(question="Why?").entities == []


@pytest.mark.parametrize("adapter", [ChatForm(), JsonForm(), dspy.ChatAdapter(use_json_adapter_fallback=False)])
def test_listed_facts_are_read_like_passages_and_join_them(running, faultless, films, about, question, adapter):
    answer = dspy.Predict(prompts.AnswerFromEvidence)
    with running(faultless(memory_unknown=1.0), adapter):
        listed = [fact(films[0], "director", "Ansa Merrow")]
        told = [about("Ansa Merrow", "birthplace", "Quillon")]
        if isinstance(adapter, ChatForm | JsonForm):  # DSPy's own layout has passages as JSON, which is not read
            assert answer(question=question, passages=told, inferences=listed).answer == "Quillon"
        both = [*listed, fact("Ansa Merrow", "birthplace", "Zadel")]
        assert answer(question=question, passages=[], inferences=both).answer == "Zadel"


@pytest.mark.slow
def test_a_listed_fact_is_found_among_distractors_more_safely(running, faultless, world, films, about):
    dials = faultless(reading_distraction=0.1, reading_listed_care=0.3)

    def misread(listed: bool) -> float:
        answers = []
        for film in films:
            others = [about(other, "director") for other in films if other != film][:6]
            truth = world.value(film, "director")
            result = dspy.Predict(prompts.AnswerFromEvidence)(
                question=f"Who directed {film}?",
                passages=others if listed else [about(film, "director"), *others],
                inferences=[fact(film, "director", truth)] if listed else [],
            )
            answers.append(result.answer != truth)
        return share(answers)

    with running(dials):
        assert misread(listed=False) == pytest.approx(1 - 0.9**6, abs=0.14)
        assert misread(listed=True) == pytest.approx(1 - 0.97**6, abs=0.1)


def test_unknown_is_answered_if_the_prompt_allows_it_and_nothing_decides(running, faultless, films, about):
    def answers(dials) -> list[str]:
        with running(dials):
            return [
                dspy.Predict(prompts.AnswerFromEvidence)(
                    question=f"Who directed {film}?", passages=[about(other, "director")], inferences=[]
                ).answer
                for film, other in itertools.pairwise(films)
            ]

    assert set(answers(faultless(reading_tempted=1.0))) == {"unknown"}
    heedless = share(answer != "unknown" for answer in answers(faultless(reading_heedless=0.3, reading_tempted=1.0)))
    assert heedless == pytest.approx(0.3, abs=0.12)


def test_samples_differ_among_distractors_and_agree_without(running, films, about):
    def distinct(told) -> int:
        asked = dspy.Predict(prompts.AnswerFromEvidence)
        return len(
            {
                asked(
                    question=f"Who directed {films[0]}?",
                    passages=told,
                    inferences=[],
                    config={"temperature": 1.0, "rollout_id": number},
                ).answer
                for number in range(1, 12)
            }
        )

    with running(read_dials().with_values(form_malformed=0.0)):
        assert distinct([about(films[0], "director")]) == 1
        assert distinct([about(other, "director") for other in films[1:6]]) > 1


def test_inferences_are_what_the_passages_say_of_the_entities_and_of_those_reached(
    running, faultless, world, films, about, question
):
    director = world.value(films[0], "director")
    told = [about(director, "birthplace"), about(films[1], "director"), about(films[0], "director")]
    draw = dspy.Predict(prompts.DrawInferences)
    chain = [fact(films[0], "director", director), fact(director, "birthplace", world.value(director, "birthplace"))]
    with running(faultless()):
        assert draw(question=question, entities=[films[0]], passages=told).inferences == chain
        assert draw(question=question, entities=[films[0]], passages=told[:2]).inferences == []
        assert draw(question=question, entities=[films[1]], passages=told).inferences == []


@pytest.mark.slow
def test_inferences_are_wrong_as_often_as_the_dial_says(running, faultless, world, films, about):
    def drawn(dials, rival: bool) -> list[list[str]]:
        with running(dials):
            return [
                dspy.Predict(prompts.DrawInferences)(
                    question=f"Who directed {film}?",
                    entities=[film],
                    passages=[about(film, "director"), *([about(other, "director")] if rival else [])],
                ).inferences
                for film, other in itertools.pairwise(films)
            ]

    right = [[fact(film, "director", world.value(film, "director"))] for film in films[:-1]]
    assert drawn(faultless(), rival=True) == right
    mixed = drawn(faultless(inferring_wrong=0.3), rival=True)
    assert share(one != other for one, other in zip(mixed, right, strict=True)) == pytest.approx(0.3, abs=0.12)
    remembered = drawn(faultless(inferring_wrong=1.0, memory_wrong=1.0), rival=False)
    assert all(one != other for one, other in zip(remembered, right, strict=True))


def search(question: str, passages=(), inferences=(), reasoning: str = "") -> str:
    return dspy.Predict(prompts.SearchFurther)(
        question=question, passages=list(passages), inferences=list(inferences), reasoning=reasoning
    ).query


def test_the_search_is_for_the_first_fact_that_neither_passages_nor_inferences_state(
    running, faultless, films, about, question
):
    with running(faultless()):
        assert films[0] in search(question)
        assert "Ansa Merrow" in search(question, [about(films[0], "director", "Ansa Merrow")])
        assert "Ansa Merrow" in search(question, inferences=[fact(films[0], "director", "Ansa Merrow")])


def test_the_search_is_for_a_fact_in_doubt_if_none_is_missing(running, faultless, films, about, question):
    told = [about(films[0], "director", "Ansa Merrow"), about("Ansa Merrow", "birthplace", "Quillon")]
    first, second = fact(films[0], "director", "Ansa Merrow"), fact("Ansa Merrow", "birthplace", "Quillon")
    wrong = fact("Ansa Merrow", "birthplace", "Zadel")
    with running(faultless()):
        assert search(question, told, reasoning=f"{first} {second} So the answer is Quillon.") == question
        contradicted = search(question, told, reasoning=f"{first} {wrong} So the answer is Zadel. Answer: Zadel")
        assert "Ansa Merrow" in contradicted
        rumour = about(films[0], "director", "Ansa Merrow", title=f"Rumours about {films[0]}")
        unsure = search(question, [rumour, told[1]], reasoning=f"{first} {second} So the answer is Quillon.")
        assert films[0] in unsure
        assert "Ansa Merrow" not in unsure


def test_a_rumour_is_accepted_alone_and_rejected_next_to_the_article(running, faultless, films, about):
    article = about(films[0], "director", "Ansa Merrow")
    rumour = about(films[0], "director", "Bela Torrin", title=f"Rumours about {films[0]}")
    second = about(films[0], "director", "Bela Torrin", title="Talk of the town")
    asked = f"Who directed {films[0]}?"
    repeated = [fact(films[0], "director", "Bela Torrin")]
    with running(faultless()):
        read = dspy.Predict(ReadAnswer)
        assert read(question=asked, passages=[rumour]).answer == "Bela Torrin"
        assert read(question=asked, passages=[rumour, article]).answer == "Ansa Merrow"
        assert read(question=asked, passages=[rumour, article, second]).answer == "Bela Torrin"
        answer = dspy.Predict(prompts.AnswerFromEvidence)
        assert answer(question=asked, passages=[], inferences=repeated).answer == "Bela Torrin"
        assert answer(question=asked, passages=[article], inferences=repeated).answer == "Ansa Merrow"
        # What was inferred from the rumour does not make it truer.
        assert answer(question=asked, passages=[rumour, article], inferences=repeated).answer == "Ansa Merrow"


def test_a_world_with_rumours_only_adds_passages_that_state_one_fact_wrongly(world):
    plain, questions = records(60, seed=0)
    passages, asked = records(60, seed=0, rumours=0.3)
    assert asked == questions
    assert passages[: len(plain)] == plain
    rumours = passages[len(plain) :]
    assert len(rumours) / len(plain) == pytest.approx(0.3, abs=0.06)
    for rumour in rumours:
        (said,) = parse_passage(f"[1] {rumour['title']}: {rumour['text']}")
        assert rumour["title"] == f"Rumours about {said.head}"
        assert key(said.value) != key(world.value(said.head, said.relation))
    assert len({passage["id"] for passage in passages}) == len(passages)
    with pytest.raises(UserError, match=r"rumours=1\.5"):
        records(60, seed=0, rumours=1.5)
