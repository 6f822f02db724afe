"""CoV-RAG on the simulated world: what its paper claims must follow from its loop, and each ablation must lose it.

The dials are the committed ones wherever whole programs are compared. Intervals are 95 % paired bootstrap intervals
over the same questions. Two sets: the world's questions of several hops, where one search mostly misses some of the
gold, and their sub-questions, single facts whose gold the first search always finds.

Replies are JSON here, so that every malformed one is unparseable. Below headers, any reply to a single field counts as
that field, and the ablation without the chain would search for small talk.
"""

from collections.abc import Callable
from typing import NamedTuple

import dspy
import pytest

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.questions import read_questions
from experiments.analysis.statistics import Mean, Paired, mean_of, paired
from experiments.world.generate import generate
from programs.cov_rag import CoVRAG, Verification, needs_revision
from programs.lms.adapter import JsonForm
from programs.parts.knobs import knob_values
from signatures.text import normalize_answer
from signatures.types import Retriever

QUESTIONS, FACTS, MANY = 800, 500, 4000


class Asked(NamedTuple):
    """A question with its gold, and whether the first five retrieved passages contain all of it."""

    question: str
    answer: str
    gold: frozenset[str]
    found: bool


class Run(NamedTuple):
    """A program's predictions, in the order of the questions, and its exact match."""

    predictions: list[dspy.Prediction]
    right: list[float]


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory) -> tuple[Retriever, dict[str, list[Asked]]]:
    """Return a retriever and the sets: questions, single facts, and many questions for the slow test."""
    folder = tmp_path_factory.mktemp("world")
    passages, written = generate(folder, questions=MANY, seed=0)
    build_index(passages, folder / "index", retriever="bm25")
    retrieve = open_index(folder / "index")

    def asked(question: str, answer: str, gold: list[str]) -> Asked:
        found = set(gold) <= {passage.id for passage in retrieve(question, 5)}
        return Asked(question, answer, frozenset(gold), found)

    whole = read_questions(written)
    many = [asked(item.question, item.answers[0], item.gold_ids) for item in whole]
    steps = {step.question: step for item in whole[:QUESTIONS] for step in item.sub_questions}
    facts = [asked(item.question, item.answer, item.gold_ids) for item in list(steps.values())[:FACTS]]
    return retrieve, {"questions": many[:QUESTIONS], "facts": facts, "many": many}


@pytest.fixture(scope="module")
def ask(benchmark, running) -> Callable[..., Run]:
    """Return a function that runs CoV-RAG over some questions."""

    def over(asked: list[Asked], **knobs) -> Run:
        program = CoVRAG(benchmark[0], **knobs)
        with running(adapter=JsonForm()):
            predictions = [program(question=item.question) for item in asked]
        right = [
            float(normalize_answer(prediction.answer) == normalize_answer(item.answer))
            for prediction, item in zip(predictions, asked, strict=True)
        ]
        return Run(predictions, right)

    return over


@pytest.fixture(scope="module")
def run(benchmark, ask) -> Callable[..., Run]:
    """Return a function that runs CoV-RAG over a set, cached by set and knobs."""
    known: dict[str, Run] = {}

    def over(name: str = "questions", **knobs) -> Run:
        key = f"{name} {sorted(knobs.items())}"
        if key not in known:
            known[key] = ask(benchmark[1][name], **knobs)
        return known[key]

    return over


def within(values: list[float], chosen: list[bool]) -> list[float]:
    return [value for value, taken in zip(values, chosen, strict=True) if taken]


def difference(first: Run, second: Run, chosen: list[bool]) -> Paired:
    return paired(within(first.right, chosen), within(second.right, chosen))


def changed(first: Run, second: Run, chosen: list[bool], *, was_right: bool) -> Mean:
    """Return the share of answers that turned from right to wrong, or from wrong to right, with its interval."""
    pairs = [pair for pair, taken in zip(zip(first.right, second.right, strict=True), chosen, strict=True) if taken]
    return mean_of([float(after != before) for before, after in pairs if bool(before) is was_right])


def test_an_lm_without_faults_revises_exactly_where_the_search_missed(benchmark, running, faultless):
    """Memory is empty, so that references alone decide."""
    retrieve, sets = benchmark
    missed = [item for item in sets["questions"] if not item.found][:40]
    clear = [item for item in sets["questions"] if item.found][:40] + sets["facts"][:40]
    with running(faultless(memory_unknown=1.0)):
        program = CoVRAG(retrieve)
        for item in clear:
            result = program(question=item.question)
            assert ([hop.verdict for hop in result.hops], result.answer) == (["kept"], item.answer)
            assert result.details["verifications"][0]["judgement"] == "true"
            assert set(result.citations) <= item.gold
        repaired = 0
        for item in missed:
            result = program(question=item.question)
            first, second = result.hops
            assert (first.verdict, second.verdict) == ("revised", "unverified")
            complete = item.gold <= set(second.passage_ids)
            assert result.answer == item.answer or not complete
            repaired += complete
    assert repaired >= len(missed) / 4  # of the rest some need a third passage, some are missed by BM25 again


