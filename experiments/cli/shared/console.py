"""Output of the commands: results on standard output, everything else on standard error.

Untrusted text (answers, passages, errors of servers) passes `signatures.common.terminal`, whatever prints it.
"""

import contextlib
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from signatures.common.errors import UserError
from signatures.common.logs import are_json, event
from signatures.common.progress import ProgressLine
from signatures.common.terminal import open_console, printable, printable_json

if TYPE_CHECKING:
    from programs.own.contract import PointResult

WIDTH = 80  # characters of a line of text


def emit(value: dict[str, Any]) -> None:
    """Print one JSON object on standard output."""
    sys.stdout.write(printable_json(value) + "\n")


def say(text: str = "") -> None:
    """Print a line of results on standard output."""
    typer.echo(printable(text))


def listed(counts: Mapping[str, int]) -> str:
    """Return names with their counts on one line."""
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def wrapped(text: str, indent: int = 0, further: int = 0) -> str:
    """Return a text in lines of 80 characters, or longer ones where a word is longer; no word is broken.

    Args:
        text: One paragraph; spaces at its beginning are part of the indentation.
        indent: Spaces before its first line.
        further: More spaces before the other lines.
    """
    words = text.lstrip(" ")
    indent += len(text) - len(words)
    return textwrap.fill(
        words,
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + further),
        break_on_hyphens=False,
        break_long_words=False,  # a URL that is cut cannot be opened
    )


def show(table: Any) -> None:
    """Print a rich table or group on standard output."""
    open_console().print(table)


def fits(table: Any) -> bool:
    """Return whether the terminal is as wide as a rich table needs."""
    console = open_console()
    unlimited = console.options.update(max_width=10_000)
    return bool(console.measure(table, options=unlimited).minimum <= console.width)


def note(text: str) -> None:
    """Print a message on standard error; where logs are JSON, as an event. What cannot be written ends no work."""
    if are_json():
        event("note", message=text)
    else:
        with contextlib.suppress(OSError):  # the disk of a log is full
            typer.echo(printable(text), err=True)


def next_step(*commands: str) -> None:
    """Print the commands to run next, on standard error."""
    note("Next: " + "\n      ".join(commands))


FAULTY = 2  # exit code of a check that found a fault
GOES_ON = "Interrupted. Rerun the same command to continue."


@contextlib.contextmanager
def interruptible(text: str = GOES_ON) -> Iterator[None]:
    """Print a message, once, when Ctrl-C ends the block."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        note(text)
        interrupt.add_note(text)  # said already
        raise


@contextlib.contextmanager
def resumable() -> Iterator[None]:
    """Print how to resume when Ctrl-C or a spent budget ends the block, and notices of its LM calls."""
    from programs.lms.calls.budget import BudgetExceeded
    from programs.lms.calls.control import controlled

    try:
        with controlled(note), interruptible("Interrupted. Resume with the same command and --resume."):
            yield
    except BudgetExceeded:
        note("Stopped. Resume with the same command, --resume and a larger budget.")
        raise


@contextlib.contextmanager
def counter(what: str, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show a running count on standard error, for work of unknown length; yield the function that sets it."""
    with ProgressLine(what, "spinner", "{task.description} {task.completed:.0f}", "elapsed", shown=shown) as line:
        yield lambda done: line.update(completed=done)


class Activity(ProgressLine):
    """A line on standard error that says what is being done and for how long; on a terminal only."""

    def __init__(self, what: str, *, shown: bool):
        super().__init__(printable(what), "spinner", "what", "elapsed", shown=shown, terminal=True, transient=True)

    @contextlib.contextmanager
    def paused(self, then: str) -> Iterator[None]:
        """Remove the line while the block prints results; `then` is what is done next."""
        self._bar.stop()
        try:
            yield
        finally:
            self.update(printable(then))
            self._bar.start()


@contextlib.contextmanager
def transfer(what: str, *, shown: bool) -> Iterator[Callable[[int, int | None], None]]:
    """Show the progress of a download on standard error; yield the function that sets bytes done and in total."""
    columns = ("what", "bar", "bytes", "bytes per second", "left")
    with ProgressLine(what, *columns, shown=shown) as line:
        yield lambda done, total: line.update(completed=done, total=total)


_SHORT = 200  # characters of a reply that is not shown whole


def show_call(call: dict[str, Any], *, whole: bool) -> None:
    """Print an LM call: who asked, what it took, the messages as sent, and the reply; if not whole, its start only."""
    say(f"Call {call['call']}: {_asker(call)}: {', '.join(_facts(call))}")
    if whole:
        for message in call["messages"]:
            _block(str(message.get("role", "")), _content(message))
    for reply in call["replies"]:
        if whole and reply.get("thinking"):
            _block("thinking", reply["thinking"])
        for tool in reply.get("tool_calls", ()):
            say(f"  calls {tool['name']}({tool['arguments']})")
        text = reply["text"]
        if whole:
            _block("reply", text)
        elif text:
            say(f"  {textwrap.shorten(text, _SHORT, placeholder=' ...')}")
    for name, what in (("error", "error"), ("unreadable", "the reply could not be read")):
        if call[name]:
            say(f"  {what}: {call[name]}")
    if whole:
        say()


