"""Answers scored by an LM: semantic accuracy, and hallucination as HalluQA defines it.

`judged_by` sets the judge's connection. Its calls are counted by the scorer's meter, never by the program's. Replies
are kept by the reply cache under the judge's model, so scoring the same answer again costs nothing.
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


class Judge(Protocol):
    """The part of a connection (`programs.lms.connect.Connection`) that a judge needs."""

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
        """How P(yes) is computed with this LM; "logprobs" uses log-probabilities."""
        ...


_current: contextvars.ContextVar[Judge | None] = contextvars.ContextVar("verihop_judge", default=None)


@contextlib.contextmanager
def judged_by(judge: Judge | None) -> Iterator[None]:
    """Use `judge` for the judged metrics inside the block and in threads that copy its context; None for no judge."""
    token = _current.set(judge)
    try:
        yield
    finally:
        _current.reset(token)


def _judge() -> Judge:
    judge = _current.get()
    if judge is None:
        raise UserError(
            "A judged metric (acc[judge], hallucination[halluqa]) asks an LM: score it inside `judged_by(judge)`."
        )
    return judge


def answer_match(example: Any, prediction: Any) -> float | None:
    """Return the share in [0, 1] of runs in which the judge says that the answer implies a gold.

    Returns:
        0.0 for an empty answer, without a call; None without golds.

    Raises:
        UserError: There is no judge (`judged_by`), or it cannot be reached.
    """
    from signatures.judging import JudgeAnswerMatch

    verdicts = _verdicts(JudgeAnswerMatch, RUNS, example, answer_of(prediction), golds_field="gold_answers")
    if not verdicts:
        return None if verdicts is None else 0.0
    return sum(verdict is True for verdict in verdicts) / len(verdicts)


def hallucination(example: Any, prediction: Any) -> float | None:
    """Return 1.0 if the judge says that the response hallucinates, else 0.0.

    Returns:
        1.0 for an empty response, without a call; None without golds.

    Raises:
        UserError: There is no judge (`judged_by`), or it cannot be reached.
    """
    from signatures.judging import JudgeHallucination

    verdicts = _verdicts(JudgeHallucination, VOTES, example, response_of(prediction), golds_field="correct_answers")
    if not verdicts:
        return None if verdicts is None else 1.0
    return float(2 * sum(verdict is False for verdict in verdicts) <= len(verdicts))


def _verdicts(
    signature: "type[dspy.Signature]", runs: int, example: Any, text: str, *, golds_field: str
) -> list[bool | None] | None:
    """Return the verdict of each run; None for an unparseable one, which is recorded as a parse failure.

    Returns:
        An empty list for a blank text, without a call; None without golds.
    """
    judge, golds = _judge(), golds_of(example)
    if not golds:
        return None
    if not text.strip():
        return []
    return _ask(judge, signature, runs, {"question": question_of(example), "prediction": text, golds_field: golds})


def _ask(judge: Judge, signature: "type[dspy.Signature]", runs: int, inputs: dict[str, Any]) -> list[bool | None]:
    """Ask once by P(yes) or at temperature 0, else `runs` times; the calls of a question run in parallel."""
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
        return fanout([lambda config=config: _by_reply(predict, config, inputs) for config in configs])  # type: ignore[misc]


def _by_probability(predict: "dspy.Predict", inputs: dict[str, Any]) -> bool | None:
    from dspy.utils.exceptions import LMError

    from programs.parts.meter import record
    from programs.parts.probability import probability

    try:
        p_yes = probability(predict, **inputs)
    except LMError:  # such as a prompt that is too long: this verdict is missing, the others continue
        record(parse_failures=1)
        return None
    return None if p_yes is None else p_yes.value >= 0.5


def _by_reply(predict: "dspy.Predict", config: dict[str, Any], inputs: dict[str, Any]) -> bool | None:
    from dspy.utils.exceptions import LMError

    from programs.parts.meter import record
    from programs.parts.predict import try_predict

    try:
        reply = try_predict(predict, config=config, **inputs)
    except LMError:
        record(parse_failures=1)
        return None
    return None if reply is None else bool(reply[next(iter(predict.signature.output_fields))])
