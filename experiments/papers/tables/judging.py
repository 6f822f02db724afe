"""What an LM judges in tables: which rows it prefers, and what that costs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.papers.tables.asking import LMs
from experiments.papers.tables.found import Line, first_runs, lines_of
from experiments.papers.tables.grid import (
    Grid,
    GridRow,
    Order,
    Value,
    headings_of,
    order,
    published_only,
    published_rows,
)
from experiments.papers.tables.plan import Cell, Request, done_rows, folder_of_lm, id_of, unopened
from experiments.papers.tables.spec import Row, Table, published
from experiments.papers.tables.values import Run, is_judged, needed
from experiments.runs.files import RUN, read_json, read_rows
from experiments.runs.files import Row as Answered
from programs.lms.spec import LMSpec
from signatures.common.files import sha256_text

if TYPE_CHECKING:
    from experiments.pipeline.evaluate import Estimate
    from programs.lms.calls.budget import Budget


def judged(table: Table, lines: Sequence[Line], request: Request, budget: "Budget | None") -> Grid:
    """Ranks or rates of high quality by an LM that compares the answers of the rows (`verihop judge`)."""
    runs = first_runs(lines, request)
    if request.judge is None or len(runs) < 2:
        return published_only(table)
    from corpora.passages import read_passages
    from experiments.annotation.judge_runs import judge_runs
    from experiments.papers.tables.sources import open_source

    source = open_source(table.columns[0], request.data, request.work)
    corpus = {passage.id: passage for passage in read_passages(source.passages)} if source.passages else {}
    folders = {label: run.folder for label, run in runs.items()}
    out = _judgements(runs, request.judge, request)
    if request.only_table and not _all_judged(out):
        return published_only(table)
    connection = LMs(budget, request.threads).of(request.judge)
    judgement = judge_runs(
        list(folders.values()),
        corpus,
        connection=connection,
        out=out,
        threads=request.threads,
        resume=out.exists(),
        progress=request.progress,
    )
    labels = dict(zip(judgement.runs, folders, strict=True))
    found = {(labels[each.run], each.criterion): getattr(each, str(table.shown)) for each in judgement.standings}
    by_label = {row.label: row for row in table.rows}
    rows = [
        GridRow(label, [Value(found.get((label, name)), published(by_label[label], place))
                        for place, name in enumerate(table.metrics)])
        for label in folders
    ]  # fmt: skip
    by_run = {run: by_label[label] for run, label in labels.items()}
    orders = _judged_orders(table, by_run, read_rows(out), id_of(request.lm))
    return Grid(
        table,
        headings_of(table),
        [*rows, *published_rows(table, list(folders))],
        orders=orders,
        notes=judgement.notices,
    )


def judging_of(table: Table, cells: Sequence[Cell], request: Request) -> "Estimate":
    """Return what the judge is asked at most; 0 questions without one that can be asked."""
    from experiments.pipeline.evaluate import unmeasured

    if request.judge is None or unopened(request.judge) is not None:
        return unmeasured(0, 0)
    there = [cell for cell in cells if cell.missing is None]
    if table.kind == "judged":
        return unmeasured(*_comparing(table, there, request.judge, request))
    return unmeasured(*((0, 0) if request.shard is not None else _scoring(table, there, request)))


def _comparing(table: Table, cells: Sequence[Cell], judge: LMSpec, request: Request) -> tuple[int, int]:
    """Return how many questions, and LM calls at most, the comparison of the rows takes."""
    from optimizers.metrics.judges.listwise_judge import ListwiseJudge
    from optimizers.metrics.judges.revision_judge import RevisionJudge

    runs = first_runs(lines_of(table, request), request)
    cells = [cell for cell in cells if cell.column == table.columns[0]]
    sizes = {cell.row.label: cell.asked for cell in cells} | {label: len(run.ids) for label, run in runs.items()}
    if len(sizes) < 2:
        return 0, 0
    asking = any(len(done_rows(cell.folder(request.work))) < cell.asked for cell in cells)
    out = _judgements(runs, judge, request)
    judged = 0 if asking or not (out / RUN).is_file() else len(read_rows(out))
    left = max(0, min(sizes.values()) - judged)
    return left, left * (ListwiseJudge().max_calls() + RevisionJudge().max_calls() * len(sizes))


def _scoring(table: Table, cells: Sequence[Cell], request: Request) -> tuple[int, int]:
    """Return how many answers, and LM calls at most, the judged metrics take."""
    from optimizers.metrics.catalog import get_metric

    wanted: dict[Path, tuple[Cell, set[str]]] = {}
    for cell in cells:
        names = {each for name in table.scored(cell.column) if is_judged(name) for each in needed(name)}
        wanted.setdefault(cell.folder(request.work), (cell, set()))[1].update(names)
    answers = calls = 0
    for folder, (cell, names) in wanted.items():
        rows, asked = done_rows(folder) if names else [], cell.asked * (cell.setting.repeats or 1)
        left = {name: asked - sum(name in row["scores"] for row in rows) for name in names}
        answers += max(left.values(), default=0)
        calls += sum(get_metric(name).judge_calls * n for name, n in left.items())
    return answers, calls


def _judgements(runs: Mapping[str, Run], judge: LMSpec, request: Request) -> Path:
    """Return the folder of the judgements of runs."""
    name = sha256_text("\n".join(f"{run.folder.parent.name}/{run.folder.name}" for run in runs.values()))[:8]
    return request.work / "judgements" / f"{folder_of_lm(judge)}-{name}"


def _all_judged(folder: Path) -> bool:
    """Return whether a folder has a judgement of each question that was to be judged."""
    return (folder / RUN).is_file() and len(read_rows(folder)) == len(read_json(folder / RUN)["questions"])


def _judged_orders(table: Table, by_label: Mapping[str, Row], judged: Sequence[Answered], lm: str) -> list[Order]:
    """Return, for each criterion, whether the judge orders the rows as they are published.

    Args:
        by_label: Label of a judged run -> its row.
        judged: The judgements of questions.
    """
    from experiments.annotation.judgement_results import judged_values

    found = []
    for place, (heading, criterion) in enumerate(zip(headings_of(table), table.metrics, strict=True)):
        values = judged_values(criterion, list(by_label), judged)
        shown = {label: own[str(table.shown)] for label, own in values.items()}
        known = [label for label, own in shown.items() if any(value is not None for value in own)]
        both = {label: stated for label in known if (stated := published(by_label[label], place)) is not None}
        if len(both) > 2:
            found.append(order(heading, lm, list(both.values()), [[shown[label]] for label in both]))
    return found
