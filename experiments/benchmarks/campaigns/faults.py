"""Faults of a chat server, 30 % of all requests: every question must be done, or counted as an error with its reason.

    python -m experiments.benchmarks.campaigns.faults

`eval` runs as users run it, in a process of its own, with a server on loopback (`faulty_server.py`) and the simulated
world behind it, three times for each program and number of threads: on a server without faults; on one with faults; and
again on the server without faults with the reply cache of the second run, which must give the answers of the first,
because no bad reply may have been cached.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.benchmarks.campaigns.chat_server import MODEL
from experiments.benchmarks.campaigns.faulty_server import FAULTS, FaultyServer
from experiments.runs.files import Row, read_rows, write_json
from experiments.runs.provenance import portable, provenance

OUT = Path("experiments/results/campaign_faults.json")
PROGRAMS = "rag,genground"
TIMEOUT = 3.0  # seconds of a call; replies take milliseconds
SLOW = TIMEOUT + 1
LONGEST = 900.0  # seconds of a run

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)


class World:
    """A generated world with its index, and the server that the runs ask.

    Args:
        folder: Where everything is written.
        server: The chat server.
        questions: How many.
        seed: Seed of the world.
    """

    def __init__(self, folder: Path, server: FaultyServer, *, questions: int, seed: int):
        from corpora.index.build import build_index
        from experiments.world.generate import generate

        self.folder, self.server = folder, server
        passages, self.questions = generate(folder / "world", questions=questions, seed=seed)
        build_index(passages, folder / "index", retriever="bm25")

    def run(self, name: str, program: str, threads: int, *, rate: float, cache: str) -> dict[str, Any]:
        """Evaluate in a process of its own; return exit code, rows, seconds, requests and the faults sent."""
        out = self.folder / name
        self.server.rate = rate
        self.server.sent.clear()
        command = [sys.executable, "-m", "experiments.cli.main", "eval", str(self.questions), "--program", program,
                   "--index", str(self.folder / "index"), "--lm", MODEL, "--api-base", self.server.base,
                   "--threads", str(threads), "--timeout", str(TIMEOUT), "--metrics", "em", "--quiet",
                   "--out", str(out)]  # fmt: skip
        environment = {**os.environ, "VERIHOP_CACHE_DIR": str(self.folder / cache)}
        start = time.monotonic()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST, check=False)
        return {
            "exit": done.returncode,
            "traceback": "Traceback" in done.stderr,
            "stderr": portable(done.stderr[-500:]),
            "rows": read_rows(out),
            "seconds": round(time.monotonic() - start, 1),
            "sent": dict(self.server.sent),
        }


def compare(clean: dict[str, Any], faulty: dict[str, Any], healed: dict[str, Any], questions: int) -> dict[str, Any]:
    """Return what a campaign shows about one program with some number of threads."""
    answers = {row["id"]: row["answer"] for row in clean["rows"]}
    errors = [row for row in faulty["rows"] if row["error"] is not None]
    # A reply of junk or nothing takes the program's documented fallback, which may change the answer.
    untouched = [row for row in faulty["rows"] if row["error"] is None and _failures(row) <= _failures_of(clean, row)]
    return {
        "questions": questions,
        "rows": len(faulty["rows"]),
        "errors": len(errors),
        "reasons": dict(Counter(_kind(row) for row in errors)),
        "without_reason": sum(not row["error"].strip() for row in errors),
        "unparseable_replies": sum(_failures(row) for row in faulty["rows"]),
        "unparseable_replies_without_faults": sum(_failures(row) for row in clean["rows"]),
        "without_new_unparseable_reply": len(untouched),
        "of_these_with_another_answer": sum(row["answer"] != answers.get(row["id"]) for row in untouched),
        "em": {name: _em(run["rows"]) for name, run in (("clean", clean), ("faulty", faulty), ("healed", healed))},
        "other_answers_when_healed": sum(row["answer"] != answers.get(row["id"]) for row in healed["rows"])
        + abs(len(healed["rows"]) - questions),
        "requests": {
            name: sum(run["sent"].values()) for name, run in (("clean", clean), ("faulty", faulty), ("healed", healed))
        },
        "seconds": {name: run["seconds"] for name, run in (("clean", clean), ("faulty", faulty), ("healed", healed))},
        "exit": faulty["exit"],
        "traceback": faulty["traceback"],
        "sent": {name: faulty["sent"].get(name, 0) for name in FAULTS},
        **({"stderr": faulty["stderr"]} if faulty["exit"] else {}),
    }


def _failures(row: Row) -> int:
    return int(row["parse_failures"])


def _failures_of(run: dict[str, Any], row: Row) -> int:
    return next((_failures(other) for other in run["rows"] if other["id"] == row["id"]), 0)


def _kind(row: Row) -> str:
    return " ".join(str(portable(row["error"])).split())[:100]


def _em(rows: list[Row]) -> float | None:
    return round(sum(row["scores"]["em"] or 0.0 for row in rows) / len(rows), 4) if rows else None


def complete(result: dict[str, Any]) -> bool:
    """Return whether every question is done or counted, and nothing bad was kept."""
    counted = result["rows"] == result["questions"] and not result["without_reason"]
    return counted and not result["traceback"] and not result["other_answers_when_healed"]


@app.command()
def faults(
    questions: Annotated[int, typer.Option(help="Questions of the world.", min=30)] = 120,
    rate: Annotated[float, typer.Option(help="Share of requests with a fault.", min=0, max=1)] = 0.3,
    threads: Annotated[str, typer.Option(help="Threads, separated by commas.")] = "16,64",
    programs: Annotated[str, typer.Option(help="Programs, separated by commas.")] = PROGRAMS,
    seed: Annotated[int, typer.Option(help="Seed of the world and of the faults.")] = 0,
    out: Annotated[Path, typer.Option(help="The result file.")] = OUT,
) -> None:
    """Run every program with every number of threads; exit with 1 if a question is lost or a bad reply was kept."""
    results = []
    with tempfile.TemporaryDirectory() as folder, FaultyServer(seed, rate=0.0, slow=SLOW) as server:
        world = World(Path(folder), server, questions=questions, seed=seed)
        for program in programs.split(","):
            for count in map(int, threads.split(",")):
                name = f"{program}-{count}"
                clean = world.run(f"{name}-clean", program, count, rate=0.0, cache=f"{name}-own")
                faulty = world.run(f"{name}-faulty", program, count, rate=rate, cache=f"{name}-kept")
                healed = world.run(f"{name}-healed", program, count, rate=0.0, cache=f"{name}-kept")
                results.append({"program": program, "threads": count, **compare(clean, faulty, healed, questions)})
                typer.echo(json.dumps({key: value for key, value in results[-1].items() if key != "sent"}))
    head = provenance("experiments.benchmarks.campaigns.faults")
    write_json(out, {**head, "seed": seed, "rate": rate, "timeout": TIMEOUT, "runs": results})
    typer.echo(table(results))
    typer.echo(f"Written: {out}")
    if not all(map(complete, results)):
        raise typer.Exit(1)


def table(results: list[dict[str, Any]]) -> str:
    """Return the results as a Markdown table."""
    lines = [
        "| program | threads | rows | errors | EM without and with faults | other answers later | requests | seconds |"
    ]
    lines.append("|---|---|---|---|---|---|---|---|")
    for result in results:
        em, requests, seconds = result["em"], result["requests"], result["seconds"]
        cells = (
            result["program"], result["threads"], f"{result['rows']} of {result['questions']}", result["errors"],
            f"{em['clean']}, {em['faulty']}", result["other_answers_when_healed"],
            f"{requests['clean']}, {requests['faulty']}", f"{seconds['clean']}, {seconds['faulty']}",
        )  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    app()
