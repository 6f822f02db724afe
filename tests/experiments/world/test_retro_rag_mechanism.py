"""RetroRAG on the simulated world: the claims of its paper (Xiao et al., AAAI 2025), and each without its mechanism.

Scores are exact match where nothing else is said. `claims.py` says what a claim is and when it holds.
"""

from pathlib import Path

import dspy
import pytest

from experiments.world.grammar import key
from experiments.world.passage_text import parse_sentences
from programs import retro_rag
from programs.retro_rag import RetroRAG, State
from signatures.reading import AnswerFromMemory
from signatures.types import Passage
from tests.conftest import load_module

claims = load_module(Path(__file__).with_name("claims.py"))
Arm, FEW, SOME = claims.Arm, 120, 400


def not_misled(prediction: dspy.Prediction, case, bench) -> float:
    """Return whether no inference was ever kept that is wrong in the world."""
    kept = [
        said
        for hop in prediction.hops
        for candidate in hop.candidates
        if candidate.kept and candidate.passage_id is None
        for said, _ in parse_sentences(candidate.text)
    ]
    facts = bench.world.facts
    return float(all(key(facts.get((key(said.head), said.relation), "")) == key(said.value) for said in kept))


def nothing_found(program: RetroRAG, state: State, fixed: list[Passage] | None):
    return state, [], []


def passages_hidden(evidence, program: RetroRAG, state: State) -> dict:
    return {**evidence(program, state), "passages": []}


def keep_the_first(scores, size: int) -> list:
    return list(scores)[:size]


def keep_the_oldest(collate, program: RetroRAG, state: State, fixed):
    after, added, records = collate(program, state, fixed)
    return after._replace(source=[*state.source, *after.source][: program.source_size]), added, records


NO_PASSAGES = {"nothing is ever retrieved": claims.replaced(RetroRAG, "_collate", nothing_found)}
NO_INFERENCES = claims.replaced(RetroRAG, "_discover", lambda program, state: (state, []))
SAME_QUERY = claims.replaced(RetroRAG, "_next_query", lambda *_: "")
OFFERS_UNKNOWN = AnswerFromMemory.with_instructions(
    f'{AnswerFromMemory.instructions} Where the evidence does not decide the question, answer "unknown".'
)

CLAIMS = {
    "against one retrieval": claims.Claim(
        source="Table 1: better than standard RAG (41.2 to 23.4).",
        better=Arm("retro_rag"),
        worse=Arm("rag", {"k": 5}),
        n=FEW,
        mutations=NO_PASSAGES,
        elsewhere=True,
    ),
    "ELLERY": claims.Claim(
        source="Table 2: without any external knowledge the score falls (41.2 to 19.0).",
        better=Arm("retro_rag"),
        worse=Arm("retro_rag", {"ellery": False}),
        n=FEW,
        mutations=NO_PASSAGES,
        elsewhere=True,
    ),
    "memory": claims.Claim(
        source="Tables 1 and 2: without external knowledge it is still better than standard prompting (19.0 to 14.2).",
        better=Arm("retro_rag", {"ellery": False}),
        worse=Arm("standard"),
        n=SOME,
        mutations={
            'the prompt offers "unknown"': claims.replaced(retro_rag, "AnswerFromMemory", OFFERS_UNKNOWN),
        },
    ),
    "source evidence": claims.Claim(
        source="Table 2: without source evidence the score falls (41.2 to 34.8).",
        better=Arm("retro_rag"),
        worse=Arm("retro_rag", {"source": False}),
        n=SOME,
        mutations={"the passages are not shown": claims.wrapped(RetroRAG, "_evidence", passages_hidden)},
        slow=True,
        elsewhere=True,
    ),
    "inferential evidence": claims.Claim(
        source="Table 2: without inferential evidence the score falls (41.2 to 38.4).",
        better=Arm("retro_rag"),
        worse=Arm("retro_rag", {"inferential": False}),
        n=SOME,
        mutations={"inferences are thrown away": NO_INFERENCES},
        slow=True,
        elsewhere=True,
    ),
    "updating": claims.Claim(
        source="Table 2: if all evidence is kept instead of the best, the score falls (41.2 to 39.4).",
        better=Arm("retro_rag"),
        worse=Arm("retro_rag", {"update": False}),
        n=SOME,
        mutations={
            "the first evidence is kept instead of the best": claims.replaced(retro_rag, "top", keep_the_first),
            "old passages are never replaced": claims.wrapped(RetroRAG, "_collate", keep_the_oldest),
        },
        slow=True,
        elsewhere=True,
    ),
    "evaluation of evidence": claims.Claim(
        source="Equation 3 and Table 2: the gates keep wrong inferences out; share of questions that have none.",
        better=Arm("retro_rag", score=not_misled),
        worse=Arm("retro_rag", {"evaluate_evidence": False}, score=not_misled),
        n=SOME,
        mutations={"the gates let everything pass": claims.replaced(retro_rag, "passing", lambda keys, *_: list(keys))},
        slow=True,
        elsewhere=True,
    ),
    "iterations": claims.Claim(
        source="Figure 4: the score grows up to three iterations.",
        better=Arm("retro_rag", {"max_rounds": 3}),
        worse=Arm("retro_rag", {"max_rounds": 1}),
        n=FEW,
        mutations={"later rounds search for the same and infer nothing": claims.both(SAME_QUERY, NO_INFERENCES)},
    ),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory, running):
    return claims.Lab(tmp_path_factory.mktemp("worlds"), running)


@pytest.mark.parametrize("name", claims.names(CLAIMS))
def test_the_claim_holds(lab, name):
    difference = lab.measure(CLAIMS[name])
    assert difference.low > 0, claims.shown(difference)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mutation"), claims.mutants(CLAIMS))
def test_the_claim_does_not_hold_without_its_mechanism(lab, name, mutation, monkeypatch):
    assert lab.measure(CLAIMS[name]).low > 0
    CLAIMS[name].mutations[mutation](monkeypatch)
    difference = lab.measure(CLAIMS[name], mutated=True)
    assert difference.low <= 0, claims.shown(difference)


@pytest.mark.slow
@pytest.mark.parametrize("name", claims.elsewhere(CLAIMS))
def test_the_claim_holds_in_another_world(lab, name):
    difference = lab.measure(CLAIMS[name], seed=1)
    assert difference.low > 0, claims.shown(difference)
