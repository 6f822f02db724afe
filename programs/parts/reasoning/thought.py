"""A thought that grows sentence by sentence, the answer behind its cue ("the answer is"), its tokens' probabilities.

Only LMs whose P(yes) is computed from log-probabilities are asked for them (`programs.parts.probability`); from others
there are none. Every LM has its own tokens, so that a threshold holds for one LM alone.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dspy

from programs.parts.longform import gives_answer
from programs.parts.passages import is_no_item
from programs.parts.prediction import drop_from_trace, try_predict
from programs.parts.probability import gives_logprobs, probability_of, tokens_of
from signatures.text import split_sentences
from signatures.text_words import same_words

# Of several cues the last one counts, as with the greedy expressions of public code.
_CUE = re.compile(
    r".*(?:\banswer\s+(?:to\s+(?:the|this|that)\s+question\s+)?is\b|答案(?:[应應][该該])?(?:就|便|[则則])?[是为為])[\s*_]*[:：]?(?P<answer>.*)",
    re.IGNORECASE | re.DOTALL,
)
_EDGES = ' \t\n*_`"“”「」'
_FULL_STOPS = ".。．"
_COLONS = (":", "：")
_WIDE_ENDINGS = "。！？；：”」』）"


def next_sentence(reply: str, thought: Sequence[str]) -> str:
    """Return the first sentence of a reply that the thought does not contain yet; empty if there is none.

    Departure: IRCoT and FLARE take the first sentence, whatever it says. LMs without demonstrations repeat the thought
    before they go on; that is no new sentence here. Nor is one that only declines ("The passages do
    not mention it", "So the answer is: unknown"): it is nothing to search for, and no answer. A sentence that ends with
    a colon takes the next one with it ("So the answer is:" and the answer on a line of its own).

    Args:
        reply: Any number of sentences, as an LM wrote them.
        thought: The sentences that are kept.
    """
    known = {"", *map(same_words, thought)}
    new = [
        sentence for sentence in split_sentences(reply) if same_words(sentence) and same_words(sentence) not in known
    ]
    while new:
        size = 2 if new[0].rstrip(_EDGES).endswith(_COLONS) else 1
        sentence = " ".join(new[:size])
        if not declines(sentence):
            return "" if is_no_item(sentence) else sentence
        new = new[size:]
    return ""


def declines(sentence: str) -> bool:
    """Return whether a sentence only declines to answer, or the answer that it states does."""
    stated = stated_answer(sentence)
    return not gives_answer(sentence) or bool(stated and not gives_answer(stated))


def join_sentences(thought: Sequence[str]) -> str:
    """Return the sentences as one text, with a blank between them where the script has blanks."""
    text = ""
    for sentence in thought:
        blank = "" if not text or text[-1] in _WIDE_ENDINGS else " "
        text += blank + sentence
    return text


def stated_answer(text: str) -> str | None:
    """Return what follows the last cue ("the answer is", "答案是") of a text; None if it has no cue.

    One full stop at the end, quotation marks and emphasis are left out; a cue with nothing behind it gives "".
    """
    found = _CUE.fullmatch(text)
    if found is None:
        return None
    answer = found["answer"].strip(_EDGES)
    return (answer[:-1] if answer.endswith(tuple(_FULL_STOPS)) else answer).strip(_EDGES)


def drop_overruled(reply: dspy.Prediction | None, thought: Sequence[str], answer: str) -> None:
    """Remove the reply with the last sentence from the running trace if it states another answer than the one returned.

    It must not become a demonstration; nor must a cue with nothing behind it.
    """
    said = stated_answer(thought[-1]) if thought else None
    if said is not None and same_words(said) != same_words(answer):
        drop_from_trace(reply)


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
