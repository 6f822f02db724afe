"""Ask a server which dialect it speaks, and a model what it can: context, slots, thinking, log-probabilities.

One yes/no question finds out whether the model thinks before it answers, and whether its log-probabilities count. How a
setting of reasoning decides the yes/no questions:

- `auto`: replies think if the model does. Yes/no questions are asked with thinking turned off where the server can:
  P(yes) then comes from the log-probabilities of the first token, as with a model that does not think, and costs one
  token. Where thinking cannot be turned off, samples are drawn: after one chain of thought the first token of the
  answer is all but certain, and says nothing about other chains.
- `low`, `medium`, `high`: yes/no questions think as well, since that was asked for. P(yes) is that of the first token
  after the thinking, if log-probabilities of the answer come, else samples.
- `off`: nothing thinks. A model that thinks nevertheless (gpt-oss, the Thinking models of Qwen) is treated as if `auto`
  were set, with a notice.
"""

import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from dspy.lm15 import Config, Message, Reasoning, Request, Response, TokenLogprob
from dspy.utils.exceptions import LMInvalidRequestError, LMUnsupportedFeatureError

from programs.lms.servers.dialects import DIALECTS, Dialect, ReplyField
from programs.lms.servers.http_connection import NoReply
from programs.lms.servers.http_pool import HttpPool, UnreadableReply
from programs.parts.probability import TOP
from programs.parts.threads import Started
from signatures.common.errors import UserNotice
from signatures.yes_no import is_decoration, leading_verdict, parse_yes_no

SECONDS = 5.0  # for all answers; the questions are asked in parallel
_NAMES = ("id", "name", "model")  # of a model in a list
_THINKING_WORDS = ("enable_thinking", "<think>", "[THINK]")  # in a chat template


@dataclass(frozen=True)
class ServerDescription:
    """What is known of the server and the model behind a connection.

    Args:
        dialect: Name in `DIALECTS`.
        version: As the server states it; None if it does not.
        context_size: Tokens of prompt and reply together for one request, as set or stated; None if neither.
        slots: Requests answered at a time, if the server states them.
        thinks: Whether replies begin with thinking, in the setting of `reasoning`; None if it was not tried.
        reasoning: Setting of the replies.
        yes_no_reasoning: Setting of yes/no questions, which are asked without thinking where that is possible.
        yes_no_sure: Whether yes/no questions were seen to be answered without thinking.
        thinking_tokens: Tokens of each reply reserved for thinking.
        structured: Whether a JSON schema is sent.
        no_logprobs: Why P(yes) is not computed from log-probabilities; None if it is, or if another way was chosen.
    """

    dialect: str
    version: str | None = None
    context_size: int | None = None
    slots: int | None = None
    thinks: bool | None = None
    reasoning: str = "auto"
    yes_no_reasoning: str = "auto"
    yes_no_sure: bool = False
    thinking_tokens: int = 0
    structured: bool = True
    no_logprobs: str | None = None


def describe(api_base: str, model: str, key: str | None, server: str | None = None) -> ServerDescription:
    """Return what a server says about itself and a model; it never fails, since each answer is optional.

    Args:
        api_base: Base URL.
        model: The model's name on the server.
        key: Sent as a bearer token.
        server: Name of the dialect, if it need not be found.

    Raises:
        UserError: There is no dialect of this name.
    """
    known = {server: DIALECTS[server]} if server is not None else DIALECTS
    answers = _ask(api_base, key, (field.path for dialect in known.values() for field in _fields(dialect)))

    def at(field: ReplyField | None) -> Any:
        return None if field is None else value_at(answers.get(field.path), field.keys, model)

    name = server or next((name for name, dialect in known.items() if _speaks(dialect, at)), "openai")
    dialect = DIALECTS[name]
    thinks = None
    if name == "ollama":
        capabilities = _show(api_base, key, model).get("capabilities")
        thinks = "thinking" in capabilities if isinstance(capabilities, list) else None
    template = at(ReplyField("/props", "chat_template")) if name == "llamacpp" else None
    if isinstance(template, str):
        thinks = any(word in template for word in _THINKING_WORDS)
    version = next((found for field in dialect.version if (found := at(field))), None)
    return ServerDescription(
        dialect=name,
        version=str(version) if version else None,
        context_size=next((size for field in dialect.context if (size := _number(at(field)))), None),
        slots=_number(at(dialect.slots)),
        thinks=thinks,
    )


def loaded_context(api_base: str, model: str, key: str | None, dialect: Dialect) -> int | None:
    """Return the context size again, for servers that load a model, and choose its context, with the first request."""
    answers = _ask(api_base, key, (field.path for field in dialect.context))
    sizes = (_number(value_at(answers.get(field.path), field.keys, model)) for field in dialect.context)
    return next((size for size in sizes if size), None)


