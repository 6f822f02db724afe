"""`verihop ingest`: documents (Markdown, text, HTML, PDF, office files, tables, EPUB, mail) become passages."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, note, say
from experiments.cli.shared.next_commands import command, new_path
from experiments.cli.shared.options import with_option_groups
from experiments.runs.specs import Cutting, InLanguage, Reading
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from corpora.ingest.ingest import Ingested


@with_option_groups
def ingest(
    documents: Annotated[
        list[Path],
        typer.Argument(
            help="Files, and folders with their subfolders: .md .markdown .txt .text .rst .html .htm .xhtml .pdf .docx "
            ".xlsx .xlsm .csv .tsv .pptx .epub .eml"
        ),
    ],
    cutting: Cutting,
    reading: Reading,
    spoken: InLanguage,
    output: options.Replacing,
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the passages, also .gz or .zst.")] = Path(
        "passages.jsonl"
    ),
) -> None:
    """Turn documents into passages with titles, headings and page numbers.

    A document that cannot be read is reported, and the others are still read.
    """
    from corpora.ingest.formats import ReadSettings
    from corpora.ingest.ingest import CutSettings
    from corpora.ingest.ingest import ingest as ingest_documents
    from corpora.languages import check_sentences

    if out.exists() and not output.overwrite:
        raise UserError(f"{out} exists already: name another file, or replace it with --overwrite.")
    report = ingest_documents(
        documents,
        out,
        settings=CutSettings(
            cutting.words or CutSettings.words,
            headings_in_title=cutting.headings_in_title is not False,
            language=check_sentences(spoken.language or CutSettings.language),
            reading=ReadSettings(ocr=reading.ocr, reader=reading.reader or ReadSettings.reader),
        ),
        processes=reading.at_a_time,
        memory=reading.memory,
        progress=not output.quiet,
    )
    if output.as_json:
        emit({"passages_file": str(out), **vars(report)})
        return
    _tell(report, out)
    index = out.parent / "index"  # by default
    next_step(command("verihop", "index", out, *(("--out", new_path(index)) if index.exists() else ())))


def _tell(report: "Ingested", out: Path) -> None:
    tell_of_files(report.errors, report.notes, report.left_out)
    kinds = ", ".join(f"{count} {name}" for name, count in report.documents.most_common())
    if report.errors:
        kinds += f"; {len(report.errors)} could not be read"
    documents = report.documents.total()
    repeated = f" {report.repeated} repeated ones are in it once." if report.repeated else ""
    say(f"Wrote {report.passages} passages of {documents} documents ({kinds}) to {out}.{repeated}")


def tell_of_files(errors: list[str], notes: list[str], left_out: dict[str, int]) -> None:
    """Print what the user should know of files that were read, and of those that were not."""
    for line in errors:
        note(f"Not read: {line}")
    for line in notes:
        note(f"Read, but {line}")
    if left_out:
        kinds = ", ".join(f"{count} {suffix or 'without suffix'}" for suffix, count in left_out.items())
        note(f"Files of other kinds were left out: {kinds}.")
