"""Each skill separately, through the project's own prompts, with all other errors of the LM switched off."""

import itertools
from collections.abc import Callable

import dspy
import pytest

from experiments.world.dials import read_dials
from experiments.world.grammar import key, parse_question, render_question
from experiments.world.relations import BY_NAME
from experiments.world.skills.memory import Memory
from programs.lms.adapter import ChatForm
from programs.parts.probability import probability
from signatures.genground import ConcludeAnswer, DeduceAnswer, GroundAnswer
from signatures.multi_step.multihop import WriteQuery
from signatures.reading import AnswerFromMemory, ReadAnswer
from signatures.types import Hop, Passage


def passage(world, name: str, relation: str, value: str | None = None) -> Passage:
    """Return a passage that states one fact, by default the true one."""
    stated = BY_NAME[relation].statements[0].format(x=name, y=value or world.value(name, relation))
    return Passage(id=f"secret-{name}", title=name, text=f"{name} is known here. {stated} Nobody knows why.")


def share(flags) -> float:
    flags = list(flags)
    return sum(flags) / len(flags)


def directed(films) -> list[str]:
    return [f"Who directed {film}?" for film in films]


def test_questions_are_parsed_and_rendered():
    question = "Who is the mayor of the town where the founder of Zopreth Foundry was born?"
    plan = parse_question(question)
    assert render_question(plan, lambda options: options[-1]) == (
        "Who governs the town where the person who founded Zopreth Foundry was born as mayor?"
    )
    assert parse_question("Is there a house in New Orleans?") is None


def test_memory_is_always_the_same(world):
    memory = Memory(world, read_dials())
    stored = {fact: memory.remembered(*fact) for fact in world.facts}
    assert stored == {fact: Memory(world, read_dials()).remembered(*fact) for fact in reversed(list(world.facts))}


@pytest.mark.parametrize(("wrong", "unknown"), [(0.1, 0.5), (0.4, 0.05)])
def test_calibration_of_memory(world, wrong, unknown):
    """Calibration: the rates that are measured are those that are set."""
    memory = Memory(world, read_dials().with_values(memory_wrong=wrong, memory_unknown=unknown))
    stored = {fact: memory.remembered(*fact) for fact in world.facts}
    assert share(value is None for value in stored.values()) == pytest.approx(unknown, abs=0.03)
    assert share(value not in {None, world.facts[fact]} for fact, value in stored.items()) == pytest.approx(
        wrong, abs=0.03
    )


def test_recall_needs_no_passages(running, faultless, world, films):
    with running(faultless()):
        for film in films[:5]:
            assert dspy.Predict(AnswerFromMemory)(question=f"Who directed {film}?").answer == world.value(
                film, "director"
            )


def test_written_reasoning_halves_composition_errors(running, faultless, world):
    founders = [entity.name for entity in world.entities.values() if entity.kind == "company"]
    asked = {
        f"When was the founder of {name} born?": world.value(world.value(name, "founder"), "birth_year")
        for name in founders
    }
    dials = faultless(reasoning_composition=0.6, reasoning_written_relief=0.5)
    with running(dials):
        plain = share(dspy.Predict(AnswerFromMemory)(question=q).answer == answer for q, answer in asked.items())
        written = share(
            dspy.ChainOfThought(AnswerFromMemory)(question=q).answer == answer for q, answer in asked.items()
        )
    assert plain == pytest.approx(0.4, abs=0.17)
    assert written == pytest.approx(0.7, abs=0.17)


def test_reading_takes_the_fact_from_the_words_even_against_the_truth(running, faultless, world, films):
    told = [passage(world, films[0], "director", "Nobody Atall"), passage(world, films[1], "director")]
    with running(faultless()):
        assert dspy.Predict(ReadAnswer)(question=f"Who directed {films[0]}?", passages=told).answer == "Nobody Atall"


def test_reading_resolves_referring_words_by_the_title(running, faultless, films):
    told = [Passage(id="a", title=films[0], text="It rained. The film was directed by Nobody Atall. It snowed.")]
    with running(faultless()):
        assert dspy.Predict(ReadAnswer)(question=f"Who directed {films[0]}?", passages=told).answer == "Nobody Atall"


def misread(running, dials, world, films, irrelevant: int, **options) -> float:
    predictor = dspy.Predict(ReadAnswer, **options)
    with running(dials):
        return share(
            predictor(
                question=f"Who directed {film}?",
                passages=[
                    passage(world, other, "director")
                    for other in [film, *[other for other in films if other != film][:irrelevant]]
                ],
            ).answer
            != world.value(film, "director")
            for film in films
        )


def test_distraction_grows_with_the_irrelevant_passages(running, faultless, world, films):
    dials = faultless(reading_distraction=0.1)
    assert misread(running, dials, world, films, 0) == 0
    assert misread(running, dials, world, films, 2) == pytest.approx(1 - 0.9**2, abs=0.12)
    assert misread(running, dials, world, films, 9) == pytest.approx(1 - 0.9**9, abs=0.14)


def test_passages_without_a_rival_do_not_distract(running, faultless, world, films):
    noise = [Passage(id=f"n{number}", title=f"Fog {number}", text="Fog lay on the water.") for number in range(9)]
    with running(faultless(reading_distraction=1.0)):
        for film in films[:5]:
            told = [passage(world, film, "director"), *noise]
            answer = dspy.Predict(ReadAnswer)(question=f"Who directed {film}?", passages=told).answer
            assert answer == world.value(film, "director")


