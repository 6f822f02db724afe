"""Memory of a long run: the resident set while thousands of questions are asked.

    python -m experiments.benchmarks.run_memory

`evaluate` asks RAG questions of a generated world; every reply is the same, so that nothing but the run itself takes
memory (the simulated LM keeps what it parsed of each question). Each side runs in a process of its own: with the reply
cache, without any, and with the cache of DSPy that earlier versions used (everything in memory, and in a folder of
pickles). The resident set is read after every thousandth row; growth is given in MB per 1,000 questions, by least
squares, from the fourth reading on.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Annotated, Any

import typer
from dspy.lm15 import Message, Request, Response, Usage

from experiments.runs.files import write_json
from experiments.runs.provenance import provenance

OUT = Path("experiments/results/run_memory.json")
SIDES = ("replies", "none", "dspy")
STEP = 1000  # questions between two readings
_WARM = 3  # readings left out at the start: imports, allocator, caches of words

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)


def resident() -> float:
    """Return the resident set of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Constant:
    """An engine that gives the same answer to everything."""

    free = True
    supports_response_schema = False
    supported_params = ("temperature", "max_tokens")

    def complete(self, request: Request) -> Response:
        """Answer."""
        usage = Usage(input_tokens=500, output_tokens=20, total_tokens=520)
        message = Message.assistant("[[ ## answer ## ]]\nParis\n\n[[ ## completed ## ]]")
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Constant":
        return self


class Reader(threading.Thread):
    """Reads the resident set whenever another `STEP` rows are on disk.

    Args:
        rows: The file of rows.
    """

    def __init__(self, rows: Path):
        super().__init__(daemon=True)
        self._rows, self._done = rows, threading.Event()
        self.readings: list[tuple[int, float]] = []

    def run(self) -> None:
        """Follow the file until `stop`."""
        count, size = 0, 0
        while not self._done.wait(0.05):
            if not self._rows.exists():
                continue
            with open(self._rows, "rb") as file:
                file.seek(size)
                new = file.read()
            count, size = count + new.count(b"\n"), size + len(new)
            if count >= STEP * (len(self.readings) + 1):
                self.readings.append((count, round(resident(), 1)))

    def stop(self) -> None:
        """End the thread."""
        self._done.set()
        self.join()


def growth(readings: list[tuple[int, float]]) -> float | None:
    """Return MB per 1,000 questions, by least squares over the readings after the first; None if there are too few."""
    kept = readings[_WARM:]
    if len(kept) < 3:
        return None
    mean_x, mean_y = (sum(values) / len(kept) for values in zip(*kept, strict=True))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in kept) / sum((x - mean_x) ** 2 for x, _ in kept)
    return round(1000 * slope, 3)


def measure(side: str, folder: Path, *, questions: int, threads: int, seed: int) -> dict[str, Any]:
    """Run the questions in this process; return the readings."""
    import dspy

    from corpora.index.build import build_index
    from corpora.index.open import open_index
    from corpora.questions import read_questions
    from experiments.pipeline.evaluate import evaluate
    from experiments.runs.config import RunConfig
    from experiments.world.generate import generate
    from programs.catalog import build
    from programs.lms.adapter import ChatForm
    from programs.lms.caches import use_reply_cache
    from programs.lms.calls.metered import metered_lm
    from programs.lms.connect import Connection

    passages, asked = generate(folder / "world", questions=400, seed=seed)
    build_index(passages, folder / "index", retriever="bm25")
    own = read_questions(asked)
    # The world has a bounded number of questions: a number in front makes each a prompt of its own. Its digits stand
    # apart, because new words would fill the (bounded) caches of words.
    many = [
        question.model_copy(update={"id": f"{number}", "question": f"({' '.join(str(number))}) {question.question}"})
        for number in range(questions)
        for question in [own[number % len(own)]]
    ]
    lm = metered_lm("constant/1", engine=Constant(), temperature=0.0, max_tokens=256, cache=side != "none")
    connection = Connection("constant", lm, ChatForm(), None, "samples")
    use_reply_cache()
    if side == "dspy":
        dspy.configure_cache(disk_cache_dir=str(folder / "pickles"), restrict_pickle=True)
    program = build("rag", open_index(folder / "index"))
    reader = Reader(folder / "run" / "rows.jsonl")
    start = resident()
    reader.start()
    config = RunConfig(metrics=["em"], threads=threads, seed=seed)
    summary = evaluate(program, many, config, connection=connection, folder=folder / "run", progress=False)
    reader.stop()
    return {
        "answered": summary.answered,
        "at_start": round(start, 1),
        "readings": reader.readings,
        "mb_per_1000_questions": growth([reading for reading in reader.readings if reading[0] < questions]),
        "after_summary": round(resident(), 1),
    }


@app.command()
def run_memory(
    questions: Annotated[int, typer.Option(help="Number of questions.", min=1000)] = 20_000,
    threads: Annotated[int, typer.Option(help="Questions asked in parallel.", min=1)] = 8,
    seed: Annotated[int, typer.Option(help="Seed of the world and the LM.")] = 0,
    sides: Annotated[str, typer.Option(help="Sides, separated by commas.")] = ",".join(SIDES),
    out: Annotated[Path, typer.Option(help="The result file.")] = OUT,
    only: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure every side in a process of its own."""
    if only:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["VERIHOP_CACHE_DIR"] = str(Path(folder) / "cache")
            typer.echo(json.dumps(measure(only, Path(folder), questions=questions, threads=threads, seed=seed)))
        return
    results = {}
    for side in sides.split(","):
        command = [sys.executable, "-m", "experiments.benchmarks.run_memory", "--only", side,
                   "--questions", str(questions), "--threads", str(threads), "--seed", str(seed)]  # fmt: skip
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        results[side] = json.loads(done.stdout.splitlines()[-1])
        typer.echo(f"{side}: {json.dumps(results[side])}")
    head = provenance("experiments.benchmarks.run_memory")
    write_json(out, {**head, "questions": questions, "threads": threads, "seed": seed, "sides": results})
    typer.echo(f"Written: {out}")


if __name__ == "__main__":
    app()
