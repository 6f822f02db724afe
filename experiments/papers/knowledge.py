"""What programs make of what they are given: nothing, half, or all of the gold, and more and more noise beside it.

    python -m experiments.papers.knowledge world --lm simulated
    python -m experiments.papers.knowledge files questions.jsonl passages.jsonl --lm embedded --limit 50

After "How Credible Is an Answer From Retrieval-Augmented LLMs?", sections 6.3 (Table 3, Figure 3) and 6.4 (Table 4):
closed book, partial and complete references; gold with noise up to n references; and how well abstaining tells partial
from complete references, on as many of either. One file under experiments/results holds the numbers, one picture
beside it the curves.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from signatures.common.errors import UserError

if TYPE_CHECKING:
    from corpora.questions import Question
    from experiments.analysis.statistics import Mean
    from experiments.runs.files import Row
    from optimizers.metrics.metric import Metric as ScoredBy
    from programs.lms.connect import Connection
    from signatures.types import Passage

    Scores = Mapping[str | int, Mapping[str, Mean]]  # condition or number of references -> metric -> mean

CONDITIONS = ("closed", "partial", "complete")
REFLECTING = ("self_completion", "reflection")  # the program that abstains, and its preset without completion
RESULTS = Path("experiments/results")

Programs = Annotated[str, typer.Option(help="Programs that read references, separated by commas.")]
LM = Annotated[str, typer.Option(help="LM id.")]
Metrics = Annotated[str, typer.Option(help="Names, separated by commas; the picture shows the first.")]
Oracle = Annotated[str | None, typer.Option(help="Entailment oracle of keyfacts_* and the groundedness metrics.")]
N = Annotated[int, typer.Option("--n", help="References of a question.", min=2)]
Sizes = Annotated[str, typer.Option(help="Numbers of references of the sweep, separated by commas.")]
Out = Annotated[Path, typer.Option(help="Folder for the runs.")]
Results = Annotated[Path, typer.Option(help="Folder for the result file and the picture.")]
Name = Annotated[str, typer.Option(help="Of the result file: knowledge_NAME_LM.json.")]
Threads = Annotated[int, typer.Option(help="Questions side by side.", min=1)]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")]

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)


class Study:
    """Runs programs under conditions of knowledge and collects what came out.

    Args:
        questions: With gold ids.
        passages: The corpus that holds gold and noise.
        connection: The LM.
        metrics: What is scored.
        out: Folder for the runs.
        threads: Questions side by side.
        resume: Go on with what `out` holds.
    """

    def __init__(
        self,
        questions: "list[Question]",
        passages: "list[Passage]",
        connection: "Connection",
        *,
        metrics: "list[ScoredBy]",
        out: Path,
        threads: int,
        resume: bool,
    ):
        self._questions, self._passages, self._connection = questions, passages, connection
        self._metrics, self._out, self._threads, self._resume = metrics, out, threads, resume

    def score(self, program: str, knowledge: str, n: int) -> "dict[str, Mean]":
        """Return the mean scores of a program under one condition, by the metrics' names."""
        return self._run(program, "paper", knowledge, n)[0]

    def reflection(self, n: int) -> dict[str, Any]:
        """Return accuracy and F1 of abstaining (positive: abstain) on balanced groups, with the four counts."""
        from experiments.runs.fixed_contexts import told_apart

        return told_apart(self._run(*REFLECTING, "balanced", n)[1])

    def _run(self, program: str, preset: str, knowledge: str, n: int) -> "tuple[dict[str, Mean], list[Row]]":
        from experiments.pipeline.evaluate import evaluate
        from experiments.runs.files import read_rows
        from experiments.runs.fixed_contexts import choose_references
        from programs.catalog import build

        kept, given, left_out = choose_references(self._questions, self._passages, knowledge=knowledge, n=n)
        typer.echo(f"\n== {program} ({preset}), {knowledge}, n={n}; {left_out} questions left out", err=True)
        folder = self._out / f"{program}-{preset}-{knowledge}-{n}"
        summary = evaluate(
            build(program, preset=preset),
            kept,
            connection=self._connection,
            metrics=self._metrics,
            folder=folder,
            threads=self._threads,
            resume=self._resume,
            given=given,
            resume_command="the same command with --resume",
        )
        return summary.metrics, read_rows(folder)


