from types import SimpleNamespace

import dspy
import pytest

from optimizers.metrics.catalog import METRICS, get_metric
from optimizers.metrics.judges.answer_judge import judged_by
from optimizers.metrics.scoring import COSTS
from programs.parts.meter import metered
from signatures.common.errors import UserError
from signatures.types import Hop, Passage

NOBODY = SimpleNamespace(lm=None, adapter=None, probability_mode="samples")

EXAMPLE = dspy.Example(
    question="?",
    answers=["yes"],
    gold_ids=["a", "b"],
    gold_sentences=[("a", 0)],
    short_answers=[["1066"], ["London"]],
).with_inputs("question")
PREDICTION = dspy.Prediction(
    answer="Yes, both are American", passages=[Passage(id="a", text="t"), Passage(id="x", text="t")], citations=["a"]
)


def test_every_name_is_the_name_of_its_metric_and_states_definition_and_source() -> None:
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.definition.endswith(".")
        assert metric.source.startswith(("https://", '"How Credible', "defined by verihop"))
        assert metric.needs or name == "abstention", name
    assert [name for name, metric in METRICS.items() if not metric.higher_is_better] == [
        "abstention",
        "hallucination[halluqa]",
        "revision[failure]",
        "revision[error]",
        "uncited",
        "unread_marks",
    ]


def test_definitions_give_different_numbers_for_the_same_answer() -> None:
    assert get_metric("f1[hotpot]")(EXAMPLE, PREDICTION) == 0.0
    assert get_metric("f1[squad]")(EXAMPLE, PREDICTION) == pytest.approx(0.4)
    assert get_metric("precision[squad]")(EXAMPLE, PREDICTION) == 0.25
    assert get_metric("recall[musique]")(EXAMPLE, PREDICTION) == 1.0
    assert get_metric("em")(EXAMPLE, PREDICTION) == 0.0
    assert get_metric("acc[substring]")(EXAMPLE, PREDICTION) == 1.0


def test_retrieval_metrics_read_ids_of_passages() -> None:
    assert get_metric("passage_recall@2")(EXAMPLE, PREDICTION) == 0.5
    assert get_metric("all_gold@2")(EXAMPLE, PREDICTION) == 0.0
    assert get_metric("support_f1")(EXAMPLE, PREDICTION) == pytest.approx(2 / 3)


NEEDS_NO_GOLD = ("abstention", "uncited", "unread_marks")
NEEDS_A_NAME = ("answer_in_context@5", "answer_in_context@10", "multihop_trace[dspy]")  # undefined for yes and no
NEEDS_TITLES = ("passage_recall[title]@5", "passage_recall[title]@10")
NEEDS_HOPS = ("hop_hit@5",)
VERIFICATIONS = ("judgement[", "revised_question[", "form[", "references[", "revision[")
NEEDS_VERIFICATIONS = tuple(name for name in METRICS if name.startswith(VERIFICATIONS))


@pytest.mark.parametrize("name", [name for name in METRICS if name not in NEEDS_NO_GOLD])
def test_without_gold_every_metric_is_undefined_and_without_prediction_it_is_the_worst(name: str) -> None:
    metric = METRICS[name]
    with judged_by(NOBODY):  # neither case asks an LM
        assert metric(dspy.Example(question="?"), PREDICTION) is None
        example = EXAMPLE.copy(answers=["Paris"]) if name in NEEDS_A_NAME else EXAMPLE
        undefined = name in (*NEEDS_HOPS, *NEEDS_TITLES, *NEEDS_VERIFICATIONS)
        worst = None if undefined else 0.0 if metric.higher_is_better else 1.0
        assert metric(example, dspy.Prediction()) == worst


def test_odd_predictions_have_a_defined_value_everywhere() -> None:
    odd = [
        dspy.Prediction(answer=None, response=None, passages=None, citations=None, hops=None),
        dspy.Prediction(answer=1921, passages=[Passage(id="", text="")], citations=["z", "z"]),
        dspy.Prediction(answer="هل باريس عاصمة فرنسا؟ نعم", response="[9] [0] \u202e"),
        dspy.Prediction(answer="It is so. " * 1000, response="x " * 5000),
        dspy.Prediction(answer="\ud83d", hops=[Hop(question="q", answer="")]),
    ]
    for name, metric in METRICS.items():
        if metric.judged:
            continue
        for example in (EXAMPLE, EXAMPLE.copy(answers=["", None, "א"]), dspy.Example(question="?", answers=None)):
            for prediction in odd:
                value = metric(example, prediction)
                assert value is None or 0.0 <= value <= 1.0, name


