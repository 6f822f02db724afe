"""How a run grows with its questions: seconds and peak memory of runs of 500 to 20,000 questions.

    python -m experiments.benchmarks.speed.growth

`rag` over BM25 asks the questions of the simulated world; every reply comes at once and is the same, so that all the
time and memory is that of the run itself. Each size runs in a process of its own. The steps: `read` (the questions),
`evaluate` (ask, write rows, summarise), `resume` (open the finished run again, and summarise it). The exponent of a
step is the slope of log CPU seconds over log questions, by least squares: 1 is linear, 2 quadratic. Peak memory is a
constant and a share per question: MB per 1,000 questions, by least squares.
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.runs.files import write_json
from experiments.runs.provenance import portable, provenance

MODULE = "experiments.benchmarks.speed.growth"
RESULT = Path("experiments/results/growth.json")
SIZES = (500, 2000, 5000, 10_000, 20_000)
STEPS = ("read", "evaluate", "resume")
LINEAR = 1.15  # largest exponent that is called linear: a constant at the start pulls it below 1, noise either way


def measure(questions: int, folder: Path, threads: int) -> dict[str, Any]:
    """Run one size in this process; return wall and CPU seconds by step, and the peak of the resident set in MB."""
    from corpora.index.build import build_index
    from corpora.index.open import open_index
    from corpora.questions import read_questions
    from experiments.benchmarks.run_memory import Constant
    from experiments.pipeline.evaluate import evaluate
    from experiments.runs.config import RunConfig
    from experiments.world.generate import generate
    from programs.catalog import build
    from programs.lms.adapter import ChatForm
    from programs.lms.calls.metered import metered_lm
    from programs.lms.connect import Connection

    passages, asked = generate(folder / "world", questions=questions)
    build_index(passages, folder / "index", retriever="bm25")
    program = build("rag", open_index(folder / "index"))
    lm = metered_lm("constant/1", engine=Constant(), temperature=0.0, max_tokens=256, cache=False)
    connection = Connection("constant", lm, ChatForm(), None, "samples")
    config, run = RunConfig(metrics=["em"], threads=threads), folder / "run"
    steps: dict[str, dict[str, float]] = {}

    def timed(name: str, work: Any) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        steps[name] = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
        return result

    own = timed("read", lambda: read_questions(asked))
    before = _peak()
    summary = timed(
        "evaluate", lambda: evaluate(program, own, config, connection=connection, folder=run, progress=False)
    )
    assert (summary.answered, summary.errors) == (questions, 0)
    timed(
        "resume",
        lambda: evaluate(program, own, config, connection=connection, folder=run, resume=True, progress=False),
    )
    return {"questions": questions, "steps": steps, "mb_before": before, "mb_peak": _peak()}


def _peak() -> float:
    """Return the peak of the resident set so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def slope(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the slope of y over x by least squares."""
    mean_x, mean_y = (statistics.fmean(values) for values in zip(*pairs, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in pairs) / sum((x - mean_x) ** 2 for x, _ in pairs)


def fits(sizes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the exponents of the steps, whether they are linear, and MB per 1,000 questions."""
    exponents = {}
    for step in STEPS:
        seconds = [(one["questions"], max(one["steps"][step]["cpu_seconds"], 1e-4)) for one in sizes]
        exponent = slope([(math.log(count), math.log(value)) for count, value in seconds])
        exponents[step] = {"exponent": round(exponent, 3), "linear": exponent <= LINEAR}
    memory = 1000 * slope([(one["questions"], one["mb_peak"]) for one in sizes])
    return {"steps": exponents, "mb_per_1000_questions": round(memory, 2)}


def _in_process(questions: int, threads: int) -> dict[str, Any]:
    command = [sys.executable, "-m", MODULE, "--one", str(questions), "--threads", str(threads)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure all sizes and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="Numbers of questions, at least two.")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(given.one, Path(folder), given.threads)))
        return
    if len(set(given.sizes)) < 2:
        parser.error("--sizes needs two different numbers.")
    load, sizes = os.getloadavg(), []
    for questions in given.sizes:
        sizes.append(_in_process(questions, given.threads))
        steps = ", ".join(f"{name} {step['seconds']:.2f} s" for name, step in sizes[-1]["steps"].items())
        print(f"{questions:,} questions: {steps}, {sizes[-1]['mb_peak']:.0f} MB", file=sys.stderr)
    record = {
        **provenance(MODULE),
        "threads": given.threads,
        "load": {"before": load, "after": os.getloadavg()},
        "sizes": sizes,
        "fits": fits(sizes),
    }
    write_json(given.out, portable(record))
    print(json.dumps(record["fits"], indent=2))


if __name__ == "__main__":
    main()
