"""HotpotQA's sp_* and joint_*, MuSiQue's support F1 and ASQA's str_em, computed by hand."""

import dspy
import pytest

from optimizers.metrics.catalog import METRICS
from optimizers.metrics.evidence.context import predicted_facts
from signatures.types import Hop, Passage

EXAMPLE = dspy.Example(question="?", answers=["Albert Einstein"], gold_sentences=[("p", 0), ("p", 2), ("q", 1)])


def values(prefix, example, prediction):
    return {
        name.removeprefix(prefix): METRICS[name](example, prediction) for name in METRICS if name.startswith(prefix)
    }


def test_facts_are_compared_as_sets():
    said = dspy.Prediction(answer="Einstein", supporting_facts=[("p", 0), ["p", 0], ("q", 1), ("q", 7), ("r", 0)])
    assert values("sp_", EXAMPLE, said) == {
        "em": 0.0, "f1": pytest.approx(2 * 0.5 * (2 / 3) / (0.5 + 2 / 3)), "precision": 0.5, "recall": 2 / 3
    }  # fmt: skip
    # The answer has precision 1 and recall 1/2.
    joint = {"em": 0.0, "f1": pytest.approx(2 * 0.5 * (1 / 3) / (0.5 + 1 / 3)), "precision": 0.5, "recall": 1 / 3}
    assert values("joint_", EXAMPLE, said) == joint


def test_all_right_is_1_and_nothing_predicted_0():
    right = dspy.Prediction(answer="albert einstein", supporting_facts=EXAMPLE.gold_sentences)
    assert set(values("sp_", EXAMPLE, right).values()) == set(values("joint_", EXAMPLE, right).values()) == {1.0}
    nothing = dspy.Prediction(answer="Albert Einstein", supporting_facts=[])
    assert set(values("sp_", EXAMPLE, nothing).values()) == set(values("joint_", EXAMPLE, nothing).values()) == {0.0}


def test_without_gold_sentences_they_are_undefined_and_joint_without_answers():
    said = dspy.Prediction(answer="x", supporting_facts=[("p", 0)])
    assert set(values("sp_", dspy.Example(answers=["x"]), said).values()) == {None}
    assert set(values("joint_", dspy.Example(gold_sentences=[("p", 0)]), said).values()) == {None}


class Split(Passage):
    sentences: list[str]


def test_a_quote_of_a_hop_predicts_the_sentences_it_touches():
    text = ["Ada was born in 1815.", " She wrote, e.g. notes.", " She died in London."]
    passage = Split(id="p", text="".join(text), sentences=text)
    other = Passage(id="q", text="Ada was born in 1815. So it is.")
    hops = [
        Hop(question="a", answer="", evidence="wrote, e.g. notes. She died", passage_ids=["p"]),
        Hop(question="b", answer="", evidence="so it IS", passage_ids=["q"]),
        Hop(question="c", answer="", evidence="nowhere to be found", passage_ids=["p", "q"]),
        Hop(question="d", answer="", evidence="Ada was born", passage_ids=["gone"]),
        Hop(question="e", answer="", passage_ids=["p"]),
    ]
    assert predicted_facts(dspy.Prediction(hops=hops, passages=[passage, other])) == {("p", 1), ("p", 2), ("q", 1)}


def test_a_quote_is_found_word_by_word():
    passage = Split(id="p", text="", sentences=["The art of war.", "War."])
    hop = Hop(question="a", answer="", evidence="ar", passage_ids=["p"])
    assert predicted_facts(dspy.Prediction(hops=[hop], passages=[passage])) == set()


def test_support_f1_of_musique_leaves_unanswerable_questions_out():
    example = dspy.Example(question="?", gold_ids=["a", "b"])
    said = dspy.Prediction(answer="x", citations=["a", "c", "a"])
    assert METRICS["support_f1[musique]"](example, said) == pytest.approx(0.5)
    assert METRICS["support_f1[musique]"](example.copy(answerable=False), said) is None
    assert METRICS["support_f1[musique]"](example.copy(answerable=True), said) == pytest.approx(0.5)


@pytest.mark.parametrize("form", ["qa_pairs", "short_answers"])
def test_str_em_is_the_share_of_parts_with_a_short_answer_in_the_response(form):
    parts = [["Jack Swigert", "Swigert"], ["1970 [1]", "in 1970"], ["the moon"], []]
    gold = [{"question": "?", "short_answers": part} for part in parts] if form == "qa_pairs" else parts
    example = dspy.Example(question="?", **{form: gold})
    said = dspy.Prediction(answer="1970", response="SWIGERT flew to Moon [2], in [3] 1970.")
    assert METRICS["str_em"](example, said) == 1.0
    assert METRICS["str_hit"](example, said) == 1.0
    less = dspy.Prediction(answer="1970", response="Swigert flew.")
    assert METRICS["str_em"](example, less) == pytest.approx(1 / 3)
    assert METRICS["str_hit"](example, less) == 0.0
    assert METRICS["str_em"](dspy.Example(question="?", answers=["1970"]), said) is None
