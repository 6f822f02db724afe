"""GenGround on the simulated world: the claims of its paper (Shi et al., ACL 2024), and each without its mechanism.

Scores are exact match where nothing else is said. `claims.py` says what a claim is and when it holds.

Not claimed, because this world cannot show it: anything that demonstrations do (`few_shot`), which are not read here.
"""

from pathlib import Path

import dspy
import pytest

from experiments.world.grammar import key, parse_question
from experiments.world.question_generator import true_answer
from programs import genground
from programs.genground import KEPT, Claim, GenGround
from signatures.types import Hop, Passage
from tests.conftest import load_module

pytestmark = pytest.mark.slow

claims = load_module(Path(__file__).with_name("claims.py"))
Arm = claims.Arm


def hops_right(of: str):
    """Return the score that is the share of a prediction's hops whose "answer" or "draft" is true in the world."""

    def score(prediction: dspy.Prediction, case, bench) -> float | None:
        plans = [(hop, parse_question(hop.question)) for hop in prediction.hops]
        right = [
            key(getattr(hop, of) or "") == key(true_answer(bench.world, plan) or "-") for hop, plan in plans if plan
        ]
        return sum(right) / len(right) if right else None

    return score


def keep_the_draft(program: GenGround, claim: Claim, batch: list[Passage]) -> Hop:
    return claim.settled(claim.draft, KEPT)


def ask_the_whole_question(ask, program: GenGround, question: str, reply: dspy.Prediction | None) -> Claim:
    return Claim(question, question, reply.answer if reply else "")


def forget_the_hops(ask, predictor: dspy.Predict, **inputs) -> dspy.Prediction | None:
    return ask(predictor, **({**inputs, "hops": []} if "hops" in inputs else inputs))


NO_EVIDENCE = {"evidence is ignored, the draft kept": claims.replaced(GenGround, "_ground_batch", keep_the_draft)}
NO_DEDUCTION = {
    "the sub-question is thrown away, the question grounded": claims.wrapped(
        GenGround, "_claim", ask_the_whole_question
    ),
    "settled hops are forgotten": claims.wrapped(genground, "try_predict", forget_the_hops),
}
NO_BATCHES = {"all passages are shown at once": claims.replaced(GenGround, "_batch_size", lambda program: program.k)}

CLAIMS = {
    "deduction": claims.Claim(
        source="Section 6.2, Table 4: without deduction the score falls (F1 52.3 to 42.7).",
        better=Arm("genground"),
        worse=Arm("genground", {"deduce": False}),
        n=60,
        mutations=NO_DEDUCTION,
        elsewhere=True,
    ),
    "grounding": claims.Claim(
        source="Section 6.2, Table 4: answers read directly from the passages instead are worse (F1 52.3 to 45.1).",
        better=Arm("genground"),
        worse=Arm("genground", {"ground": False}),
        n=80,
        mutations=NO_EVIDENCE,
        elsewhere=True,
    ),
    "batches": claims.Claim(
        source="Section 6.2, Table 4: all passages in one prompt instead of batches is worse (F1 52.3 to 47.3).",
        better=Arm("genground"),
        worse=Arm("genground", {"batch": False}),
        n=250,
        mutations=NO_BATCHES,
        elsewhere=True,
    ),
    "corrections": claims.Claim(
        source="Section 7.2, Figure 5: grounding corrects more (24.5 %) than it spoils (5.6 %); share of right hops.",
        better=Arm("genground", score=hops_right("answer")),
        worse=Arm("genground", score=hops_right("draft")),
        n=50,
        mutations=NO_EVIDENCE,
        elsewhere=True,
    ),
    "against memory": claims.Claim(
        source="Table 2: better than chain of thought without retrieval (F1 52.3 to 35.3).",
        better=Arm("genground"),
        worse=Arm("cot"),
        n=60,
        mutations={
            "one sub-question, no evidence": claims.both(*NO_EVIDENCE.values(), next(iter(NO_DEDUCTION.values())))
        },
    ),
    "against DSPy's program": claims.Claim(
        source="Table 2: better than DSPy's multi-hop program, which writes queries without answers (F1 52.3 to 47.8).",
        better=Arm("genground"),
        worse=Arm("multihop", {"k": 5}),
        n=60,
        mutations=NO_EVIDENCE | NO_DEDUCTION,
    ),
}

lab = claims.lab
(
    test_the_claim_holds,
    test_the_claim_does_not_hold_without_its_mechanism,
    test_the_claim_holds_in_another_world,
) = claims.tests_of(CLAIMS)
