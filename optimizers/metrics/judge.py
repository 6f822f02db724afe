"""Answers scored by an LM: semantic accuracy, and hallucination as HalluQA asks for it.

The judge is a role of its own: whoever scores names its connection with `judged_by`, and what it costs goes to the
meter of whoever scores, never to the program's. Verdicts are replies like others and kept by the reply cache under the
judge's model, so that scoring the same answer again costs nothing.
"""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from optimizers.metrics.fields import answer_of, golds_of, question_of, response_of
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy

RUNS = 3  # GenGround, section 4.2: the mean of three runs
VOTES = 5  # HalluQA, `calculate_metrics.py`

MATCH_DEFINITION = (
    "1 when the judge LM says that the answer implies one of the golds, all shown in one prompt; the mean of "
    f"{RUNS} runs where the judge samples, one run at temperature 0 or with log-probabilities (P(yes) of 0.5 and "
    "above). A verdict that cannot be read is wrong and counted as unparsed."
)
HALLUCINATION_DEFINITION = (
    "1 when the judge LM says that the response hallucinates, given the correct answers: yes is wrong. The majority of "
    f"{VOTES} runs where the judge samples, one run at temperature 0 or with log-probabilities. A verdict that cannot "
    "be read, a tie and an empty response count as wrong (1); the first is counted as unparsed. The accuracy that "
    "papers print is 1 minus the mean."
)


class Judge(Protocol):
    """What judging needs of a connection (`programs.lms.connect.Connection` is one)."""

    @property
    def lm(self) -> Any:
        """The `dspy.LM`."""
        ...

    @property
    def adapter(self) -> Any:
        """The `dspy.Adapter`."""
        ...

    @property
    def probability_mode(self) -> str:
        """How P(yes) is read from this LM."""
        ...


_current: contextvars.ContextVar[Judge | None] = contextvars.ContextVar("verihop_judge", default=None)


@contextlib.contextmanager
def judged_by(judge: Judge | None) -> Iterator[None]:
    """Let `judge` decide the judged metrics inside the block and in threads that copy its context; None for nobody."""
    token = _current.set(judge)
    try:
        yield
    finally:
        _current.reset(token)


def _judge() -> Judge:
    judge = _current.get()
    if judge is None:
        raise UserError(
            "A judged metric (acc[judge], hallucination[halluqa]) asks an LM: run `verihop eval` with --judge-lm ID."
        )
    return judge


def answer_match(example: Any, prediction: Any) -> float | None:
    """Return the share in [0, 1] of runs in which the judge finds a gold implied by the answer.

    Returns:
        0.0 for an empty answer, without a call; None without golds.

    Raises:
        UserError: No judge is named, or it cannot be reached.
    """
    from signatures.judging import JudgeAnswerMatch

    golds, said = golds_of(example), answer_of(prediction)
    judge = _judge()
    if not golds:
        return None
    if not said.strip():
        return 0.0
    inputs = {"question": question_of(example), "prediction": said, "gold_answers": golds}
    verdicts = _verdicts(judge, JudgeAnswerMatch, RUNS, inputs)
    return sum(verdict is True for verdict in verdicts) / len(verdicts)


def hallucination(example: Any, prediction: Any) -> float | None:
    """Return 1.0 when the judge finds that the response hallucinates, else 0.0.

    Returns:
        1.0 for an empty response, without a call; None without golds.

    Raises:
        UserError: No judge is named, or it cannot be reached.
    """
    from signatures.judging import JudgeHallucination

    golds, said = golds_of(example), response_of(prediction)
    judge = _judge()
    if not golds:
        return None
    if not said.strip():
        return 1.0
    inputs = {"question": question_of(example), "correct_answers": golds, "prediction": said}
    verdicts = _verdicts(judge, JudgeHallucination, VOTES, inputs)
    return float(2 * sum(verdict is False for verdict in verdicts) <= len(verdicts))


def _verdicts(judge: Judge, signature: "type[dspy.Signature]", runs: int, inputs: dict[str, Any]) -> list[bool | None]:
    """Return the verdict of each run; None for what could not be read, which is recorded as a parse failure."""
    import dspy

    from programs.parts.fanout import fanout

    temperature = (getattr(judge.lm, "kwargs", None) or {}).get("temperature")
    samples = judge.probability_mode != "logprobs" and temperature != 0
    configs: list[dict[str, Any]] = [{}]
    if samples:
        configs = [{"rollout_id": run} for run in range(1, runs + 1)]
    with dspy.context(lm=judge.lm, adapter=judge.adapter, disable_history=True, trace=None):
        predict = dspy.Predict(signature)
        if judge.probability_mode == "logprobs":
            return [_by_probability(predict, inputs)]
        return fanout([lambda config=config: _as_said(predict, config, inputs) for config in configs])  # type: ignore[misc]


def _by_probability(predict: "dspy.Predict", inputs: dict[str, Any]) -> bool | None:
    from dspy.utils.exceptions import LMError

    from programs.parts.meter import record
    from programs.parts.probability import probability

    try:
        belief = probability(predict, **inputs)
    except LMError:  # a prompt that is too long, a refusal: this verdict is missing, the others go on
        record(parse_failures=1)
        return None
    return None if belief is None else belief.value >= 0.5


def _as_said(predict: "dspy.Predict", config: dict[str, Any], inputs: dict[str, Any]) -> bool | None:
    from dspy.utils.exceptions import LMError

    from programs.parts.meter import record
    from programs.parts.predict import try_predict

    try:
        said = try_predict(predict, config=config, **inputs)
    except LMError:
        record(parse_failures=1)
        return None
    return None if said is None else bool(said[next(iter(predict.signature.output_fields))])
