"""P(yes) of a yes/no question, computed the way that the running LM supports.

The mode belongs to the connection (`dspy.settings.adapter.probability_mode`) and never changes within a run: a
threshold tuned under one mode is not valid under another.
"""

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

import dspy

from programs.parts.meter import record
from programs.parts.prediction import try_predict
from programs.parts.threads import fanout
from signatures.yes_no import is_decoration, leading_verdict, parse_yes_no

ProbabilityMode = Literal["logprobs", "samples", "verbalised"]
SAMPLES = 5
TOP = 20  # alternatives requested per token; OpenAI's limit
_ROUNDED = 1e-3  # log-probabilities up to this one are a probability of 1


@dataclass(frozen=True)
class YesProbability:
    """The probability that the answer to a yes/no question is yes.

    Args:
        value: From 0 to 1.
        mode: How it was computed: from log-probabilities, as the share of yes among samples, or as a number that the
            LM wrote.
    """

    value: float
    mode: ProbabilityMode


def calls_per_probability() -> int:
    """Return the LM calls that one P(yes) takes under the running adapter; for the call bounds of programs."""
    return SAMPLES if _mode() == "samples" else 1


def gives_logprobs() -> bool:
    """Return whether the running LM is asked for log-probabilities."""
    return _mode() == "logprobs"


def _mode() -> ProbabilityMode:
    return getattr(dspy.settings.adapter, "probability_mode", "samples")


def probability(predict: dspy.Predict, *, samples: int = SAMPLES, **inputs: Any) -> YesProbability | None:
    """Ask a yes/no question and return P(yes); None, and one parse failure counted, if the reply is unparseable.

    The trace gets one entry with the plain bool (yes at 0.5 and above), like that of a plain call, so that
    optimizers can make demos of it. One LM call; in the mode "samples", `samples` calls in parallel.

    Args:
        predict: A predictor whose signature has one output, a bool.
        samples: Samples drawn in the mode "samples".
        **inputs: The signature's input fields.

    Raises:
        ValueError: The signature's output is not a single bool.
    """
    outputs = predict.signature.output_fields
    if not asks_yes_no(predict.signature):
        raise ValueError(f"P(yes) needs a signature whose only output is a bool, got {', '.join(outputs)}.")
    mode = _mode()
    with dspy.context(trace=[]):
        if mode == "logprobs":
            value = _from_logprobs(predict, inputs)
        elif mode == "samples":
            value = _from_samples(predict, inputs, samples)
        else:
            value = _verbalised(predict, inputs)
    if value is None:
        return None
    if dspy.settings.trace is not None:
        dspy.settings.trace.append((predict, inputs, dspy.Prediction(**{next(iter(outputs)): value >= 0.5})))
    return YesProbability(value, mode)


def _from_logprobs(predict: dspy.Predict, inputs: dict[str, Any]) -> float | None:
    prediction = try_predict(predict, config={"logprobs": True, "top_logprobs": TOP, "max_tokens": 1}, **inputs)
    if prediction is None:
        return None
    logprobs = prediction.get("logprobs")
    value = yes_share(logprobs.get("content")) if isinstance(logprobs, Mapping) else None
    if value is None:
        record(parse_failures=1)
    return value


def _from_samples(predict: dspy.Predict, inputs: dict[str, Any], samples: int) -> float | None:
    (name,) = predict.signature.output_fields
    configs = [{"temperature": 1.0, "rollout_id": number} for number in range(1, samples + 1)]
    drawn = fanout([partial(try_predict, predict, config=config, **inputs) for config in configs])
    parsed = [bool(reply[name]) for reply in drawn if reply is not None]
    return sum(parsed) / len(parsed) if parsed else None


def verbalised_form(signature: type[dspy.Signature]) -> type[dspy.Signature]:
    """Return the signature of a yes/no question that asks for a probability instead; it is shown without demos."""
    (name,) = signature.output_fields
    number = dspy.OutputField(desc=f"how likely `{name}` is: from 0, surely no, to 1, surely yes")
    return signature.delete(name).append("probability", number, float)


def _verbalised(predict: dspy.Predict, inputs: dict[str, Any]) -> float | None:
    reply = try_predict(predict, signature=verbalised_form(predict.signature), demos=[], **inputs)
    if reply is None:
        return None
    value = reply.probability
    if 1 < value <= 100:
        value /= 100  # "85" and "85 %"
    if 0 <= value <= 1:
        return float(value)
    record(parse_failures=1)
    return None


def asks_yes_no(signature: type[dspy.Signature]) -> bool:
    """Return whether the signature's only output is a bool."""
    return [field.annotation for field in signature.output_fields.values()] == [bool]


def yes_share(content: Any) -> float | None:
    """Return P(yes) / (P(yes) + P(no)), all spellings summed, at the first token that is not blank or decoration.

    Args:
        content: Log-probabilities in the format of OpenAI's API: tokens in order, each with `token`, `logprob` and
            `top_logprobs`. Some servers send other values (null, positive numbers); they are not trusted.

    Returns:
        A number from 0 to 1; None if neither yes nor no is among the alternatives, or if one of these has no
        log-probability.
    """
    first = next((token for token in tokens_of(content) if not is_decoration(token["token"])), None)
    if first is None:
        return None
    alternatives = {top["token"]: top.get("logprob") for top in tokens_of(first.get("top_logprobs"))}
    alternatives.setdefault(first["token"], first.get("logprob"))
    mass = {True: 0.0, False: 0.0}
    for token, logprob in alternatives.items():
        word = parse_yes_no(token)
        if word is None:
            continue
        share = probability_of(logprob)
        if share is None:
            return None
        mass[word] += share
    total = mass[True] + mass[False]
    return mass[True] / total if total > 0 else None


