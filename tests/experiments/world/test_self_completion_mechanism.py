"""Self-completion on the simulated world: it must find what is missing, and abstain where it may not look for it.

The dials are the committed ones wherever whole programs are compared. Intervals are 95 % paired bootstrap intervals
of exact match over the same questions.

Not claimed: that reading ten references beats reading the first five. In this world it does not, because every
irrelevant reference distracts; fewer references per query are better still.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.passages import read_passages
from corpora.questions import Question, read_questions
from experiments.analysis.statistics import mean_of, paired
from experiments.world.generate import generate
from optimizers.contexts import ReflectionScores, balanced_contexts, fixed_context, reflection_scores
from optimizers.metrics.answer import exact_match
from programs.self_completion import SelfCompletion
from signatures.types import Passage, Retriever

QUESTIONS = 1200


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    passages, _ = generate(folder, questions=QUESTIONS, seed=0)
    build_index(passages, folder / "index", retriever="bm25")
    return folder


@pytest.fixture(scope="module")
def retrieve(folder) -> Retriever:
    return open_index(folder / "index")


@pytest.fixture(scope="module")
def questions(folder) -> list[Question]:
    return read_questions(folder / "questions.jsonl")


@pytest.fixture(scope="module")
def corpus(folder) -> dict[str, Passage]:
    return {passage.id: passage for passage in read_passages(folder / "passages.jsonl")}


@pytest.fixture(scope="module")
def scores(retrieve, questions, running) -> Callable[..., list[float]]:
    """Return a function that returns exact match per question, cached by the program's knobs."""
    known: dict[str, list[float]] = {}

    def score(**knobs) -> list[float]:
        name = repr(sorted(knobs.items()))
        if name not in known:
            program = SelfCompletion(retrieve, **knobs)
            with running():
                known[name] = [
                    exact_match(program(question=item.question).answer, item.answers) or 0.0 for item in questions
                ]
        return known[name]

    return score


@pytest.fixture(scope="module")
def reflected(questions, corpus, running) -> Callable[..., ReflectionScores]:
    """Return a function that returns the decisions of a program on balanced groups of five references."""
    items = balanced_contexts(questions, corpus, list(corpus.values()))

    def score(**knobs) -> ReflectionScores:
        program = SelfCompletion(short=False, **knobs)
        with running():
            abstained = [program(question=item.question.question, passages=item.passages).abstained for item in items]
        return reflection_scores([item.complete for item in items], abstained)

    return score


def bridges(questions: list[Question], corpus: dict[str, Passage]) -> list[tuple[Question, list[Passage]]]:
    """Return ten two-hop questions, each with the passage of its first hop among noise."""
    found = []
    for item in [item for item in questions if item.type == "bridge-2"][:10]:
        first = item.model_copy(update={"gold_ids": item.gold_ids[:1]})
        pool = [passage for passage in corpus.values() if passage.id not in item.gold_ids]
        found.append((item, list(fixed_context(first, corpus, pool, condition="complete").passages)))
    return found


def test_the_missing_hop_is_asked_for_and_the_question_answered(running, faultless, retrieve, questions, corpus):
    with running(faultless()):
        for item, partial in bridges(questions, corpus):
            result = SelfCompletion(retrieve)(question=item.question, passages=partial)
            first, second = result.hops
            assert (first.verdict, second.verdict) == ("abstained", "answered")
            assert item.sub_questions[0].answer in second.question
            assert item.gold_ids[1] in second.passage_ids
            assert exact_match(result.answer, item.answers)
            assert set(result.citations) == set(item.gold_ids)


def test_without_completion_it_abstains_and_without_reflection_it_answers(running, faultless, questions, corpus):
    with running(faultless()):
        for item, partial in bridges(questions, corpus):
            assert SelfCompletion(completion=False)(question=item.question, passages=partial).abstained
            assert not SelfCompletion(reflection=False)(question=item.question, passages=partial).abstained


def test_complete_and_partial_references_are_distinguished_better_than_by_chance(reflected):
    scores = reflected(completion=False)
    right = scores.abstained_partial + scores.answered_complete
    assert scores.n == 2 * (scores.abstained_partial + scores.answered_partial)
    assert mean_of([1.0] * right + [0.0] * (scores.n - right)).low > 0.5
    assert scores.f1 > 2 / 3  # what abstaining always is worth


def test_without_reflection_they_are_not_distinguished(reflected):
    scores = reflected(reflection=False)
    assert (scores.accuracy, scores.f1) == (0.5, 0.0)


def test_completion_answers_more_than_reflection_alone(scores):
    assert paired(scores(completion=False), scores()).low > 0


def test_it_beats_the_single_hop_control_with_as_many_references(scores):
    difference = paired(scores(reflection=False), scores())
    assert difference.low > 0, f"{difference.difference:+.3f} is not above 0 beyond doubt"
