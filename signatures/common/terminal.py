"""Print untrusted text on a terminal: control characters become visible, keys are hidden.

Passages, answers, titles, file names and errors of servers may contain escape sequences that move the cursor, change
the window title or write to the clipboard, characters that reverse the reading direction, and invisible ones. All
commands print through this module: plain text by `printable`, rich renderables on a console of `open_console`, JSON by
`printable_json`, and what libraries log or raise by `printable_diagnostics`.
"""

import contextlib
import functools
import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from signatures.common.secrets import redact, redacted

if TYPE_CHECKING:
    from rich.console import Console

# C0 but tab and line feed; DEL and C1; soft hyphen; Arabic letter mark, direction marks, overrides and isolates;
# zero-width space, word joiner and invisible operators; line and paragraph separators; annotation marks, byte-order
# mark, tags, lone surrogates. https://www.unicode.org/reports/tr9/ and https://www.unicode.org/reports/tr36/
_ALWAYS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff"
)
# Zero-width (non-)joiners belong to Arabic and Indic scripts and to emoji; beside ASCII they only hide something.
_JOINER = "(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
_HIDDEN = re.compile(f"[{_ALWAYS}]|{_JOINER}")


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shown(text: str) -> str:
    r"""Return `text` with control, direction and invisible characters as escapes such as `\x1b`.

    Tabs and line feeds stay; CR LF becomes LF.
    """
    return _HIDDEN.sub(_visible, text.replace("\r\n", "\n"))


def printable(text: str) -> str:
    """Return `text` as it may be printed: nothing in it is sent to the terminal as a command, and keys are hidden."""
    return shown(redact(text))


def printable_json(value: Any) -> str:
    """Return `value` as JSON in one line; characters that a terminal could act on are JSON escapes, so it stays exact.

    Keys are hidden; what is no JSON type is written as text. NaN and infinity, which JSON has not, become null.
    """
    dumped = functools.partial(json.dumps, ensure_ascii=False, default=lambda item: redact(str(item)))
    try:
        text = dumped(redacted(value), allow_nan=False)
    except ValueError:
        text = dumped(json.loads(dumped(redacted(value)), parse_constant=lambda constant: None))
    return _HIDDEN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def open_console(**options: Any) -> "Console":
    """Return a rich console that prints text as `printable` does, without links and emoji codes."""
    return _console_class()(emoji=False, **options)


@functools.cache
def _console_class() -> "type[Console]":
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.errors import MarkupError
    from rich.segment import Segment
    from rich.text import Text

    class PrintableConsole(Console):
        """Prints text as `printable` does."""

        def render_str(self, text: str, **options: Any) -> Text:
            """Return the text before it is wrapped, so that its width is that of the visible escapes."""
            text = printable(text)
            try:
                return super().render_str(text, **options)
            except MarkupError:  # brackets of a text from outside
                return super().render_str(text, **{**options, "markup": False})

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            """Return the segments of a renderable; those of text that did not pass `render_str` are treated as well."""
            for segment in super().render(renderable, options):
                if segment.control:
                    yield segment
                    continue
                style = segment.style.update_link(None) if segment.style and segment.style.link else segment.style
                yield Segment(shown(segment.text), style)

    return PrintableConsole


@contextlib.contextmanager
def printable_diagnostics() -> Iterator[None]:
    """Print tracebacks, also those of threads, and what libraries log as `printable` does while the block runs."""
    hooks, factory = (sys.excepthook, threading.excepthook, sys.unraisablehook), logging.getLogRecordFactory()

    def record(*arguments: Any, **options: Any) -> logging.LogRecord:
        made = factory(*arguments, **options)
        with contextlib.suppress(TypeError, ValueError):  # arguments that do not fit are reported by logging itself
            made.msg, made.args = printable(made.getMessage()), ()
        if made.exc_info and made.exc_info[0] is not None and not made.exc_text:
            made.exc_text = printable("".join(traceback.format_exception(*made.exc_info)).rstrip("\n"))
        return made

    sys.excepthook, threading.excepthook, sys.unraisablehook = print_exception, _print_of_thread, _print_ignored
    logging.setLogRecordFactory(record)
    try:
        yield
    finally:
        logging.setLogRecordFactory(factory)
        if sys.exc_info()[0] is None:  # else the process ends, and Python calls them after this block
            sys.excepthook, threading.excepthook, sys.unraisablehook = hooks


def print_exception(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """Print a traceback on standard error; the hook for uncaught exceptions."""
    sys.stderr.write(printable("".join(traceback.format_exception(kind, error, trace))))
    sys.stderr.flush()


def _print_of_thread(end: threading.ExceptHookArgs) -> None:
    if end.exc_type is SystemExit:
        return
    sys.stderr.write(f"Exception in thread {end.thread.name if end.thread else 'unknown'}:\n")
    print_exception(end.exc_type, end.exc_value, end.exc_traceback)


def _print_ignored(end: "sys.UnraisableHookArgs") -> None:
    sys.stderr.write(printable(f"{end.err_msg or 'Exception ignored in'}: {end.object!r}\n"))
    print_exception(end.exc_type, end.exc_value, end.exc_traceback)
