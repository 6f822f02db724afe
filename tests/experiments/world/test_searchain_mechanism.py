"""SearChain on bridge questions of the simulated world: correcting a chain by passages, and without its mechanism.

Scores are exact match of short answers that are drawn from the chain, which itself is a text. `claims.py` says what a
claim is and when it holds.

Not claimed, because it did not show: that completing unknown steps helps (of whole chains +0.02 [+0.00, +0.05] on 60
questions: the LM here guesses rather than say that it does not know), and that Adaptive-RAG saves what it costs (on 60
questions of all kinds 0.40 exact match with 5.0 calls, IRCoT alone 0.57 with 4.6: nearly all questions of this world
are complex).
"""

from pathlib import Path

import pytest

from programs.multi_step import searchain
from tests.conftest import load_module

pytestmark = pytest.mark.slow

claims = load_module(Path(__file__).with_name("claims.py"))
Arm, bridges = claims.Arm, claims.bridges


CLAIMS = {
    "the verification": claims.Claim(
        source="Xu et al., section 4.4: without verification of its answers by passages, the chain is worse.",
        better=Arm("searchain", {"reader": "extract"}, cases=bridges),
        worse=Arm("searchain", {"reader": "extract", "verification": False}, cases=bridges),
        n=40,
        mutations={"the reader is never confident": claims.replaced(searchain, "passes", lambda *given: False)},
        elsewhere=True,
    ),
}

lab = claims.lab
(
    test_the_claim_holds,
    test_the_claim_does_not_hold_without_its_mechanism,
    test_the_claim_holds_in_another_world,
) = claims.tests_of(CLAIMS)
