"""Verification labels from gold, and wrong responses."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.passages import PassageRecord
from corpora.questions import Question, SubQuestion
from optimizers.distill.cov_rag import gold_revision, gold_verification
from optimizers.distill.negatives import incomplete_query, with_repetition, with_wrong_citations, wrong_references
from optimizers.distill.verification_scores import conciseness
from programs.parts.verification import SCORES
from signatures.citation_marks import citation_numbers, strip_citations
from signatures.refusals import REFUSAL
from signatures.types import Passage

G1 = Passage(id="g1", title="Quillon", text="The harbour master of Quillon is Ansa Merrow.")
G2 = Passage(id="g2", title="Ansa Merrow", text="Ansa Merrow was born in Old Varn.")
NOISE = Passage(id="n", title="Fog", text="Fog is wet.")
HOPS = [
    SubQuestion(question="Who is the harbour master of Quillon?", answer="Ansa Merrow", gold_ids=["g1"]),
    SubQuestion(question="Where was Ansa Merrow born?", answer="Old Varn", gold_ids=["g2"]),
]
QUESTION = Question(
    id="q", question="Where was the harbour master born?", answers=["Old Varn"], gold_ids=["g1", "g2"],
    sub_questions=HOPS,
)  # fmt: skip
RIGHT = "Ansa Merrow is harbour master [1]. She was born in Old Varn [2]."


def test_half_of_a_date_is_wrong():
    dated = Question(id="q", question="When?", answers=["12 May 1990"], gold_ids=["g1"])
    assert gold_verification(dated, [G1], "On 14 May 1990 [1].")["judgement"] == "false"


@pytest.mark.parametrize(
    ("references", "response", "expected"),
    [
        ([G1, G2], RIGHT, {"reference_correctness": 1.0, "correctness": 1.0, "citation_accuracy": 1.0, "bias": 0.0,
                           "conciseness": 1.0, "judgement": "true"}),
        ([NOISE, G2], RIGHT, {"reference_correctness": 0.5, "citation_accuracy": 0.5, "judgement": "true"}),
        ([NOISE], "She was born in Paris [1].", {"reference_correctness": 0.0, "correctness": 0.0, "bias": 1.0,
                                                "citation_accuracy": 0.0, "judgement": "false"}),
        ([G1, G2], "She was born in Old Paris [2].", {"correctness": 0.5, "judgement": "unclear"}),
        ([G1, G2], "She was born in Old Varn.", {"correctness": 1.0, "citation_accuracy": 0.0}),
        ([G1], "She was born in Old Varn [7].", {"citation_accuracy": 0.0}),
        ([G1, G2], f"{REFUSAL}.", {"correctness": 0.0, "judgement": "unclear"}),
        ([G1, G2], "", {"correctness": 0.0, "conciseness": 0.0, "judgement": "unclear"}),
    ],
)  # fmt: skip
def test_scores_follow_from_gold(references, response, expected):
    verified = gold_verification(QUESTION, references, response)
    assert {name: verified[name] for name in expected} == expected


def test_yes_no_and_ungolded_questions():
    closed = Question(id="q", question="Is it?", answers=["yes"], gold_ids=["g1"])
    assert gold_verification(closed, [G1], "Yes, it is [1].")["correctness"] == 1.0
    assert gold_verification(closed, [G1], "No, it is not [1].")["correctness"] == 0.0
    assert gold_verification(closed.model_copy(update={"gold_ids": []}), [G1], "Yes.") is None
    assert gold_verification(closed, [G1], "Both are French [1].") is None
    assert gold_verification(closed, [G1], f"{REFUSAL}.")["judgement"] == "unclear"
    stated = Question(id="q", question="Who?", answers=["Ansa Merrow"])
    assert gold_verification(stated, [NOISE, G1], "Ansa Merrow [2].")["reference_correctness"] == 1.0
    assert gold_verification(stated.model_copy(update={"answers": []}), [G1], "x") is None


def test_an_answer_that_stands_in_the_question_proves_nothing():
    choice = Question(id="q", question="Who is older, Ansa Merrow or Bert Oyle?", answers=["Ansa Merrow"])
    assert gold_verification(choice, [G1], "Bert Oyle is older than Ansa Merrow.") is None
    assert gold_verification(choice.model_copy(update={"question": "Who is older?"}), [G1], "Ansa Merrow.") is not None


def test_strict_judgements_also_need_citations_and_brevity():
    wrong_marks = "She was born in Old Varn [1]."
    assert gold_verification(QUESTION, [NOISE, G2], wrong_marks)["judgement"] == "true"
    assert gold_verification(QUESTION, [NOISE, G2], wrong_marks, strict=True)["judgement"] == "false"
    assert gold_verification(QUESTION, [G1, G2], RIGHT, strict=True)["judgement"] == "true"


def test_the_revision_asks_for_what_the_references_lack():
    assert gold_revision(QUESTION, [G2]) == "Who is the harbour master of Quillon?"
    assert gold_revision(QUESTION, [G1, NOISE]) == "Where was Ansa Merrow born?"
    assert gold_revision(QUESTION, [G1, G2]) == "Where was Ansa Merrow born?"
    bare = QUESTION.model_copy(update={"sub_questions": []})
    assert gold_revision(bare, [G1]) == ""
    corpus = {each.id: PassageRecord(**each.model_dump()) for each in (G1, G2)}
    assert gold_revision(bare, [G1], corpus) == "Who or what is Ansa Merrow?"


@given(st.lists(st.sampled_from(["Ansa", "Merrow", "was", "born", "[1]", "Varn.", "Old", "[2][3]"]), max_size=30))
def test_every_score_is_in_range_whatever_the_response(words):
    verified = gold_verification(QUESTION, [G1, NOISE], " ".join(words))
    assert all(0 <= verified[name] <= 1 for name in SCORES)
    assert verified["judgement"] in ("true", "false", "unclear")


@given(st.integers(0, 10_000))
def test_repetition_makes_a_response_less_concise_and_no_less_right(seed):
    repeated = with_repetition(RIGHT, random.Random(seed))
    assert len(repeated) > len(RIGHT)
    assert conciseness(repeated) < conciseness(RIGHT)
    assert gold_verification(QUESTION, [G1, G2], repeated)["correctness"] == 1.0


@given(st.integers(0, 10_000))
def test_wrong_citations_keep_the_words_and_cite_nothing_cited_before(seed):
    changed = with_wrong_citations(RIGHT, 5, random.Random(seed))
    assert strip_citations(changed) == strip_citations(RIGHT)
    assert set(citation_numbers(changed)) <= {3, 4, 5}
    assert citation_numbers(changed)


def test_wrong_citations_where_there_are_none_or_no_others():
    rng = random.Random(0)
    assert citation_numbers(with_wrong_citations("Plain text.", 2, rng))
    assert with_wrong_citations("All are cited [1][2].", 2, rng) is None
    assert with_wrong_citations("[1]", 5, rng) is None
    assert with_wrong_citations("Old Varn [1][2] it is.", 3, rng) == "Old Varn [3] it is."


def test_wrong_references_neither_are_gold_nor_state_the_answer():
    stating = Passage(id="s", text="Some say Old Varn.")
    assert wrong_references([G1, stating, NOISE, G2], ["g1", "g2"], ["Old Varn"], 5) == [NOISE]


def test_an_incomplete_query_is_half_of_the_question():
    words = "Where was the harbour master born".split()
    halves = {incomplete_query(" ".join(words), random.Random(seed)) for seed in range(20)}
    assert halves == {"Where was the", "harbour master born"}
    assert incomplete_query("Why?", random.Random(0)) == "Why?"
