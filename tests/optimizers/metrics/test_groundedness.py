import json

import dspy
import pytest

from optimizers.metrics.catalog import METRICS, ORACLE_METRICS
from optimizers.metrics.citations import statements
from optimizers.metrics.entailment.catalog import open_oracle
from optimizers.metrics.entailment.oracle import Agreement, Passed, SetAgreement
from optimizers.metrics.groundedness import with_oracle
from signatures.common.errors import UserError
from signatures.types import Passage


class Copying:
    """Entails a hypothesis that is in the premise word for word."""

    name, fingerprint, threshold = "copying", "copying", 0.5
    agreement = Agreement({"Nowhere": SetAgreement(0.61, 0.5, 0.7, 0.55, 0.1, 40)}, {"negation": Passed(4, 5)})

    def __init__(self):
        self.calls = []

    def __call__(self, pairs):
        self.calls.append(list(pairs))
        return [float(hypothesis.rstrip(".") in premise) for premise, hypothesis in pairs]


CITATION_METRICS = ("citation_precision", "citation_recall", "uncited", "unread_marks")  # they need no oracle
EXAMPLE = dspy.Example(
    question="?", gold_ids=["lake", "ansa"], key_facts=["The lake is deep.", "Ansa swam."]
).with_inputs("question")
SAID = dspy.Prediction(
    answer="deep",
    response="The lake is deep [1]. It rained [3].",
    passages=[
        Passage(id="lake", title="Lake", text="The lake is deep."),
        Passage(id="x", text="Fog."),
        Passage(id="y", text="Sun."),
    ],
)
EXPECTED = {
    "keyfacts_recall": 0.5,
    "keyfacts_precision": 0.5,
    "keyfacts_f1": 0.5,
    "sc[cited]": 0.5,
    "sc[strict]": 0.5,
    "citation_recall[alce]": 0.5,
    "citation_precision[alce]": 0.5,
}


def test_metrics_of_an_oracle_score_a_question_and_print_its_agreement() -> None:
    made = with_oracle(Copying(), EXPECTED)
    assert {metric.name: metric(EXAMPLE, SAID) for metric in made} == EXPECTED
    for metric in made:
        assert "copying (agreement with people: AUC 0.61 [0.50, 0.70]" in metric.definition
        assert metric.definition.endswith(
            "kappa 0.10 on 40 unseen pairs of Nowhere). Contradictions pass as entailed: negation 4 of 5."
        )
        assert metric.source.startswith(("https://", '"How Credible', "defined by verihop"))
        assert metric.higher_is_better


def test_other_weights_of_the_same_name_are_another_definition() -> None:
    other = Copying()
    other.fingerprint = "copying:2"
    (first,), (second,) = with_oracle(Copying(), ["sc[cited]"]), with_oracle(other, ["sc[cited]"])
    assert first.definition != second.definition


def test_one_metric_asks_only_for_its_own_pairs() -> None:
    oracle = Copying()
    (recall,) = with_oracle(oracle, ["keyfacts_recall"])
    assert recall(EXAMPLE, SAID) == 0.5
    assert (recall(EXAMPLE, dspy.Prediction()), recall(dspy.Example(), SAID)) == (0.0, None)
    assert {hypothesis for _, hypothesis in oracle.calls[0]} == set(EXAMPLE.key_facts)
    with pytest.raises(UserError, match=r"Unknown metric of an entailment oracle 'em'. .*sc\[strict\]"):
        with_oracle(oracle, ["em"])


def test_citation_metrics_are_in_the_catalog() -> None:
    assert {name: METRICS[name](EXAMPLE, SAID) for name in CITATION_METRICS} == {
        "citation_precision": 0.5,
        "citation_recall": 0.5,
        "uncited": 0.0,
        "unread_marks": 0.0,
    }


@pytest.mark.parametrize(
    "response",
    [
        "",
        "x " * 2000,
        "A sentence [1]. " * 200,
        "هل باريس عاصمة فرنسا؟ نعم [1]. \u202e[2]",
        "[0] [99999999] []",
        "[" + "9" * 5000 + "]",
        "Half a character \ud83d [1].",
        "[1].[2].[3]",
    ],
)
def test_bad_input_has_defined_values(response: str) -> None:
    said = dspy.Prediction(response=response, passages=SAID.passages)
    for metric in with_oracle(open_oracle("lexical")):
        for example in (EXAMPLE, dspy.Example(question="?", key_facts=None)):
            value = metric(example, said)
            assert value is None or 0 <= value <= 1
    for name in CITATION_METRICS:
        assert METRICS[name](EXAMPLE, said) in (0.0, 1 / 3, 0.5, 1.0)


@pytest.mark.slow
def test_real_answers_with_real_marks_are_all_scored(shared_data) -> None:
    rows, cited = [], 0
    for line in (shared_data / "citations" / "expertqa_rand_val.jsonl").read_text().splitlines():
        for answer in json.loads(line)["answers"].values():
            told = {text.split("]")[0][1:]: text for claim in answer["claims"] for text in claim["evidence"]}
            marks = [int(mark) for mark in told if mark.isdigit()]
            references = [
                Passage(id=str(number), text=told.get(str(number), ""))
                for number in range(1, max(marks, default=0) + 1)
            ]
            said = dspy.Prediction(response=answer["answer_string"], passages=references)
            facts = [claim["claim_string"] for claim in answer["claims"]]
            cited += any(one.marks for one in statements(answer["answer_string"]))
            rows.append((dspy.Example(key_facts=facts), said))
    scores = {each.name: [each(*row) for row in rows] for each in with_oracle(open_oracle("lexical"))}
    assert len(rows) == 217
    assert set(scores) == set(ORACLE_METRICS)
    assert sum(value is not None for value in scores["sc[cited]"]) == cited > 150
    assert all(value is not None for value in scores["citation_recall[alce]"])
    recalls = [value for value in scores["keyfacts_recall"] if value is not None]
    assert sum(recalls) / len(recalls) > 0.95  # the facts are sentences of the answers themselves
    assert 0.2 < sum(scores["sc[strict]"]) / 217 < 0.9
