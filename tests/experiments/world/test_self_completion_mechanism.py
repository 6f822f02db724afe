"""Self-completion on the simulated world: the claims of its paper, and each without its mechanism.

"How Credible Is an Answer From Retrieval-Augmented LLMs?" scores key facts; the scores here are exact match where
nothing else is said. `claims.py` says what a claim is and when it holds.

Not claimed: that ten references beat five, which is no claim of the paper (here every irrelevant reference distracts);
and how well complete and partial references are told apart (Table 4, self-reflection), which is the LM's ability and
has a dial here. What is tested is what the program makes of it.
"""

from pathlib import Path

import dspy
import pytest

from optimizers.contexts import balanced_contexts
from programs.parts.prediction import try_predict
from programs.self_completion import ANSWERED, UNPARSEABLE, SelfCompletion
from signatures.reading import CiteAnswer
from tests.conftest import load_module

pytestmark = pytest.mark.slow

claims = load_module(Path(__file__).with_name("claims.py"))
Arm = claims.Arm


def gold_read(prediction: dspy.Prediction, case, bench) -> float:
    """Return the share of the gold among all references."""
    gold = set(case.question.gold_ids)
    return len(gold & {passage.id for passage in prediction.passages}) / len(gold)


def balanced(bench, n: int) -> list:
    """Return the first n questions with five fixed references, half of them with all of the gold, as in Table 4."""
    contexts = balanced_contexts(bench.questions[:n], bench.corpus, spare=list(bench.corpus.values()))
    return [claims.Case(item.question, list(item.passages), item.complete) for item in contexts]


def decided_rightly(prediction: dspy.Prediction, case, bench) -> float:
    """Return whether it answered from complete references, or abstained from others."""
    return float(prediction.abstained is not case.complete)


def search_for_the_question(search, program: SelfCompletion, question: str, references, asked):
    queries, _ = search(program, question, references, asked)
    found = program.retrieve(question, program.k)
    known = {passage.id for passage in references}
    return queries, [passage for passage in found if passage.id not in known]


def answer_at_once(reflect, program: SelfCompletion, question: str, references):
    reply = try_predict(dspy.Predict(CiteAnswer), question=question, passages=references)
    return (reply.response, None, ANSWERED) if reply else ("", None, UNPARSEABLE)


INCOMPLETE = {
    "the search returns what is already there": claims.wrapped(SelfCompletion, "_search", search_for_the_question),
    "no search follows an abstention": claims.replaced(
        SelfCompletion, "_may_search", lambda program, hops, references: False
    ),
}
UNREFLECTED = {
    "the first references are always taken to suffice": claims.wrapped(SelfCompletion, "_reflect", answer_at_once)
}
CONTROL = {"reflection": False}

CLAIMS = {
    "improvement": claims.Claim(
        source="Section 6.4, Table 4: better than one search, both capped at 10 references (F1 48.2 to 42.7).",
        better=Arm("self_completion"),
        worse=Arm("self_completion", CONTROL),
        n=1000,
        mutations=INCOMPLETE | UNREFLECTED,
        slow=True,
    ),
    "completion": claims.Claim(
        source="Section 5.2: the queries find what is missing; share of the gold among at most 10 references.",
        better=Arm("self_completion", score=gold_read),
        worse=Arm("self_completion", CONTROL, score=gold_read),
        n=60,
        mutations=INCOMPLETE | UNREFLECTED,
        elsewhere=True,
    ),
    "reflection": claims.Claim(
        source="Section 6.4, Table 4: it decides whether references suffice (accuracy 70.2; answering always has 50).",
        better=Arm("self_completion", {"completion": False}, score=decided_rightly, cases=balanced),
        worse=Arm("self_completion", CONTROL, score=decided_rightly, cases=balanced),
        n=60,
        mutations=UNREFLECTED,
        elsewhere=True,
    ),
}

lab = claims.lab
(
    test_the_claim_holds,
    test_the_claim_does_not_hold_without_its_mechanism,
    test_the_claim_holds_in_another_world,
) = claims.tests_of(CLAIMS)
