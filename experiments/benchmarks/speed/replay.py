"""How long it takes to evaluate settings of thresholds from a record, and that they score what running them scores.

    python -m experiments.benchmarks.speed.replay

For each program with gates: questions of the simulated world are asked and recorded with their branches; then settings
drawn at random are replayed in one thread, and some are run for real, question by question, to be compared. What is
unseen is counted; nothing is bought. The simulated LM shows speed and equality, which do not depend on the LM; its
calls are far faster than those of any real one.

Then whole studies of CoV-RAG are timed as users run them, `verihop tune --replay` with each of two samplers, in a
process of its own: start, trials, estimate on held-out questions, plots and freezing.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.questions import Question, read_questions
from experiments.pipeline.evaluate import evaluate
from experiments.runs.config import RunConfig
from experiments.runs.files import write_json
from experiments.runs.provenance import provenance
from experiments.world.connect import connect_any
from experiments.world.generate import generate
from optimizers.evaluating import evaluate_examples
from optimizers.examples import to_examples
from optimizers.metrics.typed.opened import typed_metric
from optimizers.replay.exploring import Setting, drawn_settings
from optimizers.replay.names import BRANCHES, REPLIES
from optimizers.replay.record import Record
from optimizers.replay.record_files import load_record
from optimizers.replay.replaying import Unseen, replay
from programs.cascade import Cascade
from programs.catalog import build
from programs.parts.knobs import with_knobs

MODULE = "experiments.benchmarks.speed.replay"
METRIC = "f1[hotpot]"
STUDIED = "cov_rag"
SAMPLERS = ("tpe", "random")
PROGRAMS: dict[str, dict[str, Any]] = {
    "cov_rag": {"gate": "threshold"},
    "self_completion": {"k": 1},  # one reference at a time, so that completion goes on for several turns
    "cascade": {},  # of rag and cov_rag
    "retro_rag": {"k": 3, "source_size": 3, "inferential_size": 2, "max_rounds": 3},
}


@dataclass(frozen=True)
class Sizes:
    """Questions, trials replayed, trials run for real, and branches of a question."""

    questions: int
    trials: int
    real: int
    branches: int


def opened(name: str, index: Path) -> Any:
    """Return a program with its retriever and the knobs of this benchmark."""
    retrieve = open_index(index)
    if name == "cascade":
        return Cascade(build("rag", retrieve), build("cov_rag", retrieve), **PROGRAMS[name])
    return build(name, retrieve, **PROGRAMS[name])


def measure(name: str, world: Path, run: Path, sizes: Sizes) -> dict[str, Any]:
    """Record a program, replay settings, run some of them for real, and return times, counts and sizes."""
    questions = list(read_questions(world / "questions.jsonl"))[: sizes.questions]
    program = opened(name, world / "index")
    connection = connect_any("simulated", cache=False)
    config = RunConfig(metrics=["em", METRIC], threads=2, branches=sizes.branches)
    start = time.perf_counter()
    evaluate(program, questions, config, connection=connection, folder=run, progress=False)
    recorded, spent = time.perf_counter() - start, connection.lm.budget.spent["calls"]
    start = time.perf_counter()
    record = load_record(run)
    loaded = time.perf_counter() - start
    trials = drawn_settings(program, count=sizes.trials, seed=1)[-sizes.trials :]  # not those that were explored
    start, cpu = time.perf_counter(), time.process_time()
    outcomes = [replay(record, setting, metric=METRIC) for setting in trials]
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    calls = connection.lm.budget.spent["calls"] - spent
    unseen = sum(isinstance(each, Unseen) for trial in outcomes for each in trial)
    ends = [{(each.score, each.calls, each.tokens) for each in question} for question in zip(*outcomes, strict=True)]
    return {
        "questions": len(questions),
        "branches": sum(record.count(id) for id in record.questions),
        "questions_that_differ": sum(len(each) > 1 for each in ends),  # between the trials
        "trials": len(trials),
        "replay": {"seconds": round(seconds, 3), "cpu_seconds": round(cpu, 3), "lm_calls": calls},
        "unseen_share": round(unseen / (len(trials) * len(questions)), 4),
        "record": {
            "seconds": round(recorded, 1),
            "lm_calls": spent,
            "kB": {each: (run / each).stat().st_size // 1000 for each in (BRANCHES, REPLIES)},
            "seconds_to_load": round(loaded, 3),
        },
        "real": compared(program, record, questions, connection, trials[: sizes.real]),
    }


def compared(
    program: Any, record: Record, questions: Sequence[Question], connection: Any, trials: Sequence[Setting]
) -> dict[str, Any]:
    """Run settings for real; return how many of the questions seen score and cost the same, and seconds per setting."""
    ids = [question.id for question in questions]
    metric, examples = typed_metric(METRIC), to_examples(questions)
    same = seen = 0
    start = time.perf_counter()
    with connection.use():
        real = [evaluate_examples(with_knobs(program, **setting), examples, metric, threads=2) for setting in trials]
    seconds = time.perf_counter() - start
    for setting, run in zip(trials, real, strict=True):
        for one, other in zip(replay(record, setting, metric=METRIC, ids=ids), run, strict=True):
            if not isinstance(one, Unseen):
                seen += 1
                same += (one.score, one.calls, one.tokens) == (other.score, other.calls, other.tokens)
    return {"trials": len(trials), "seen": seen, "same": same, "seconds_per_trial": round(seconds / len(trials), 2)}


def study(world: Path, run: Path, sampler: str, *, trials: int, out: Path) -> dict[str, Any]:
    """Tune the recorded program from its record with the command line; return times, LM calls and what was found.

    Args:
        world: Folder with the questions.
        run: The recorded run, of all of them.
        sampler: As `verihop tune` names it.
        trials: Of the study.
        out: Folder for the study.
    """
    words = ["tune", world / "questions.jsonl", "--program", STUDIED, "--lm", "simulated", "--replay", run]
    words += [word for name, value in PROGRAMS[STUDIED].items() for word in ("--fix", f"{name}={value}")]
    words += ["--trials", trials, "--sampler", sampler, "--metric", METRIC, "--out", out, "--json", "--quiet"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "experiments.cli.main", *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = json.loads(done.stdout)
    return {
        "trials": found["counts"],
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "lm_calls": found["spent"].get("calls", 0),
        "load_average": load_average(),
    }


def load_average() -> list[float]:
    """Return the processes that wait for a core or use one, over 1, 5 and 15 minutes."""
    return [round(each, 1) for each in os.getloadavg()]


def main() -> None:
    """Measure, print, and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--trials", type=int, default=1000, help="replayed")
    parser.add_argument("--real", type=int, default=5, help="trials that are run for real, too")
    parser.add_argument("--branches", type=int, default=8, help="recorded of a question at most")
    parser.add_argument("--studies", nargs="*", default=list(SAMPLERS), choices=SAMPLERS, help="samplers of studies")
    parser.add_argument("--out", type=Path, default=Path("experiments/results/replay.json"))
    arguments = parser.parse_args()
    sizes = Sizes(arguments.questions, arguments.trials, arguments.real, arguments.branches)
    results: dict[str, Any] = {}
    studies: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder) / "world"
        passages, _ = generate(world, questions=sizes.questions, seed=0)
        build_index(passages, world / "index", retriever="bm25")
        for name in arguments.programs:
            results[name] = measure(name, world, Path(folder) / name, sizes)
            print(name, results[name], flush=True)
        for sampler in arguments.studies if STUDIED in results else ():
            run, out = Path(folder) / STUDIED, Path(folder) / f"study-{sampler}"
            studies[sampler] = study(world, run, sampler, trials=sizes.trials, out=out)
            print(f"study of {STUDIED}, {sampler}", studies[sampler], flush=True)
    head = {**provenance(MODULE), "load_average": load_average()}
    results = {"metric": METRIC, "knobs": PROGRAMS, "programs": results, "studies": {STUDIED: studies}}
    write_json(arguments.out, {**head, **results})
    print(f"Written: {arguments.out}")


if __name__ == "__main__":
    main()
