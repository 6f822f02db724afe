"""LM calls as they were made: what the LM read, what it replied, and what that took.

`programs.lms.calls.metered` tells the listeners of the running context of each call when it ends, cached or not. A
program without listeners only reads one variable.
"""

import contextlib
import contextvars
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import dspy
from dspy.clients.call_result import CallResult
from dspy.clients.execution import PreparedCall

from programs.lms.requests import turns
from programs.parts.meter import Meter, inner_meter, metered
from programs.parts.prediction import original_of
from signatures.common.context import set_within
from signatures.common.errors import one_line

Record: TypeAlias = dict[str, Any]  # JSON

_LONGEST_ERROR = 2000  # characters
_COUNTS = (
    "prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens", "usd", "cached_usd", "retries",
    "wait_seconds",
)  # fmt: skip
# Named one by one, because others may hold a key.
_SETTINGS = (
    "temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "stop", "seed", "rollout_id", "n",
    "logprobs", "top_logprobs", "reasoning_effort", "response_format", "tools",
)  # fmt: skip


@dataclass
class LMCall:
    """One call of an LM; its attempts are one call.

    Args:
        predictor: The predictor that asked; None if it is not known.
        model: Model string of the LM.
        operation: "chat", or "text_completion" for an LM without a chat template.
        messages: As sent, after the adapter: `role`, `content` and, of tools, further keys.
        settings: Sampling settings that were sent, and the rollout.
        started: Seconds since 1970.
        seconds: Until the reply, with retries and waits; of a cached reply the time to find it.
        replies: What came back: `text`, and `thinking`, `tool_calls` or `finish_reason` where there is one.
        meter: Counts of this call alone.
        metric: The metric that asked; None if the program did.
        error: What ended the call without a reply.
        unreadable: Why the adapter could not parse the reply.
    """

    predictor: Any
    model: str
    operation: str
    messages: list[dict[str, Any]]
    settings: dict[str, Any]
    started: float
    seconds: float = 0.0
    replies: list[dict[str, Any]] = field(default_factory=list)
    meter: Meter = field(default_factory=Meter)
    metric: str | None = None
    error: str | None = None
    unreadable: str | None = None

    @property
    def cached(self) -> bool:
        """Whether the cache of replies, or the record of a stopped run, answered."""
        return self.meter.cached_calls > 0

    def as_record(self, names: Mapping[int, str] = {}) -> Record:
        """Return the call as JSON.

        Args:
            names: Of the predictors of the program, by `id`.
        """
        signature = getattr(self.predictor, "signature", None)
        counts = self.meter.counts()
        return {
            "predictor": names.get(id(original_of(self.predictor))),
            "signature": getattr(signature, "__name__", None),
            "metric": self.metric,
            "model": self.model,
            "settings": self.settings,
            "messages": self.messages,
            "replies": self.replies,
            "cached": self.cached,
            "started": round(self.started, 3),
            "seconds": round(self.seconds, 4),
            **{name: round(counts[name], 10) for name in _COUNTS},
            "error": self.error,
            "unreadable": self.unreadable,
        }


Listener: TypeAlias = Callable[[LMCall], None]
_listeners: contextvars.ContextVar[tuple[Listener, ...]] = contextvars.ContextVar("verihop_call_listeners", default=())
_metric: contextvars.ContextVar[str | None] = contextvars.ContextVar("verihop_asking_metric", default=None)
_read: contextvars.ContextVar[list[LMCall] | None] = contextvars.ContextVar("verihop_calls_being_read", default=None)


def observe_calls(listener: Listener | None) -> contextlib.AbstractContextManager[object]:
    """Tell `listener`, too, of each call that ends in the block, in the thread of the call; None tells nobody else."""
    return set_within(_listeners, _listeners.get() if listener is None else (*_listeners.get(), listener))


def calls_of_metric(metric: str) -> contextlib.AbstractContextManager[object]:
    """Let the calls in the block be those of a metric."""
    return set_within(_metric, metric)


def records_of(calls: Iterable[LMCall], program: dspy.Module) -> list[Record]:
    """Return calls as JSON, in the order in which they were begun, numbered from 1 (`call`)."""
    names = {id(predictor): name for name, predictor in program.named_predictors()}
    ordered = sorted(calls, key=lambda call: call.started)
    return [{"call": number, **call.as_record(names)} for number, call in enumerate(ordered, start=1)]


