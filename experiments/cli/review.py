"""`verihop review`: reviewers judge key facts and answers, on a local page or in the terminal."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.app import App
from experiments.cli.shared.console import emit, next_step, note, say, show
from experiments.cli.shared.next_commands import command, new_path, reviewer, used
from experiments.cli.shared.options import with_option_groups
from signatures.common.errors import UserError
from signatures.common.specs import Field, Range
from signatures.common.terminal import open_console

if TYPE_CHECKING:
    from experiments.annotation.review.review_folder import Review
    from experiments.annotation.review.server import Session

review = App(help="Judge key facts and answers; every decision is saved at once.")

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder of the review; an existing review is resumed.")]
Folder = Annotated[Path, typer.Argument(help="Folder of a review.")]


@dataclass(frozen=True)
class Reviewing:
    """Who reviews, and where."""

    PANEL: ClassVar[str] = "Reviewer"
    reviewer: Annotated[str, Field("Name of the reviewer, recorded with every decision.")]
    terminal: Annotated[bool, Field("Review in the terminal instead of on a page.", "--terminal")] = False
    port: Annotated[int, Range(0, 65535), Field("Port of the page on 127.0.0.1; 0 for any free one.")] = 0
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True
    as_json: options.Json = False


@dataclass(frozen=True)
class Items:
    """Which items are reviewed, and with which references."""

    PANEL: ClassVar[str] = "Items"
    passages: Annotated[
        Path | None, Field("Corpus with the gold passages; by default passages.jsonl next to the questions.")
    ] = None
    raters: Annotated[int | None, Range(1), Field("Reviewers per item; by default the scale's number.")] = None
    limit: options.Limit = None


class ScaleName(StrEnum):
    """The scales for answers."""

    helpful = "helpful"
    completeness = "completeness"
    stepwise = "stepwise"
    hops = "hops"


class Undecided(StrEnum):
    """What an export does with undecided key facts."""

    refuse = "refuse"
    keep = "keep"
    drop = "drop"


@review.command()
@with_option_groups
def keyfacts(
    questions: Annotated[Path, typer.Argument(help="questions.jsonl whose questions have key_facts.")],
    out: Out,
    items: Items,
    reviewing: Reviewing,
) -> None:
    """Accept, edit or reject key facts next to their references."""
    from experiments.annotation.review.keyfact_cards import default_passages, review_keyfacts

    corpus = items.passages or default_passages(questions)
    if corpus is None:
        note(f"No references are shown: {questions.parent} has no passages.jsonl. Name the corpus with --passages.")
    _review(review_keyfacts(questions, corpus, out, raters=items.raters, limit=items.limit), reviewing)


@review.command()
@with_option_groups
def answers(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; reviewers do not see which run an answer is from.")],
    scale: Annotated[
        ScaleName,
        typer.Option(
            help="helpful: each sentence 0 or 1; completeness: 0 to 1 in quarters; stepwise: three grades by two "
            "reviewers, and a third if they disagree; hops: success, failure or error of each hop."
        ),
    ],
    out: Out,
    items: Items,
    reviewing: Reviewing,
    questions: Annotated[
        Path | None, typer.Option(help="The questions of the runs, to show their gold passages.", show_default=False)
    ] = None,
    seed: options.Seed = 0,
) -> None:
    """Rate the answers of runs on a scale of the papers, blind and in shuffled order; --limit samples questions."""
    from experiments.annotation.review.answer_cards import review_answers
    from experiments.annotation.review.cards import answer_scale
    from experiments.annotation.review.keyfact_cards import default_passages

    opened = review_answers(
        runs,
        out,
        answer_scale(scale),
        questions=questions,
        passages=items.passages or (default_passages(questions) if questions else None),
        limit=items.limit,
        seed=seed,
        raters=items.raters,
    )
    _review(opened, reviewing)


@review.command()
@with_option_groups
def resume(folder: Folder, reviewing: Reviewing) -> None:
    """Continue a review, as the same or another reviewer; undecided items come first."""
    from experiments.annotation.review.review_folder import read_review

    _review(read_review(folder), reviewing)


@review.command()
def export(
    folder: Folder,
    out: Annotated[Path, typer.Option("--out", "-o", help="questions.jsonl for key facts, a CSV file for ratings.")],
    questions: Annotated[
        Path | None, typer.Option(help="The reviewed questions, if they were moved.", show_default=False)
    ] = None,
    undecided: Annotated[
        Undecided, typer.Option(help="Undecided key facts: refuse to export, keep or drop them.")
    ] = Undecided.refuse,
    ratings: Annotated[bool, typer.Option("--ratings", help="Write CSV for key facts as well.")] = False,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Write the questions with their reviewed key facts, or the ratings as CSV."""
    from experiments.annotation.review.review_folder import export_csv, export_keyfacts, read_review

    opened = read_review(folder)
    if opened.scale.name == "keyfacts" and not ratings:
        counts = vars(export_keyfacts(opened, out, questions=questions, undecided=undecided, overwrite=overwrite))
        following = command("verihop", "review", "agreement", folder)
    else:
        counts = {"ratings": export_csv(opened, out, overwrite=overwrite), "items": len(opened.items)}
        following = command("verihop", "review", "import", out, "--out", folder)  # after ratings were added to it
    if as_json:
        emit({"file": str(out), **counts})
        return
    say(", ".join(f"{count} {what}" for what, count in counts.items()))
    say(f"Written: {out}")
    next_step(following)


