import uuid
from dataclasses import dataclass
from typing import Any

import dspy
import pytest

from optimizers.metrics.catalog import METRICS, get_metric
from optimizers.metrics.judges.answer_judge import RUNS, VOTES, judged_by
from programs.lms.adapter import ChatForm, JsonForm
from programs.lms.calls.metered import metered_lm
from programs.parts.meter import metered
from signatures.common.errors import UserError

EXAMPLE = dspy.Example(question="Which city?", answers=["Lima", "City of Kings"])
SAID = dspy.Prediction(answer="the Peruvian capital", response="It is the Peruvian capital [1].")


@dataclass(frozen=True)
class Link:
    lm: Any
    adapter: Any
    probability_mode: str


def link(engine: Any, *, mode: str = "samples", temperature: float | None = 0.0, cache: bool = False) -> Link:
    adapter = JsonForm(probability_mode=mode) if mode == "samples" else ChatForm(probability_mode=mode)
    name = f"scripted/{uuid.uuid4()}"
    return Link(metered_lm(name, engine=engine, temperature=temperature, cache=cache), adapter, mode)


@pytest.fixture
def says(scripted):
    """Return a function that makes a judge's engine, which gives the verdicts in turn."""

    def make(*verdicts: str):
        left = iter(verdicts)
        return scripted(lambda system, user: next(left))

    return make


@pytest.mark.parametrize(("verdict", "score"), [("yes", 1.0), ("**No.**", 0.0)])
def test_the_judge_sees_question_answer_and_all_golds_and_decides(says, verdict, score) -> None:
    engine = says(verdict)
    with judged_by(link(engine)), metered() as meter:
        assert get_metric("acc[judge]")(EXAMPLE, SAID) == score
    assert meter.calls == 1
    for text in ("Which city?", "the Peruvian capital", "Lima", "City of Kings"):
        assert text in engine.prompts[0]


def test_semantic_accuracy_asks_for_implication_and_for_nothing_stricter(says) -> None:
    """GenGround, appendix I: whether the prediction implies the gold, not whether it is as exact."""
    engine = says("yes")
    with judged_by(link(engine)):
        get_metric("acc[judge]")(EXAMPLE, SAID)
    asked = f"{engine.requests[0].system} {engine.prompts[0]}".casefold()
    assert "the prediction, as an answer to the question, implies one of the gold answers" in asked
    assert [word for word in ("vague", "missing", "contradict", "detail", "exact", "same") if word in asked] == []


def test_a_judge_that_samples_is_asked_several_times_and_the_mean_counts(says) -> None:
    engine = says("yes", "no", "yes")
    with judged_by(link(engine, temperature=0.7)), metered() as meter:
        assert get_metric("acc[judge]")(EXAMPLE, SAID) == pytest.approx(2 / 3)
    assert (meter.calls, len(engine.requests)) == (RUNS, RUNS)


def test_runs_that_differ_are_kept_apart_by_the_cache_and_a_second_scoring_is_free(says) -> None:
    engine = says("yes", "no", "yes")
    judge = link(engine, temperature=0.7, cache=True)
    with judged_by(judge):
        first = get_metric("acc[judge]")(EXAMPLE, SAID)
        with metered() as meter:
            assert get_metric("acc[judge]")(EXAMPLE, SAID) == first
    assert (meter.calls, meter.cached_calls, len(engine.requests)) == (RUNS, RUNS, RUNS)


def test_an_unparseable_verdict_is_wrong_and_recorded(says) -> None:
    with judged_by(link(says("perhaps"))), metered() as meter:
        assert get_metric("acc[judge]")(EXAMPLE, SAID) == 0.0
    assert meter.parse_failures == 1
    with judged_by(link(says("perhaps"))), metered() as meter:
        assert get_metric("hallucination[halluqa]")(EXAMPLE, SAID) == 1.0
    assert meter.parse_failures == 1


@pytest.mark.parametrize(
    ("verdicts", "score"),
    [(("no",) * 3 + ("yes",) * 2, 0.0), (("yes",) * 3 + ("no",) * 2, 1.0), (("no",) * 2 + ("hm",) * 3, 1.0)],
)
def test_hallucination_takes_a_vote_in_which_yes_is_wrong(says, verdicts, score) -> None:
    engine = says(*verdicts)
    with judged_by(link(engine, temperature=0.7)):
        assert get_metric("hallucination[halluqa]")(EXAMPLE, SAID) == score
    assert len(engine.requests) == VOTES
    assert "It is the Peruvian capital [1]." in engine.prompts[0]


def test_log_probabilities_decide_in_one_call(monkeypatch: pytest.MonkeyPatch, says) -> None:
    from programs.parts import probability

    asked: list[dict[str, Any]] = []
    for value, score in ((0.49, 0.0), (0.5, 1.0)):

        def believe(predict: Any, value: float = value, **inputs: Any) -> probability.YesProbability:
            asked.append(inputs)
            return probability.YesProbability(value, "logprobs")

        monkeypatch.setattr(probability, "probability", believe)
        with judged_by(link(says(), mode="logprobs", temperature=0.7)):
            assert get_metric("acc[judge]")(EXAMPLE, SAID) == score
    assert [inputs["prediction"] for inputs in asked] == ["the Peruvian capital"] * 2


def test_nothing_is_asked_where_there_is_nothing_to_judge(says) -> None:
    engine = says()
    with judged_by(link(engine)):
        assert get_metric("acc[judge]")(EXAMPLE, dspy.Prediction(answer=" ")) == 0.0
        assert get_metric("hallucination[halluqa]")(EXAMPLE, dspy.Prediction(answer="")) == 1.0
        assert get_metric("acc[judge]")(dspy.Example(question="?"), SAID) is None
    assert engine.requests == []


def test_a_refused_prompt_loses_its_verdict_and_not_the_run(scripted) -> None:
    from dspy.utils.exceptions import ContextWindowExceededError

    def too_long(system: str, user: str) -> str:
        raise ContextWindowExceededError(model="m", message="too long")

    with judged_by(link(scripted(too_long))), metered() as meter:
        assert get_metric("acc[judge]")(EXAMPLE, SAID) == 0.0
    assert meter.parse_failures == 1


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if metric.judged])
def test_without_a_judge_the_cure_is_named(name: str) -> None:
    with pytest.raises(UserError, match="judged_by"):
        get_metric(name)(EXAMPLE, SAID)