def name_in_list(api_base: str, key: str | None, lm_id: str, name: str) -> str:
    """Return the full id instead of `name` if the server lists only that: openai/gpt-oss-20b is a model's own name."""
    if lm_id == name:
        return name
    models = _ask(api_base, key, ["models"]).get("models")
    listed = models.get("data") if isinstance(models, Mapping) else None
    names = [entry.get("id") for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []
    return lm_id if lm_id in names and name not in names else name


def value_at(answer: Any, keys: str, model: str) -> Any:
    """Return the value at dotted keys of an answer; None if it is not there.

    `[]` takes the entry of a list whose `id`, `name` or `model` is the model's, or the only one.
    """
    for key in keys.split("."):
        if key == "[]":
            answer = _entry(answer, model)
        elif isinstance(answer, Mapping):
            answer = answer.get(key)
        else:
            return None
    return answer


def _entry(entries: Any, model: str) -> Any:
    if not isinstance(entries, list):
        return None
    named = [
        entry
        for entry in entries
        if isinstance(entry, Mapping)
        and {model, f"{model}:latest"} & {entry.get(name) for name in _NAMES if isinstance(entry.get(name), str)}
    ]
    return named[0] if named else entries[0] if len(entries) == 1 else None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _speaks(dialect: Dialect, at: Callable[[ReplyField | None], Any]) -> bool:
    values = ((at(fingerprint.field), fingerprint.value) for fingerprint in dialect.fingerprints)
    return any(found is not None and wanted in (None, found) for found, wanted in values)


def _fields(dialect: Dialect) -> Iterable[ReplyField]:
    slots = [dialect.slots] if dialect.slots else []
    return [*(fingerprint.field for fingerprint in dialect.fingerprints), *dialect.version, *dialect.context, *slots]


def _address(api_base: str, path: str) -> str:
    if not path.startswith("/"):
        return f"{api_base}/{path}"
    root, _, last = api_base.rpartition("/")
    return (root if last in ("v1", "v3") else api_base) + path


def _ask(api_base: str, key: str | None, paths: Iterable[str]) -> dict[str, Any]:
    """Return the JSON answers by path, of those that are answered in time."""
    return _answers(key, {path: ("GET", _address(api_base, path), None) for path in paths})


def _show(api_base: str, key: str | None, model: str) -> Mapping[str, Any]:
    """Return what Ollama knows of a model: https://docs.ollama.com/api-reference/show-model-details."""
    asked = ("POST", _address(api_base, "/api/show"), {"model": model})
    answer = _answers(key, {"show": asked}).get("show")
    return answer if isinstance(answer, Mapping) else {}


def _answers(key: str | None, wanted: Mapping[str, tuple[str, str, Any]]) -> dict[str, Any]:
    """Return the JSON answers to requests (method, URL, body) by name, of those that are answered in time.

    The threads are daemons and are not joined: a server that sends a byte now and then would keep them, and Ctrl-C
    would have to wait for them.
    """
    if not wanted:
        return {}
    until = time.monotonic() + SECONDS
    pool = HttpPool(next(iter(wanted.values()))[1], key, len(wanted))
    asked = {name: Started(partial(_json, pool, *request), name="detect") for name, request in wanted.items()}
    in_time = {name: each for name, each in asked.items() if each.wait(max(0.0, until - time.monotonic()))}
    pool.close()
    answers = {name: each.result() for name, each in in_time.items()}
    return {name: answer for name, answer in answers.items() if answer is not None}


def _json(pool: HttpPool, method: str, url: str, body: Mapping[str, Any] | None = None) -> Any:
    sent = None if body is None else json.dumps(body).encode()
    try:
        with pool.request(method, url, sent, seconds=SECONDS) as reply:
            return json.loads(reply.content()) if 200 <= reply.status < 300 else None
    except (NoReply, UnreadableReply, ValueError, RecursionError):
        return None


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
    first = _ask_model(lm, reasoning, SHORT, logprobs)
    if not first.thinks and first.cut and not first.answers and found.thinks is not False:
        first = _ask_model(lm, reasoning, min(LONG, thinking_tokens), logprobs)
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
        short = _ask_model(lm, "off", SHORT, logprobs)
        if not short.thinks and short.answers:
            why_not = _why_not(short, known) if logprobs else None
            return replace(known, yes_no_reasoning="off", yes_no_sure=True, no_logprobs=why_not)
    if not logprobs:
        return known
    if reasoning in ("auto", "off"):
        why = dialect.off_fails or "the model thinks before it answers, whatever is asked of it"
        return replace(known, no_logprobs=f"thinking cannot be turned off for yes/no questions ({why})")
    return replace(known, no_logprobs=_why_not(_ask_model(lm, reasoning, thinking_tokens + SHORT, logprobs), known))


def _why_not(reply: _Reply, found: ServerDescription) -> str | None:
    if reply.logprobs:
        return None
    return DIALECTS[found.dialect].no_logprobs or "the server gives no alternatives with yes or no for the answer"


def _ask_model(lm: Any, reasoning: str, limit: int, logprobs: bool) -> _Reply:
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
