"""`verihop sync`: documents and their index are kept the same."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.corpus.ingest import tell_of_files
from experiments.cli.shared import options
from experiments.cli.shared.console import GOES_ON, emit, interruptible, next_step, note, say
from experiments.cli.shared.next_commands import QUESTION, command, used
from experiments.cli.shared.options import with_option_groups
from experiments.runs.specs import SyncSpec
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from corpora.sync.sync import Synced


@with_option_groups
def sync(
    documents: Annotated[list[Path], typer.Argument(help="Files, and folders with their subfolders, as for `ingest`.")],
    spec: SyncSpec,
    output: options.Output,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the index.")] = Path("index"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; report what would change.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Keep running: sync again whenever documents change.")] = False,
    names: Annotated[
        bool, typer.Option("--names", help="Print the names of added, changed, removed and unchanged documents.")
    ] = False,
) -> None:
    """Bring an index up to date with documents; the first time, build it.

    New documents are added, changed ones replaced, and those that are gone removed; passages whose text stays keep
    their ids, and are not embedded again. After Ctrl-C or a crash the same command resumes. A document that cannot be
    read is reported, and the others are still read.
    """
    from corpora.sync.watch import changes
    from experiments.pipeline.sync import sync as sync_documents

    if dry_run and watch:
        raise UserError("--dry-run changes nothing and --watch keeps changing: choose one.")

    def run() -> "Synced":
        report = sync_documents(documents, out, spec, dry_run=dry_run, progress=not output.quiet)
        if output.as_json:
            emit(_as_json(report, out))
            sys.stdout.flush()
        else:
            _tell(report, out, dry_run=dry_run, names=names)
        return report

    with interruptible("Stopped watching." if watch else GOES_ON):
        if watch:
            _watch(run, partial(changes, documents))
            return
        report = run()
        if not output.as_json and not report.refused:
            then = ["sync", *documents, *used(spec)] if dry_run else ["ask", "--program", "rag", "--index"]
            next_step(command("verihop", *then, *(("--out", out) if dry_run else (out, QUESTION))))


def _watch(run: Callable[[], object], changes: Callable[..., Iterator[None]]) -> None:
    """Sync now and on each change; what fails is told once, and tried again until it succeeds.

    Args:
        run: Syncs.
        changes: As `corpora.sync.watch.changes`, of the documents.

    Raises:
        UserError: The first sync is refused, and not only for want of documents.
    """
    from corpora.ingest.ingest import NoDocument

    told: str | None = None  # why the last sync failed

    def attempt(expected: type[UserError]) -> None:
        nonlocal told
        try:
            run()
            told = None
        except expected as error:
            if str(error) != told:
                note(f"Not synced: {error}")
            told = str(error)

    seen = changes(failed=lambda: told is not None)
    attempt(NoDocument)
    note("Watching; Ctrl-C stops.")
    for _ in seen:
        attempt(UserError)  # a folder is not mounted, say, or another sync is at work: that may pass


_WHAT = ("added", "changed", "removed", "unchanged")


def _as_json(report: "Synced", out: Path) -> dict[str, Any]:
    facts = {name: value for name, value in vars(report).items() if name != "info"}
    counts = {name: len(facts[name]) for name in (*_WHAT, "unreadable")}
    index = None if report.info is None else report.info.model_dump(mode="json", exclude={"files"})
    return {"index": str(out), "documents": counts, **facts, "info": index}


def _tell(report: "Synced", out: Path, *, dry_run: bool, names: bool) -> None:
    tell_of_files(report.unreadable, report.notes, report.left_out)
    found = {name: getattr(report, name) for name in _WHAT}
    counts = ", ".join(f"{len(documents)} {name}" for name, documents in found.items())
    unreadable = f", {len(report.unreadable)} unreadable" if report.unreadable else ""
    if dry_run:
        say(f"Dry run for {out}. Documents: {counts}{unreadable}.")
        if report.refused:
            note(f"This would be refused. {report.refused}")
    elif report.info is not None:
        passages = ", ".join(f"{count:,} {name}" for name, count in report.passages.items())
        index = f"{out} ({report.info.retriever}, {report.info.passages:,} passages)"
        say(f"Synced {index}. Documents: {counts}{unreadable}.")
        say(f"Passages: {passages}.")
    for name, documents in found.items() if names else ():
        for document in documents:
            say(f"  {name}: {document}")
