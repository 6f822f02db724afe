"""What each part of the four papers' programs is worth on the simulated world: every ablation against the whole.

    python -m experiments.papers.mechanisms

All variants answer the same questions over one BM25 index, with the committed dials; the simulated LM gives P(yes) by
its log-probabilities. Differences are exact match of the variant minus that of the whole, with 95 % paired bootstrap
intervals. The mechanism tests hold the claims; this prints the numbers behind them, whichever way they point.
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

# Program -> name of a variant -> the knobs that make it. The whole, with the knobs of its paper, comes first.
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
    questions: Annotated[int, typer.Option(help="Questions of the world.", min=30)] = 600,
    seed: Annotated[int, typer.Option(help="Seed of the world and of the LM.")] = 0,
    out: Annotated[Path, typer.Option(help="The result file.")] = OUT,
    threads: Annotated[int, typer.Option(help="Questions side by side.", min=1)] = 4,
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
        retrieve, asked = open_index(Path(folder) / "index"), read_questions(path)
        programs = {
            name: _study(name, variants, retrieve, asked, connection, threads) for name, variants in VARIANTS.items()
        }
    record = {
        **provenance("experiments.papers.mechanisms", connection),
        "questions": questions,
        "programs": programs,
    }
    write_json(out, portable(record))
    typer.echo(f"Written: {out}", err=True)


def _study(
    name: str,
    variants: Mapping[str, dict[str, Any]],
    retrieve: "Retriever",
    asked: "list[Question]",
    connection: "Connection",
    threads: int,
) -> dict[str, Any]:
    """Return the whole's score and cost, and each variant's with its difference from the whole; print both."""
    from experiments.analysis.statistics import mean_of, paired
    from experiments.analysis.summary import percent

    scores, cost = _ask(name, {}, retrieve, asked, connection, threads)
    whole = mean_of(scores)
    typer.echo(f"{name:16} {'whole':27} {percent(whole.mean)}  {cost['calls']:.1f} calls a question")
    told: dict[str, Any] = {"whole": {"em": whole.as_dict(), **cost}}
    for variant, knobs in variants.items():
        other, its_cost = _ask(name, knobs, retrieve, asked, connection, threads)
        mean, difference = mean_of(other), paired(scores, other)
        told[variant] = {"knobs": knobs, "em": mean.as_dict(), **its_cost, "minus_whole": difference.as_dict()}
        ends = f"[{percent(difference.low)}, {percent(difference.high)}]"
        typer.echo(
            f"{'':16} {variant:27} {percent(mean.mean)}  {its_cost['calls']:.1f} calls a question  "
            f"{percent(difference.difference)} {ends}"
        )
    return told


def _ask(
    name: str,
    knobs: Mapping[str, Any],
    retrieve: "Retriever",
    asked: "list[Question]",
    connection: "Connection",
    threads: int,
) -> tuple[list[float], dict[str, float]]:
    """Return exact match per question, and the mean calls, rounds and tokens of a question."""
    from experiments.pipeline.run_question import ask
    from optimizers.examples import to_examples
    from optimizers.metrics.catalog import get_metric
    from programs.catalog import build
    from programs.parts.fanout import fanout

    program, metric = build(name, retrieve, **knobs), get_metric("em")
    asks = [partial(ask, program, example, connection=connection, metrics=[metric]) for example in to_examples(asked)]
    rows = []
    for row, cause in fanout(asks, width=threads):
        if cause is not None:
            raise cause
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
