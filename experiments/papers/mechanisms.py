"""The effect of each part of the four papers' programs on the simulated world: every ablation against the full program.

    python -m experiments.papers.mechanisms

All variants answer the same questions over one BM25 index, with the committed dials; P(yes) comes from the simulated
LM's log-probabilities. Differences are exact match of the variant minus that of the full program, with 95 % paired
bootstrap intervals. The mechanism tests check the papers' claims; this prints the numbers behind them.
"""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from signatures.common.errors import UserError

if TYPE_CHECKING:
    from corpora.questions import Question
    from programs.lms.connect import Connection
    from signatures.types import Retriever

# Program -> name of a variant -> its knobs. The full program, with the knobs of its paper, is measured first.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "genground": {
        "w/o deduction": {"deduce": False},
        "w/o grounding": {"ground": False},
        "w/o batch": {"batch": False},
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
    },
}
OUT = Path("experiments/results/mechanisms_world_simulated.json")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)


@app.command()
def mechanisms(
    questions: Annotated[int, typer.Option(help="Number of questions.", min=30)] = 600,
    seed: Annotated[int, typer.Option(help="Seed of the world and the LM.")] = 0,
    out: Annotated[Path, typer.Option(help="The result file.")] = OUT,
    threads: Annotated[int, typer.Option(help="Questions asked in parallel.", min=1)] = 4,
) -> None:
    """Measure all variants and write the result file."""
    import tempfile

    from corpora.index.build import build_index
    from corpora.index.open import open_index
    from corpora.questions import read_questions
    from experiments.runs.files import write_json
    from experiments.runs.provenance import portable, provenance
    from experiments.world.connect import connect_any
    from experiments.world.generate import generate

    connection = connect_any(f"simulated:{seed}", cache=False)
    with tempfile.TemporaryDirectory() as folder:
        passages, path = generate(Path(folder) / "data", questions=questions, seed=seed)
        build_index(passages, Path(folder) / "index", retriever="bm25")
        retrieve, generated = open_index(Path(folder) / "index"), read_questions(path)
        programs = {
            name: _measure_program(name, variants, retrieve, generated, connection, threads)
            for name, variants in VARIANTS.items()
        }
    record = {
        **provenance("experiments.papers.mechanisms", connection),
        "questions": questions,
        "programs": programs,
    }
    write_json(out, portable(record))
    typer.echo(f"Written: {out}", err=True)


def _measure_program(
    name: str,
    variants: Mapping[str, dict[str, Any]],
    retrieve: "Retriever",
    questions: "list[Question]",
    connection: "Connection",
    threads: int,
) -> dict[str, Any]:
    """Return score and cost of the full program and of each variant, with the paired difference; print them."""
    from experiments.analysis.statistics import mean_of, paired
    from experiments.analysis.summary import percent

    scores, cost = _measure(name, {}, retrieve, questions, connection, threads)
    whole = mean_of(scores)
    typer.echo(f"{name:16} {'full program':27} {percent(whole.mean)}  {cost['calls']:.1f} calls a question")
    result: dict[str, Any] = {"whole": {"em": whole.as_dict(), **cost}}
    for variant, knobs in variants.items():
        variant_scores, variant_cost = _measure(name, knobs, retrieve, questions, connection, threads)
        mean, difference = mean_of(variant_scores), paired(scores, variant_scores)
        result[variant] = {"knobs": knobs, "em": mean.as_dict(), **variant_cost, "minus_whole": difference.as_dict()}
        interval = f"[{percent(difference.low)}, {percent(difference.high)}]"
        typer.echo(
            f"{'':16} {variant:27} {percent(mean.mean)}  {variant_cost['calls']:.1f} calls a question  "
            f"{percent(difference.difference)} {interval}"
        )
    return result


def _measure(
    name: str,
    knobs: Mapping[str, Any],
    retrieve: "Retriever",
    questions: "list[Question]",
    connection: "Connection",
    threads: int,
) -> tuple[list[float], dict[str, float]]:
    """Return exact match per question, and the mean calls, rounds and tokens per question."""
    from experiments.pipeline.run_question import run_question
    from experiments.runs.config import RunConfig
    from optimizers.examples import to_examples
    from programs.catalog import build
    from programs.parts.fanout import fanout

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
    try:
        app()
    except UserError as error:
        typer.echo(f"mechanisms: {error}", err=True)
        sys.exit(2)
