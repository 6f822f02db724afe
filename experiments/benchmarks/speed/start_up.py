"""Start-up: how long whole processes take whose work is small.

    python -m experiments.benchmarks.speed.start_up [--checkout OLDER]

Wall and CPU seconds from the start of a process to its end, for `python -c pass`, `import dspy`, `verihop --help`,
`verihop programs`, `verihop ask` (RAG with BM25 and the simulated LM) and `verihop eval` of one question. The processes
take turns, in another order each round, after one round that is not counted. No reply comes from the cache. With
`--checkout`, the same commands of another checkout of this project take part, with an index of their own, and ratios
are of the processes of one round.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from experiments.runs.config import portable, provenance
from experiments.runs.files import write_json
from signatures.common.errors import UserError

OUT = Path("experiments/results/start_up.json")
HERE = Path(__file__).parents[3]
PASS, DSPY = "python -c pass", "import dspy"
COMMANDS = ("--help", "programs", "ask", "eval")
QUESTION = "Who founded the company that round {} asks about?"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, help=__doc__)


@dataclass(frozen=True)
class Seconds:
    """What one process took: wall, and CPU of it and of the processes that it waited for."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Checkout:
    """A checkout of this project, with a small world and its index.

    Args:
        name: "this" or "other".
        root: Root of the checkout, in which commands run.
        world: Folder with questions.jsonl and the index.
    """

    name: str
    root: Path
    world: Path

    def prepare(self) -> None:
        """Generate the world and build the index, with the code of this checkout."""
        run(self.root, verihop("data", "world", "--questions", 40, "--out", self.world))
        passages, index = self.world / "passages.jsonl", self.world / "index"
        run(self.root, verihop("index", passages, "--retriever", "bm25", "--out", index))

    def command(self, name: str, number: int) -> list[str]:
        """Return a command as it is called in a round."""
        using = ("--program", "rag", "--lm", "simulated", "--index", self.world / "index")
        if name == "ask":
            return verihop("ask", *using, QUESTION.format(number))
        if name == "eval":
            run_folder = self.world / f"run-{number}"
            return verihop("eval", self.world / "questions.jsonl", *using, "--limit", 1, "--quiet", "--no-cache",
                           "--out", run_folder)  # fmt: skip
        return verihop(name)


def verihop(*words: object) -> list[str]:
    """Return a command line that runs `verihop` of the current folder."""
    return [sys.executable, "-m", "experiments.cli.main", *map(str, words)]


def run(root: Path, command: Sequence[str]) -> Seconds:
    """Run a command in a checkout and return its seconds.

    Raises:
        UserError: It fails; the message is the last line of its standard error.
    """
    with tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            last = (errors.read().decode(errors="replace").splitlines() or ["no message"])[-1]
            raise UserError(f"{' '.join(command[1:])} in {root} ended with code {process.returncode}: {last}")
    return Seconds(wall, used.ru_utime + used.ru_stime)


Round = dict[str, Seconds]  # "this ask" -> its seconds


def measured(checkouts: Sequence[Checkout], number: int, seed: int) -> Round:
    """Return the seconds of every process of one round, which run in a random order."""
    jobs = {PASS: (HERE, [sys.executable, "-c", "pass"]), DSPY: (HERE, [sys.executable, "-c", "import dspy"])}
    for checkout in checkouts:
        for name in COMMANDS:
            jobs[f"{checkout.name} {name}"] = (checkout.root, checkout.command(name, number))
    names = sorted(jobs)
    random.Random(f"{seed} {number}").shuffle(names)
    return {name: run(*jobs[name]) for name in names}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return least, median and greatest of values."""
    return {"min": round(min(values), 4), "median": round(median(values), 4), "max": round(max(values), 4)}


def figures(rounds: Sequence[Round], name: str) -> dict[str, Any]:
    """Return the spread of wall and CPU seconds of a process, and of what it takes beyond `import dspy`."""
    walls, cpus = ([getattr(each[name], kind) for each in rounds] for kind in ("wall", "cpu"))
    beyond = [each[name].wall - each[DSPY].wall for each in rounds]
    beyond_cpu = [each[name].cpu - each[DSPY].cpu for each in rounds]
    return {
        "wall": spread(walls),
        "cpu": spread(cpus),
        "beyond_import_dspy": {"wall": spread(beyond), "cpu": spread(beyond_cpu)},
    }


def ratios(rounds: Sequence[Round], name: str) -> dict[str, Any]:
    """Return the seconds of this checkout as shares of those of the other one, round by round."""
    pairs = [(each[f"this {name}"], each[f"other {name}"]) for each in rounds]
    return {
        "wall": spread([this.wall / other.wall for this, other in pairs]),
        "cpu": spread([this.cpu / other.cpu for this, other in pairs]),
    }


def revision(root: Path) -> str | None:
    """Return the commit of a checkout, "-dirty" if files differ from it; None if it is not under git."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or None


def _line(name: str, values: dict[str, dict[str, float]]) -> str:
    parts = [
        f"{kind} {spread['median']:.3f} ({spread['min']:.3f} to {spread['max']:.3f})"
        for kind, spread in values.items()
        if kind in ("wall", "cpu")
    ]
    return f"{name:28} {'  '.join(parts)}"


@app.command()
def start_up(
    rounds: Annotated[int, typer.Option(help="Rounds that are counted.", min=1)] = 10,
    checkout: Annotated[
        Path | None, typer.Option(help="Root of another checkout, to compare with.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the order.")] = 0,
    out: Annotated[Path, typer.Option(help="The result file.")] = OUT,
) -> None:
    """Measure, print and write the result file."""
    if checkout is not None and not (checkout / "experiments" / "cli" / "main.py").is_file():
        raise typer.BadParameter(f"{checkout} is not a checkout of this project.", param_hint="--checkout")
    load = os.getloadavg()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["VERIHOP_CACHE_DIR"] = str(Path(folder) / "cache")
        checkouts = [Checkout("this", HERE, Path(folder) / "this")]
        if checkout is not None:
            checkouts.append(Checkout("other", checkout.resolve(), Path(folder) / "other"))
        for each in checkouts:
            each.prepare()
        found = [measured(checkouts, number, seed) for number in range(rounds + 1)][1:]
    record: dict[str, Any] = {
        **provenance("experiments.benchmarks.speed.start_up"),
        "load": {"before": load, "after": os.getloadavg()},
        "rounds": rounds,
        "seconds": {PASS: figures(found, PASS), DSPY: figures(found, DSPY)},
    }
    for each in checkouts:
        for name in COMMANDS:
            record["seconds"][f"{each.name} {name}"] = figures(found, f"{each.name} {name}")
    if checkout is not None:
        record["other_revision"] = revision(checkout)
        record["share_of_other"] = {name: ratios(found, name) for name in COMMANDS}
    write_json(out, portable(record))
    for name, values in record["seconds"].items():
        typer.echo(_line(name, values))
    for name, values in record.get("share_of_other", {}).items():
        typer.echo(_line(f"{name}, share of other", values))
    typer.echo(f"Load {load[0]:.2f} before, {os.getloadavg()[0]:.2f} after. Written: {out}", err=True)


if __name__ == "__main__":
    try:
        app()
    except UserError as error:
        sys.exit(str(error))
