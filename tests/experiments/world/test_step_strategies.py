"""The effects that IRCoT, ITER-RETGEN, Self-Ask, FLARE and SearChain claim, on bridge questions of the world."""

import functools

import pytest

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.questions import Question, read_questions
from experiments.analysis.statistics import paired
from experiments.world.generate import generate
from programs.catalog import build
from signatures.text import normalize_answer
from signatures.types import Retriever

pytestmark = pytest.mark.slow

QUESTIONS = 60


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory) -> tuple[Retriever, list[Question]]:
    folder = tmp_path_factory.mktemp("world")
    passages, questions = generate(folder, questions=4 * QUESTIONS, seed=0)
    build_index(passages, folder / "index", retriever="bm25")
    bridges = [question for question in read_questions(questions) if (question.type or "").startswith("bridge")]
    return open_index(folder / "index"), bridges[:QUESTIONS]


@pytest.fixture(scope="module")
def run(running, benchmark):
    """Return a function that returns for each question whether the answer was right and all gold passages were read.

    What was run once is not run again.
    """
    retrieve, questions = benchmark

    @functools.cache
    def answered(name, **knobs):
        program = build(name, retrieve, **knobs)
        with running():
            found = [program(question=question.question) for question in questions]
        pairs = list(zip(found, questions, strict=True))
        right = [normalize_answer(one.answer) in map(normalize_answer, question.answers) for one, question in pairs]
        gold = [set(question.gold_ids) <= {each.id for each in one.passages} for one, question in pairs]
        return [float(each) for each in right], [float(each) for each in gold]

    return answered


@pytest.mark.parametrize("name", ["ircot", "iter_retgen", "self_ask", "flare", "searchain"])
def test_more_gold_passages_are_found_than_by_one_retrieval(run, name):
    assert paired(run("rag")[1], run(name)[1]).low > 0


def test_a_second_iteration_answers_better_than_one(run):
    assert (
        paired(run("iter_retgen", iterations=1, reader="thought")[0], run("iter_retgen", reader="thought")[0]).low > 0
    )


def test_the_thought_of_ircot_answers_better_than_one_retrieval(run):
    assert paired(run("rag")[0], run("ircot", reader="thought")[0]).low > 0


def test_follow_up_questions_are_answered_better_with_a_search_than_from_memory(run):
    assert paired(run("self_ask", search=False)[0], run("self_ask")[0]).low > 0


def test_flare_answers_better_than_memory(run):
    assert paired(run("standard")[0], run("flare")[0]).low > 0


def test_verification_corrects_a_chain_from_memory(run):
    whole = run("searchain", reader="extract")[0]
    assert paired(run("searchain", reader="extract", verification=False, completion=False)[0], whole).low > 0
