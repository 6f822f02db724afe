"""The text of a reply, well-formed or malformed, and its log-probabilities."""

import json
import math

from dspy.lm15 import TokenLogprob, TopLogprob

from experiments.world.draws import Draws
from experiments.world.prompt import Prompt, RequestedField

Value = str | bool | float | list[str]
_TOKENS_PER_WORD = 1.3
_LEAST_PROBABILITY = 1e-6  # keeps log-probabilities finite


def count_tokens(text: str) -> int:
    """Return a rough number of tokens: words times 1.3, at least 1."""
    return max(1, math.ceil(len(text.split()) * _TOKENS_PER_WORD))


def render(prompt: Prompt, values: dict[str, Value]) -> str:
    """Return the reply with the values of the requested fields, in the form that the prompt asks for."""
    if prompt.form == "json":
        return json.dumps({field.name: values[field.name] for field in prompt.requested}, ensure_ascii=False)
    if prompt.form == "chat":
        blocks = [f"[[ ## {field.name} ## ]]\n{_plain(values[field.name], field)}" for field in prompt.requested]
        return "\n\n".join([*blocks, "[[ ## completed ## ]]"])
    return "unknown"


def _plain(value: Value, field: RequestedField) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        if field.note.json_list:
            return json.dumps(value, ensure_ascii=False)
        return "\n".join(f"- {item}" for item in value)
    return str(value)


def render_malformed(prompt: Prompt, values: dict[str, Value], draws: Draws) -> str:
    """Return a reply that cannot be parsed: a field is missing, or the value of a choice is not one of its options.

    If one text field is requested under a header, the adapter takes any reply for that field; the reply then is small
    talk, which parses and answers nothing.
    """
    if prompt.form == "json":
        if len(prompt.requested) == 1:
            return _SMALL_TALK
        # Cut before the last field, so that repairing the brackets cannot restore it.
        return render(prompt, values).rpartition(f'"{prompt.requested[-1].name}"')[0]
    constrained = [field for field in prompt.requested if field.kind in {"bool", "number", "option"}]
    if constrained and draws.happens(0.5, "spoiled choice"):
        return render(prompt, {**values, constrained[0].name: "that depends"})
    if len(prompt.requested) > 1:
        lost: RequestedField = draws.choose(prompt.requested, "lost field")
        return render(prompt, values).replace(f"[[ ## {lost.name} ## ]]", f"**{lost.name}**")
    return _SMALL_TALK


_SMALL_TALK = "Certainly! This is an interesting matter, and there are several ways to look at it."


def word_logprobs(p_yes: float, word: str, top: int) -> tuple[TokenLogprob, ...]:
    """Return the log-probabilities of a one-word reply.

    Args:
        p_yes: Probability of yes in [0, 1].
        word: The reply.
        top: Number of alternatives to return, at least 0.
    """
    p_yes = min(max(p_yes, _LEAST_PROBABILITY), 1 - _LEAST_PROBABILITY)
    logprobs = {"yes": math.log(p_yes), "no": math.log(1 - p_yes)}
    ranked = sorted(logprobs, key=logprobs.__getitem__, reverse=True)[:top]
    shown = tuple(TopLogprob(token=token, logprob=logprobs[token]) for token in ranked)
    return (TokenLogprob(token=word, logprob=logprobs[word], top=shown),)


def text_logprobs(text: str) -> tuple[TokenLogprob, ...]:
    """Return constant log-probabilities for a longer reply; only yes/no replies carry a measured probability."""
    pieces = text.split(" ")
    words = [piece if number == 0 else f" {piece}" for number, piece in enumerate(pieces)]
    return tuple(TokenLogprob(token=word, logprob=-0.1, top=()) for word in words if word)
