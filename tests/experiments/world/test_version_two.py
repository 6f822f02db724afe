"""Version 2 of the simulated LM: what its further dials do, and that they do nothing at 0, as in version 1."""

from dataclasses import fields

import dspy
import pytest

from experiments.world.dials import DIALS_V2_FILE, Dials, read_dials
from experiments.world.draws import Draws
from experiments.world.grammar import key
from experiments.world.passage_text import shares_word
from experiments.world.relations import BY_NAME
from experiments.world.skills.judging import noisy_probability
from experiments.world.skills.memory import Memory
from experiments.world.skills.prompt_state import MOST_MISJUDGED, PromptState
from signatures import retro_rag as prompts
from signatures.types import Hop, Passage

FURTHER = ("reading_listed_trust", "inferring_surplus", "reasoning_leaving", "reasoning_late_drift", "judging_per_fact")


class Revise(dspy.Signature):
    """Answer the question again."""

    question: str = dspy.InputField()
    draft: str = dspy.InputField(desc="an earlier answer, which was rejected")
    answer: str = dspy.OutputField(desc="a short phrase")


class Again(Revise):
    """Answer the question again."""

    draft: str = dspy.InputField(desc="an earlier answer")


class NextQuery(dspy.Signature):
    """Write the next search query."""

    question: str = dspy.InputField()
    hops: list[Hop] = dspy.InputField(desc="answered so far")
    query: str = dspy.OutputField(desc="asks for the missing fact")


def fact(name: str, relation: str, value: str) -> str:
    return BY_NAME[relation].statements[0].format(x=name, y=value)


def test_the_further_dials_are_those_of_version_two_alone():
    optional = {field.name for field in fields(Dials) if field.default == 0.0}
    assert optional == set(FURTHER)
    assert all(getattr(read_dials(), name) == 0 for name in FURTHER)
    assert all(getattr(read_dials(DIALS_V2_FILE), name) > 0 for name in FURTHER)


def test_surplus_inferences_state_what_the_question_does_not_need(running, faultless, world, films, question):
    director = world.value(films[0], "director")
    stated = [fact(films[0], name, world.value(films[0], name)) for name in ("director", "release_year")]
    told = [Passage(id="film", title=films[0], text=" ".join(stated))]
    draw = dspy.Predict(prompts.DrawInferences)
    with running(faultless()):
        assert draw(question=question, entities=[films[0]], passages=told).inferences == [stated[0]]
    with running(faultless(inferring_surplus=1.0)):
        drawn = draw(question=question, entities=[films[0]], passages=told).inferences
        assert sorted(drawn) == sorted(stated)
        assert draw(question=question, entities=[director], passages=told).inferences == []


def test_a_listed_fact_is_trusted_over_a_passage_only_where_it_contradicts_one(running, faultless, films, about):
    asked = {"question": f"Who directed {films[0]}?", "passages": [about(films[0], "director", "Ansa Merrow")]}
    listed = [fact(films[0], "director", "Odo Brandt")]
    answer = dspy.Predict(prompts.AnswerFromEvidence)
    with running(faultless()):
        assert answer(**asked, inferences=listed).answer == "Ansa Merrow"
    with running(faultless(reading_listed_trust=1.0)):
        assert answer(**asked, inferences=listed).answer == "Odo Brandt"
        assert answer(**asked, inferences=[fact(films[0], "director", "Ansa Merrow")]).answer == "Ansa Merrow"


def test_a_right_answer_is_left_where_the_prompt_says_that_it_was_rejected(running, faultless, world, films):
    asked = {"question": f"Who directed {films[0]}?", "draft": (truth := world.value(films[0], "director"))}
    with running(faultless(reasoning_leaving=1.0)):
        assert dspy.Predict(Revise)(**asked).answer != truth
        assert dspy.Predict(Again)(**asked).answer == truth
    with running(faultless()):
        assert dspy.Predict(Revise)(**asked).answer == truth


def test_late_queries_name_a_namesake(running, faultless, world, films, question):
    memory = Memory(world, faultless())
    film = next(film for film in films if memory.namesakes(world.value(film, "director"), "birthplace"))
    director = world.value(film, "director")
    hops = [Hop(question=f"Who directed {film}?", answer=director)]
    asked = {"question": f"Where was the director of {film} born?", "hops": hops}
    with running(faultless()):
        assert director in dspy.Predict(NextQuery)(**asked).query
    with running(faultless(reasoning_late_drift=1.0)):
        query = dspy.Predict(NextQuery)(**asked).query
        assert director not in query
        assert any(name in query for name in memory.namesakes(director, "birthplace"))
        assert film in dspy.Predict(NextQuery)(**asked | {"hops": []}).query  # the first query is not late
        beside = [Hop(question=f"When was {film} released?", answer=world.value(film, "release_year"))]
        assert film in dspy.Predict(NextQuery)(**asked | {"hops": beside}).query  # no hop of the question


def test_namesakes_share_a_word_and_are_others(world, films):
    memory = Memory(world, read_dials())
    for film in films[:20]:
        for name in memory.namesakes(film, "director"):
            assert shares_word(name, film)
            assert key(name) != key(film)


@pytest.mark.parametrize("facts", [1, 3])
def test_judgements_have_a_difficulty_and_calibrated_confidence(world, faultless, facts):
    dials = faultless(judging_error=0.15, judging_per_fact=0.05)
    memory = Memory(world, dials)
    states = [PromptState(memory, dials, Draws(0, str(number)), facts=facts) for number in range(6000)]
    judged = [noisy_probability(state, True, "stated") for state in states]
    wrong = [probability < 0.5 for probability in judged]
    assert sum(wrong) / len(wrong) == pytest.approx(1 - 0.85 * 0.95 ** (facts - 1), abs=0.02)
    assert states[0].judging_error <= MOST_MISJUDGED
    for low in (0.5, 0.6, 0.7, 0.8, 0.9):
        sure = [number for number, each in enumerate(judged) if low <= max(each, 1 - each) < low + 0.1]
        right = sum(not wrong[number] for number in sure) / len(sure)
        assert right == pytest.approx(low + 0.05, abs=0.06)


def test_in_version_one_all_judgements_err_alike(world, faultless):
    dials = faultless(judging_error=0.15)
    memory = Memory(world, dials)
    assert [PromptState(memory, dials, Draws(0, ""), facts=facts).judging_error for facts in (1, 4)] == [0.15, 0.15]