@review.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="CSV with the columns item, reviewer, value, as export writes it.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the review.")],
    scale: Annotated[str | None, typer.Option(help="Refuse a review of another scale.", show_default=False)] = None,
    as_json: options.Json = False,
) -> None:
    """Import ratings from a CSV file; invalid lines are reported, and the exit code is then 2."""
    from experiments.annotation.review.review_folder import import_csv, read_review

    opened = read_review(out)
    if scale is not None and scale != opened.scale.name:
        raise UserError(f"{out} is rated on {opened.scale.name!r}, not {scale!r}. Choose another folder.")
    done = import_csv(opened, file)
    if as_json:
        emit(vars(done))
    else:
        for problem in done.problems:
            note(problem)
        say(f"{done.added} ratings added, {done.unchanged} already present, {done.blank} blank lines.")
        next_step(command("verihop", "review", "agreement", out))
    if done.problems:
        raise UserError(f"{len(done.problems)} lines of {file} are invalid. Correct them and import again.")


@review.command()
def agreement(
    folder: Folder,
    run: Annotated[
        list[Path] | None, typer.Option(help="A rated run, if it was moved; repeatable.", show_default=False)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Print kappa between reviewers, their ratings of each run, and the correlation of metrics with them."""
    from experiments.annotation.review.results import review_results
    from experiments.annotation.review.review_folder import read_review

    opened = read_review(folder)
    found = review_results(opened, run)
    if as_json:
        emit(found.as_dict())
        return
    from experiments.annotation.review.results import result_tables

    show(result_tables(found))
    if found.between.judged < found.between.items:
        next_step(command("verihop", "review", "resume", folder, "--reviewer", reviewer()))
        return
    out = folder.parent / (f"{folder.name}-questions.jsonl" if found.scale == "keyfacts" else f"{folder.name}.csv")
    next_step(command("verihop", "review", "export", folder, "--out", new_path(out)))


def _review(review: "Review", reviewing: Reviewing) -> None:
    """Let the reviewer decide until they leave; print what was saved and how to resume."""
    from experiments.annotation.review.review_folder import DecisionLog, exclusive_access, reviewer_name
    from experiments.annotation.review.server import Session

    folder = review.folder
    for reason, count in review.description.left_out.items():
        note(f"Excluded: {count} {reason}.")
    with exclusive_access(folder), DecisionLog(folder) as log:
        session = Session(review, log, reviewer_name(reviewing.reviewer, log.ratings.reviewers()))
        try:
            (_in_terminal if reviewing.terminal else _on_page)(session, reviewing)
        except KeyboardInterrupt:
            note("")
        progress = session.progress()
    decided, total, reviewer = progress.decided, progress.total, session.reviewer
    if reviewing.as_json:
        emit({"folder": str(folder), "reviewer": reviewer, "decided": decided, "items": total})
        return
    say(f"Saved: {decided} of {total} items decided by {reviewer}, in {folder}")
    again = command("verihop", "review", "resume", folder, *used(replace(reviewing, reviewer=reviewer)))
    next_step(command("verihop", "review", "agreement", folder) if decided == total else again)


def _in_terminal(session: "Session", reviewing: Reviewing) -> None:
    from experiments.annotation.review.terminal import review_in_terminal

    console = open_console(stderr=reviewing.as_json)  # with --json, standard output is for the JSON object only

    def ask(prompt: str) -> str:
        console.print(prompt, end="", markup=False, highlight=False)
        return input()

    review_in_terminal(session, console, ask)


def _on_page(session: "Session", reviewing: Reviewing) -> None:
    import threading
    import webbrowser

    from experiments.annotation.review.server import serving
    from programs.parts.threads import wait_for

    with serving(session, reviewing.port) as address:
        (note if reviewing.as_json else say)(f"Review at {address}")
        note("Press Ctrl-C to stop; a decision is saved when the page says so.")
        if reviewing.open_:
            webbrowser.open(address)
        wait_for(threading.Event())
