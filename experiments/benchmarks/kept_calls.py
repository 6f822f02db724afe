"""What it costs to keep the LM calls of a run: time, as a ratio within this run, and disk.

    python -m experiments.benchmarks.kept_calls

Evaluates programs on the simulated world, whose LM replies in a fraction of a millisecond, so that all else shows: each
program with and without its calls kept, in turn, one thread. With an LM that takes a tenth of a second per reply the
share is a hundredth of what is measured here.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.questions import Question, read_questions
from experiments.pipeline.evaluate import evaluate
from experiments.runs.calls import call_frames
from experiments.runs.config import RunConfig
from experiments.runs.files import CALLS, ROWS, write_json
from experiments.runs.provenance import portable, provenance
from experiments.world.connect import connect_any
from experiments.world.generate import generate
from programs.catalog import build
from programs.lms.connect import Connection
from signatures.types import Retriever

PROGRAMS = ("rag", "genground", "retro_rag")
RESULT = Path("experiments/results/kept_calls.json")


def measured(
    name: str, retrieve: Retriever, questions: list[Question], connection: Connection, folder: Path, rounds: int
) -> dict[str, Any]:
    """Return seconds with and without the calls kept, and bytes per question."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    program = build(name, retrieve)
    for number in range(rounds):
        for kept in (True, False) if number % 2 else (False, True):
            config, out = RunConfig(metrics=["em"], threads=1, calls=kept), folder / f"{name}-{number}-{kept}"
            begun = time.perf_counter()
            evaluate(program, questions, config, connection=connection, folder=out, progress=False)
            seconds[kept].append(time.perf_counter() - begun)
    run = folder / f"{name}-0-True"
    frames = list(call_frames(run))
    return {
        "questions": len(questions),
        "calls": sum(frame.calls for frame in frames),
        "seconds_kept": seconds[True],
        "seconds_not_kept": seconds[False],
        "ratio": statistics.median(seconds[True]) / statistics.median(seconds[False]),
        "milliseconds_per_call": 1000
        * (statistics.median(seconds[True]) - statistics.median(seconds[False]))
        / sum(frame.calls for frame in frames),
        "bytes_of_calls_per_question": (run / CALLS).stat().st_size / len(questions),
        "bytes_of_rows_per_question": (run / ROWS).stat().st_size / len(questions),
    }


def main() -> None:
    """Measure, print the table and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    if arguments.questions < 1 or arguments.rounds < 1:
        parser.error("--questions and --rounds must be at least 1.")
    with tempfile.TemporaryDirectory() as folder:
        passages, path = generate(Path(folder) / "data", questions=arguments.questions, seed=0)
        build_index(passages, Path(folder) / "index", retriever="bm25")
        retrieve, questions = open_index(Path(folder) / "index"), read_questions(path)
        connection = connect_any("simulated", cache=False)
        found = {
            name: measured(name, retrieve, questions, connection, Path(folder), arguments.rounds) for name in PROGRAMS
        }
    record = {**provenance("experiments.benchmarks.kept_calls", connection), "programs": found}
    write_json(arguments.out, portable(record))
    for name, one in found.items():
        size = one["bytes_of_calls_per_question"]
        print(f"{name:10} {one['ratio']:.2f} times the time, {size:,.0f} bytes per question")
    print(f"Written: {arguments.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