def tokens_of(value: Any) -> list[Mapping[str, Any]]:
    """Return the tokens of log-probabilities in the format of OpenAI's API; what is no token is left out."""
    items = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    return [item for item in items if isinstance(item, Mapping) and isinstance(item.get("token"), str)]


def probability_of(value: Any) -> float | None:
    """Return the probability of a log-probability, which may be minus infinity; None if the value cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= _ROUNDED:  # as nan is not
        return None
    return math.exp(min(value, 0.0))


def yes_no_by_logprobs(output: Any) -> Any:
    """Return an LM output with its text set to yes or no by its log-probabilities, if the text itself is neither.

    A weak LM may write another word first ("The") although its log-probabilities contain an answer.
    """
    logprobs = output.get("logprobs") if isinstance(output, Mapping) else None
    if not isinstance(logprobs, Mapping) or leading_verdict(output.get("text") or "") is not None:
        return output
    share = yes_share(logprobs.get("content"))
    return output if share is None else {**output, "text": "yes" if share >= 0.5 else "no"}


Key = TypeVar("Key", bound=Hashable)


class YesNoQuestion:
    """A yes/no question to a predictor.

    Args:
        predictor: A predictor whose signature has one output, a bool.
        **inputs: The signature's input fields.
    """

    def __init__(self, predictor: dspy.Predict, **inputs: Any):
        self.predictor = predictor
        self.inputs = inputs

    @property
    def key(self) -> tuple[Any, ...]:
        """Return the predictor and the inputs as a hashable key; a passage counts by its id, not by its score."""
        return id(self.predictor), *((name, _hashable(value)) for name, value in self.inputs.items())

    def ask(self) -> YesProbability | None:
        """Call the LM and return P(yes); None if the reply is unparseable."""
        return probability(self.predictor, **self.inputs)


def _hashable(value: Any) -> Any:
    return tuple(getattr(item, "id", item) for item in value) if isinstance(value, list) else value


class YesNoScores:
    """The scores of the yes/no questions asked during one program call; safe under threads."""

    def __init__(self) -> None:
        self._answers: dict[tuple[Any, ...], YesProbability | None] = {}
        self._listed: dict[tuple[Any, ...], float] = {}

    def ask(self, questions: Mapping[Key, YesNoQuestion]) -> dict[Key, float | None]:
        """Return P(yes) in [0, 1] for each question; None if the reply was unparseable.

        The questions that are new are asked in parallel, in one sequential round; no question is asked twice, not even
        after an unparseable reply.
        """
        new = {question.key: question for question in questions.values() if not self._is_known(question)}
        self._answers |= zip(
            new, fanout([question.ask for question in new.values()], width=max(1, len(new))), strict=True
        )
        return {key: self._value(question) for key, question in questions.items()}

    def ask_together(
        self,
        questions: Mapping[Key, YesNoQuestion],
        size: int,
        score: Callable[[list[YesNoQuestion]], Sequence[float | None]],
    ) -> dict[Key, float | None]:
        """Return a score in [0, 1] for each question, as `ask` does, with up to `size` new questions in one call.

        A question that a reply has no score for is asked by itself in a second round, and so is one that would be alone
        in its call.

        Args:
            questions: The questions by key.
            size: The most questions of one call; they are spread evenly.
            score: Makes a call for at least two questions and returns their scores in order, None for none.
        """
        new = {question.key: question for question in questions.values() if not self._is_known(question)}
        groups = [group for group in even_groups(list(new.values()), size) if len(group) > 1]
        replies = fanout([partial(score, group) for group in groups], width=max(1, len(groups)))
        for group, listed in zip(groups, replies, strict=True):
            found = zip(group, listed, strict=True)
            self._listed |= {question.key: value for question, value in found if value is not None}
        self.ask({key: question for key, question in new.items() if key not in self._listed})
        return {key: self._value(question) for key, question in questions.items()}

    def _is_known(self, question: YesNoQuestion) -> bool:
        return question.key in self._listed or question.key in self._answers

    def _value(self, question: YesNoQuestion) -> float | None:
        if question.key in self._listed:
            return self._listed[question.key]
        answer = self._answers[question.key]
        return answer.value if answer else None

    @property
    def mode(self) -> ProbabilityMode | None:
        """Return how P(yes) was computed; None if no reply could be parsed. Listed scores are no P(yes)."""
        return next((answer.mode for answer in self._answers.values() if answer), None)


Item = TypeVar("Item")


def even_groups(items: Sequence[Item], size: int) -> list[list[Item]]:
    """Return items in as few groups of at most `size` as possible, in order; no two differ by more than one in size."""
    count = math.ceil(len(items) / size)
    cuts = [len(items) * number // count for number in range(count + 1)] if count else []
    return [list(items[start:end]) for start, end in itertools.pairwise(cuts)]


def listed_scores(numbers: Sequence[float], count: int) -> list[float | None]:
    """Return one score in [0, 1] for each of `count` pieces; None where a list has no usable one.

    A list of another length is not used at all, because it is unknown which piece a number belongs to. Where any number
    is above 1, all are taken as percentages; what is then outside [0, 1] is not used.
    """
    if len(numbers) != count:
        return [None] * count
    whole = 100.0 if any(number > 1 for number in numbers) else 1.0
    return [number / whole if 0 <= number <= whole else None for number in numbers]