def _asker(call: dict[str, Any]) -> str:
    if call["metric"]:
        return f"judge of {call['metric']}"
    return str(call["predictor"] or call["signature"] or call["model"])


def _facts(call: dict[str, Any]) -> list[str]:
    facts = [f"{call['prompt_tokens']:,.0f} + {call['completion_tokens']:,.0f} tokens", f"{call['seconds']:.2f} s"]
    if call["cached"]:
        facts[0] = f"cached ({call['cached_tokens']:,.0f} tokens)"
    if call["usd"]:
        facts.append(f"{call['usd']:.6f} USD")
    if call["retries"]:
        facts.append(f"{call['retries']:.0f} retries")
    facts += [f"{name} {call['settings'][name]}" for name in ("temperature", "rollout_id") if name in call["settings"]]
    return facts + [f"ended by {reason}" for reason in _endings(call)]


def _endings(call: dict[str, Any]) -> list[str]:
    return [reply["finish_reason"] for reply in call["replies"] if reply.get("finish_reason") not in (None, "stop")]


def _content(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "" if content is None else str(content)


def _block(title: str, text: str) -> None:
    say(f"  {title}:")
    say(textwrap.indent(text.rstrip(), "    ") if text.strip() else "    (nothing)")


def lines_of(path: Path, *, stripped: bool = True) -> list[str]:
    """Return the lines of a text file that are not blank, without the spaces around them; of standard input for `-`.

    Args:
        stripped: Whether the spaces around lines are left out.

    Raises:
        UserError: The file cannot be read, or is not UTF-8.
    """
    try:
        content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        lines = (line for line in content.decode("utf-8-sig").splitlines() if line.strip())
        return [line.strip() if stripped else line for line in lines]
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8: convert the file.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): check the path.") from error


_CAPTION = (
    "Means over the n validation questions of an optimizer's last rung: compare rows of equal n. p: one-sided paired "
    "permutation test of the best against the uncompiled program, on questions that were held back. Calls are over all "
    "rungs, as if none were cached; sent: those of this run that were not."
)


def race_table(race: Mapping[str, Any], metric: str) -> Any:
    """Return the table of a race (`optimizers/teleprompters/race/race.py`) for rich."""
    from rich.markup import escape
    from rich.table import Table

    from experiments.analysis.summary import percent

    priced = any(row.get("usd") for row in race["rows"])
    numbers = [escape(metric), "95 % interval", "n", "p", "calls", "sent", *(["usd"] if priced else [])]
    table = Table(title="Race of the optimizers", caption=_CAPTION)
    table.add_column("optimizer", no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    for row in filter(lambda row: "calls" in row, race["rows"]):
        scored = "score" in row
        table.add_row(
            escape(row["optimizer"]),
            percent(row["score"]) if scored else "-",
            f"{percent(row['low'])} to {percent(row['high'])}" if scored else "-",
            str(row.get("n", "-")),
            f"{row['p']:.3f}" if "p" in row else "-",
            f"{row['calls']:,}",
            f"{row['sent']:,}",
            *([f"{row['usd']:.4f}"] if priced else []),
        )
    return table


def race_outcomes(race: Mapping[str, Any]) -> list[str]:
    """Return a line for each optimizer that was dropped, does not fit or was chosen, then why the race ended so."""
    lines = [f"{row['optimizer']}: {row['outcome']}" for row in race["rows"] if row["outcome"]]
    ended = [f"The race ended early: {race['stopped']}"] if race["stopped"] else []
    return [*lines, *ended, race["why"]]


_INDENT = 4


def show_rows(
    rows: dict[str, dict[str, Any]], details: Callable[[dict[str, Any]], Iterator[str]], *, then: str, as_json: bool
) -> None:
    """Show each row with its summary, source and details, and then the next command; or the rows as JSON."""
    if as_json:
        emit(rows)
        return
    for name, row in rows.items():
        say(wrapped(f"{name}: {row['summary']}", further=_INDENT))
        say(wrapped(row["source"], _INDENT))
        for line in details(row):
            say(wrapped(line, _INDENT, 0 if line.startswith(" ") else 2))
    next_step(then)


def show_points(what: str, name: str, results: "Sequence[PointResult]", total: int, *, as_json: bool) -> None:
    """Print how each point was kept; exit 1 if one was not.

    Args:
        what: Was checked: "program" or "retriever".
        name: Its name.
        total: Points there are; fewer are checked where one does not end, or a retriever does not answer.
    """
    broken = sum(result.broken is not None for result in results)
    if as_json:
        emit({what: name, "kept": not broken, "points": [vars(result) for result in results]})
    else:
        for result in results:
            say(f"{'ok    ' if result.broken is None else 'BROKEN'} {result.point}")
            if result.broken is not None:
                say(f"       {result.broken}")
        note(f"{name} keeps {len(results) - broken} of {total} points.")
    if broken:
        raise typer.Exit(1)
