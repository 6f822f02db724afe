"""The pictures of the README: an answered question as the terminal shows it, and the report of two runs.

Both come from real commands on the simulated world, so that they can be reproduced without an API key:

    python -m experiments.papers.readme_pictures

The screenshot of the report is taken with Chromium, which has to be installed.
"""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from experiments.papers.command import run_command
from signatures.common.errors import UserError

RESULTS = Path(__file__).parents[1] / "results"
QUESTIONS, DEV = 120, 30  # questions generated, and dev questions evaluated
WIDTH, HEIGHT = 1200, 1860  # pixels of the report's picture
CHROMIUM = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars")

app = typer.Typer(add_completion=False)


@app.command()
def main(results: Annotated[Path, typer.Option(help="Folder for the pictures.")] = RESULTS) -> None:
    """Draw the README's pictures."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _verihop(work, "data", "world", "--questions", str(QUESTIONS), "--out", "world")
        _verihop(work, "index", "world/passages.jsonl", "--retriever", "bm25", "--out", "world/index", "--quiet")
        asked = ("--index", "world/index", "--lm", "simulated")
        for program in ("rag", "genground"):
            arguments = ("--split", "dev", "--limit", str(DEV), "--program", program, *asked, "--quiet")
            _verihop(work, "eval", "world/questions.jsonl", *arguments, "--out", program)
        _verihop(work, "compare", "rag", "genground", "--html", "report.html")
        question = _shown_question(work / "genground", work / "world" / "questions.jsonl")
        command = ("ask", "--program", "genground", *asked, question["question"])
        _draw_terminal(command, _verihop(work, *command), results / "readme_answer.svg")
        _screenshot(work / "report.html", question["id"], results / "readme_report.png")


def _verihop(folder: Path, *arguments: str) -> str:
    """Run a command in `folder` and return its standard output."""
    done = subprocess.run(
        [sys.executable, "-m", "experiments.cli.main", *arguments],
        cwd=folder,
        env={**os.environ, "VERIHOP_CACHE_DIR": str(folder / "cache")},  # as on a new machine
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise UserError(f"verihop {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout


def _shown_question(run: Path, questions: Path) -> dict[str, Any]:
    """Return the first row answered correctly in three hops that cite just the gold, one corrected by it at least."""
    gold = {question["id"]: set(question["gold_ids"]) for question in _lines(questions)}
    for row in sorted(_lines(run / "rows.jsonl"), key=lambda row: row["id"]):
        corrected = any(hop["verdict"] == "corrected" for hop in row["hops"])
        right = row["scores"]["em"] == 1 and set(row["citations"]) == gold[row["id"]]
        if right and corrected and len(row["hops"]) == 3:
            return row
    raise UserError("No question is answered correctly in three hops with a corrected draft: nothing to show.")


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _draw_terminal(command: tuple[str, ...], output: str, path: Path) -> None:
    """Write the command and its output as an SVG of a terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=110, file=io.StringIO())
    *options, question = command
    console.print(Text(f'$ verihop {" ".join(options)} \\\n    "{question}"', style="bold"))
    for line in output.splitlines():
        style = "bold green" if line.startswith("Answer:") else "bold" if line.startswith(("Hop", "Cited")) else ""
        console.print(Text(line, style=style))
    # Rich's template loads a font from the web; the picture must be self-contained.
    picture = re.sub(r"@font-face {.*?}\n", "", console.export_svg(title="verihop"), flags=re.DOTALL)
    path.write_text(picture.replace("Fira Code,", ""), encoding="utf-8")


def _screenshot(page: Path, question: str, path: Path) -> None:
    """Write a screenshot of the report with one question expanded."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise UserError("The report's picture needs Chromium: install it (Debian: apt-get install chromium).")
    size = f"--window-size={WIDTH},{HEIGHT}"
    wait = "--virtual-time-budget=10000"  # milliseconds: the page unpacks the question after it has loaded
    profile = f"--user-data-dir={page.parent / 'chromium'}"
    subprocess.run(
        [
            chromium,
            *CHROMIUM,
            size,
            wait,
            profile,
            f"--screenshot={path.resolve()}",
            f"{page.resolve().as_uri()}#q={quote(question)}",
        ],
        check=True,
        capture_output=True,
    )


if __name__ == "__main__":
    run_command(app, "readme_pictures")
