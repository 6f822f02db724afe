"""Probabilities of the tokens in which an LM wrote its reply: of each character of a text in it, and of the whole text.

Only LMs whose P(yes) is computed from log-probabilities are asked for them (`programs.parts.probability`); from others
there are none. Every LM has its own tokens, so that a threshold holds for one LM alone.
"""

import json
import math
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import dspy
from dspy.utils.exceptions import LMError

from programs.parts.prediction import try_predict
from programs.parts.probability import gives_logprobs, probability_of, tokens_of
from signatures.common.errors import UserNotice

_refusing: weakref.WeakSet[Any] = weakref.WeakSet()  # LMs that refuse a request for log-probabilities

# How the characters of a field may stand in a reply: as they are, or escaped in a JSON object of either kind.
_SPELLINGS: tuple[Callable[[str], str], ...] = (
    str,
    lambda character: json.dumps(character, ensure_ascii=False)[1:-1],
    lambda character: json.dumps(character)[1:-1],
)


def try_predict_scored(predict: dspy.Module, **inputs: Any) -> tuple[dspy.Prediction | None, Any]:
    """Return the prediction, None if the reply is unparseable, and the log-probabilities of the reply's tokens.

    These are None where the LM gives none; one that refuses a request for them, as some models of a provider do that
    has others which give them, is asked again without, and from then on. The trace gets the prediction without them,
    hence no demo has them.
    """
    lm = dspy.settings.lm
    if not gives_logprobs() or lm in _refusing:
        return try_predict(predict, **inputs), None
    try:
        with dspy.context(trace=[]):
            reply = try_predict(predict, config={"logprobs": True}, **inputs)
    except LMError as error:
        if "logprob" not in str(error).casefold():
            raise
        _refusing.add(lm)
        notice = f"{lm.model} refuses log-probabilities: what depends on the probabilities of its tokens is left out."
        warnings.warn(notice, UserNotice, stacklevel=2)
        return try_predict(predict, **inputs), None
    if reply is None:
        return None, None
    predictor: Any = predict if isinstance(predict, dspy.Predict) else predict.predict
    plain = dspy.Prediction(**{name: reply[name] for name in predictor.signature.output_fields})
    if dspy.settings.trace is not None:
        dspy.settings.trace.append((predictor, inputs, plain))
    logprobs = reply.get("logprobs")
    return plain, (logprobs.get("content") or None) if isinstance(logprobs, Mapping) else None


class _Written(NamedTuple):
    """Where a text stands in a reply: its characters as written, and the place and token of each character there."""

    parts: list[str]
    start: int
    tokens: list[int]
    scores: list[float]


def _find(text: str, content: Any, field: str | None = None) -> _Written | None:
    """Return where the text stands in a reply; None if it does not, or if a log-probability cannot be one.

    That is its first place behind the header or key of the field, its last one if there is none.
    """
    written, tokens, scores = "", list[int](), list[float]()
    for number, token in enumerate(tokens_of(content)):
        score = probability_of(token.get("logprob"))
        if score is None:
            return None
        visible = "".join(token["token"].split())
        written += visible
        tokens += [number] * len(visible)
        scores.append(score)
    headers = () if field is None else (f"[[##{field}##]]", f'"{field}":')
    begun = max((place + len(header) for header in headers if (place := written.find(header)) >= 0), default=0)
    for spelled in _SPELLINGS:
        parts = ["".join(spelled(character).split()) for character in text]
        joined = "".join(parts)
        start = written.find(joined, begun) if begun else written.rfind(joined)
        if start >= 0 and any(parts):
            return _Written(parts, start, tokens, scores)
    return None


def character_probabilities(text: str, content: Any) -> list[float] | None:
    """Return for each character of `text` the probability of the token in which the LM wrote it; 1 for white space.

    Args:
        text: A part of the reply, the last if it occurs several times; white space does not count.
        content: Log-probabilities in the format of OpenAI's API: tokens in order, each with `token` and `logprob`.

    Returns:
        Numbers in [0, 1]; None if a log-probability cannot be one, or if the tokens do not contain the text, as where a
        server writes the bytes of a Chinese character as several tokens.
    """
    found = _find(text, content)
    if found is None:
        return None
    least, start = list[float](), found.start
    for part in found.parts:
        inside = found.tokens[start : start + len(part)]
        least.append(min((found.scores[token] for token in inside), default=1.0))
        start += len(part)
    return least


def text_probability(text: str, content: Any, field: str | None = None) -> float | None:
    """Return the probability, in [0, 1], that the LM gave to `text` where it occurs in the reply, its end included.

    That is the product over the tokens of the text and the one after it, without which "New" would be as probable as
    "New York".

    Args:
        text: As for `character_probabilities`, and so is what is None.
        content: As there.
        field: Of the reply, which the text is the value of: what stands before or behind it does not count.
    """
    found = _find(text, content, field)
    if found is None:
        return None
    end = found.start + len("".join(found.parts))
    first, last = found.tokens[found.start], found.tokens[end - 1]
    ends_within = end < len(found.tokens) and found.tokens[end] == last
    return math.prod(found.scores[first : last + (1 if ends_within else 2)])


def masked(text: str, probabilities: Sequence[float], below: float) -> str:
    """Return a text without the characters whose probability is below `below`; what is left stays apart."""
    kept = (character if score >= below else " " for character, score in zip(text, probabilities, strict=True))
    return " ".join("".join(kept).split())
