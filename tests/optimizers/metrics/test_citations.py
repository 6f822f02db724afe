import itertools

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.metrics import citations
from optimizers.metrics.citations import Statement, cited_ids, references_of, statements
from signatures.types import Passage

LAKE = Passage(id="lake", title="Lake", text="The lake is deep.")
ANSA = Passage(id="ansa", title="Ansa", text="Ansa swam there.")
FOG = Passage(id="fog", text="Fog is thick.")
REFERENCES = [LAKE, ANSA, FOG]


def says(premise: str, hypothesis: str) -> bool:
    """Whether every word of the hypothesis is in the premise."""
    return set(hypothesis.casefold().rstrip(".").split()) <= set(premise.casefold().replace(".", " ").split())


def test_marks_stay_with_the_sentence_before_them() -> None:
    assert statements("The lake is deep.[1][2] Ansa swam there [2, 7]. It rained.") == [
        Statement("The lake is deep.", (1, 2)),
        Statement("Ansa swam there.", (2, 7)),
        Statement("It rained.", ()),
    ]
    assert statements("") == statements("[1]") == statements("...") == []


def test_marks_on_a_line_of_their_own_belong_to_the_sentence_before() -> None:
    assert statements("The lake is deep.\n\n[2]\n[1]") == [Statement("The lake is deep.", (2, 1))]


def test_references_are_the_passages_unless_the_details_name_them() -> None:
    said = dspy.Prediction(response="x [1].", passages=REFERENCES)
    assert references_of(said) == REFERENCES
    said.details = {"references": ["fog", "gone", "lake"]}
    assert [(one.id, one.text) for one in references_of(said)] == [
        ("fog", FOG.text),
        ("gone", ""),
        ("lake", LAKE.text),
    ]
    said.details = {"references": []}
    assert references_of(said) == []
    assert references_of(dspy.Prediction()) == []


def test_cited_are_the_passages_behind_the_marks_and_the_marks_behind_which_there_is_none() -> None:
    said = dspy.Prediction(response="A [2]. B [9][2]. C [0].", passages=REFERENCES, citations=["lake"])
    assert cited_ids(said) == ["ansa", "[9]", "[0]"]
    assert cited_ids(dspy.Prediction(answer="Ansa", citations=["lake", "lake"], passages=REFERENCES)) == ["lake"]
    assert cited_ids(dspy.Prediction()) == []


def test_precision_and_recall_are_of_sets_of_ids() -> None:
    assert citations.precision(["a", "b", "[9]"], ["a", "c"]) == pytest.approx(1 / 3)
    assert citations.recall(["a", "b", "[9]"], ["a", "c"]) == 0.5
    assert citations.precision([], ["a"]) == citations.recall([], ["a"]) == 0.0
    assert citations.precision(["a"], []) is citations.recall(["a"], []) is None
    for function, arguments in itertools.product((citations.precision, citations.recall), (("a", ["a"]), (["a"], "a"))):
        with pytest.raises(TypeError, match="must be a list"):
            function(*arguments)


def test_self_consistency_is_over_cited_sentences_and_strictly_over_all() -> None:
    response = "The lake is deep [1]. Ansa swam there [3]. It rained."
    assert citations.self_consistency(response, REFERENCES, says) == 0.5
    assert citations.strict_self_consistency(response, REFERENCES, says) == pytest.approx(1 / 3)


def test_passages_are_joined_in_the_order_of_their_numbers_with_their_titles() -> None:
    asked = citations.pairs("The lake is deep [3][1].", REFERENCES)
    assert asked[0] == ("Title: Lake\nThe lake is deep.\nFog is thick.", "The lake is deep.")
    assert asked[1] == ("Fog is thick.\nTitle: Lake\nThe lake is deep.", "The lake is deep.")  # ALCE: as cited


def test_a_mark_beyond_the_references_is_ignored_where_others_hold_and_fatal_in_the_strict_forms() -> None:
    response = "The lake is deep [1][8]."
    assert citations.self_consistency(response, REFERENCES, says) == 1.0
    assert citations.strict_self_consistency(response, REFERENCES, says) == 0.0
    assert citations.alce_recall(response, REFERENCES, says) == 0.0
    assert citations.alce_precision(response, REFERENCES, says) == 0.0
    assert citations.self_consistency("The lake is deep [8].", REFERENCES, says) == 0.0


