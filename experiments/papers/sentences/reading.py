"""What an LM reads in chosen sentences in place of passages, on the development sets.

    python -m experiments.papers.sentences.reading --data ../shared/data --sentences 8 --resume

`rag` with its preset `small` (three passages, reranker `own`) against the same with sentences of at most three
passages, and closed book (`standard`) beside it. Questions are drawn by a hash.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.papers.command import help_of, names, run_command, say
from experiments.papers.embedded_lm.evaluation_sets import SETS, open_set
from experiments.papers.sentences.material import rounded
from experiments.runs.config import portable, provenance
from experiments.runs.files import read_json, write_json
from experiments.runs.specs import ProgramSpec

MODULE = "experiments.papers.sentences.reading"
RESULTS = Path("experiments/results")
FILE = "sentences_reading.json"
# As of the leaderboard, so that its runs need not be made again.
METRICS = ("em", "f1[hotpot]", "acc[substring]", "passage_recall[all]")
COSTS = ("tokens", "seconds")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def arms(sentences: int) -> dict[str, ProgramSpec]:
    """Return the runs by name; the first one is compared with the others."""
    rag = ProgramSpec(program="rag", preset="small", rerank="own")
    return {
        "rag": rag,
        f"rag-sentences-{sentences}": replace(rag, sentences=sentences),
        "standard": ProgramSpec(program="standard"),
    }


@app.command(help=help_of(__doc__))
def reading(
    data: Annotated[Path, typer.Option(help="Folder with the official files.")] = Path("../shared/data"),
    work: Annotated[Path, typer.Option(help="Folder for converted files, indexes and runs.")] = Path(
        "indexes/sentences"
    ),
    results: Annotated[Path, typer.Option(help="Folder for the result file.")] = RESULTS,
    lm: Annotated[str, typer.Option(help="The LM.")] = "embedded",
    sets: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(SETS),
    questions: Annotated[int, typer.Option(help="Questions of each set.", min=2)] = 100,
    sentences: Annotated[int, typer.Option(help="Sentences that are read.", min=1, max=20)] = 8,
    threads: Annotated[int, typer.Option(help="Questions asked in parallel.", min=1)] = 2,
    resume: Annotated[bool, typer.Option("--resume", help="Resume interrupted runs.")] = False,
    answered: Annotated[
        bool, typer.Option("--answered", help="Ask nothing: compare what interrupted runs have answered.")
    ] = False,
) -> None:
    """Ask and compare."""
    path = results / FILE
    for name in names("set", sets, SETS):
        folder = work / "runs" / name
        runs = arms(sentences)
        if not answered:
            ask(name, data, work, folder, lm, questions, runs, threads=threads, resume=resume)
        record = compared([folder / run for run in runs])
        known: dict[str, Any] = read_json(path)["sets"] if path.is_file() else {}
        write_json(path, {"sets": {**known, name: portable({**provenance(MODULE), **record})}})
    say(f"Written: {path}")


def ask(
    name: str,
    data: Path,
    work: Path,
    folder: Path,
    lm: str,
    count: int,
    runs: Mapping[str, ProgramSpec],
    *,
    threads: int,
    resume: bool,
) -> None:
    """Ask what is not answered yet."""
    from experiments.pipeline.evaluate import evaluate
    from experiments.pipeline.opened import AnswererSpec
    from experiments.runs.config import RunConfig
    from optimizers.metrics.catalog import get_metric
    from programs.lms.spec import LMSpec

    of = open_set(name, data, work, count)
    index = getattr(of.retrieve, "folder", None)
    metrics = tuple(get_metric(metric) for metric in METRICS)
    connection = None
    for run, spec in runs.items():
        say(f"{name}, {run}")
        spec = spec if spec.program == "standard" else replace(spec, index=index)
        opened = AnswererSpec(spec, LMSpec(id=lm, cache=False), connection=connection).open()
        connection = opened.connection  # loaded once
        evaluate(
            opened.program,
            of.questions,
            RunConfig(metrics=metrics, threads=threads),
            connection=connection,
            folder=folder / run,
            resume=resume,
        )


def compared(folders: Sequence[Path]) -> dict[str, Any]:
    """Return the scores of runs of one set, by kind of question too, and the paired differences from the first."""
    from experiments.analysis.compare import compare_runs

    found = compare_runs(list(folders)).as_dict()
    described = {folder.name: read_json(folder / "run.json") for folder in folders}
    return {
        "questions": found["questions"],
        "runs": {
            run: {
                "retriever": each["corpus"]["fingerprint"],
                "revision": each["git_revision"],
                "lm": each["lm"]["model"],
            }
            for run, each in described.items()
        },
        "metrics": {metric: lines(found["metrics"][metric]) for metric in METRICS},
        "costs": {cost: lines(found["costs"][cost]) for cost in COSTS},
        "kinds": {
            kind: {metric: lines(of_metric) for metric, of_metric in by.items()} for kind, by in found["kinds"].items()
        },
        "closed_book": found["closed_book"],
    }


def lines(of: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return mean and interval of each run, and the paired difference from the first one."""
    kept = ("mean", "low", "high")
    result = {}
    for run, line in of.items():
        against = line.get("against_first") or {}
        paired = {key: rounded(against.get(key)) for key in ("difference", "low", "high", "p") if against}
        result[run] = {
            "n": line["n"],
            **{key: rounded(line[key]) for key in kept},
            **({"minus_first": paired} if paired else {}),
        }
    return result


if __name__ == "__main__":
    run_command(app, "sentences.reading")
