"""`verihop ingest`: documents (Markdown, text, HTML, PDF, office files, EPUB, mail) become passages."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, note, say
from experiments.cli.shared.next_commands import command, new_path
from experiments.cli.shared.options import with_option_groups
from signatures.common.errors import UserError, unknown
from signatures.common.specs import Field, Range

if TYPE_CHECKING:
    from corpora.ingest.ingest import Ingested

_TITLES = ("headings", "document")


@dataclass(frozen=True)
class Cutting:
    """How documents are cut into passages."""

    PANEL: ClassVar[str] = "Passages"
    words: Annotated[int, Range(1), Field("Most words of a passage; sentences stay whole if they fit.")] = 100
    titles: Annotated[str, Field("Title of a passage: headings (document > innermost heading) or document.")] = (
        "headings"
    )


@dataclass(frozen=True)
class Reading:
    """How documents are read."""

    PANEL: ClassVar[str] = "Reading"
    ocr: Annotated[bool, Field("Recognize scanned pages of PDF files, with the extra [ocr].")] = False
    reader: Annotated[
        str, Field("verihop, or docling for PDF, DOCX and PPTX with hard layouts, with the extra [docling].")
    ] = "verihop"


@with_option_groups
def ingest(
    documents: Annotated[
        list[Path],
        typer.Argument(
            help="Files, and folders with their subfolders: .md .txt .rst .html .pdf .docx .xlsx .pptx .epub .eml"
        ),
    ],
    cutting: Cutting,
    reading: Reading,
    output: options.Replacing,
    out: Annotated[Path, typer.Option("--out", "-o", help="Passages, also .gz or .zst.")] = Path("passages.jsonl"),
    memory: Annotated[int, typer.Option(min=256, help="MiB that reading one document may take (Linux).")] = 1024,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Documents read at a time; by default one per core.", show_default=False)
    ] = None,
) -> None:
    """Turn documents into passages with titles, headings and page numbers.

    A document that cannot be read is named, and the others go on.
    """
    from corpora.ingest.formats import ReadSettings
    from corpora.ingest.ingest import CutSettings
    from corpora.ingest.ingest import ingest as ingest_documents

    if cutting.titles not in _TITLES:
        raise unknown("kind of titles", cutting.titles, _TITLES)
    if out.exists() and not output.overwrite:
        raise UserError(f"{out} exists already: name another file, or replace it with --overwrite.")
    report = ingest_documents(
        documents,
        out,
        settings=CutSettings(
            cutting.words,
            headings_in_title=cutting.titles == "headings",
            reading=ReadSettings(ocr=reading.ocr, reader=reading.reader),
        ),
        processes=processes or os.cpu_count() or 1,
        memory=memory,
        progress=not output.quiet,
    )
    if output.as_json:
        emit({"passages_file": str(out), **vars(report)})
        return
    _tell(report, out)
    index = out.parent / "index"  # by default
    next_step(command("verihop", "index", out, *(("--out", new_path(index)) if index.exists() else ())))


def _tell(report: "Ingested", out: Path) -> None:
    for line in report.errors:
        note(f"Not read: {line}")
    for line in report.notes:
        note(f"Read, but {line}")
    if report.left_out:
        kinds = ", ".join(f"{count} {suffix or 'without suffix'}" for suffix, count in report.left_out.items())
        note(f"Files of other kinds were left out: {kinds}.")
    kinds = ", ".join(f"{count} {name}" for name, count in report.documents.most_common())
    if report.errors:
        kinds += f"; {len(report.errors)} could not be read"
    documents = report.documents.total()
    repeated = f" {report.repeated} repeated ones are in it once." if report.repeated else ""
    say(f"Wrote {report.passages} passages of {documents} documents ({kinds}) to {out}.{repeated}")
