"""The command line: `verihop COMMAND --help` lists the options of a command.

Only names and options are imported here; each command imports the rest when it runs, so that help is fast.
"""

import atexit
import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn, TextIO

INTERRUPTED = 130  # as shells report a process that Ctrl-C ended
_LINE = "verihop: Interrupted.\n"


def _end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, _LINE.encode())
    os._exit(INTERRUPTED)


def _handled_by(handler: Callable[[int, FrameType | None], Any]) -> Callable[[signal.Handlers | None], None]:
    """Let a function handle Ctrl-C; return one that restores what did before, or sets another handler.

    Only the main thread can; in others nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        return lambda other: None
    before = signal.signal(signal.SIGINT, handler)

    def restore(other: signal.Handlers | None) -> None:
        signal.signal(signal.SIGINT, before if other is None else other)

    return restore


# Before a command runs nothing is lost, and an exception could be swallowed or changed by a library that is imported.
_loaded = _handled_by(_end_at_once)
try:
    import typer

    from experiments.cli.artifact.app import artifact
    from experiments.cli.ask import ask
    from experiments.cli.compile import compile_
    from experiments.cli.config import config
    from experiments.cli.corpus.data import data
    from experiments.cli.corpus.index import index
    from experiments.cli.corpus.ingest import ingest
    from experiments.cli.corpus.search import search
    from experiments.cli.corpus.sync import sync
    from experiments.cli.demo import demo
    from experiments.cli.distill.app import distill
    from experiments.cli.doctor import doctor
    from experiments.cli.eval import eval_
    from experiments.cli.judge import judge
    from experiments.cli.keyfacts import keyfacts
    from experiments.cli.metrics import metrics
    from experiments.cli.optimizers import optimizers
    from experiments.cli.programs import programs
    from experiments.cli.reproduce import reproduce
    from experiments.cli.review import review
    from experiments.cli.runs.compare import compare, leaderboard
    from experiments.cli.runs.export import export
    from experiments.cli.runs.merge import merge, vote
    from experiments.cli.runs.score import score
    from experiments.cli.runs.trace import trace
    from experiments.cli.serve import mcp, serve
    from experiments.cli.shared.app import App, user_error_message
    from experiments.cli.shared.settings.known import named_file
    from experiments.cli.tuning.replay import replay
    from experiments.cli.tuning.tune import tune
    from signatures.common.errors import UserNotice, with_causes
    from signatures.common.terminal import printable, printable_diagnostics
except BaseException:
    _loaded(None)
    raise

app = App(
    name="verihop",
    help="Answer multi-hop questions over a corpus with compiled DSPy programs, and show the evidence.",
    completion=True,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"verihop {version('verihop')}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and exit.")
    ] = False,
    settings_file: Annotated[
        Path | None,
        typer.Option("--config", help="Read this settings file instead of all others: --config FILE COMMAND."),
    ] = None,
) -> None:
    token = named_file.set(settings_file)
    context.call_on_close(lambda: named_file.reset(token))


app.command("demo")(demo)
app.command("ask")(ask)
app.command("ingest")(ingest)
app.add_typer(index, name="index")
app.command("sync", uses_cache=True)(sync)
app.command("search", uses_cache=True)(search)
app.add_typer(data, name="data")
app.command("compile")(compile_)
app.command("tune")(tune)
app.command("replay")(replay)
app.add_typer(artifact, name="artifact")
app.command("eval")(eval_)
app.command("merge")(merge)
app.command("vote")(vote)
app.command("score")(score)
app.add_typer(distill, name="distill")
app.command("compare")(compare)
app.command("leaderboard")(leaderboard)
app.command("reproduce")(reproduce)
app.command("trace")(trace)
app.command("export")(export)
app.command("judge")(judge)
app.add_typer(keyfacts, name="keyfacts")
app.add_typer(programs, name="programs")
app.command("optimizers")(optimizers)
app.command("metrics")(metrics)
app.add_typer(review, name="review")
app.command("doctor")(doctor)
app.command("config")(config)
app.command("serve")(serve)
app.command("mcp")(mcp)


def main() -> None:
    """Run the command line; a user error is one line and exit code 2, a spent budget 3, Ctrl-C 130."""
    # Processes that commands and libraries start with `python -c` import no modules of the working folder.
    os.environ["PYTHONSAFEPATH"] = "1"
    interrupts: list[int] = []  # each Ctrl-C

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        raise KeyboardInterrupt

    restore = _handled_by(interrupt)
    try:
        with printable_diagnostics():
            _run(interrupts)
    except KeyboardInterrupt as error:  # before or after what is watched below
        _end_interrupted(error)
    finally:
        # From here on nothing is lost: another Ctrl-C ends the process without a traceback of its shutdown.
        restore(signal.SIG_DFL if interrupts else None)


def run_as_process() -> None:
    """Run the command line as a separate process, which a thread inside a C++ library cannot abort when it ends.

    Python ends daemon threads, such as those that wait for an LM after Ctrl-C, by unwinding their stacks; a C++ frame
    that forbids this then aborts the process (status 134 in place of 130). So where a command failed, all that Python
    does at its end is done but that: threads are waited for, functions of `atexit` are called, output is flushed.
    """
    try:
        main()
    except SystemExit as ended:
        if not isinstance(ended.code, int) or ended.code == 0:
            raise
        code = ended.code
    else:
        return
    with contextlib.ExitStack() as end:  # from the last to the first, whatever each raises, such as another Ctrl-C
        end.callback(os._exit, code)
        end.callback(lambda: sys.stdout.flush())  # which a function of `atexit` may have replaced
        end.callback(atexit._run_exitfuncs)  # noqa: SLF001 - Python offers no public name
        end.callback(threading._shutdown)  # type: ignore[attr-defined]  # noqa: SLF001 - as above


_notices_shown: set[str] = set()


def _run(interrupts: list[int]) -> None:
    shown = warnings.showwarning
    _notices_shown.clear()
    warnings.showwarning = _show_warning
    try:
        app(prog_name="verihop")
    except Exception as error:
        if interrupts:  # some libraries turn Ctrl-C into an error of their own, e.g. while they are imported
            _end_interrupted(None)
        if message := user_error_message(error):
            typer.echo(printable(f"verihop: {message}"), err=True)
            sys.exit(2)
        raise
    except SystemExit as error:
        # 1 ends a command that logged as JSON what a library made of Ctrl-C.
        if error.code == INTERRUPTED or (interrupts and error.code == 1):
            _end_interrupted(error)
        raise
    except BaseException as error:
        if type(error).__name__ == "BudgetExceeded":  # by name: its import would load the LM stack
            typer.echo(printable(f"verihop: {error}"), err=True)
            sys.exit(3)
        raise
    finally:
        warnings.showwarning = shown


def _end_interrupted(ended: BaseException | None) -> NoReturn:
    """Exit after Ctrl-C, with a line that says so unless the command has printed one."""
    told = (isinstance(each, KeyboardInterrupt) and getattr(each, "__notes__", None) for each in with_causes(ended))
    if not any(told):
        sys.stderr.write(_LINE)
    sys.exit(INTERRUPTED)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show a `UserNotice` as one line without its place in the code, and other warnings as Python does."""
    if issubclass(category, UserNotice):
        text = f"verihop: note: {message}"
        if text in _notices_shown:  # a command may read the same run several times
            return
        _notices_shown.add(text)
    else:
        text = warnings.formatwarning(message, category, filename, lineno, line).rstrip("\n")
    with contextlib.suppress(OSError):  # as Python itself: a log on a full disk ends no work
        typer.echo(printable(text), file=file or sys.stderr)


_loaded(None)

if __name__ == "__main__":
    run_as_process()
