"""Text extraction: how much of the text of manuals extractors find, and how much else.

    python -m experiments.benchmarks.extraction FOLDER

FOLDER has the unpacked Debian packages developers-reference, debian-policy, debian-faq and maint-guide, which contain
the same manuals as text, PDF and HTML; Word documents are made of their pages by pandoc, if it is installed. The
figures are precision, recall and F1 of runs of three words, which show missing spaces, divided words, lost or repeated
lines and navigation. Seconds of CPU are comparable within one run only.
"""

import re
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.benchmarks.extraction.manuals import MANUALS, Manual, as_docx, read_file, read_pages
from experiments.benchmarks.extraction.tools import DOCX, HTML, PDF, Extract, installed, versions
from experiments.runs.files import write_json
from experiments.runs.provenance import provenance

MODULE = "experiments.benchmarks.extraction"
OUT = Path("experiments/results/extraction.json")
_RUN = 3  # words
_DIVIDED = re.compile(r"(\w)[-\u2010\u00ad\ufffe]\r?\n\s*(\w)|(\w)\ufffe(\w)")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, help=__doc__)


def runs_of_words(text: str) -> Counter[tuple[str, ...]]:
    """Return how often each run of three words occurs; words divided at the end of a line are joined."""
    words = re.findall(r"\w+", _DIVIDED.sub(lambda match: "".join(filter(None, match.groups())), text).lower())
    return Counter(zip(*(words[start:] for start in range(_RUN)), strict=False))


def overlap(found: Counter[tuple[str, ...]], wanted: Counter[tuple[str, ...]]) -> dict[str, float]:
    """Return precision, recall and F1 in percent of what was found."""
    common = (found & wanted).total()
    precision, recall = (100 * common / max(1, counts.total()) for counts in (found, wanted))
    f1 = 2 * precision * recall / (precision + recall) if common else 0.0
    return {"precision": round(precision, 1), "recall": round(recall, 1), "f1": round(f1, 1)}


def measure(extract: Extract, files: Sequence[bytes], text: str) -> dict[str, Any]:
    """Return figures and CPU seconds of one extractor on the files of one manual, or its error."""
    start = time.process_time()
    try:
        found = [extract(data) for data in files]
    except Exception as error:  # noqa: BLE001 - an extractor that fails on a file is a result
        return {"error": f"{type(error).__name__}: {error}"[:200]}
    seconds = time.process_time() - start
    return {**overlap(runs_of_words("\n".join(found)), runs_of_words(text)), "seconds": round(seconds, 2)}


def rows_of(manual: Manual, folder: Path) -> list[dict[str, Any]]:
    """Return a row for each format and extractor."""
    text = read_file(folder, manual.text).decode(errors="replace")
    work = [("PDF", installed(PDF), [read_file(folder, manual.pdf)], text)]
    if manual.pages:
        pages = read_pages(folder, manual.pages)
        work.append(("HTML", installed(HTML), pages, text))
        with tempfile.TemporaryDirectory() as made:
            documents = [both for page in pages if (both := as_docx(page, Path(made)))]
        if documents:
            texts = "\n".join(plain for _, plain in documents)
            work.append(("DOCX", installed(DOCX), [data for data, _ in documents], texts))
    rows = []
    for format_, tools, files, wanted in work:
        for name, extract in tools.items():
            row = {"format": format_, "manual": manual.name, "extractor": name, **measure(extract, files, wanted)}
            typer.echo("  ".join(f"{value}" for value in row.values()))
            rows.append(row)
    return rows


@app.command(help=__doc__)
def main(
    folder: Annotated[Path, typer.Argument(help="Where the packages were unpacked.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="JSON file of the figures.")] = OUT,
) -> None:
    """Measure every installed extractor on every manual."""
    rows = [row for manual in MANUALS for row in rows_of(manual, folder)]
    write_json(out, {"versions": versions(), "rows": rows, "provenance": provenance(MODULE)})
    typer.echo(f"Wrote {out}.")


if __name__ == "__main__":
    app()
