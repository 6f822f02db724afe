"""Answers scored by an LM: semantic accuracy, hallucination as HalluQA defines it, and CoV-RAG's criteria as numbers.

`judged_by` sets the judge's connection. Its calls are counted by the scorer's meter, never by the program's. Replies
are kept by the reply cache under the judge's model, so scoring the same answer again costs nothing.

CoV-RAG's are ranks, high-quality rates, and scores of verifications and revisions (He et al., "Retrieving, Rethinking
and Revising", EMNLP Findings 2024, sections 4.2 and 4.3, tables 3, 4 and 6, https://arxiv.org/abs/2410.05801). Bias is
how far an answer departs from the examiner's own answer, which does not rely on the references; 0 is best.
"""

import contextlib
import contextvars
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from optimizers.metrics.answer import cover_substring, findable
from optimizers.metrics.fields import answer_of, golds_of, question_of, response_of
from optimizers.metrics.metric import Metric, Need
from signatures.common.context import set_within
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy

RUNS = 3  # GenGround, section 4.2: the mean of three runs
VOTES = 5  # HalluQA, `calculate_metrics.py`


class Judge(Protocol):
    """What a judge needs of a connection (`programs.lms.connect.Connection` is one)."""

    @property
    def lm(self) -> Any:
        """The `dspy.LM`."""

    @property
    def adapter(self) -> Any:
        """The `dspy.Adapter`."""

    @property
    def probability_mode(self) -> str:
        """How P(yes) is computed with this LM; "logprobs" uses log-probabilities."""


_current: contextvars.ContextVar[Judge | None] = contextvars.ContextVar("verihop_judge", default=None)


def judged_by(judge: Judge | None) -> contextlib.AbstractContextManager[object]:
    """Use `judge` for the judged metrics inside the block and in threads that copy its context; None for no judge."""
    return set_within(_current, judge)


def _judge() -> Judge:
    judge = _current.get()
    if judge is None:
        raise UserError(
            "A judged metric (acc[judge], hallucination[halluqa]) asks an LM: score it inside `judged_by(judge)`."
        )
    return judge


def asking_judge() -> contextlib.AbstractContextManager[object]:
    """Let the LM calls inside the block be the judge's.

    Raises:
        UserError: There is none (`judged_by`).
    """
    import dspy

    judge = _judge()
    context: contextlib.AbstractContextManager[object] = dspy.context(
        lm=judge.lm, adapter=judge.adapter, disable_history=True, trace=None
    )
    return context


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

    from programs.parts.threads import fanout

    temperature = (getattr(judge.lm, "kwargs", None) or {}).get("temperature")
    samples = judge.probability_mode != "logprobs" and temperature != 0
    configs: list[dict[str, Any]] = [{}]
    if samples:
        configs = [{"rollout_id": run} for run in range(1, runs + 1)]
    with asking_judge():
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
    from programs.parts.prediction import try_predict

    try:
        reply = try_predict(predict, config=config, **inputs)
    except LMError:
        record(parse_failures=1)
        return None
    return None if reply is None else bool(reply[next(iter(predict.signature.output_fields))])


_GENGROUND = "https://arxiv.org/abs/2406.14891"

JUDGED_METRICS = (
    Metric(
        "acc[judge]",
        "1 when the judge LM says that the answer implies one of the golds, all shown in one prompt; the mean of "
        f"{RUNS} runs where the judge samples, one run at temperature 0 or with log-probabilities (P(yes) of 0.5 and "
        "above). A verdict that cannot be read is wrong and counted as unparsed.",
        answer_match,
        _GENGROUND,
        judge_calls=RUNS,
        needs=(Need.ANSWERS, Need.JUDGE),
    ),
    Metric(
        "hallucination[halluqa]",
        "1 when the judge LM says that the response hallucinates, given the correct answers: yes is wrong. The "
        f"majority of {VOTES} runs where the judge samples, one run at temperature 0 or with log-probabilities. A "
        "verdict that cannot be read, a tie and an empty response count as wrong (1); the first is counted as "
        "unparsed. The accuracy that papers print is 1 minus the mean.",
        hallucination,
        "https://github.com/OpenMOSS/HalluQA",
        higher_is_better=False,
        judge_calls=VOTES,
        needs=(Need.ANSWERS, Need.JUDGE),
    ),
)


CRITERIA = ("citation_accuracy", "correctness", "truthfulness", "bias", "conciseness")
LOWER_IS_BETTER = frozenset({"bias"})
_ALMOST = 1 - 1e-9

Scores = Mapping[str, float | None]
"""System -> its score in [0, 1] for one question and one criterion; None without a verdict of the judge."""


def ranks(scores: Scores, criterion: str) -> dict[str, int] | None:
    """Return the rank of each system on one question, 1 is best; None if a verdict is missing.

    Equal scores share the best of their ranks, as the sums of the paper's Table 3 show. A missing verdict excludes the
    question for all systems, so that all are averaged over the same questions.
    """
    values = [value for value in scores.values() if value is not None]
    if len(values) < len(scores):
        return None
    order = values if criterion in LOWER_IS_BETTER else [-value for value in values]
    return {name: 1 + sum(other < own for other in order) for name, own in zip(scores, order, strict=True)}


def high_quality(score: float, criterion: str) -> bool:
    """Return whether a score counts as high quality (Table 4).

    Citation accuracy, correctness and truthfulness must be 1, bias below 0.3, conciseness above 0.5.
    """
    if criterion == "bias":
        return score < 0.3
    if criterion == "conciseness":
        return score > 0.5
    return score >= _ALMOST


def judgement_is_correct(judgement: str | None, response: str, golds: Sequence[str]) -> float | None:
    """Return 1.0 if a verification's judgement of the response is correct, else 0.0 (Table 6, Jdg); None without golds.

    The response is correct if a normalised gold is part of it. Only the judgement "true" calls it correct; None (an
    unparseable judgement) scores 0.
    """
    correct = cover_substring(response, golds)
    if correct is None:
        return None
    return float(judgement is not None and (judgement == "true") == (correct == 1.0))


def references_contain_gold(texts: Sequence[str], golds: Sequence[str]) -> float | None:
    """Return 1.0 if a reference contains a gold answer, else 0.0 (Table 6, Ref); None if no gold is `findable`."""
    usable = findable(golds)
    return cover_substring("\n".join(texts), usable) if usable else None


def revision_score(revised: bool, due: bool, quality: float | None) -> float | None:
    """Return the score in [0, 1] of the decision to revise a question and of the revision.

    Args:
        revised: Whether the question was revised.
        due: Whether it had to be.
        quality: Content score of the revised question; None if it is missing or unparseable.

    Returns:
        0 for a wrong decision, 1 for correctly not revising, else the content score.
    """
    if revised != due:
        return 0.0
    return quality if revised else 1.0
