"""Find out by one yes/no question whether a model thinks before it answers, and whether its log-probabilities count.

How a setting of reasoning decides the yes/no questions:

- `auto`: replies think if the model does. Yes/no questions are asked with thinking turned off where the server can:
  P(yes) then comes from the log-probabilities of the first token, as with a model that does not think, and costs one
  token. Where thinking cannot be turned off, samples are drawn: after one chain of thought the first token of the
  answer is all but certain, and says nothing about other chains.
- `low`, `medium`, `high`: yes/no questions think as well, since that was asked for. P(yes) is that of the first token
  after the thinking, if log-probabilities of the answer come, else samples.
- `off`: nothing thinks. A model that thinks nevertheless (gpt-oss, the Thinking models of Qwen) is treated as if `auto`
  were set, with a notice.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dspy.lm15 import Config, Message, Reasoning, Request, Response, TokenLogprob
from dspy.utils.exceptions import LMInvalidRequestError, LMUnsupportedFeatureError

from programs.lms.servers.detect import ServerDescription
from programs.lms.servers.dialects import DIALECTS
from programs.parts.probability import TOP
from signatures.common.errors import UserNotice
from signatures.yes_no import is_decoration, leading_verdict, parse_yes_no

QUESTION = "Is water wet?\n\nAnswer with one word, yes or no."  # in the form of the prompts
SHORT = 16  # tokens: enough to see an answer, or the beginning of thinking
LONG = 512  # tokens: enough to see the end of thinking whose beginning is in the chat template


@dataclass(frozen=True)
class _Reply:
    """What one reply to the question shows."""

    thinks: bool
    answers: bool
    cut: bool
    logprobs: bool


def try_question(
    lm: Any, found: ServerDescription, reasoning: str, thinking_tokens: int, *, logprobs: bool
) -> ServerDescription:
    """Return the description with what a yes/no question shows; it is asked one to four times, outside the budget.

    Args:
        lm: Takes a `Request`, without a limit on its replies.
        found: What the server says.
        reasoning: Setting of the connection.
        thinking_tokens: Tokens for thinking, if the model thinks.
        logprobs: Whether P(yes) is to be computed from log-probabilities, if they come.

    Raises:
        LMUnavailable: The server does not answer.
    """
    dialect = DIALECTS[found.dialect]
    first = _ask(lm, reasoning, SHORT, logprobs)
    if not first.thinks and first.cut and not first.answers and found.thinks is not False:
        first = _ask(lm, reasoning, min(LONG, thinking_tokens), logprobs)
    thinks = first.thinks or (reasoning == "auto" and bool(found.thinks))  # on easy questions some do not
    known = replace(found, thinks=thinks, reasoning=reasoning, yes_no_reasoning=reasoning)
    if not thinks:
        return replace(known, yes_no_sure=True, no_logprobs=_why_not(first, known) if logprobs else None)
    known = replace(known, thinking_tokens=thinking_tokens)
    if reasoning == "off":
        known = replace(known, yes_no_reasoning="auto")
        why = dialect.off_fails or "the model thinks nevertheless"
        _notice(f"Thinking cannot be turned off here ({why}): replies get {thinking_tokens} tokens more for it.")
    if reasoning == "auto":
        short = _ask(lm, "off", SHORT, logprobs)
        if not short.thinks and short.answers:
            why_not = _why_not(short, known) if logprobs else None
            return replace(known, yes_no_reasoning="off", yes_no_sure=True, no_logprobs=why_not)
    if not logprobs:
        return known
    if reasoning in ("auto", "off"):
        why = dialect.off_fails or "the model thinks before it answers, whatever is asked of it"
        return replace(known, no_logprobs=f"thinking cannot be turned off for yes/no questions ({why})")
    return replace(known, no_logprobs=_why_not(_ask(lm, reasoning, thinking_tokens + SHORT, logprobs), known))


def _why_not(reply: _Reply, found: ServerDescription) -> str | None:
    if reply.logprobs:
        return None
    return DIALECTS[found.dialect].no_logprobs or "the server gives no alternatives with yes or no for the answer"


def _ask(lm: Any, reasoning: str, limit: int, logprobs: bool) -> _Reply:
    """Ask the question; without log-probabilities if the server refuses them."""
    config = Config(
        max_tokens=limit,
        temperature=0.0,
        logprobs=TOP if logprobs else None,
        reasoning=None if reasoning == "auto" else Reasoning(effort=reasoning),
    )
    try:
        reply = lm(Request(model=lm.model, messages=(Message.user(QUESTION),), config=config), cache=False)
    except (LMInvalidRequestError, LMUnsupportedFeatureError):
        config = replace(config, logprobs=None)
        reply = lm(Request(model=lm.model, messages=(Message.user(QUESTION),), config=config), cache=False)
    return _read(reply)


def _read(reply: Response) -> _Reply:
    kinds = {part.type for part in reply.message.parts}
    return _Reply(
        thinks="thinking" in kinds,
        answers=leading_verdict(reply.message.text or "") is not None,
        cut=reply.finish_reason == "length",
        logprobs=has_yes_or_no(reply.logprobs or ()),
    )


def has_yes_or_no(tokens: Sequence[TokenLogprob]) -> bool:
    """Return whether the alternatives of the first token of an answer contain yes or no."""
    first = next((token for token in tokens if not is_decoration(token.token)), None)
    return first is not None and any(parse_yes_no(other.token) is not None for other in first.top)


def _notice(text: str) -> None:
    warnings.warn(UserNotice(text), stacklevel=3)
