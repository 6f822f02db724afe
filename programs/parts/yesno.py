"""Yes and no: which questions ask for them, how LMs spell them, and the share of yes among first words."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dspy import Signature

YES = frozenset({"yes", "true", "是", "是的", "对"})
NO = frozenset({"no", "false", "否", "不", "不是"})

_DECORATION = " \t\r\n\"'*_`.,:;!▁Ġ"


def asks_yes_no(signature: type[Signature]) -> bool:
    """Return whether the signature's only output is a bool."""
    return [field.annotation for field in signature.output_fields.values()] == [bool]


def spelling(token: str) -> bool | None:
    """Return whether a token spells yes (True) or no (False); None when it spells neither."""
    word = token.strip(_DECORATION).casefold()
    return True if word in YES else False if word in NO else None


def yes_share(content: Sequence[Mapping[str, Any]]) -> float | None:
    """Return P(yes) / (P(yes) + P(no)), all spellings summed, at the first token that says something.

    Args:
        content: Log-probabilities as OpenAI's API gives them: tokens in order, each with `token`, `logprob` and
            `top_logprobs`.

    Returns:
        A number from 0 to 1, or None when neither yes nor no is among the alternatives.
    """
    first = next((token for token in content if token["token"].strip(_DECORATION)), None)
    if first is None:
        return None
    alternatives = {top["token"]: top["logprob"] for top in first.get("top_logprobs") or ()}
    alternatives.setdefault(first["token"], first["logprob"])
    mass = {True: 0.0, False: 0.0}
    for token, logprob in alternatives.items():
        word = spelling(token)
        if word is not None:
            mass[word] += math.exp(logprob)
    total = mass[True] + mass[False]
    return mass[True] / total if total > 0 else None


def settled(output: Any) -> Any:
    """Return an LM output whose text is yes or no where its log-probabilities decide but its text says neither.

    A weak LM may put another word first ("The"); asked for its probabilities, it has answered all the same.
    """
    logprobs = output.get("logprobs") if isinstance(output, Mapping) else None
    if not logprobs or any(spelling(word) is not None for word in (output.get("text") or "").split()[:1]):
        return output
    share = yes_share(logprobs["content"])
    return output if share is None else {**output, "text": "yes" if share >= 0.5 else "no"}