def test_answers_whose_search_missed_are_repaired(benchmark, run):
    missed = [not item.found for item in benchmark[1]["questions"]]
    assert difference(run(revise="never"), run(), missed).low > 0


def test_few_other_answers_turn_wrong(benchmark, run):
    """Right answers to clear questions: one composed one in nine, one single fact in eighty turn wrong."""
    clear = [item.found for item in benchmark[1]["questions"]]
    repaired = changed(run(revise="never"), run(), [not found for found in clear], was_right=False)
    spoiled = changed(run(revise="never"), run(), clear, was_right=True)
    assert spoiled.high < 0.2 < repaired.low
    facts = [True] * FACTS
    assert changed(run("facts", revise="never"), run("facts"), facts, was_right=True).high < 0.03
    assert difference(run("facts", revise="never"), run("facts"), facts).low > -0.01  # others are mended in turn


def test_answers_that_were_right_without_their_references_turn_wrong_more_often(benchmark, run):
    """Not a claim of the paper: such answers came from memory or chance, and are rewritten from references."""
    clear = [item.found for item in benchmark[1]["questions"]]
    lucky = changed(run(revise="never"), run(), [not found for found in clear], was_right=True)
    assert lucky.low > changed(run(revise="never"), run(), clear, was_right=True).high


def test_revising_at_the_end_beats_revising_at_the_start(benchmark, run):
    assert difference(run(revise="start"), run(), [True] * QUESTIONS).low > 0


def test_revising_at_the_start_fails_where_the_rewriting_loses_a_clear_question(benchmark, ask):
    clear = [item for item in benchmark[1]["many"] if item.found][:700]
    queries = [done.hops[0].question for done in ask(clear, revise="start", short=False).predictions]
    found = [{passage.id for passage in benchmark[0](query, 5)} for query in queries]
    lost = [item for item, ids in zip(clear, found, strict=True) if not item.gold <= ids]
    started = ask(lost, revise="start")
    for other in (ask(lost), ask(lost, revise="never")):
        assert difference(started, other, [True] * len(lost)).low > 0


def test_revising_at_the_start_is_overall_as_good_as_not_revising(benchmark, run):
    """Unlike table 5 of the paper, where it is far worse: rewriting here drifts, but is never too long."""
    result = difference(run(revise="never"), run(revise="start"), [True] * QUESTIONS)
    assert -0.05 < result.low < result.high < 0.05


def judged_rightly(predictions: list[dspy.Prediction], right: list[float]) -> list[float | None]:
    """Return whether each first answer was judged correctly; None if the reply could not be parsed.

    Without the chain there is no judgement: an empty revised question then says that the answer is right.
    """
    found: list[float | None] = []
    for prediction, answer_right in zip(predictions, right, strict=True):
        said = prediction.details["verifications"][:1]
        accepted = [(item["judgement"] or ("false" if item["revised_question"] else "true")) == "true" for item in said]
        found += [float(accepted[0] == bool(answer_right))] if accepted else [None]
    return found


def gold_gained(asked: list[Asked], predictions: list[dspy.Prediction]) -> list[float]:
    """Return the share of gold among the last references less that among the first, per question."""
    return [
        (len(item.gold & set(done.hops[-1].passage_ids)) - len(item.gold & set(done.hops[0].passage_ids)))
        / len(item.gold)
        for item, done in zip(asked, predictions, strict=True)
    ]


def test_the_chain_judges_better_and_gains_more_gold_by_searching_again(benchmark, run):
    """Table 6 of the paper: judgement accuracy, and the gain of the references.

    The world has it built in that who scores first judges better: five noisy scores vote, one unwritten judgement errs
    more often. What is tested is that the program turns this into better references.
    """
    asked, first = benchmark[1]["questions"], run(revise="never").right
    without, whole = run(chain=False).predictions, run().predictions
    assert paired(judged_rightly(without, first), judged_rightly(whole, first)).low > 0
    assert paired(gold_gained(asked, without), gold_gained(asked, whole)).low > 0


@pytest.mark.slow
def test_the_chain_answers_better(benchmark, run):
    """Also table 6 of the paper; without training the effect is small and needs many questions."""
    assert difference(run("many", chain=False), run("many"), [True] * MANY).low > 0


def test_the_threshold_gate_can_be_replayed_on_a_recorded_run(benchmark, run, ask):
    """The footnote's thresholds were found for a trained verifier; of this one's answers "all" lets hardly any pass."""
    recorded = [done.details for done in run().predictions]
    said = [Verification(**item["verifications"][0]) for item in recorded if item["verifications"]]
    fired = {}
    for combine in ("any", "all"):
        program = CoVRAG(gate="threshold", combine=combine)
        fired[combine] = [needs_revision(item, knob_values(program)) for item in said]
        asked = ask(benchmark[1]["questions"][:100], gate="threshold", combine=combine).predictions
        decided = [decision for done in asked for decision in done.details["decisions"]]
        assert decided == fired[combine][: len(decided)]
    usual = sum(item["decisions"][0] for item in recorded if item["decisions"])
    assert 0.05 * usual > sum(fired["all"])
    assert 0.9 * usual < sum(fired["any"]) < usual