@contextlib.contextmanager
def observed(lm: dspy.LM, prepared: PreparedCall) -> Iterator[Callable[[CallResult], CallResult]]:
    """Tell the listeners of a call that is made in the block; what it yields is given the result, and returns it."""
    listeners = _listeners.get()
    if not listeners:
        yield lambda result: result
        return
    callers = dspy.settings.caller_modules or [None]
    operation = "text_completion" if lm.model_type == "text" else "chat"
    call = LMCall(
        callers[-1], lm.model, operation, _messages(prepared), _settings(prepared), time.time(), metric=_metric.get()
    )

    def replied(result: CallResult) -> CallResult:
        call.replies = _replies(result)
        return result

    begun = time.perf_counter()
    try:
        with metered(inner_meter()) as call.meter:
            yield replied
        if (reading := _read.get()) is not None:
            reading.append(call)
    except BaseException as error:
        call.error = f"{type(error).__name__}: {one_line(error, _LONGEST_ERROR)}"
        raise
    finally:
        call.seconds = time.perf_counter() - begun
        for listener in listeners:
            listener(call)


@contextlib.contextmanager
def calls_read() -> Iterator[Callable[[str], None]]:
    """Yield a function that says why the replies of the calls in the block could not be parsed."""
    if not _listeners.get():
        yield lambda reason: None
        return
    made: list[LMCall] = []

    def unreadable(reason: str) -> None:
        for call in made:
            call.unreadable = one_line(reason, _LONGEST_ERROR)

    with set_within(_read, made):  # a list, because a call may be made in a copy of this context
        yield unreadable


def _messages(prepared: PreparedCall) -> list[dict[str, Any]]:
    if prepared.request is not None:
        return [dict(turn) for turn in turns(prepared.request)]
    return [dict(message) for message in prepared.legacy["messages"]]


def _settings(prepared: PreparedCall) -> dict[str, Any]:
    if prepared.request is not None:
        config = prepared.request.config
        stated = {name: getattr(config, name, None) for name in _SETTINGS}
        stated["rollout_id"] = prepared.kwargs.get("rollout_id")
    else:
        stated = {name: prepared.legacy.get(name) for name in _SETTINGS}
    return {name: _plain(name, value) for name, value in stated.items() if value is not None}


def _plain(name: str, value: Any) -> Any:
    """Return a setting as JSON: schemas and tools by their names."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, list | tuple):
        return [_plain(name, item) for item in value]
    if isinstance(value, Mapping):
        inner = value.get("function", value.get("json_schema", value))
        return str((inner if isinstance(inner, Mapping) else value).get("name") or value.get("type") or name)
    return type(value).__name__


def finish_reasons(result: CallResult) -> list[Any]:
    """Return why each reply of a result ended: "stop", "length", "content_filter" or "tool_calls"; None if unknown.

    Those of LiteLLM's route have no typed responses.
    """
    if result.responses:
        return [response.finish_reason for response in result.responses]
    return [getattr(choice, "finish_reason", None) for choice in getattr(result.raw, "choices", None) or ()]


def _replies(result: CallResult) -> list[dict[str, Any]]:
    reasons = finish_reasons(result)
    found = []
    for number, output in enumerate(result.outputs):
        parts = output if isinstance(output, Mapping) else {"text": output}
        reply = {
            "text": parts.get("text") or "",
            "thinking": parts.get("reasoning_content"),
            "tool_calls": [_tool_call(call) for call in parts.get("tool_calls") or ()] or None,
            "finish_reason": reasons[number] if number < len(reasons) else None,
        }
        found.append({name: value for name, value in reply.items() if value is not None})
    return found


def _tool_call(call: Any) -> dict[str, Any]:
    """Return name and arguments of a call of a tool, as the LM wrote them."""
    function = call.get("function", {}) if isinstance(call, Mapping) else getattr(call, "function", {})
    read = function.get if isinstance(function, Mapping) else lambda name: getattr(function, name, None)
    return {"name": read("name"), "arguments": read("arguments")}
