"""Writing the reply: in the form that was asked for, or now and then in one that cannot be parsed."""

import json
import math

from dspy.lm15 import TokenLogprob, TopLogprob

from experiments.world.chance import Dice
from experiments.world.prompt import Asked, Prompt

Value = str | bool | float | list[str]
_TOKENS_PER_WORD = 1.3
_CERTAINTY = 1e-6  # log-probabilities stay finite


def count_tokens(text: str) -> int:
    """Return a rough number of tokens: words times 1.3, at least 1."""
    return max(1, math.ceil(len(text.split()) * _TOKENS_PER_WORD))


def write(prompt: Prompt, values: dict[str, Value]) -> str:
    """Return the reply that holds the asked fields' values in the asked form."""
    if prompt.form == "json":
        return json.dumps({field.name: values[field.name] for field in prompt.asked}, ensure_ascii=False)
    if prompt.form == "chat":
        blocks = [f"[[ ## {field.name} ## ]]\n{_plain(values[field.name])}" for field in prompt.asked]
        return "\n\n".join([*blocks, "[[ ## completed ## ]]"])
    return "unknown"


def _plain(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "\n".join(f"- {item}" for item in value)
    return str(value)


def spoil(prompt: Prompt, values: dict[str, Value], dice: Dice) -> str:
    """Return a reply that its parser must refuse: a lost field, prose, or a choice that was not offered.

    With one text field under a header nothing is left to lose, and the parser takes a bare reply for the field; the
    reply then is small talk, which parses and is simply not an answer.
    """
    if prompt.form == "json":
        # Cut before the last field: repairing the brackets cannot bring it back.
        return write(prompt, values).rpartition(f'"{prompt.asked[-1].name}"')[0] if len(prompt.asked) > 1 else _CHAT
    broken = [field for field in prompt.asked if field.kind in {"bool", "number", "option"}]
    if broken and dice.happens(0.5, "spoiled choice"):
        return write(prompt, {**values, broken[0].name: "that depends"})
    if len(prompt.asked) > 1:
        lost: Asked = dice.choose(prompt.asked, "lost field")
        return write(prompt, values).replace(f"[[ ## {lost.name} ## ]]", f"**{lost.name}**")
    return _CHAT


_CHAT = "Certainly! This is an interesting matter, and there are several ways to look at it."


def word_logprobs(p_yes: float, word: str, top: int) -> tuple[TokenLogprob, ...]:
    """Return the log-probabilities of a one-word reply.

    Args:
        p_yes: Probability of yes in [0, 1].
        word: The word replied.
        top: Alternatives shown, at least 0.
    """
    p_yes = min(max(p_yes, _CERTAINTY), 1 - _CERTAINTY)
    chances = {"yes": math.log(p_yes), "no": math.log(1 - p_yes)}
    ranked = sorted(chances, key=chances.__getitem__, reverse=True)[:top]
    shown = tuple(TopLogprob(token=token, logprob=chances[token]) for token in ranked)
    return (TokenLogprob(token=word, logprob=chances[word], top=shown),)


def text_logprobs(text: str) -> tuple[TokenLogprob, ...]:
    """Return flat log-probabilities for a longer reply: this LM measures its doubt in yes/no replies only."""
    pieces = text.split(" ")
    words = [piece if number == 0 else f" {piece}" for number, piece in enumerate(pieces)]
    return tuple(TokenLogprob(token=word, logprob=-0.1, top=()) for word in words if word)
