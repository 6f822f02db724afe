"""Asks the cells of a table through the door that every command uses, scores their runs, and finds them again."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.papers.tables.plan import Cell, Request, distinct, done_rows, fits, folder_of_lm, index_of
from experiments.papers.tables.sources import names
from experiments.papers.tables.spec import Row, Table
from experiments.papers.tables.values import Run, is_judged, needed
from experiments.runs.files import RUN, read_json
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from programs.lms.calls.budget import Budget
    from programs.lms.connect import Connection

Failed = list[tuple[str, str]]
"""What could not be done, and why."""
Said = Callable[[str], None]
# Of every run, so that tables share runs; what else a table prints is scored afterwards.
METRICS, OF_SEARCH = ("em", "f1[hotpot]", "acc[substring]"), ("passage_recall[all]",)


class LMs:
    """Connections by LM, opened when first asked for; they share one budget."""

    def __init__(self, budget: "Budget | None", threads: int):
        self._budget, self._threads = budget, threads
        self._opened: dict[str, Connection] = {}

    def of(self, lm: LMSpec) -> "Connection":
        """Return the connection of an LM."""
        from experiments.pipeline import setup

        name = folder_of_lm(lm)
        if name not in self._opened:
            self._opened[name] = setup.open_lm(lm.for_threads(self._threads), self._budget)
        return self._opened[name]


@dataclass(frozen=True)
class Asked:
    """What asking came to.

    Args:
        stopped: Why it ended early; None if it did not.
        failed: What could not be asked or scored, and why.
    """

    stopped: str | None
    failed: Failed


def ask(table: Table, cells: Sequence[Cell], request: Request, budget: "Budget | None", say: Said) -> Asked:
    """Ask what is not answered yet, and score it by the metrics of the table.

    Raises:
        UserError: Nothing could be asked.
        KeyboardInterrupt: After Ctrl-C; what is answered is kept.
    """

    lms, failed = LMs(budget, request.threads), Failed()
    todo = distinct(cells, request.work)
    for folder, cell in todo.items():
        try:
            stopped = _ask(cell, folder, request, lms, say)
        except UserError as error:
            failed.append((cell.label, str(error).removeprefix(f"{folder}: ")))
            continue
        if stopped:
            return Asked(stopped, failed)
    if todo and len(failed) == len(todo):
        raise UserError(f"No cell of {table.id} could be asked; the first: {failed[0][1]}")
    for folder, cell in todo.items() if request.shard is None else ():
        failed += _score(
            table, [one for one in cells if one.folder(request.work) == folder], cell, folder, request, lms
        )
    return Asked(None, failed)


def _ask(cell: Cell, folder: Path, request: Request, lms: LMs, say: Said) -> str | None:
    """Ask a cell, or this shard of it; return why it stopped early, if it did."""
    from experiments.pipeline.opened import AnswererSpec
    from experiments.pipeline.verbs import evaluate
    from experiments.runs.specs import RunSpec

    assert cell.source is not None
    setting = cell.setting
    if request.shard is None and (_merged(folder) or _finished(folder)):
        return None
    say(f"{cell.label}: {cell.program.program}, {cell.asked} questions")
    if request.shard is not None:
        folder = folder.with_name(f"{folder.name}.shard-{request.shard.index}-of-{request.shard.of}")
    index = index_of(cell, progress=request.progress)
    program = AnswererSpec(replace(cell.program, index=index), cell.lm, connection=lms.of(cell.lm))
    spec = RunSpec(
        metrics=[*METRICS, *(OF_SEARCH if index is not None else ())],
        limit=cell.asked,
        repeats=setting.repeats or 1,
        threads=request.threads,
        shard=request.shard,
        references=setting.references,
        passages=cell.source.passages if setting.references else None,
        n_references=(setting.n_references or RunSpec.n_references) if setting.references else RunSpec.n_references,
    )
    resume, progress = folder.exists(), request.progress
    done = evaluate(program, cell.source.questions, folder, spec, resume=resume, progress=progress, say=say)
    return done.summary.stopped


def _finished(folder: Path) -> bool:
    """Return whether a run is there whose questions are all answered without an error."""
    if not (folder / RUN).is_file():
        return False
    described = read_json(folder / RUN)
    return len(done_rows(folder)) == described["questions"]["n"] * described.get("repeats", 1)


def _merged(folder: Path) -> bool:
    """Merge the shards of a run if all are there and nothing else is; return whether the run is there then."""
    from experiments.pipeline.merging.merge import merge

    shards = sorted(folder.parent.glob(f"{folder.name}.shard-*"))
    if (folder / RUN).exists() or not shards:
        return False
    try:
        merge(shards, folder)
    except UserError:  # one is missing or not finished: asked here in one piece
        return False
    return True


def _score(
    table: Table, same: Sequence[Cell], cell: Cell, folder: Path, request: Request, lms: LMs
) -> list[tuple[str, str]]:
    """Score a run by what the table prints and it lacks; return what could not be scored."""
    from experiments.pipeline import setup
    from experiments.pipeline.scoring.passage_texts import Corpus
    from experiments.pipeline.scoring.score import score_run
    from experiments.pipeline.scoring.score_config import ScoreConfig

    had = read_json(folder / RUN)["metrics"]
    wanted = dict.fromkeys(each for one in same for name in table.scored(one.column) for each in needed(name))
    failed: Failed = []
    for judged in (False, True):
        lacking = [name for name in wanted if name not in had and is_judged(name) == judged]
        if not lacking or (judged and request.judge is None):
            continue
        assert cell.source is not None
        try:
            judge = lms.of(request.judge) if judged and request.judge else None
            if judge is not None and setup.HALLUCINATION in lacking:
                setup.refuse_simulated(judge, f"decide {setup.HALLUCINATION}")
            metrics, _ = setup.open_metrics(lacking)
            index = cell.program.index
            config = ScoreConfig(
                metrics=metrics,
                questions=cell.source.questions,
                corpus=Corpus(index=index) if index else Corpus(passages=cell.source.passages),
                judge=judge,
                threads=request.threads,
                progress=request.progress,
            )
            failed += [(cell.label, text) for text in score_run(folder, config).notices if "Not added" in text]
        except UserError as error:
            failed.append((cell.label, str(error).removeprefix(f"{folder}: ")))
    return failed


@dataclass(frozen=True)
class Line:
    """A row with the runs of one LM.

    Args:
        lm: Id of the LM; None without a run.
        runs: One for each column of the table; None where there is none.
    """

    row: Row
    lm: str | None
    runs: list[Run | None]


def lines_of(table: Table, cells: Sequence[Cell], request: Request) -> list[Line]:
    """Return the rows of a table, once for each LM that answered them, with the runs that are there."""
    found = []
    for row in table.rows:
        own = [cell for cell in cells if cell.row is row]
        by_lm = [_runs(table, own, request, folder) for folder in _lm_folders(request, own)]
        by_lm = [(lm, runs) for lm, runs in by_lm if any(runs)] or [(None, [None] * len(table.all_columns))]
        found += [Line(row, lm, runs) for lm, runs in by_lm]
    return found


def _lm_folders(request: Request, cells: Sequence[Cell]) -> list[Path | None]:
    """Return the folders of the LMs that may have answered a row, and None for runs that were made otherwise."""
    if not cells:
        return []
    setting, cells_folder = cells[0].setting, request.work / "cells"
    if setting.role == "student":
        return [cells_folder / folder_of_lm(request.student)] if request.student else []
    others = sorted(path for path in cells_folder.glob("*") if path.is_dir())
    student = folder_of_lm(request.student) if request.student else None
    return [*(path for path in others if path.name != student or request.student == request.lm), None]


def _runs(
    table: Table, cells: Sequence[Cell], request: Request, folder: Path | None
) -> tuple[str | None, list[Run | None]]:
    pattern = cells[0].setting.lm
    by_column = {cell.column.label: cell for cell in cells}
    found: list[Run | None] = []
    for column in table.all_columns:
        cell = by_column.get(column.label)
        run = (
            None if cell is None else _made_otherwise(cell, request) if folder is None else _run(cell, request, folder)
        )
        found.append(run if run is not None and fits(pattern, run.lm) else None)
    return next((run.lm for run in found if run is not None), None), found


def _run(cell: Cell, request: Request, folder: Path) -> Run | None:
    """Return the run of a cell among those of an LM: with its number of questions, else with the most."""
    name = f"{cell.program.program}-{cell.hash}"
    exact = [folder / f"{each}-{cell.asked}" / name for each in names(cell.column, request.data)]
    others = [path for each in names(cell.column, request.data) for path in folder.glob(f"{each}-[0-9]*/{name}")]
    others = [] if request.limit else sorted(others, key=lambda path: -int(path.parent.name.rpartition("-")[2]))
    return next((run for path in (*exact, *others) if (run := _read(path)) is not None), None)


def _read(folder: Path) -> Run | None:
    if not (folder / RUN).is_file():
        _merged(folder)
    if not (folder / RUN).is_file():
        return None
    run = Run(folder)
    return run if run.questions else None


def _made_otherwise(cell: Cell, request: Request) -> Run | None:
    """Return the run of a cell in the folder of runs that were made otherwise: of the same program, knobs and LM.

    A part of its path must be the name of the data set, or begin with it and a dash.

    Raises:
        UserError: Several runs are of the cell.
    """
    if request.runs is None:
        return None
    knobs = _knobs(cell)
    fitting = [
        folder for folder in _folders(request.runs, names(cell.column, request.data)) if _is_of(folder, cell, knobs)
    ]
    if len(fitting) > 1:
        raise UserError(f"{cell.label} has several runs: {fitting[0]} and {fitting[1]}. Keep one below {request.runs}.")
    return _read(fitting[0]) if fitting else None


def _folders(runs: Path, data: Iterable[str]) -> list[Path]:
    folders = sorted(path.parent for path in runs.rglob(RUN))
    wanted = tuple(data)
    return [
        folder
        for folder in folders
        if any(
            part == name or part.startswith(f"{name}-") for part in folder.relative_to(runs).parts for name in wanted
        )
    ]


def _knobs(cell: Cell) -> dict[str, object]:
    from programs.catalog import build
    from programs.parts.knobs import knob_values

    asked = cell.program
    return knob_values(build(str(asked.program), preset=asked.preset or "paper", **asked.knobs))


def _is_of(folder: Path, cell: Cell, knobs: dict[str, object]) -> bool:
    described = read_json(folder / RUN)
    program, lm, given = (described.get(name) or {} for name in ("program", "lm", "given"))
    if not isinstance(program, dict) or not isinstance(lm, dict) or not isinstance(given, dict):
        return False
    return (
        program.get("name") == cell.program.program
        and all(knobs.get(name) == value for name, value in (program.get("knobs") or {}).items())
        and given.get("knowledge") == cell.setting.references
        and given.get("n") == (cell.setting.n_references if cell.setting.references else None)
        and described.get("repeats", 1) == (cell.setting.repeats or 1)
    )
