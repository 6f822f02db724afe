"""`verihop review`: people judge key facts and answers, on a local page or in the terminal."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli import options
from experiments.cli.console import emit, next_step, note, say

if TYPE_CHECKING:
    from experiments.annotation.review.review_folder import Review
    from experiments.annotation.review.reviewer_session import Session

review = typer.Typer(no_args_is_help=True, help="Judge key facts and answers; every decision is saved at once.")

Out = Annotated[Path, typer.Option(help="Folder of the review; one that stands there goes on.")]
Folder = Annotated[Path, typer.Argument(help="Folder of a review.")]
Reviewer = Annotated[str, typer.Option(help="Name of the person who judges; it is recorded with every decision.")]
Raters = Annotated[
    int | None, typer.Option(min=1, help="People per item; by default the scale's number.", show_default=False)
]
Terminal = Annotated[bool, typer.Option("--terminal", help="Ask here instead of on a page.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port of the page on 127.0.0.1; 0 for any free one.")]
Open = Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")]
Passages = Annotated[
    Path | None,
    typer.Option(
        help="Corpus with the gold passages; by default passages.jsonl beside the questions.", show_default=False
    ),
]


class ScaleName(StrEnum):
    """The scales for answers."""

    helpful = "helpful"
    completeness = "completeness"
    stepwise = "stepwise"
    hops = "hops"


class Undecided(StrEnum):
    """What an export does with key facts that are not settled."""

    refuse = "refuse"
    keep = "keep"
    drop = "drop"


@review.command()
def keyfacts(
    questions: Annotated[Path, typer.Argument(help="questions.jsonl whose questions have key_facts.")],
    out: Out,
    reviewer: Reviewer,
    passages: Passages = None,
    raters: Raters = None,
    limit: options.Limit = None,
    terminal: Terminal = False,
    port: Port = 0,
    open_: Open = True,
    as_json: options.Json = False,
) -> None:
    """Accept, edit or reject key facts beside their references."""
    from experiments.annotation.review.keyfact_cards import default_passages, review_keyfacts

    corpus = passages or default_passages(questions)
    if corpus is None:
        note(f"No references are shown: {questions.parent} has no passages.jsonl. Name the corpus with --passages.")
    made = review_keyfacts(questions, corpus, out, raters=raters, limit=limit)
    _sit(made, reviewer, terminal=terminal, port=port, open_=open_, as_json=as_json)


@review.command()
def answers(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; which run an answer is from stays hidden.")],
    scale: Annotated[
        ScaleName,
        typer.Option(
            help="helpful: each sentence 0 or 1; completeness: 0 to 1 in quarters; stepwise: three grades, two people, "
            "a third where they differ; hops: success, failure or error of each hop."
        ),
    ],
    out: Out,
    reviewer: Reviewer,
    questions: Annotated[
        Path | None, typer.Option(help="The questions of the runs, to show their gold passages.", show_default=False)
    ] = None,
    passages: Passages = None,
    raters: Raters = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Draw so many questions.", show_default=False)] = None,
    seed: options.Seed = 0,
    terminal: Terminal = False,
    port: Port = 0,
    open_: Open = True,
    as_json: options.Json = False,
) -> None:
    """Rate the answers of runs on a scale of the papers, blind and in shuffled order."""
    from experiments.annotation.review.answer_cards import review_answers
    from experiments.annotation.review.keyfact_cards import default_passages
    from experiments.annotation.review.rating_scales import answer_scale

    corpus = passages or (default_passages(questions) if questions else None)
    made = review_answers(
        runs,
        out,
        answer_scale(scale),
        questions=questions,
        passages=corpus,
        limit=limit,
        seed=seed,
        raters=raters,
    )
    _sit(made, reviewer, terminal=terminal, port=port, open_=open_, as_json=as_json)


@review.command()
def resume(
    folder: Folder,
    reviewer: Reviewer,
    terminal: Terminal = False,
    port: Port = 0,
    open_: Open = True,
    as_json: options.Json = False,
) -> None:
    """Go on with a review, as the same person or another; what is undecided comes first."""
    from experiments.annotation.review.review_folder import read_review

    _sit(read_review(folder), reviewer, terminal=terminal, port=port, open_=open_, as_json=as_json)


@review.command()
def export(
    folder: Folder,
    out: Annotated[Path, typer.Option(help="questions.jsonl for key facts, a CSV file for ratings.")],
    questions: Annotated[
        Path | None, typer.Option(help="The reviewed questions, if they were moved.", show_default=False)
    ] = None,
    undecided: Annotated[
        Undecided, typer.Option(help="Key facts that are not settled: refuse to export, keep or drop them.")
    ] = Undecided.refuse,
    ratings: Annotated[bool, typer.Option("--ratings", help="For key facts, too: write the decisions as CSV.")] = False,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Write the questions with their reviewed key facts, or the ratings as CSV."""
    from experiments.annotation.review.csv_exchange import export_csv
    from experiments.annotation.review.keyfact_export import export_keyfacts
    from experiments.annotation.review.review_folder import read_review

    made = read_review(folder)
    if made.scale.name == "keyfacts" and not ratings:
        counts = vars(export_keyfacts(made, out, questions=questions, undecided=undecided, overwrite=overwrite))
        following = f"verihop review agreement {folder}"
    else:
        counts = {"ratings": export_csv(made, out, overwrite=overwrite), "items": len(made.items)}
        following = f"verihop review import {out} --out ANOTHER_REVIEW"
    if as_json:
        emit({"file": str(out), **counts})
        return
    say(", ".join(f"{count} {what}" for what, count in counts.items()))
    say(f"Written: {out}")
    next_step(following)


