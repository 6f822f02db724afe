"""Structured logs: one JSON object per line on standard error, for services and long runs.

    with json_logs():
        event("question", id="q1", seconds=1.2)

Without `json_logs` events go nowhere. Those of level info and above have ids, counts, seconds and costs, never the text
of a question, a passage or a reply; level debug has them, and so may the traceback of an error. Keys are hidden in all.
"""

import contextlib
import logging
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from signatures.common.errors import UserNotice
from signatures.common.terminal import printable_json

ROOT = "verihop"
_log = logging.getLogger(ROOT)
_handlers: list[logging.Handler] = []


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, "verihop_fields", {"message": record.getMessage()})
        name = getattr(record, "verihop_event", "log")
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": name,
            **({} if record.name.partition(".")[0] == ROOT else {"logger": record.name}),
            **fields,
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


def are_json() -> bool:
    """Return whether messages for people are events as well, because `json_logs` is open."""
    return bool(_handlers)


def with_texts() -> bool:
    """Return whether events may contain texts."""
    return are_json() and _log.isEnabledFor(logging.DEBUG)


@contextlib.contextmanager
def json_logs(*, debug: bool = False) -> Iterator[None]:
    """Write events, warnings, and what libraries log as a warning or an error, as JSON lines while the block runs.

    Args:
        debug: Also events with texts.
    """
    handler, root = _StandardError(), logging.getLogger()
    handler.setFormatter(_JsonLines())
    level, shown = _log.level, warnings.showwarning
    _log.setLevel(logging.DEBUG if debug else logging.INFO)
    root.addHandler(handler)
    _handlers.append(handler)
    warnings.showwarning = _warn  # type: ignore[assignment]
    try:
        yield
    finally:
        warnings.showwarning = shown
        _handlers.remove(handler)
        root.removeHandler(handler)
        _log.setLevel(level)


def _warn(message: Warning | str, category: type[Warning], *_: object) -> None:
    if issubclass(category, UserNotice):
        event("notice", level=logging.WARNING, message=str(message))
    else:
        event("warning", level=logging.WARNING, message=str(message), category=category.__name__)
