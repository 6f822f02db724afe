"""Evidence: facts drawn from passages, facts read from a list, judgements on single pieces, and rumours."""

import itertools

import dspy
import pytest

from experiments.world.dials import read_dials
from experiments.world.generate import records
from experiments.world.grammar import key
from experiments.world.prose import read_passage
from experiments.world.relations import BY_NAME
from programs.lms.adapter import ChatForm, JsonForm
from programs.parts.probability import probability
from signatures import retro_rag as prompts
from signatures.common.errors import UserError
from signatures.reading import ReadAnswer
from signatures.types import Passage


@pytest.fixture(scope="module")
def question(films) -> str:
    return f"Where was the director of {films[0]} born?"


def fact(name: str, relation: str, value: str) -> str:
    return BY_NAME[relation].statements[0].format(x=name, y=value)


def share(flags) -> float:
    flags = list(flags)
    return sum(flags) / len(flags)


def yes(signature, **inputs) -> bool:
    (name,) = signature.output_fields
    return dspy.Predict(signature)(**inputs)[name]


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


def test_unknown_is_answered_where_the_prompt_allows_it_and_nothing_decides(running, faultless, films, about):
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


def test_samples_differ_where_the_reading_was_shaky_and_agree_where_it_was_not(running, films, about):
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

    with running(read_dials().turned(form_malformed=0.0)):
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
def test_a_reply_either_commits_itself_or_does_not(running, faultless, question, reply, answered):
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


def test_with_the_committed_dials_gates_err_as_often_as_judgements_do(running, world, films, about):
    def wrong() -> list[bool]:
        flags = []
        for film, other in itertools.pairwise(films):
            claim = fact(film, "director", world.value(film, "director"))
            flags.append(not yes(prompts.JudgeAttribution, passages=[about(film, "director")], claim=claim))
            flags.append(yes(prompts.JudgeAttribution, passages=[about(other, "director")], claim=claim))
        return flags

    dials = read_dials().turned(form_malformed=0.0)
    with running(dials):
        assert share(wrong()) == pytest.approx(dials.judging_error, abs=0.07)


def search(question: str, passages=(), inferences=(), reasoning: str = "") -> str:
    return dspy.Predict(prompts.SearchFurther)(
        question=question, passages=list(passages), inferences=list(inferences), reasoning=reasoning
    ).query


def test_the_search_goes_on_with_the_first_fact_that_neither_passages_nor_inferences_give(
    running, faultless, films, about, question
):
    with running(faultless()):
        assert films[0] in search(question)
        assert "Ansa Merrow" in search(question, [about(films[0], "director", "Ansa Merrow")])
        assert "Ansa Merrow" in search(question, inferences=[fact(films[0], "director", "Ansa Merrow")])


def test_where_nothing_is_missing_the_search_is_for_what_is_in_doubt(running, faultless, films, about, question):
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


def test_a_rumour_is_believed_alone_and_given_up_beside_the_article_itself(running, faultless, films, about):
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
        (said,) = read_passage(f"[1] {rumour['title']}: {rumour['text']}")
        assert rumour["title"] == f"Rumours about {said.head}"
        assert key(said.value) != key(world.value(said.head, said.relation))
    assert len({passage["id"] for passage in passages}) == len(passages)
    with pytest.raises(UserError, match=r"rumours=1\.5"):
        records(60, seed=0, rumours=1.5)