@review.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="CSV with the columns item, reviewer, value, as export writes it.")],
    out: Annotated[Path, typer.Option(help="Folder of the review.")],
    scale: Annotated[str | None, typer.Option(help="Refuse a review of another scale.", show_default=False)] = None,
    as_json: options.Json = False,
) -> None:
    """Take ratings from a CSV file; lines that cannot be taken are reported, and the exit code is 2."""
    from experiments.annotation.review.csv_exchange import import_csv
    from experiments.annotation.review.review_folder import read_review
    from signatures.common.errors import UserError

    made = read_review(out)
    if scale is not None and scale != made.scale.name:
        raise UserError(f"{out} is rated on {made.scale.name!r}, not {scale!r}. Choose another folder.")
    done = import_csv(made, file)
    if as_json:
        emit(vars(done))
    else:
        for problem in done.problems:
            note(problem)
        say(f"{done.added} ratings added, {done.unchanged} known already, {done.blank} blank lines.")
        next_step(f"verihop review agreement {out}")
    if done.problems:
        raise UserError(f"{len(done.problems)} lines of {file} were not taken. Mend them and import again.")


@review.command()
def agreement(
    folder: Folder,
    run: Annotated[
        list[Path] | None, typer.Option(help="A rated run, if it was moved; repeatable.", show_default=False)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Print kappa between people, their ratings of each run, and how metrics go with them."""
    from experiments.annotation.review.results import review_results
    from experiments.annotation.review.review_folder import read_review

    found = review_results(read_review(folder), run)
    if as_json:
        emit(found.as_dict())
        return
    from rich.console import Console

    from experiments.annotation.review.result_tables import result_tables

    Console().print(result_tables(found))


def _sit(made: "Review", reviewer: str, *, terminal: bool, port: int, open_: bool, as_json: bool) -> None:
    """Let a person judge until they leave; say what was saved and how to go on."""
    import shlex

    from experiments.annotation.review.decisions import DecisionLog
    from experiments.annotation.review.review_folder import exclusive_access, reviewer_name
    from experiments.annotation.review.reviewer_session import Session

    folder = made.folder
    for reason, count in made.description.left_out.items():
        note(f"Left out: {count} {reason}.")
    with exclusive_access(folder), DecisionLog(folder) as log:
        session = Session(made, log, reviewer_name(reviewer, log.ratings.reviewers()))
        try:
            if terminal:
                _in_terminal(session, as_json)
            else:
                _on_page(session, port, open_, as_json)
        except KeyboardInterrupt:
            note("")
        progress = session.progress()
    if as_json:
        emit(
            {"folder": str(folder), "reviewer": session.reviewer, "decided": progress.decided, "items": progress.total}
        )
        return
    say(f"Saved: {progress.decided} of {progress.total} items decided by {session.reviewer}, in {folder}")
    again = f"verihop review resume {shlex.quote(str(folder))} --reviewer {shlex.quote(session.reviewer)}"
    done = progress.decided == progress.total
    next_step(f"verihop review agreement {shlex.quote(str(folder))}" if done else again)


def _in_terminal(session: "Session", as_json: bool) -> None:
    from rich.console import Console

    from experiments.annotation.review.terminal import review_in_terminal

    console = Console(stderr=as_json)  # standard output is the machine's then

    def ask(prompt: str) -> str:
        console.print(prompt, end="", markup=False, highlight=False)
        return input()

    review_in_terminal(session, console, ask)


def _on_page(session: "Session", port: int, open_: bool, as_json: bool) -> None:
    import threading
    import webbrowser

    from experiments.annotation.review.server import serving

    with serving(session, port) as address:
        (note if as_json else say)(f"Review at {address}")
        note("Ctrl-C ends it; every decision is saved when the page says so.")
        if open_:
            webbrowser.open(address)
        threading.Event().wait()