def test_alce_recall_needs_the_joint_support_of_the_first_three() -> None:
    both = "Lake deep ansa swam [1][2]."
    assert citations.alce_recall(both, REFERENCES, says) == 1.0
    four = [FOG, Passage(id="f2", text="Fog."), Passage(id="f3", text="Fog."), LAKE]
    fourth = "The lake is deep [1][2][3][4]."
    assert citations.alce_recall(fourth, four, says) == 0.0
    assert citations.strict_self_consistency(fourth, four, says) == 1.0


def test_alce_precision_counts_citations_that_their_sentence_needs() -> None:
    assert citations.alce_precision("Lake deep ansa swam [1][2].", REFERENCES, says) == 1.0  # only together
    assert citations.alce_precision("The lake is deep [1][3].", REFERENCES, says) == 0.5  # [3] is not needed
    twice = [LAKE, LAKE.model_copy(update={"id": "again"})]
    assert citations.alce_precision("The lake is deep [1][2].", twice, says) == 1.0  # each alone suffices
    assert citations.alce_precision("The lake is deep [3]. The lake is deep [1].", REFERENCES, says) == 0.5
    assert citations.alce_precision("The lake is deep [1]. Ansa swam [9].", REFERENCES, says) == 1.0  # skipped


def test_empty_and_uncited_responses_have_defined_values() -> None:
    for response in ("", "[1]"):
        assert citations.self_consistency(response, REFERENCES, says) is None
        assert citations.strict_self_consistency(response, REFERENCES, says) == 0.0
        assert citations.alce_recall(response, REFERENCES, says) is None
        assert citations.alce_precision(response, REFERENCES, says) is None
    assert citations.self_consistency("It rained.", REFERENCES, says) is None
    assert citations.alce_recall("It rained.", [], says) == citations.alce_precision("It rained.", [], says) == 0.0
    assert citations.uncited(None, dspy.Prediction(response="It rained.", answer="rain")) == 1.0
    assert citations.uncited(None, dspy.Prediction(response="It rained [4].")) == 0.0


WORDS = st.sampled_from(
    ["The lake is deep.", "It rained", "[1]", "[2][3]", "[9]", "[1, 2]", "[]", "!", "\n", "كان.", "。"]
)


@given(st.lists(WORDS, max_size=8).map(" ".join), st.integers(0, 3))
def test_every_verdict_asked_for_is_among_the_pairs_and_every_value_is_a_share(response: str, n: int) -> None:
    known = set(citations.pairs(response, REFERENCES[:n]))

    def entails(premise: str, hypothesis: str) -> bool:
        assert (premise, hypothesis) in known
        return says(premise, hypothesis)

    for function in (
        citations.self_consistency,
        citations.strict_self_consistency,
        citations.alce_recall,
        citations.alce_precision,
    ):
        value = function(response, REFERENCES[:n], entails)
        assert value is None or 0 <= value <= 1


def test_brackets_that_cannot_be_read_are_counted_and_cite_nothing() -> None:
    prediction = dspy.Prediction(
        response="It rose [Passage 1]. It fell 【2†source】 in [1990].", passages=[], citations=[]
    )
    assert citations.unread_share(None, prediction) == 1.0
    assert citations.uncited(None, prediction) == 1.0
    assert citations.unread_share(None, dspy.Prediction(response="It rose [1-2][3][Passage 1].", passages=[])) == 1 / 3
    assert citations.unread_share(None, dspy.Prediction(response="It rose in [1990].", passages=[])) == 0.0


def test_definitions_name_the_marks_that_are_read():
    from optimizers.metrics.catalog import METRICS
    from signatures.citation_marks import citation_numbers

    for name in ("uncited", "citation_precision", "citation_recall"):
        marks = METRICS[name].definition.partition("A mark is a bracket of numbers: ")[2]
        assert citation_numbers(marks) == [1, 2, 3]
