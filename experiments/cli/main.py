"""The command line: `verihop COMMAND --help` tells each command's options.

Only names and options are loaded here; each command imports what it needs when it runs, so that help is instant.
"""

import errno
import sys
import warnings
from typing import TextIO

import typer

from experiments.cli.ask import ask
from experiments.cli.compare import compare
from experiments.cli.compile import compile_
from experiments.cli.data import data
from experiments.cli.demo import demo
from experiments.cli.eval import eval_
from experiments.cli.index import index
from experiments.cli.judge import judge
from experiments.cli.keyfacts import keyfacts
from experiments.cli.programs import programs
from experiments.cli.review import review
from signatures.common.errors import UserNotice, user_error_within

_DISK = {
    errno.ENOSPC: "Free some space and run the same command again (with --resume where it has one).",
    errno.EDQUOT: "Free some space and run the same command again (with --resume where it has one).",
    errno.EACCES: "Choose a folder that you may write to.",
    errno.EROFS: "Choose a folder that you may write to.",
    errno.ENOENT: "Check the path.",
    errno.EEXIST: "A file stands where a folder is needed: choose another path.",
    errno.ENOTDIR: "Choose a path whose parents are folders.",
    errno.EISDIR: "Name a file, not a folder.",
}

app = typer.Typer(
    name="verihop",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Answer multi-hop questions over a corpus with compiled DSPy programs, and show the evidence.",
)
app.command("demo")(demo)
app.command("ask")(ask)
app.command("index")(index)
app.add_typer(data, name="data")
app.command("compile")(compile_)
app.command("eval")(eval_)
app.command("compare")(compare)
app.command("judge")(judge)
app.add_typer(keyfacts, name="keyfacts")
app.command("programs")(programs)
app.add_typer(review, name="review")


def main() -> None:
    """Run the command line; a user's mistake is one line and exit code 2, a spent budget 3, Ctrl-C 130."""
    shown = warnings.showwarning
    warnings.showwarning = _show_warning
    try:
        app(prog_name="verihop")
    except Exception as error:
        if mistake := _mistake_within(error):
            typer.echo(f"verihop: {mistake}", err=True)
            sys.exit(2)
        raise
    except BaseException as error:
        if type(error).__name__ == "BudgetExceeded":  # by name: importing it would load the LM stack for every command
            typer.echo(f"verihop: {error}", err=True)
            sys.exit(3)
        raise
    finally:
        warnings.showwarning = shown


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show what people should bear in mind as one line, without a place in the code; other warnings as Python does."""
    if issubclass(category, UserNotice):
        text = f"verihop: note: {message}"
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line).rstrip("\n")
    typer.echo(text, file=file or sys.stderr)


def _mistake_within(error: Exception) -> str | None:
    """Return what the user can mend in an error, as one line; None when it is ours."""
    if mistake := user_error_within(error):
        return str(mistake)
    if isinstance(error, OSError) and error.errno in _DISK:
        return f"{error.strerror}: {error.filename or 'the output'}. {_DISK[error.errno]}"
    return None


if __name__ == "__main__":
    main()
