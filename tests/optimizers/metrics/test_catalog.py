import dspy
import pytest

from optimizers.metrics.catalog import METRICS, get_metric, get_metrics
from optimizers.metrics.cost import COSTS
from signatures.errors import UserError
from signatures.types import Passage

EXAMPLE = dspy.Example(question="?", answers=["yes"], gold_ids=["a", "b"]).with_inputs("question")
PREDICTION = dspy.Prediction(
    answer="Yes, both are American", passages=[Passage(id="a", text="t"), Passage(id="x", text="t")], citations=["a"]
)


def test_every_name_is_the_name_of_its_metric_and_states_definition_and_source() -> None:
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.definition.endswith(".")
        assert metric.source.startswith("https://")
        assert metric.higher_is_better


def test_definitions_give_different_numbers_for_the_same_answer() -> None:
    assert get_metric("f1[hotpot]")(EXAMPLE, PREDICTION) == 0.0
    assert get_metric("f1[squad]")(EXAMPLE, PREDICTION) == pytest.approx(0.4)
    assert get_metric("precision[squad]")(EXAMPLE, PREDICTION) == 0.25
    assert get_metric("recall[musique]")(EXAMPLE, PREDICTION) == 1.0
    assert get_metric("em")(EXAMPLE, PREDICTION) == 0.0
    assert get_metric("acc[substring]")(EXAMPLE, PREDICTION) == 1.0


def test_retrieval_metrics_read_ids_of_passages() -> None:
    assert get_metric("recall@2")(EXAMPLE, PREDICTION) == 0.5
    assert get_metric("all_gold@2")(EXAMPLE, PREDICTION) == 0.0
    assert get_metric("support_f1")(EXAMPLE, PREDICTION) == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", METRICS)
def test_without_gold_every_metric_is_undefined_and_without_prediction_it_is_zero(name: str) -> None:
    assert METRICS[name](dspy.Example(question="?"), PREDICTION) is None
    assert METRICS[name](EXAMPLE, dspy.Prediction()) == 0.0


def test_an_unknown_metric_is_refused_with_the_names() -> None:
    with pytest.raises(UserError, match=r"Unknown metric 'f1'. Choose from: .*f1\[hotpot\]"):
        get_metric("f1")


def test_a_metric_named_twice_is_computed_once() -> None:
    assert [metric.name for metric in get_metrics(["em", "f1[squad]", "em"])] == ["em", "f1[squad]"]


def test_cached_calls_are_counted_in_calls_and_left_out_of_paid_calls() -> None:
    row = {"calls": 5, "cached_calls": 2, "prompt_tokens": 30, "completion_tokens": 6, "cached_tokens": 24, "rounds": 3}
    costs = {name: cost.function({**row, "seconds": 1.5}) for name, cost in COSTS.items()}
    assert costs == {"lm_calls": 5, "paid_calls": 3, "tokens": 60, "paid_tokens": 36, "rounds": 3, "seconds": 1.5}
