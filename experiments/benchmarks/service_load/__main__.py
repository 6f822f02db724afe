"""The service under load: 64 clients at once, beside the same program called directly.

    python -m experiments.benchmarks.service_load

The LM is a server on loopback that replies after 200 ms; the corpus is that of the simulated world, with BM25. Direct:
64 tasks of one process await `Answerer.acall`. Service: `verihop serve` in one process, or several (`--processes`), 64
clients in another. Both take turns, in another order each round; p50 and p95 are over all answers, and the overhead is
the ratio of the service to the direct calls of the same round.
"""

import contextlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.benchmarks.service_load.loopback import server
from experiments.runs.config import provenance
from experiments.runs.files import write_json

MODULE = "experiments.benchmarks.service_load"
OUT = Path("experiments/results/service_load.json")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, help=__doc__)


@contextlib.contextmanager
def serving(program: str, index: Path, lm: str, clients: int, processes: int) -> Iterator[str]:
    """Run `verihop serve` and yield its URL; each process has a place for every client, however they are dealt."""
    command = ["serve", "--program", program, "--index", str(index), "--lm", "loopback", "--api-base", lm]
    more = ["--preset", "paper", "--rerank", "none", "--no-cache", "--port", "0", "--width", str(clients * processes)]
    more += ["--processes", str(processes)]
    with subprocess.Popen(
        [sys.executable, "-m", "experiments.cli.main", *command, *more], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            line = next(line for line in process.stderr if line.startswith("Ready: "))
            yield line.split()[1]
        finally:
            process.terminate()


def asked(kind: str, url: str, index: Path, program: str, clients: int, each: int) -> list[float]:
    """Return the seconds of answers, measured in a process of its own."""
    command = [sys.executable, "-m", f"{MODULE}.asking", kind, url, str(index), program, str(clients), str(each)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: list[float] = json.loads(done.stdout)
    return found


def quantiles(seconds: list[float]) -> dict[str, float]:
    """Return median and 95 % quantile."""
    return {"p50": round(statistics.median(seconds), 4), "p95": round(statistics.quantiles(seconds, n=20)[-1], 4)}


def measure(
    program: str, index: Path, *, clients: int, processes: int, each: int, rounds: int, latency: float
) -> dict[str, Any]:
    """Return the figures of one program."""
    seconds: dict[str, list[list[float]]] = {"direct": [], "service": []}
    order = random.Random(0)
    for _ in range(rounds):
        for kind in order.sample(list(seconds), 2):
            with server(latency) as lm:
                if kind == "direct":
                    seconds[kind].append(asked(kind, lm, index, program, clients, each))
                else:
                    with serving(program, index, lm, clients, processes) as url:
                        seconds[kind].append(asked(kind, url, index, program, clients, each))
    figures: dict[str, Any] = {kind: quantiles(list(chain(*found))) for kind, found in seconds.items()}
    pairs = [tuple(map(quantiles, pair)) for pair in zip(seconds["direct"], seconds["service"], strict=True)]
    for name in ("p50", "p95"):
        figures[f"{name} ratio"] = [round(through[name] / alone[name], 3) for alone, through in pairs]
    return {"program": program, "answers": sum(map(len, seconds["service"])), **figures}


@app.command(help=__doc__)
def main(
    programs: Annotated[str, typer.Option(help="Names, separated by commas.")] = "rag,genground",
    clients: Annotated[int, typer.Option(min=1, help="Clients at once.")] = 64,
    processes: Annotated[int, typer.Option(min=1, help="Processes of the service.")] = 1,
    each: Annotated[int, typer.Option(min=1, help="Answers of each client that count.")] = 10,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds.")] = 3,
    latency: Annotated[float, typer.Option(min=0, help="Seconds of an LM call.")] = 0.2,
    out: Annotated[Path, typer.Option("--out", "-o", help="JSON file of the figures.")] = OUT,
) -> None:
    """Measure service and direct calls in turn."""
    from corpora.index.build import build_index
    from experiments.world.generate import generate

    rows = []
    with tempfile.TemporaryDirectory() as made:
        passages, _ = generate(Path(made), questions=400, seed=0)
        index = Path(made) / "index"
        build_index(passages, index, retriever="bm25")
        for program in programs.split(","):
            row = measure(
                program, index, clients=clients, processes=processes, each=each, rounds=rounds, latency=latency
            )
            typer.echo(json.dumps(row))
            rows.append(row)
    shape = {"clients": clients, "processes": processes, "answers of each": each, "rounds": rounds, "latency": latency}
    write_json(out, {**shape, "rows": rows, "provenance": provenance(MODULE)})
    typer.echo(f"Wrote {out}.")


if __name__ == "__main__":
    app()
