"""`verihop judge`: an LM compares the answers of several runs along CoV-RAG's criteria."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli import options
from experiments.cli.console import emit, next_step, note, resumable, say

if TYPE_CHECKING:
    from rich.table import Table

    from experiments.analysis.statistics import Mean
    from experiments.annotation.judge_runs import Judgement


def judge(
    runs: Annotated[list[Path], typer.Argument(help="Two to four run folders.")],
    out: Annotated[Path, typer.Option(help="Folder for the judgements.")],
    passages: Annotated[
        Path | None, typer.Option(help="The runs' corpus; without it, citations are not judged.", show_default=False)
    ] = None,
    lm: options.LM = "embedded",
    api_base: options.ApiBase = None,
    api_key_env: options.ApiKeyEnv = None,
    threads: options.Threads = 8,
    seed: options.Seed = 0,
    budget_calls: options.BudgetCalls = None,
    budget_usd: options.BudgetUsd = None,
    resume: options.Resume = False,
    as_json: options.Json = False,
) -> None:
    """Let an LM score answers side by side, blind and in shuffled order; print scores, ranks and high-quality rates."""
    from corpora.passages import read_passages
    from experiments.annotation.judge_runs import judge_runs
    from experiments.pipeline import setup
    from signatures.common.errors import UserError

    corpus = {passage.id: passage for passage in read_passages(passages)} if passages else {}
    connection = setup.open_lm(lm, setup.LMOptions(api_base, api_key_env), calls=budget_calls, usd=budget_usd)
    with resumable():
        judgement = judge_runs(runs, corpus, connection=connection, out=out, threads=threads, resume=resume, seed=seed)
    if as_json:
        emit(judgement.as_dict())
        return
    from rich.console import Console

    Console().print(_table(judgement))
    for run, mean in judgement.revisions.items():
        say(f"Revised questions of {run}: {_cell(mean)}")
    if judgement.left_out:
        note(f"{judgement.left_out} questions are left out: a run lacks them, or they ended in an error there.")
    if judgement.unread or judgement.moved:
        note(f"{judgement.unread} replies of the judge could not be read; {judgement.moved} scores lay outside 0 to 1.")
    say(f"Written: {out}")
    if judgement.all_unparsed:
        raise UserError(f"{lm} gave no verdict that could be read: it cannot judge. Name another LM with --lm.")
    next_step(f"verihop compare {' '.join(map(str, runs))}")


def _cell(mean: "Mean") -> str:
    if mean.mean is None:
        return "-"
    ends = "" if mean.low is None else f" [{mean.low:.2f} to {mean.high:.2f}]"
    return f"{mean.mean:.2f}{ends}, n = {mean.n}"


def _table(judgement: "Judgement") -> "Table":
    from rich.table import Table

    table = Table(
        title=f"{judgement.questions} questions; rank 1 is best, bias is better when low", title_justify="left"
    )
    for name in ("criterion", "run", "score", "rank", "high quality"):
        table.add_column(name)
    for item in judgement.standings:
        cells = (_cell(item.score), _cell(item.rank), _cell(item.high_quality))
        table.add_row(item.criterion, item.run, *cells)
    return table
