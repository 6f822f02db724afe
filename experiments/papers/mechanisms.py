"""The effect of each part of the four papers' programs on the simulated world: every ablation against the full program.

    python -m experiments.papers.mechanisms [--version 2]

All variants answer the same questions over one BM25 index, with the committed dials; P(yes) comes from the simulated
LM's log-probabilities. Differences are exact match of the variant minus that of the full program, with 95 % paired
bootstrap intervals; the result file has those to each baseline, too.

Every ablation is printed, whatever it shows. The mechanism tests (`tests/experiments/world`) assert the claims of the
papers that hold here; those that do not are named in their docstrings: that RetroRAG loses exact match without its
answer evaluation or its evaluation of evidence, and that CoV-RAG's revision at the start is worse than none. Others are
within chance at the 600 questions of this command and are asserted at more, as that completion gains. `values`
are the scores of each question, so that others can compare variants.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from experiments.analysis.statistics import mean_of, paired
from experiments.analysis.summary import percent
from experiments.papers.command import run_command

if TYPE_CHECKING:
    from corpora.questions import Question
    from programs.lms.connect import Connection
    from signatures.types import Retriever

Measured = tuple[list[float], dict[str, float]]
Measure = Callable[[str, Mapping[str, Any]], Measured]

BASELINES = ("standard", "cot", "rag", "multihop")
# Program -> name of a variant -> its knobs. The full program, with the knobs of its paper, is measured first.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "genground": {
        "w/o deduction": {"deduce": False},
        "w/o grounding": {"ground": False},
        "w/o batch": {"batch": False},
        "as in the public code": {"k": 9, "batch_size": 3, "max_hops": 7, "early_stop": False},
    },
    "cov_rag": {
        "no revision": {"revise": "never"},
        "revision at the start": {"revise": "start"},
        "w/o chain": {"chain": False},
    },
    "self_completion": {
        "w/o completion": {"completion": False},
        "single-hop control": {"reflection": False},
    },
    "retro_rag": {
        "w/o answer evaluation": {"evaluate_answer": False},
        "w/o ELLERY": {"ellery": False},
        "w/o source evidence": {"source": False},
        "w/o inferential evidence": {"inferential": False},
        "w/o updating": {"update": False},
        "w/o evaluation of evidence": {"evaluate_evidence": False},
        "at most K inferences asked for": {"limit_inferences": True},
        "one round": {"max_rounds": 1},
        "three rounds": {"max_rounds": 3},
    },
}


class Version(NamedTuple):
    """A version of the simulated LM: what precedes the seed in its id, and the result file."""

    prefix: str
    out: Path


RESULTS = Path("experiments/results")
VERSIONS = {
    1: Version("", RESULTS / "mechanisms_world_simulated.json"),
    2: Version("v2:", RESULTS / "mechanisms_world_v2.json"),
}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)


@app.command()
def mechanisms(
    questions: Annotated[int, typer.Option(help="Number of questions.", min=30)] = 600,
    seed: Annotated[int, typer.Option(help="Seed of the world and the LM.")] = 0,
    version: Annotated[int, typer.Option(help="Version of the simulated LM's dials.", min=1, max=2)] = 1,
    out: Annotated[Path | None, typer.Option(help="The result file; by default that of the version.")] = None,
    threads: Annotated[int, typer.Option(help="Questions asked in parallel.", min=1)] = 4,
) -> None:
    """Measure all variants and write the result file."""
    import tempfile

    from corpora.index.build import build_index
    from corpora.index.open import open_index
    from corpora.questions import read_questions
    from experiments.runs.config import portable, provenance
    from experiments.runs.files import write_json
    from experiments.world.connect import connect_any
    from experiments.world.generate import generate

    connection = connect_any(f"simulated:{VERSIONS[version].prefix}{seed}", cache=False)
    out = out or VERSIONS[version].out
    with tempfile.TemporaryDirectory() as folder:
        passages, path = generate(Path(folder) / "data", questions=questions, seed=seed)
        build_index(passages, Path(folder) / "index", retriever="bm25")
        retrieve, generated = open_index(Path(folder) / "index"), read_questions(path)
        measure = partial(
            measure_program, retrieve=retrieve, questions=generated, connection=connection, threads=threads
        )
        baselines = {name: measure(name, {}) for name in BASELINES}
        for name, (scores, cost) in baselines.items():
            typer.echo(_line(name, "", scores, cost))
        programs = {name: _measure_program(name, variants, measure, baselines) for name, variants in VARIANTS.items()}
    record = {
        **provenance("experiments.papers.mechanisms", connection),
        "questions": questions,
        "baselines": {
            name: {"em": mean_of(scores).as_dict(), "values": _values(scores), **cost}
            for name, (scores, cost) in baselines.items()
        },
        "programs": programs,
    }
    write_json(out, portable(record))
    typer.echo(f"Written: {out}", err=True)


def _measure_program(
    name: str, variants: Mapping[str, dict[str, Any]], measure: Measure, baselines: Mapping[str, Measured]
) -> dict[str, Any]:
    """Return score and cost of the full program and of each variant, with the paired differences; print them."""
    scores, cost = measure(name, {})
    result: dict[str, Any] = {"whole": _record(scores, cost, baselines)}
    typer.echo(_line(name, "full program", scores, cost))
    for variant, knobs in variants.items():
        variant_scores, variant_cost = measure(name, knobs)
        difference = paired(scores, variant_scores)
        record = _record(variant_scores, variant_cost, baselines)
        result[variant] = {"knobs": knobs, **record, "minus_whole": difference.as_dict()}
        interval = f"{percent(difference.difference)} [{percent(difference.low)}, {percent(difference.high)}]"
        typer.echo(f"{_line('', variant, variant_scores, variant_cost)}  {interval}")
    return result


def _record(scores: list[float], cost: dict[str, float], baselines: Mapping[str, Measured]) -> dict[str, Any]:
    """Return the mean, the score of each question, the cost, and the paired difference to each baseline."""
    minus = {name: paired(baseline, scores).as_dict() for name, (baseline, _) in baselines.items()}
    return {"em": mean_of(scores).as_dict(), "values": _values(scores), **cost, "minus_baselines": minus}


def _values(scores: list[float]) -> str:
    """Return one digit, 0 or 1, for each question in order."""
    return "".join(str(round(score)) for score in scores)


def _line(name: str, variant: str, scores: list[float], cost: dict[str, float]) -> str:
    return f"{name:16} {variant:27} {percent(mean_of(scores).mean)}  {cost['calls']:.1f} calls a question"


def measure_program(
    name: str,
    knobs: Mapping[str, Any],
    retrieve: "Retriever",
    questions: "list[Question]",
    connection: "Connection",
    threads: int,
) -> Measured:
    """Return exact match per question, and the mean calls, rounds and tokens per question."""
    from experiments.pipeline.run_question import run_question
    from experiments.runs.config import RunConfig
    from optimizers.examples import to_examples
    from programs.catalog import build
    from programs.parts.threads import fanout

    ask = partial(run_question, build(name, retrieve, **knobs), config=RunConfig(metrics=["em"]), connection=connection)
    rows = []
    for row, error in fanout([partial(ask, example) for example in to_examples(questions)], width=threads):
        if error is not None:
            raise error
        rows.append(row)
    cost = {name: sum(row[name] for row in rows) / len(rows) for name in ("calls", "rounds")}
    cost["tokens"] = sum(row["prompt_tokens"] + row["completion_tokens"] for row in rows) / len(rows)
    return [row["scores"]["em"] for row in rows], cost


if __name__ == "__main__":
    run_command(app, "mechanisms")
