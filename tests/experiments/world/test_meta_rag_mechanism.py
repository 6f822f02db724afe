"""MetaRAG on the simulated world: what its further rounds find and repair, and each without its mechanism.

`claims.py` says what a claim is and when it holds. Both arms score the same run: its first hop is the answer before any
advice, over the first retrieval. The LM here does not read the advice, nor does the critic name a fault
(`test_unspoken.py`), so that what repairs an answer is the further search and another try at the reasoning.
"""

from pathlib import Path

import pytest

from optimizers.metrics.answer import exact_match
from optimizers.metrics.retrieval import all_gold_at
from programs.multi_step.meta_rag import MetaRAG
from tests.conftest import load_module

pytestmark = pytest.mark.slow

claims = load_module(Path(__file__).with_name("claims.py"))
Arm = claims.Arm


def first_answer(prediction, case, bench):
    return exact_match(prediction.hops[0].answer, case.question.answers)


def gold_at_first(prediction, case, bench):
    return all_gold_at(prediction.hops[0].passage_ids, case.question.gold_ids)


def gold(prediction, case, bench):
    return all_gold_at([passage.id for passage in prediction.passages], case.question.gold_ids)


NO_SEARCH = claims.replaced(MetaRAG, "_search", lambda self, question, *given: (question, []))

CLAIMS = {
    "the search for what is lacking": claims.Claim(
        source="Zhou et al., section 3.3.3: where knowledge is insufficient, a new query retrieves what is missing.",
        better=Arm("meta_rag", {"max_rounds": 1}, gold),
        worse=Arm("meta_rag", {"max_rounds": 1}, gold_at_first),
        n=40,
        mutations={"nothing is searched for": NO_SEARCH},
        elsewhere=True,
    ),
    "the further rounds": claims.Claim(
        source="Zhou et al., Table 2: monitoring, evaluating and planning repair the first answer.",
        better=Arm("meta_rag"),
        worse=Arm("meta_rag", score=first_answer),
        n=200,
        slow=True,
        mutations={"no round follows": claims.replaced(MetaRAG, "_agreement", lambda *given: 1.0)},
        elsewhere=True,
    ),
}

lab = claims.lab
(
    test_the_claim_holds,
    test_the_claim_does_not_hold_without_its_mechanism,
    test_the_claim_holds_in_another_world,
) = claims.tests_of(CLAIMS)
