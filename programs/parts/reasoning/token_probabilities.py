"""The probabilities of the tokens of free text, as the log-probabilities of a reply give them.

Only LMs whose P(yes) is computed from log-probabilities are asked for them (`programs.parts.probability`); from others
there are none. Every LM has its own tokens, so that a threshold holds for one LM alone.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dspy

from programs.parts.predict import try_predict
from programs.parts.probability import gives_logprobs, probability_of, tokens_of

# How the characters of a field may stand in a reply: as they are, or escaped in a JSON object of either kind.
_SPELLINGS: tuple[Callable[[str], str], ...] = (
    str,
    lambda character: json.dumps(character, ensure_ascii=False)[1:-1],
    lambda character: json.dumps(character)[1:-1],
)


def try_predict_scored(predict: dspy.Predict, **inputs: Any) -> tuple[dspy.Prediction | None, Any]:
    """Return the prediction, None if the reply is unparseable, and the log-probabilities of the reply's tokens.

    These are None where the LM gives none. The trace gets the prediction without them, hence no demo has them.
    """
    if not gives_logprobs():
        return try_predict(predict, **inputs), None
    with dspy.context(trace=[]):
        reply = try_predict(predict, config={"logprobs": True}, **inputs)
    if reply is None:
        return None, None
    plain = dspy.Prediction(**{name: reply[name] for name in predict.signature.output_fields})
    if dspy.settings.trace is not None:
        dspy.settings.trace.append((predict, inputs, plain))
    logprobs = reply.get("logprobs")
    return plain, (logprobs.get("content") or None) if isinstance(logprobs, Mapping) else None


def character_probabilities(text: str, content: Any) -> list[float] | None:
    """Return for each character of `text` the probability of the token in which the LM wrote it; 1 for white space.

    Args:
        text: A part of the reply, the last if it occurs several times; white space does not count.
        content: Log-probabilities in the format of OpenAI's API: tokens in order, each with `token` and `logprob`.

    Returns:
        Numbers in [0, 1]; None if a log-probability cannot be one, or if the tokens do not contain the text, as where a
        server writes the bytes of a Chinese character as several tokens.
    """
    written, scores = "", list[float]()
    for token in tokens_of(content):
        score = probability_of(token.get("logprob"))
        if score is None:
            return None
        visible = "".join(token["token"].split())
        written += visible
        scores += [score] * len(visible)
    for spelled in _SPELLINGS:
        parts = ["".join(spelled(character).split()) for character in text]
        start = written.rfind("".join(parts))
        if start >= 0 and any(parts):
            return _least(parts, scores[start:])
    return None


def _least(parts: Sequence[str], scores: Sequence[float]) -> list[float]:
    """Return the least score of the characters of each part; 1 for an empty one."""
    least, start = list[float](), 0
    for part in parts:
        least.append(min(scores[start : start + len(part)], default=1.0))
        start += len(part)
    return least


def masked(text: str, probabilities: Sequence[float], below: float) -> str:
    """Return a text without the characters whose probability is below `below`; what is left stays apart."""
    kept = (character if score >= below else " " for character, score in zip(text, probabilities, strict=True))
    return " ".join("".join(kept).split())
