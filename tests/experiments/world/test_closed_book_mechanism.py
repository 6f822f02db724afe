"""CoT-SC, GenRead and GRG on the simulated world: claims about them, and each without its mechanism.

Scores are exact match. `claims.py` says what a claim is and when it holds.

Not claimed: that decomposition helps GenRead (on 60 questions it did not: 0.42 against 0.43, with 9 loops that ended at
an unparseable reply), and anything about the cut-off of GRG, since programs of the catalog have no similarity here.
"""

from pathlib import Path

from programs.closed_book import cot_sc
from programs.parts.steps.voting import Majority
from programs.single_step.grg import GRG
from tests.conftest import load_module

claims = load_module(Path(__file__).with_name("claims.py"))
Arm = claims.Arm

CLAIMS = {
    "the vote": claims.Claim(
        source="Wang et al., section 3.2, and Shi et al., Table 2: better than one chain of thought (F1 42.3 to 35.3).",
        better=Arm("cot_sc", {"samples": 5}),
        worse=Arm("cot"),
        n=250,
        mutations={"the first sample decides": claims.replaced(cot_sc, "majority", lambda keys: Majority(0, 0.0))},
    ),
    "the passages": claims.Claim(
        source="Shi et al., Table 2: with passages beside the documents, better than GenRead (both decomposed).",
        better=Arm("grg", {"decompose": True}),
        worse=Arm("genread", {"decompose": True}),
        n=200,
        mutations={"passages are not read": claims.replaced(GRG, "_above_cutoff", lambda *given: [])},
    ),
}

lab = claims.lab
(
    test_the_claim_holds,
    test_the_claim_does_not_hold_without_its_mechanism,
    test_the_claim_holds_in_another_world,
) = claims.tests_of(CLAIMS)
