"""Verify-and-Edit and Self-RAG on the simulated world: claims of their papers, and each without its mechanism.

Scores are exact match. `claims.py` says what a claim is and when it holds. Nothing is claimed of rewrite-retrieve-read,
whose queries help no more than the question here (F1 0.36 and 0.36 on 40 questions), nor of WebGLM,
whose ranking needs an embedder.
"""

from pathlib import Path

from programs.single_step.self_rag import SelfRAG
from programs.single_step.verify_and_edit import VerifyAndEdit
from tests.conftest import load_module

claims = load_module(Path(__file__).with_name("claims.py"))
Arm = claims.Arm

CLAIMS = {
    "editing": claims.Claim(
        source="Zhao et al., section 5: better than the chain of thought that is edited; here of one sample, unvoted.",
        better=Arm("verify_and_edit", {"samples": 1, "edit": "always"}),
        worse=Arm("cot"),
        n=150,
        slow=True,
        mutations={"no sentence is found": claims.replaced(VerifyAndEdit, "_closest", lambda *given: [])},
    ),
    "the critique": claims.Claim(
        source="Asai et al., Table 3 (retrieve top 1): choosing among answers is better than the first passage's.",
        better=Arm("self_rag"),
        worse=Arm("self_rag", {"k": 1}),
        n=150,
        slow=True,
        mutations={"all answers are equally good": claims.replaced(SelfRAG, "_score", lambda *given: 0.0)},
    ),
}

lab = claims.lab
(
    test_the_claim_holds,
    test_the_claim_does_not_hold_without_its_mechanism,
    test_the_claim_holds_in_another_world,
) = claims.tests_of(CLAIMS)
