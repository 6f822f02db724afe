"""ReAct, Search-R1, Search-o1, CoRAG and A-RAG on bridge questions of the simulated world, and without their mechanism.

Scores are exact match. `claims.py` says what a claim is and when it holds. `test_unspoken.py` has the steps of these
agents that the world's LM cannot be spoken to: what is claimed of Search-o1 is its loop, without the reading step, and
of A-RAG its searches, without keywords and whole passages.

Not claimed, because it did not show: that choosing among four chains of CoRAG is better than the greedy chain (-0.04
[-0.11, +0.05] by probability, +0.01 [+0.00, +0.04] by agreement, on 80 questions).
"""

from pathlib import Path

import pytest

from programs.agents import corag, react, search_o1, search_r1
from programs.agents.a_rag import ARAG, Found
from programs.parts.agents import transcript
from tests.conftest import load_module

pytestmark = pytest.mark.slow

claims = load_module(Path(__file__).with_name("claims.py"))
Arm, bridges, replaced = claims.Arm, claims.bridges, claims.replaced


def hop_without_answer(made, **fields):
    return made(**{**fields, "answer": "unknown"})


RAG = Arm("rag", cases=bridges)

CLAIMS = {
    "acting": claims.Claim(
        source="Yao et al., section 3.3: acting overcomes what reasoning invents from memory (ReAct against CoT).",
        better=Arm("react", cases=bridges),
        worse=Arm("cot", cases=bridges),
        n=80,
        mutations={"results are not seen": replaced(react.ReAct, "first_sentences", lambda *given: [])},
        elsewhere=True,
    ),
    "extracting": claims.Claim(
        source="DSPy's agent: an extracting call answers where the steps run out, where the paper's has no answer.",
        better=Arm("react", {"reader": "extract"}, cases=bridges),
        worse=Arm("react", cases=bridges),
        n=80,
        mutations={"what it extracts is not used": replaced(transcript, "answer_in", lambda reply: "")},
    ),
    "searching in turns": claims.Claim(
        source="Jin et al., Table 2: better than one retrieval (there also by the training, which is left out here).",
        better=Arm("search_r1", cases=bridges),
        worse=RAG,
        n=40,
        mutations={"results are not seen": replaced(search_r1, "found_texts", lambda *given, **named: ())},
        elsewhere=True,
    ),
    "searching inside the reasoning": claims.Claim(
        source="Li et al., Table 3: agentic search is better than one retrieval on multi-hop questions.",
        better=Arm("search_o1", {"documents": False}, cases=bridges),
        worse=RAG,
        n=40,
        mutations={"results are not seen": replaced(search_o1, "found_texts", lambda *given, **named: ())},
        elsewhere=True,
    ),
    "a longer chain": claims.Claim(
        source="Wang et al., section 5.1: more steps are better on multi-hop questions (here three against one).",
        better=Arm("corag", {"max_hops": 3}, cases=bridges),
        worse=Arm("corag", {"max_hops": 1}, cases=bridges),
        n=40,
        mutations={"a pair has no answer": claims.wrapped(corag, "Hop", hop_without_answer)},
        elsewhere=True,
    ),
    "the interfaces": claims.Claim(
        source="Du et al., section 4: an agent with tools for the corpus is better than one retrieval; here searches.",
        better=Arm("a_rag", {"max_turns": 6}, cases=bridges),
        worse=RAG,
        n=40,
        mutations={"results are not seen": replaced(ARAG, "_act", lambda *given: Found(("Nothing was found.",)))},
    ),
}

lab = claims.lab
(
    test_the_claim_holds,
    test_the_claim_does_not_hold_without_its_mechanism,
    test_the_claim_holds_in_another_world,
) = claims.tests_of(CLAIMS)