def study(
    name: str,
    runs: Study,
    connection: "Connection",
    *,
    programs: Iterable[str],
    metrics: "list[ScoredBy]",
    n: int,
    sizes: list[int],
    results: Path,
) -> None:
    """Run everything, write the result file and the picture, and print the table."""
    from experiments.analysis.report.plots import curves
    from experiments.runs.files import write_json
    from experiments.runs.provenance import portable, provenance

    conditions: dict[str, Scores] = {}
    sweep: dict[str, Scores] = {}
    for program in programs:
        conditions[program] = {kind: runs.score(program, kind, n) for kind in CONDITIONS}
        known = {n: conditions[program]["complete"]}
        sweep[program] = {size: known.get(size) or runs.score(program, "complete", size) for size in sizes}
    first, reflection = metrics[0].name, runs.reflection(n)
    record = {
        **provenance("experiments.papers.knowledge", connection),
        "metrics": {metric.name: metric.definition for metric in metrics},
        "n": n,
        "conditions": _as_json(conditions),
        "sweep": _as_json(sweep),
        "reflection": reflection,
    }
    path = results / f"knowledge_{name}_{re.sub('[/:]', '_', portable(connection.id))}.json"
    write_json(path, portable(record))
    picture = curves(
        {program: {int(size): of[first] for size, of in by_size.items()} for program, by_size in sweep.items()},
        path.with_suffix(".png"),
        title="All gold, more and more noise",
        x_label="references, two or more of them gold",
        y_label=f"{first}, %",
    )
    _show(conditions, sweep, reflection)
    typer.echo(f"Written: {path} and {picture}", err=True)


def _as_json(scores: "Mapping[str, Scores]") -> dict[str, Any]:
    return {
        program: {
            str(place): {name: mean.as_dict() for name, mean in means.items()} for place, means in by_place.items()
        }
        for program, by_place in scores.items()
    }


def _show(conditions: "Mapping[str, Scores]", sweep: "Mapping[str, Scores]", reflection: dict[str, Any]) -> None:
    from experiments.analysis.summary import interval, percent
    from experiments.runs.fixed_contexts import told_apart_text

    for program, by_kind in conditions.items():
        places = {str(kind): means for kind, means in by_kind.items()}
        places |= {f"n = {size}": means for size, means in sweep[program].items()}
        for place, means in places.items():
            for name, mean in means.items():
                value = f"{percent(mean.mean)} [{interval(mean)}] (n = {mean.n})"
                typer.echo(f"{program:16} {place:9} {name:20} {value}")
    typer.echo(told_apart_text(reflection))


def _numbers(text: str) -> list[int]:
    try:
        return sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise UserError(f"--sizes {text!r} must be whole numbers separated by commas, e.g. 2,5,10.") from None


@app.command()
def world(
    lm: LM = "simulated",
    programs: Programs = "rag,cov_rag,self_completion",
    metrics: Metrics = "keyfacts_recall,keyfacts_precision,acc[substring]",
    oracle: Oracle = None,
    dev: Annotated[int, typer.Option(help="Questions.", min=2)] = 200,
    n: N = 5,
    sizes: Sizes = "2,5,10,20",
    out: Out = Path("runs/knowledge-world"),
    results: Results = RESULTS,
    threads: Threads = 8,
    resume: Resume = False,
) -> None:
    """Run on questions of the simulated world that need two passages."""
    from experiments.world.generate import generate

    passages, questions = generate(out / "data", questions=2 * dev)
    _on_files(
        questions, passages, "world", lm, programs, metrics, oracle, dev, 2, n, sizes, out, results, threads, resume
    )


@app.command()
def files(
    questions: Annotated[Path, typer.Argument(help="questions.jsonl with gold ids.")],
    passages: Annotated[Path, typer.Argument(help="passages.jsonl with gold and noise.")],
    lm: LM = "embedded",
    name: Name = "files",
    programs: Programs = "rag,cov_rag,self_completion",
    metrics: Metrics = "keyfacts_recall,keyfacts_precision,acc[substring]",
    oracle: Oracle = None,
    limit: Annotated[int, typer.Option(help="Use the first N questions.", min=2)] = 50,
    n: N = 5,
    sizes: Sizes = "2,5,10",
    out: Out = Path("runs/knowledge"),
    results: Results = RESULTS,
    threads: Threads = 8,
    resume: Resume = False,
) -> None:
    """Run on questions and passages of your own."""
    _on_files(
        questions, passages, name, lm, programs, metrics, oracle, limit, None, n, sizes, out, results, threads, resume
    )


def _on_files(
    questions: Path,
    passages: Path,
    name: str,
    lm: str,
    programs: str,
    metrics: str,
    oracle: str | None,
    limit: int,
    gold: int | None,
    n: int,
    sizes: str,
    out: Path,
    results: Path,
    threads: int,
    resume: bool,
) -> None:
    """Run on files; `gold` keeps only questions with so many gold passages."""
    from corpora.passages import read_passages
    from corpora.questions import read_questions
    from experiments.pipeline.setup import open_lm, open_metrics

    asked = [item for item in read_questions(questions) if gold is None or len(item.gold_ids) == gold][:limit]
    connection, places = open_lm(lm), _numbers(sizes)
    scored, about = open_metrics(metrics, oracle)
    if about:
        typer.echo(f"Entailment: {about}")
    runs = Study(
        asked,
        list(read_passages(passages)),
        connection,
        metrics=scored,
        out=out,
        threads=threads,
        resume=resume,
    )
    chosen = [program.strip() for program in programs.split(",") if program.strip()]
    study(name, runs, connection, programs=chosen, metrics=scored, n=n, sizes=places, results=results)


if __name__ == "__main__":
    try:
        app()
    except UserError as error:
        typer.echo(f"knowledge: {error}", err=True)
        sys.exit(2)
