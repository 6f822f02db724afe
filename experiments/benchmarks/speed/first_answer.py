"""First answer: how long a process takes from `import dspy` to the first answer of a compiled program.

    python -m experiments.benchmarks.speed.first_answer

For each program of the catalog, and an ensemble and a cascade of two of them, an artifact with eight demonstrations per
predictor is frozen. A new process imports dspy; then the clock starts: it imports `programs.artifact`, opens a BM25
index, loads the artifact, and answers a question on a scripted LM that replies at once. The processes take turns, after
one round that is not counted.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.runs.files import write_json
from experiments.runs.provenance import portable, provenance

if TYPE_CHECKING:
    import dspy

OUT = Path("experiments/results/first_answer.json")
HERE = Path(__file__).parents[3]
DEMOS = 8
BOUND = 1.0  # seconds
STAGES = ("import", "index", "load", "question")
QUESTION = "Who founded the company that was sold to Quillon Works?"

# Nothing but dspy is imported before the clock starts.
SCRIPT = """
import json, sys, time
import dspy
from dspy.lm15 import Message, Response, TextPart, Usage

class Scripted:
    supports_response_schema = True
    supported_params = ("temperature", "max_tokens", "response_format", "logprobs", "top_logprobs")
    calls = 0

    def complete(self, request):
        Scripted.calls += 1
        last = request.messages[-1].text
        if "one word, yes or no" in last:
            text = "yes"
        else:
            text = json.dumps({
                "reasoning": "r", "finished": False, "sub_question": f"Who is it, {len(last)}?", "query": "company",
                "queries": [f"founder {len(last)}"], "missing": "", "sufficient": True, "response": "Ansa Merrow [1].",
                "evidence": "", "answer": "Ansa Merrow", "relevance": 0.5, "entities": ["Quillon Works"],
                "inferences": ["It was sold."], "judgement": "true", "revised_question": "Who?", "p": 0.5,
            })
        usage = Usage(input_tokens=10, output_tokens=5, total_tokens=15)
        message = Message.assistant([TextPart(text)])
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)

clock, seconds = time.perf_counter, {}
cpu = time.process_time()

def stage(name, start):
    seconds[name] = clock() - start
    return clock()

start = clock()
from programs.artifact import load
start = stage("import", start)
from corpora.index.open import open_index
retrieve = open_index(sys.argv[2])
start = stage("index", start)
program = load(sys.argv[1], retrieve)
start = stage("load", start)
from programs.lms.adapter import JsonForm
with dspy.context(lm=dspy.LM("scripted/m", engine=Scripted(), cache=False), adapter=JsonForm(), disable_history=True):
    program(question=sys.argv[3])
stage("question", start)
print(json.dumps({**seconds, "cpu": time.process_time() - cpu, "calls": Scripted.calls}))
"""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, help=__doc__)


def programs() -> Iterator[tuple[str, "dspy.Module"]]:
    """Yield compiled programs: every predictor has `DEMOS` demonstrations."""
    from programs.cascade import Cascade
    from programs.catalog import PROGRAMS, build
    from programs.ensemble import Ensemble

    for name in PROGRAMS:
        yield name, with_demos(build(name))
    yield "ensemble", Ensemble([with_demos(build("rag")), with_demos(build("multihop"))])
    yield "cascade", Cascade(with_demos(build("rag")), with_demos(build("genground")))


def with_demos(program: "dspy.Module") -> "dspy.Module":
    """Give every predictor demonstrations of its text fields."""
    import dspy

    for predictor in program.predictors():
        texts = [name for name, field in predictor.signature.fields.items() if field.annotation is str]
        predictor.demos = [
            dspy.Example(augmented=True, **{name: f"Text {number} of {name}. " * 20 for name in texts})
            for number in range(DEMOS)
        ]
    return program


def measured(artifact: Path, index: Path, seed: int) -> dict[str, float]:
    """Return the seconds of each stage of one process, and its LM calls."""
    command = [sys.executable, "-c", SCRIPT, str(artifact), str(index), f"{QUESTION} ({seed})"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def summary(rounds: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Return median and greatest seconds of all stages together, CPU seconds, each stage's median, and the LM calls."""
    totals = [sum(each[stage] for stage in STAGES) for each in rounds]
    cpus = [each["cpu"] for each in rounds]
    by_stage = {stage: [each[stage] for each in rounds] for stage in STAGES}
    return {
        "total": {"median": round(median(totals), 4), "max": round(max(totals), 4)},
        "cpu": {
            "median": round(median(cpus), 4),
            "max": round(max(cpus), 4),
        },
        "stages": {stage: round(median(values), 4) for stage, values in by_stage.items()},
        "calls": int(rounds[0]["calls"]),
    }


@app.command()
def first_answer(
    rounds: Annotated[int, typer.Option(help="Rounds that are counted.", min=1)] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the order.")] = 0,
    out: Annotated[Path, typer.Option(help="The result file.")] = OUT,
) -> None:
    """Measure, print and write the result file."""
    from corpora.index.build import build_index
    from experiments.world.generate import generate
    from programs.artifact import freeze

    load = os.getloadavg()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        passages, _ = generate(folder, questions=40, seed=0)
        build_index(passages, folder / "index", retriever="bm25")
        frozen = [label for label, program in programs() if freeze(program, folder / "artifacts" / label)]
        found: dict[str, list[dict[str, float]]] = {label: [] for label in frozen}
        for number in range(rounds + 1):
            random.Random(f"{seed} {number}").shuffle(frozen)
            for label in frozen:
                once = measured(folder / "artifacts" / label, folder / "index", number)
                if number:
                    found[label].append(once)
    results = {label: summary(each) for label, each in found.items()}
    record = {
        **provenance("experiments.benchmarks.speed.first_answer"),
        "load": {"before": load, "after": os.getloadavg()},
        "rounds": rounds,
        "bound_seconds": BOUND,
        "seconds": results,
    }
    write_json(out, portable(record))
    for label, each in results.items():
        stages = "  ".join(f"{stage} {seconds:.3f}" for stage, seconds in each["stages"].items())
        total = each["total"]
        spent = f"{total['median']:.3f} (max {total['max']:.3f}), CPU {each['cpu']['median']:.3f}"
        typer.echo(f"{label:16} {spent}  {stages}  {each['calls']} calls")
    slowest = max(each["total"]["max"] for each in results.values())
    typer.echo(f"Slowest: {slowest:.2f} s, bound {BOUND:.1f} s. Load {load[0]:.2f}. Written: {out}", err=True)


if __name__ == "__main__":
    app()
