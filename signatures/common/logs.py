"""Structured logs: one JSON object per line on standard error, for services and long runs.

    with json_logs():
        event("question", id="q1", seconds=1.2)

Without `json_logs` events go nowhere. Those of level info and above have ids, counts, seconds and costs, never the text
of a question, a passage or a reply; level debug has them, and so may an internal error and its traceback. Messages that
quote such a text have `LEFT_OUT` in its place. Keys are hidden in all.
"""

import contextlib
import contextvars
import logging
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from signatures.common.context import set_within
from signatures.common.errors import UserError, UserNotice, one_line
from signatures.common.terminal import printable_json

ROOT = "verihop"
LEFT_OUT = "[text left out]"
# Of a login or a proxy; what says how to go on is in all logs, the title only where texts are.
WEB_PAGE = "a web page{title} came in place of a reply: log in there, or check the proxy or gateway"
_WEB_PAGE = re.compile(WEB_PAGE.format(title=r"(?: \(.{1,250}?\))?"))
_QUOTING = "dspy"  # a library whose messages contain questions and replies
_log = logging.getLogger(ROOT)
_handlers: list[logging.Handler] = []
_request: contextvars.ContextVar[str | None] = contextvars.ContextVar("verihop_request", default=None)


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        family = record.name.partition(".")[0]
        message = quotable(record.getMessage()) if family == _QUOTING else record.getMessage()
        fields: dict[str, Any] = getattr(record, "verihop_fields", {"message": message})
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "verihop_event", "log"),
            **({} if family == ROOT else {"logger": record.name}),
            **({"place": f"{record.module}:{record.lineno}"} if message == LEFT_OUT else {}),
            **fields,
            **({} if (request := _request.get()) is None else {"request": request}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["traceback"] = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        return printable_json(line)


class _StandardError(logging.StreamHandler):
    """Writes to what standard error is at the moment."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:
        return sys.stderr


def event(name: str, facts: Mapping[str, Any] = {}, *, level: int = logging.INFO, **more: Any) -> None:
    """Log something that happened, where logs are JSON.

    Args:
        name: What happened, a word or two with an underscore.
        facts: JSON values; None is left out.
        level: Of `logging`; debug for whatever contains texts.
        **more: The same, named here.
    """
    if _handlers and _log.isEnabledFor(level):
        told = {key: value for key, value in {**facts, **more}.items() if value is not None}
        _log.log(level, name, extra={"verihop_event": name, "verihop_fields": told})


def of_request(id: str | None) -> contextlib.AbstractContextManager[object]:
    """Name the request of a client in the events of a block and of what it starts; None for one without a name."""
    return set_within(_request, id)


def are_json() -> bool:
    """Return whether messages for people are events as well, because `json_logs` is open."""
    return bool(_handlers)


def with_texts() -> bool:
    """Return whether events may contain texts."""
    return are_json() and _log.isEnabledFor(logging.DEBUG)


def quotable(text: str) -> str:
    """Return a text as a message may quote it: `LEFT_OUT` where logs are JSON without texts, or `WEB_PAGE` of one."""
    if not text or not are_json() or with_texts():
        return text
    return WEB_PAGE.format(title="") if _WEB_PAGE.search(text) else LEFT_OUT


def message_of(error: UserError) -> str:
    """Return the message of an error, with what it quotes as messages may."""
    message = str(error)
    for text in error.quotes:
        message = message.replace(text, quotable(text))
    return message


def crashed(error: BaseException, **facts: Any) -> None:
    """Log an internal error with its traceback."""
    trace = "".join(traceback.format_exception(error)).rstrip("\n")
    named = f"{type(error).__name__}: {one_line(error, 1000)}"
    event("crashed", facts, level=logging.ERROR, exception=named, traceback=trace)


@contextlib.contextmanager
def json_logs(*, debug: bool = False) -> Iterator[None]:
    """Write events, warnings, and what libraries log as a warning or an error, as JSON lines while the block runs.

    So are errors that end a thread. Libraries with handlers of their own write nothing beside that on standard error.

    Args:
        debug: Also events with texts.
    """
    handler, call_handlers = _StandardError(), logging.Logger.callHandlers
    handler.setFormatter(_JsonLines())
    level, shown, hooks = _log.level, warnings.showwarning, (threading.excepthook, sys.unraisablehook)
    _log.setLevel(logging.DEBUG if debug else logging.INFO)
    _handlers.append(handler)
    warnings.showwarning = _warn  # type: ignore[assignment]
    threading.excepthook, sys.unraisablehook = _crashed_thread, _ignored
    # Not a handler of the root logger: libraries that are imported later keep their messages from it.
    logging.Logger.callHandlers = _call_handlers  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        logging.Logger.callHandlers = call_handlers  # type: ignore[method-assign]
        threading.excepthook, sys.unraisablehook = hooks
        warnings.showwarning = shown
        _handlers.remove(handler)
        _log.setLevel(level)


def _call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
    """Write a record as a line of JSON; give it to other handlers as well, but to those that write lines for people."""
    if record.levelno >= logging.WARNING or record.name.partition(".")[0] == ROOT:
        for ours in list(_handlers)[-1:]:
            ours.handle(record)
    at: logging.Logger | None = logger
    while at is not None:
        for other in at.handlers:
            for_people = type(other) is logging.StreamHandler or type(other).__name__ == "RichHandler"
            if not for_people and record.levelno >= other.level:
                other.handle(record)
        at = at.parent if at.propagate else None


def _crashed_thread(end: threading.ExceptHookArgs) -> None:
    if end.exc_value is not None and end.exc_type is not SystemExit:
        crashed(end.exc_value, thread=end.thread.name if end.thread else None)


def _ignored(end: "sys.UnraisableHookArgs") -> None:
    if end.exc_value is not None:
        crashed(end.exc_value, ignored_in=repr(end.object))


def _warn(message: Warning | str, category: type[Warning], *_: object) -> None:
    if issubclass(category, UserNotice):
        event("notice", level=logging.WARNING, message=str(message))
    else:
        event("warning", level=logging.WARNING, message=str(message), category=category.__name__)
