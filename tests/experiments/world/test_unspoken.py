"""Steps of strategies that the simulated world cannot be spoken to, so that nothing about them is claimed or measured.

The world is frozen (`test_frozen.py`), and these prompts are written for real LMs. Each test says what the world's LM
does instead, at dials without errors where that is possible: a change that makes one of them fail is an occasion to
claim something.
"""

from pathlib import Path

import dspy
import pytest

from experiments.analysis.statistics import paired
from optimizers.metrics.answer import exact_match
from programs.agents.a_rag import ARAG
from programs.agents.react import ReAct
from programs.agents.search_o1 import SearchO1
from programs.parts.conversation import understand
from programs.single_step.rrr import RRR
from signatures.agents.search_o1 import ReasonInDocuments
from signatures.multi_step.meta_rag import AnswerAdvised, FindFault
from signatures.reading import ReadAnswer
from signatures.types import Turn
from tests.conftest import load_module

claims = load_module(Path(__file__).with_name("claims.py"))
QUESTIONS = 20


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return claims.Bench(tmp_path_factory.mktemp("world"), 0)


@pytest.fixture(scope="module")
def bridges(bench):
    return [question for question in bench.questions if question.type == "bridge-2"][:QUESTIONS]


@pytest.fixture(scope="module")
def ask(running, bridges, faultless):
    """Return a function that asks a program the bridge questions, by default at dials without errors."""

    def run(program, dials=None):
        with running(dials or faultless(), claims.PROBABILITIES):
            return [program(question=question.question) for question in bridges]

    return run


def right(predictions, questions):
    return [
        exact_match(prediction.answer, question.answers)
        for prediction, question in zip(predictions, questions, strict=True)
    ]


def actions(predictions):
    return {hop.verdict for prediction in predictions for hop in prediction.hops}


def test_the_reading_of_search_o1_is_written_from_memory(running, faultless, world, films, about):
    """What is extracted "from passages" is taken for a document to write: it says what memory knows."""
    film = films[0]
    true = world.value(film, "director")
    other = next(name for name in (world.value(each, "director") for each in films) if name != true)
    asked = f"Who directed {film}?"
    passage = about(film, "director", other)
    with running(faultless()):
        read = dspy.Predict(ReadAnswer)(passages=[passage], question=asked).answer
        line = f"Action 1: search: {asked}"
        told = dspy.Predict(ReasonInDocuments)(transcript=[line], query=asked, passages=[passage]).information
    assert read == other
    assert true in told
    assert other not in told


@pytest.mark.slow
def test_so_the_reading_step_of_search_o1_loses_here_what_the_paper_says_it_gains(running, bench, bridges):
    """With passages shown as they are all questions are answered; the loop itself is claimed by `test_agents_...`."""
    with running(adapter=claims.PROBABILITIES):
        without, with_it = (
            [SearchO1(bench.retrieve, documents=documents)(question=each.question) for each in bridges]
            for documents in (False, True)
        )
    assert paired(right(without, bridges), right(with_it, bridges)).high < 0


def test_a_rag_neither_counts_keywords_nor_reads_whole_passages(ask, bench, bridges):
    """The world has no such actions: it searches by meaning until the sentences shown suffice."""
    predictions = ask(ARAG(bench.retrieve, max_turns=6))
    assert actions(predictions) == {"search"}
    assert all(prediction.details["read"] == [] for prediction in predictions)
    assert sum(right(predictions, bridges)) == QUESTIONS


def test_react_never_looks_words_up(ask, bench, bridges):
    """Lookups are known to the world in fields of passages, not in lines of a transcript: what is not shown is lost."""
    shown, cut = (ask(ReAct(bench.retrieve, sentences=sentences)) for sentences in (5, 1))
    assert actions(shown) == actions(cut) == {"searched"}
    assert sum(right(shown, bridges)) > sum(right(cut, bridges)) == 0


def test_the_critic_of_meta_rag_names_no_fault_and_its_advice_is_not_read(running, faultless, question, about, films):
    passages = [about(films[0], "director")]
    with running(faultless()):
        found = dspy.Predict(FindFault)(question=question, reasoning="So it is.", answer="Nobody Atall")
        answers = {
            dspy.Predict(AnswerAdvised)(passages=passages, question=question, advice=advice).answer
            for advice in ("Rely on the passages alone.", "Rely on what you know yourself.", "Say nothing.")
        }
    assert found.feedback == "unknown"
    assert len(answers) == 1


def test_rewriting_a_bridge_question_names_only_its_first_fact(ask, bench):
    """Before anything was read, the entity of the second fact is unknown: one query, as good as the question."""
    predictions = ask(RRR(bench.retrieve))
    assert {len(prediction.details["queries"]) for prediction in predictions} == {1}


def test_a_follow_up_is_not_rewritten_and_is_asked_with_the_last_turn(running, faultless, films):
    before = Turn(question=f"Who directed {films[0]}?", answer="Ada Finch")
    with running(faultless(), claims.PROBABILITIES):
        understood = understand("Where was she born?", [before])
        alone = understand(f"Who directed {films[1]}?", [before])
    assert understood.question == f"Where was she born? (Who directed {films[0]}? Ada Finch)"
    assert understood.how == "with the last turn"
    assert alone.question == f"Who was the director of {films[1]}?"  # the world's wording of a question of its own