def test_a_text_without_a_verdict_is_wrong_and_recorded_as_unparsed() -> None:
    metric = get_metric("acc[yes_no]")
    with metered() as meter:
        assert metric(EXAMPLE, dspy.Prediction(answer="That is moot.")) == 0.0
        assert metric(EXAMPLE, dspy.Prediction(answer="Both are. So the answer is yes.")) == 1.0
        assert metric(EXAMPLE, dspy.Prediction(answer="")) == 0.0  # an abstention, not a failure to read
    assert meter.parse_failures == 1
    assert metric(EXAMPLE.copy(answers=["Paris"]), PREDICTION) is None


def test_cover_metrics_of_long_answers_read_the_response() -> None:
    said = dspy.Prediction(answer="a city", response="It is Paris, the capital [1].")
    example = EXAMPLE.copy(answers=["PARIS the capital"])
    assert get_metric("acc[labels]")(example, said) == 1.0
    assert get_metric("acc[raw]")(example, said) == 0.0
    assert get_metric("acc[substring]")(example, said) == 0.0


def test_titles_hops_and_answer_strings_are_other_numbers_than_recall() -> None:
    example = EXAMPLE.copy(answers=["Lima"], gold_ids=["lima-0123456789ab", "peru-0123456789ab"])
    passages = [
        Passage(id="lima-ffffffffffff", title="Lima", text="A port."),
        Passage(id="x", title="Chile", text="Lima is far."),
        Passage(id="peru-0123456789ab", title="Peru", text="Its capital."),
    ]
    hops = [
        Hop(question="a", answer="", passage_ids=["lima-ffffffffffff", "x"]),
        Hop(question="b", answer="", passage_ids=["peru-0123456789ab"]),
        Hop(question="c", answer="from memory"),
    ]
    said = dspy.Prediction(answer="", passages=passages, hops=hops)
    values = {name: get_metric(name)(example, said) for name in METRICS if not METRICS[name].judged}
    assert values["passage_recall@2"] == 0.0
    assert values["passage_recall@5"] == values["passage_recall[all]"] == values["passage_recall[hops]@5"] == 0.5
    assert values["passage_recall[title]@5"] == 1.0
    assert values["mrr@10"] == pytest.approx(1 / 3)
    assert values["hop_hit@5"] == 0.5
    assert values["answer_in_context@5"] == 1.0
    titled = EXAMPLE.copy(gold_titles=["Chile", "Bolivia"])
    assert get_metric("passage_recall[title]@5")(titled, said) == 0.5
    unknown = EXAMPLE.copy(gold_ids=["p7", "peru-0123456789ab"])  # the article of p7 is unknown
    assert get_metric("passage_recall[title]@5")(unknown, said) is None


def test_recall_over_annotators_takes_all_their_sets_and_else_the_gold_ids() -> None:
    read = dspy.Prediction(passages=[Passage(id="a", text="A.")])
    metric = get_metric("passage_recall[annotator]@10")
    assert metric(dspy.Example(gold_ids=["b"], gold_alternatives=[["b"], ["a"], []]), read) == 1.0
    assert metric(dspy.Example(gold_ids=["a", "b"]), read) == 0.5


def test_an_unknown_metric_is_refused_with_the_names() -> None:
    with pytest.raises(UserError, match=r"Unknown metric 'f1'. Choose from: .*f1\[hotpot\]"):
        get_metric("f1")


def test_cached_calls_count_as_calls_but_not_as_paid_calls() -> None:
    row = {"calls": 5, "cached_calls": 2, "prompt_tokens": 30, "completion_tokens": 6, "cached_tokens": 24, "rounds": 3}
    costs = {name: cost.function({**row, "seconds": 1.5}) for name, cost in COSTS.items()}
    assert costs == {"lm_calls": 5, "paid_calls": 3, "tokens": 60, "paid_tokens": 36, "rounds": 3, "seconds": 1.5}