def test_grounding_corrects_a_wrong_draft_and_quotes_the_words_that_do(running, faultless, world, films):
    told = [passage(world, films[1], "director"), passage(world, films[0], "director")]
    truth = world.value(films[0], "director")
    with running(faultless()):
        result = dspy.Predict(GroundAnswer)(question=f"Who directed {films[0]}?", draft="Nobody Atall", passages=told)
    assert result.answer == truth
    assert result.evidence == f"{films[0]} was directed by {truth}."


def test_grounding_quotes_nothing_and_keeps_the_draft_where_no_passage_bears_on_it(running, faultless, world, films):
    told = [passage(world, films[1], "director")]
    with running(faultless(memory_unknown=1.0)):
        result = dspy.Predict(GroundAnswer)(question=f"Who directed {films[0]}?", draft="Nobody Atall", passages=told)
    assert (result.evidence, result.answer) == ("", "Nobody Atall")


def test_a_stubborn_lm_keeps_its_draft_against_the_evidence(running, faultless, world, films):
    told = [passage(world, films[0], "director")]
    with running(faultless(reading_stubbornness=1.0)):
        result = dspy.Predict(GroundAnswer)(question=f"Who directed {films[0]}?", draft="Nobody Atall", passages=told)
    assert result.evidence
    assert result.answer == "Nobody Atall"


def test_sub_questions_follow_the_answered_hops_to_the_last(running, faultless, world, films):
    question = f"Where was the director of {films[0]} born?"
    director = world.value(films[0], "director")
    deduce = dspy.Predict(DeduceAnswer)
    with running(faultless()):
        first = deduce(question=question, hops=[])
        hops = [Hop(question=first.sub_question, answer="Ansa Merrow", evidence="so it says")]
        second = deduce(question=question, hops=hops)
        hops.append(Hop(question=second.sub_question, answer="Quillon"))
        third = deduce(question=question, hops=hops)
        concluded = dspy.Predict(ConcludeAnswer)(question=question, hops=hops).answer
    assert (first.finished, first.answer) == (False, director)
    assert films[0] in first.sub_question
    assert not second.finished
    assert "Ansa Merrow" in second.sub_question
    assert (third.finished, third.answer, concluded) == (True, "Quillon", "Quillon")


def test_a_comparison_is_concluded_from_two_answered_hops(running, faultless, films):
    question = f"Which film was released first, {films[0]} or {films[1]}?"
    hops = [
        Hop(question=f"When was {films[0]} released?", answer="1960"),
        Hop(question=f"In which year was {films[1]} released?", answer="1950"),
    ]
    with running(faultless()):
        assert dspy.Predict(ConcludeAnswer)(question=question, hops=hops).answer == films[1]
    with running(faultless(reasoning_comparison=1.0)):
        assert dspy.Predict(ConcludeAnswer)(question=question, hops=hops).answer == films[0]


def test_a_query_names_what_the_passages_leave_open(running, faultless, world, films):
    question = f"Where was the director of {films[0]} born?"
    write: Callable[..., dspy.Prediction] = dspy.ChainOfThought(WriteQuery)
    with running(faultless()):
        assert films[0] in write(question=question, passages=[]).query
        told = [passage(world, films[0], "director", "Ansa Merrow")]
        assert "Ansa Merrow" in write(question=question, passages=told).query
    with running(faultless(reasoning_vague_query=1.0)):
        assert write(question=question, passages=told).query == question


class Agree(dspy.Signature):
    """Do the two answers agree?"""

    question: str = dspy.InputField()
    answer: str = dspy.InputField()
    other_answer: str = dspy.InputField()
    agree: bool = dspy.OutputField()


class Relevant(dspy.Signature):
    """Does the passage contribute to answering the question?"""

    question: str = dspy.InputField()
    passages: list[Passage] = dspy.InputField()
    relevant: bool = dspy.OutputField()


@pytest.mark.slow
def test_judgements_are_wrong_as_often_as_the_dial_says(running, faultless, world, films):
    def right(dials) -> list[bool]:
        verdicts = []
        with running(dials):
            for film, other in itertools.pairwise(films):
                question = f"Who directed {film}?"
                verdicts += [
                    dspy.Predict(Relevant)(question=question, passages=[passage(world, film, "director")]).relevant,
                    not dspy.Predict(Relevant)(
                        question=question, passages=[passage(world, other, "director")]
                    ).relevant,
                    dspy.Predict(Agree)(question=question, answer="Ansa", other_answer="ansa.").agree,
                    not dspy.Predict(Agree)(question=question, answer="Ansa", other_answer=other).agree,
                ]
        return verdicts

    assert all(right(faultless()))
    assert share(right(faultless(judging_error=0.25))) == pytest.approx(0.75, abs=0.07)


def test_names_are_compared_without_case_and_articles():
    assert key("The Silver Harbour") == key("the silver harbour.")


@pytest.mark.parametrize("mode", ["logprobs", "samples", "verbalised"])
def test_probabilities_of_yes_come_in_all_three_modes(running, faultless, world, films, mode):
    relevant = dspy.Predict(Relevant)
    with running(faultless(judging_overconfidence=0.9), ChatForm(probability_mode=mode)):
        for film, other in itertools.pairwise(films[:6]):
            question = f"Who directed {film}?"
            yes = probability(relevant, question=question, passages=[passage(world, film, "director")], samples=15)
            no = probability(relevant, question=question, passages=[passage(world, other, "director")], samples=15)
            assert yes.mode == mode
            assert yes.value > 0.5 > no.value
