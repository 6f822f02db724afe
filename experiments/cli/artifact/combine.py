"""`verihop artifact ensemble`, `cascade` and `selective`: combine artifacts, fitted on questions or not."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import counter, emit, next_step, note, say
from experiments.cli.shared.next_commands import QUESTION, command, index_here, naming, used
from experiments.cli.shared.options import OwnPrograms, with_option_groups
from experiments.runs.specs import CascadeSpec, Selection, SelectiveSpec
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from experiments.pipeline.compiling.combined import Combined
    from programs.artifact import Artifact


Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for the new artifact.")]
_SET = 'A knob as name=value, repeatable, e.g. --set "weights=bias=-1 stated=-2".'
Knobs = Annotated[list[str] | None, typer.Option("--set", help=_SET, show_default=False)]


def ensemble(
    folders: Annotated[
        list[Path], typer.Argument(metavar="ARTIFACT", help="Two or more artifacts, most trusted first.")
    ],
    out: Out,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    own_programs: OwnPrograms = None,
) -> None:
    """Combine artifacts that answer every question; the majority of the short answers decides.

    In a tie, the answer of the earlier artifact is returned. A question takes the LM calls of all of them.
    """
    _combine("ensemble", folders, out, {}, overwrite, as_json, own_programs)


@with_option_groups
def cascade(
    cheap: Annotated[Path, typer.Argument(help="The artifact that answers every question.")],
    expensive: Annotated[Path, typer.Argument(help="The artifact used where the cheap answer is uncertain.")],
    out: Out,
    fitting: CascadeSpec,
    selection: Selection,
    lm: LMSpec,
    limits: options.Limits,
    result: options.Replacing,
    knobs: Knobs = None,
    own_programs: OwnPrograms = None,
) -> None:
    """Combine a cheap artifact with an expensive one, which is asked only where features of the cheap answer say so.

    With --fit the weights of the features and the threshold are fitted on training questions; without it they are those
    of --set or the defaults, and no LM is called. If the budget is spent, nothing is written (exit code 3); the same
    command with a larger budget reuses the cached replies.
    """
    chosen = options.pairs(knobs)
    if fitting.fit is None:
        _check_unused(fitting, selection, lm, limits)
        _combine("cascade", [cheap, expensive], out, chosen, result.overwrite, result.as_json, own_programs)
        return
    from experiments.pipeline.compiling.cascade import cascade_of

    what, said = cascade_of(cheap, expensive, fitting, chosen), f"cascade of {cheap}, {expensive}"
    _fit(what, selection, lm, limits, out, result, said, _cascade_lines, own_programs)


def _cascade_lines(record: "Artifact") -> Iterator[str]:
    found, metric = record.optimizer["details"], record.metric["name"]
    yield f"Fitted on {found['questions']} questions: threshold {record.knobs['threshold']:.4g}, rule {found['rule']}"
    yield f"On these questions ({metric} in percent, mean tokens; evaluate on others):"
    names = {"never": "expensive one never asked", "fitted": "cascade", "always": "expensive one always asked"}
    for case, name in names.items():
        one = found[case]
        asked = f", asks {100 * one['asked']:.0f} %" if case == "fitted" else ""
        yield f"  {name:26} {100 * one['score']:5.1f} at {one['tokens']:.0f}{asked}"


@with_option_groups
def selective(
    program: Annotated[Path, typer.Argument(metavar="ARTIFACT", help="The artifact that answers.")],
    out: Out,
    fitting: SelectiveSpec,
    selection: Selection,
    lm: LMSpec,
    limits: options.Limits,
    result: options.Replacing,
    knobs: Knobs = None,
    own_programs: OwnPrograms = None,
) -> None:
    """Let an artifact answer only where its answer is likely enough to be right, and abstain elsewhere.

    With --fit the probability of being right is fitted on training questions, so that the stated confidence is
    calibrated. With --precision the threshold is fitted too, and tested on a held-out part of the questions. Without
    --precision all answers are given. Without --fit weights and threshold are those of --set or the defaults, and no LM
    is called. If the budget is spent, nothing is written (exit code 3).
    """
    chosen = options.pairs(knobs)
    if fitting.fit is None:
        _check_unused(fitting, selection, lm, limits)
        _combine("selective", [program], out, chosen, result.overwrite, result.as_json, own_programs)
        return
    from experiments.pipeline.compiling.selective import selective_of

    what, said = selective_of(program, fitting, chosen), f"selective {program}"
    _fit(what, selection, lm, limits, out, result, said, _selective_lines, own_programs)


def _selective_lines(record: "Artifact") -> Iterator[str]:
    found, asked, metric = record.optimizer["details"], record.optimizer["arguments"], record.metric["name"]
    right = f"{found['right']} of {found['questions']} questions right by {metric}"
    yield f"Fitted on {found['fitted_on']} answers, features: {found['rule']}; {right}"
    if (tested := found["tested"]) is None:
        return
    given, of = tested["answered"], found["tested_on"]
    yield (
        f"Tested on {of} others: with a probability of at least {tested['least']:.3g} it gives {given} "
        f"({100 * given / of:.0f} %), {tested['right']} right ({100 * tested['right'] / given:.0f} %)"
    )
    yield f"Precision of at least {asked['precision']:g} on questions like these, delta {asked['delta']:g}"


def _combine(
    kind: str,
    folders: Sequence[Path],
    out: Path,
    knobs: dict[str, Any],
    overwrite: bool,
    as_json: bool,
    own_programs: Sequence[str] | None,
) -> None:
    """Combine artifacts without fitting, and print what was written."""
    from experiments.runs.files import git_revision
    from programs.artifact import combine

    record = combine(kind, folders, out, knobs=knobs, overwrite=overwrite, revision=git_revision())
    if as_json:
        emit({"artifact": str(out), **record.model_dump(mode="json")})
        return
    say(f"Wrote {out}: {kind} of {', '.join(map(str, folders))}")
    _show_next(record, out, own_programs)


def _check_unused(*groups: Any) -> None:
    """Raise UserError if one of the options is used, which are of fitting only."""
    if extra := next((words for group in groups if (words := used(group))), None):
        raise UserError(f"{extra[0]} applies only to fitting: add --fit QUESTIONS.")


def _fit(
    what: "Combined",
    selection: Selection,
    lm: LMSpec,
    limits: options.Limits,
    out: Path,
    result: options.Replacing,
    said: str,
    lines: "Callable[[Artifact], Iterator[str]]",
    own_programs: Sequence[str] | None,
) -> None:
    """Fit and write with a counter of answers, and print the notes and what was written.

    Args:
        said: What was written, for people.
        lines: Returns what was found, for people.
    """
    from experiments.pipeline.compiling.combined import fit_combined
    from experiments.pipeline.setup import open_questions
    from programs.lms.calls.control import controlled

    questions = open_questions(what.spec.fit, split=selection.split, limit=selection.limit)
    done: list[str] = []
    artifacts = len(what.folders)  # each answers every question
    asked = f"{artifacts} x {len(questions)}" if artifacts > 1 else str(len(questions))
    with counter(f"Answers, of {asked}", shown=not result.quiet) as show, controlled(note):

        def report(outcome: Any) -> None:
            done.append(outcome.id)
            show(len(done))

        asking = lm.for_threads(what.spec.threads), limits.budget()
        record, notes = fit_combined(what, questions, *asking, out, overwrite=result.overwrite, report=report)
    for text in notes:
        note(f"Note: {text}")
    if result.as_json:
        emit({"artifact": str(out), **record.model_dump(mode="json"), "notes": notes})
        return
    say(f"Wrote {out}: {said}")
    for line in lines(record):
        say(line)
    _show_next(record, out, own_programs, *used(lm))


def _show_next(record: "Artifact", out: Path, own_programs: Sequence[str] | None, *words: str) -> None:
    """Print the commands that follow; `words` are options of asking that the artifact does not store."""
    own = naming(*own_programs or ())
    index = None if record.data.get("index") else index_here()
    index_words = () if index is None else ("--index", index)
    following = [command("verihop", "artifact", "show", out, *own)]
    if record.data.get("index") or record.corpus is None or index is not None:
        following.insert(0, command("verihop", "ask", "--artifact", out, *own, *index_words, *words, QUESTION))
    next_step(*following)
