"""The Typer application of the command line, whose help is plain text: Typer's own boxes load rich and its Markdown."""

import contextlib
import errno
import functools
import itertools
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from experiments.cli.shared.console import note, resumable
from experiments.cli.shared.options import Output
from experiments.cli.shared.settings.known import (
    apply_settings,
    read_settings,
    setting_of,
    settings_applied,
    settings_of,
)
from signatures.common.errors import UserError, needing, one_line, user_error_within
from signatures.common.logs import message_of, quotable

if TYPE_CHECKING:
    import dspy


Otel = Annotated[
    bool,
    typer.Option(
        "--otel",
        help="Send questions, LM calls and searches as spans of OpenTelemetry, where its variables OTEL_... say.",
    ),
]

LOG_VARIABLE = "VERIHOP_LOG"
FORMS = ("text", "json", "json:debug")
Log = Annotated[
    str | None,
    typer.Option(
        help="Messages on standard error: text, json (an object per line; no texts of questions or answers), or "
        f"json:debug (with them); by default the variable {LOG_VARIABLE}, else text.",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Watched(Output):
    """What is printed, logged and sent."""

    otel: Otel = False
    log: Log = None


@contextlib.contextmanager
def logged_as_asked(asked: str | None) -> Iterator[None]:
    """Write messages and events of a command in the block as its option `--log` says.

    Args:
        asked: The value of the option; None if it was not given.

    Raises:
        UserError: There are no such logs.
    """
    form = form_of_logs(asked)
    if form == "text":
        yield
        return
    from signatures.common.logs import json_logs

    with json_logs(debug=form.endswith("debug")), _ends_as_events():
        yield


def form_of_logs(asked: str | None) -> str:
    """Return the form that is asked for, else that of the variable, else text.

    Raises:
        UserError: There is no such form.
    """
    form = asked or os.environ.get(LOG_VARIABLE) or "text"
    if form not in FORMS:
        raise UserError(f"Unknown log format {form!r}. Choose from: {', '.join(FORMS)}.")
    return form


@contextlib.contextmanager
def _ends_as_events() -> Iterator[None]:
    """Log what ends the block as an event, in place of the line that commands print; exit codes stay."""
    from signatures.common.logs import crashed, event

    try:
        yield
    except KeyboardInterrupt as interrupt:
        event("interrupted")
        interrupt.add_note("interrupted")  # said already
        raise
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        in_words = getattr(error, "format_message", None)  # of Typer's errors in the words of a command
        if known := in_words() if in_words else user_error_message(error):
            event("user_error", level=logging.ERROR, message=known)
            raise typer.Exit(2) from error
        crashed(error)
        raise typer.Exit(1) from error
    except BaseException as end:
        if type(end).__name__ != "BudgetExceeded":  # by name: its import would load the LM stack
            raise
        event("budget_exceeded", level=logging.ERROR, message=str(end))
        raise typer.Exit(3) from end


@contextlib.contextmanager
def spans_sent(wanted: bool) -> Iterator[Callable[["dspy.Module"], "dspy.Module"]]:
    """Send spans of the questions in the block, if wanted; yield what lets the searches of a program be spans, too."""
    if not wanted:
        yield lambda program: program
        return
    with needing("otel", "Sending spans"):
        from programs.tracing.questions import traced_by
        from programs.tracing.spans import open_spans

        spans = open_spans(note)
    try:
        with traced_by(spans):
            yield spans.traced
    finally:
        spans.close()


def run_watched(otel: bool) -> Callable[["dspy.Module"], contextlib.AbstractContextManager[None]]:
    """Return what is opened around the run of a program: it sends spans, if wanted, and says how to resume the run."""

    @contextlib.contextmanager
    def around(program: "dspy.Module") -> Iterator[None]:
        with spans_sent(otel) as watched, resumable():
            watched(program)
            yield

    return around


_WIDEST = {"max_content_width": 110}  # as wide as the terminal up to here; 80 if there is none


_ARGUMENTS = "Arguments"  # section of the help
_HELP = frozenset({"--help"})
_SHOWS_SETTINGS = "config"  # the command
_LOG = "log"  # the option
_SEVERAL = ("--budget", "--question-budget")
_LIMIT = re.compile(r"(calls|tokens|usd|seconds)=\S*")


class Command(TyperCommand):
    """A command whose help has one section for each panel of its options.

    Settings are read only where some of its options are settings, or where it `uses_cache`: a mistake in the settings
    file does not stop a command that takes nothing from it.
    """

    uses_cache = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a command, with several limits behind one option as one value, and apply settings."""
        joined: list[str] = []
        for word in args:
            if len(joined) > 1 and joined[-2] in _SEVERAL and _LIMIT.fullmatch(word):
                joined[-1] += f",{word}"
            else:
                joined.append(word)
        if any(word.partition("=")[0] == "--config" for word in args):
            with self._logged(_value_of(_LOG, joined)):
                raise UserError("--config goes before the command: verihop --config FILE COMMAND.")
        parameters = self.get_params(ctx)
        takes = self.uses_cache or any(setting_of(parameter) is not None for parameter in parameters)
        # The same help whatever the settings are.
        if ctx.resilient_parsing or not takes or not _HELP.isdisjoint(joined):
            return super().parse_args(ctx, joined)
        with self._logged(_value_of(_LOG, joined)):
            settings = read_settings()
            rest = super().parse_args(ctx, joined)
            apply_settings(ctx, parameters, settings)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command, with the logs that its option `--log` asks for; say which settings change what it does."""
        with self._logged(ctx.params.get(_LOG)):
            active = settings_of(ctx)
            if active is None:
                return super().invoke(ctx)
            if self.name != _SHOWS_SETTINGS:
                said = [f"{', '.join(settings)} ({place})" for place, settings in active.stated().items()]
                for line in ([f"Settings: {'; '.join(said)}"] if said else []) + active.ignored():
                    note(line)
            with settings_applied(active):
                return super().invoke(ctx)

    def _logged(self, asked: str | None) -> AbstractContextManager[None]:
        """Return a context with the logs that are asked for, if the command has the option."""
        has_option = any(parameter.name == _LOG for parameter in self.params)
        return logged_as_asked(asked) if has_option else nullcontext()

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, and then options, with their help."""
        sections: dict[str, list[tuple[str, str]]] = {_ARGUMENTS: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                own = _ARGUMENTS if parameter.param_type_name == "argument" else "Options"
                panel = getattr(parameter, "rich_help_panel", None) or own
                sections.setdefault(panel, []).append((_plain_type(record[0]), _plain_range(record[1])))
        _write(formatter, {title: records for title, records in sections.items() if records})


class CachingCommand(Command):
    """A command that uses the cache folder, which settings name, although it has no option that is a setting."""

    uses_cache = True


class Group(TyperGroup):
    """Commands, listed with the first sentence of their help in full."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands."""
        names = self.list_commands(ctx)
        commands = {name: self.get_command(ctx, name) for name in names}
        listed = [(name, command.get_short_help_str(limit=1000)) for name, command in commands.items() if command]
        _write(formatter, {"Commands": listed})


class ByName(Group):
    """Commands, and a list of things: any other word is the name of one, which the command `show` takes."""

    other, has_help = "show", True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words; those that name no command are words of `other`."""
        if not args or args[0] not in {*self.commands, *(ctx.help_option_names if self.has_help else ())}:
            args = [self.other, *args]
        return super().parse_args(ctx, args)


class OrBuild(ByName):
    """Commands, of which `build` needs no name, not for its help either."""

    other, has_help = "build", False


def _value_of(option: str, words: Sequence[str]) -> str | None:
    """Return the value of an option among words that are not parsed yet; None if it is not there."""
    for word, following in itertools.zip_longest(words, words[1:]):
        name, equals, value = word.partition("=")
        if name == f"--{option}":
            return value if equals else following
    return None


def _plain_type(names: str) -> str:
    """Return names and type of an option without what its help says: a range, and that it may be repeated."""
    return re.sub(r"<(?:list\[)?(\w+)(?: range)?\]?>", lambda found: f"<{found[1].lower()}>", names)


def _plain_range(text: str) -> str:
    """Return the help of an option with its range in words."""
    about, bracket, extras = text.rpartition("[")
    extras = re.sub(r"([\d.e+-]+)<=x<=([\d.e+-]+)", r"\1 to \2", extras)
    return about + bracket + re.sub(r"x>=([\d.e+-]+)", r"at least \1", extras)


def _write(formatter: Any, sections: dict[str, list[tuple[str, str]]]) -> None:
    for title, records in sections.items():
        with formatter.section(title):
            formatter.write_dl(records)


class App(typer.Typer):
    """A group of commands, each a `Command`, named without arguments to get its help.

    Args:
        completion: Has options that install and show shell completion.
        options: Of `typer.Typer`.
    """

    def __init__(self, *, cls: type[Group] = Group, completion: bool = False, **options: Any) -> None:
        super().__init__(
            cls=cls,
            no_args_is_help=True,
            add_completion=completion,
            pretty_exceptions_enable=False,
            rich_markup_mode=None,
            context_settings=_WIDEST,
            **options,
        )

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Run the command line; Typer would set a `sys.excepthook` that prints keys and escape sequences."""
        return self.tree(*arguments, **options)

    @functools.cached_property
    def tree(self) -> Any:
        """The commands that were added before, built once: that takes longer than to parse a line."""
        return typer.main.get_command(self)

    def command(self, name: str | None = None, *, uses_cache: bool = False, **options: Any) -> Callable[[Any], Any]:
        """Return a decorator that adds a command, as Typer's does.

        Args:
            uses_cache: It uses the cache folder; one with an option that is a setting need not say so.
        """
        return super().command(name, cls=CachingCommand if uses_cache else Command, **options)


_DISK = {
    errno.ENOSPC: "Free some space and run the same command again (with --resume if it has one).",
    errno.EDQUOT: "Free some space and run the same command again (with --resume if it has one).",
    errno.EFBIG: "Raise the limit on the size of files (ulimit -f), and run the same command again.",
    errno.EACCES: "Let this user read it, or choose a folder that can be written.",
    errno.EROFS: "Choose a writable folder.",
    errno.ENOENT: "Check the path.",
    errno.EEXIST: "There is a file where a folder is needed: choose another path.",
    errno.ENOTDIR: "Choose a path whose parents are folders.",
    errno.ENAMETOOLONG: "Choose a shorter path.",
    errno.EISDIR: "Name a file, not a folder.",
}


def user_error_message(error: Exception) -> str | None:
    """Return the message of an error that the user can fix; None for any other error."""
    if user_error := user_error_within(error):
        return message_of(user_error)
    kinds = {kind.__name__ for kind in type(error).__mro__}  # by name, as above
    if "LMFiltered" in kinds:
        return f"{quotable(one_line(error, 1000))}. Ask in other words, or another LM."
    if "LMError" in kinds:
        return f"The LM refused the request: {quotable(one_line(error, 1000))}. Check its id, URL and settings."
    if isinstance(error, OSError) and error.errno in _DISK:
        return f"{error.strerror}: {error.filename or 'the output'}. {_DISK[error.errno]}"
    return None
