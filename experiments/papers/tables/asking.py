"""Asks the cells of a table through the door that every command uses, scores their runs, and finds them again."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.questions import Question, read_questions
from experiments.papers.tables.plan import (
    Cell,
    Request,
    cells_of,
    distinct,
    done_rows,
    folder_of_lm,
    id_of,
    index_of,
    searches,
)
from experiments.papers.tables.sources import names
from experiments.papers.tables.spec import Row, Table
from experiments.papers.tables.values import Run, is_judged, needed
from experiments.runs.files import RUN, Json, read_json
from experiments.runs.specs import CompileSpec, RunSpec
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError
from signatures.common.files import sha256_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from experiments.pipeline.opened import AnswererSpec
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
        from programs.lms.calls.budget import Budget

        self._budget, self._threads = budget or Budget(), threads  # a compilation takes a part of it
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
    from programs.lms.calls.budget import BudgetExceeded

    lms, failed, stopped = LMs(budget, request.threads), Failed(), None
    todo = distinct(cells, request.work)
    for folder, cell in todo.items():
        try:
            stopped = _ask(cell, folder, request, lms, say)
        except UserError as error:
            failed.append((cell.label, str(error).removeprefix(f"{folder}: ")))
        if stopped:
            break
    if todo and len(failed) == len(todo):
        raise UserError(f"No cell of {table.id} could be asked; the first: {failed[0][1]}")
    judged = [False, *([True] if request.judge is not None and stopped is None else [])]
    try:
        for folder, cell in todo.items() if request.shard is None else ():
            same = [one.column for one in cells if one.folder(request.work) == folder]
            wanted = dict.fromkeys(each for one in same for name in table.scored(one) for each in needed(name))
            for by_lm in judged if (folder / RUN).is_file() else ():
                names_of = [name for name in wanted if is_judged(name) == by_lm]
                failed += _score(names_of, cell, folder, request, lms, judged=by_lm)
    except BudgetExceeded as spent:  # of the judge; what is scored is kept
        stopped = str(spent)
    return Asked(stopped, failed)


def _ask(cell: Cell, folder: Path, request: Request, lms: LMs, say: Said) -> str | None:
    """Ask a cell, or this shard of it; return why it stopped early, if it did."""
    from experiments.pipeline.opened import AnswererSpec
    from experiments.pipeline.verbs import evaluate

    assert cell.source is not None
    setting = cell.setting
    if request.shard is None and (_merged(folder) or _finished(folder)):
        _require_same_questions(cell, folder)
        return None
    say(f"{cell.label}: {cell.program.program}, {cell.asked} questions")
    if request.shard is not None:
        folder = folder.with_name(f"{folder.name}.shard-{request.shard.index}-of-{request.shard.of}")
    index = index_of(cell, progress=request.progress)
    program = AnswererSpec(replace(cell.program, index=index), cell.lm, connection=lms.of(cell.lm))
    if cell.recipe is not None:
        teacher = None if cell.recipe.teacher is None else lms.of(cell.recipe.teacher)
        artifact, stopped = compiled(cell, program, teacher, request, say)
        if stopped is not None:
            return stopped
        chosen = replace(cell.program, program=None, preset=None, knobs={}, index=index, artifact=artifact)
        program = replace(program, program=chosen)
    spec = RunSpec(
        metrics=[*METRICS, *(OF_SEARCH if index is not None else ())],
        limit=cell.asked,
        repeats=setting.repeats or 1,
        threads=request.threads,
        shard=request.shard,
        references=setting.references,
        passages=cell.source.passages if setting.references else None,
        n_references=setting.n_references if setting.references and setting.n_references else RunSpec.n_references,
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


def _require_same_questions(cell: Cell, folder: Path) -> None:
    """Raise UserError if a run has answered other questions than those that the cell asks."""
    from corpora.questions import read_questions, select
    from experiments.runs.config import describe_questions

    assert cell.source is not None
    asked = describe_questions(select(read_questions(cell.source.questions), limit=cell.asked))
    if read_json(folder / RUN)["questions"]["sha256"] != asked["sha256"]:
        raise UserError(f"{folder} has answers to other questions of this name. Choose another --work, or delete it.")


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


def _score(wanted: Sequence[str], cell: Cell, folder: Path, request: Request, lms: LMs, *, judged: bool) -> Failed:
    """Score a run by the metrics that it lacks; return what could not be scored."""
    from experiments.pipeline import setup
    from experiments.pipeline.scoring.passage_texts import Corpus
    from experiments.pipeline.scoring.score import score_run
    from experiments.pipeline.scoring.score_config import ScoreConfig

    assert cell.source is not None
    had, index = read_json(folder / RUN)["metrics"], cell.program.index
    lacking = [name for name in wanted if name not in had]
    if not lacking:
        return []
    try:
        judge = lms.of(request.judge) if judged and request.judge else None
        if judge is not None and setup.HALLUCINATION in lacking:
            setup.refuse_simulated(judge, f"decide {setup.HALLUCINATION}")
        config = ScoreConfig(
            metrics=setup.open_metrics(lacking)[0],
            questions=cell.source.questions,
            corpus=Corpus(index=index) if index else Corpus(passages=cell.source.passages),
            judge=judge,
            threads=request.threads,
            progress=request.progress,
        )
        return [(cell.label, text) for text in score_run(folder, config).notices if "Not added" in text]
    except UserError as error:
        return [(cell.label, str(error).removeprefix(f"{folder}: "))]


@dataclass(frozen=True)
class Line:
    """A row with the runs of one LM.

    Args:
        lm: Id of the LM, or the name of its folder if it has settings of its own; None without a run.
        runs: One for each column of the table; None where there is none.
    """

    row: Row
    lm: str | None
    runs: list[Run | None]


def lines_of(table: Table, request: Request) -> list[Line]:
    """Return the rows of a table, once for each LM that answered them, with the runs that are there.

    Raises:
        UserError: Several runs that were made otherwise are of the same cell.
    """
    found: dict[str, list[Line]] = {row.label: [] for row in table.rows}
    before = _made_before(request.runs)
    for folder, lm in _answered(request):
        cells = {(cell.row.label, cell.column.label): cell for cell in cells_of(table, replace(request, lm=lm))}
        for row in table.rows:
            own = [cells.get((row.label, column.label)) for column in table.all_columns]
            runs = [None if cell is None else _run(cell, request, folder, before) for cell in own]
            lms = [run.lm for run in runs if run is not None]
            # A student's runs are found beside those of every LM, and those made otherwise only where there are none.
            known = [line.lm for line in found[row.label]]
            name = _name_of(lms[0], folder) if lms else ""
            if lms and not ((row.role == "student" or folder is None) and name in known):
                found[row.label].append(Line(row, name, runs))
    return [
        line for row in table.rows for line in found[row.label] or [Line(row, None, [None] * len(table.all_columns))]
    ]


def _name_of(lm: str, folder: Path | None) -> str:
    """Return the id of an LM; with settings that are not the defaults, the name of the folder of its runs."""
    return lm if folder is None or folder.name == folder_of_lm(LMSpec(id=lm)) else folder.name


def _answered(request: Request) -> Iterator[tuple[Path | None, LMSpec]]:
    """Yield the LMs that answered, each with the folder of its runs; None stands for runs that were made otherwise."""
    named, cells = folder_of_lm(request.lm), request.work / "cells"
    yield cells / named, request.lm
    others = {path.name for path in cells.glob("*")} - {named, request.student and folder_of_lm(request.student)}
    for folder in (cells / str(name) for name in sorted(map(str, others))):
        if (run := next(folder.rglob(RUN), None)) is not None:
            yield folder, LMSpec(id=str(read_json(run)["lm"]["id"]))
    if request.runs is not None:
        yield None, request.lm


def _run(cell: Cell, request: Request, folder: Path | None, before: Sequence[tuple[Path, Json]]) -> Run | None:
    """Return the run of a cell: with its number of questions, else with the most; None if there is none."""
    if cell.other_lm:
        return None
    if folder is None:
        return _made_otherwise(cell, request, before)
    if cell.setting.role == "student":
        folder = request.work / "cells" / folder_of_lm(cell.lm)
    name, sets = f"{cell.program.program}-{cell.hash}", names(cell.column, request.data)
    exact = [folder / f"{each}-{cell.asked}" / name for each in sets]
    others = [path for each in sets for path in folder.glob(f"{each}-[0-9]*") if not request.limit]
    most_first = sorted(others, key=lambda path: -int(path.name.rpartition("-")[2]))
    return next(filter(None, map(_read, (*exact, *(path / name for path in most_first)))), None)


def _read(folder: Path) -> Run | None:
    if not (folder / RUN).is_file() and not _merged(folder):
        return None
    run = Run(folder)
    return run if run.questions else None


def _made_otherwise(cell: Cell, request: Request, before: Sequence[tuple[Path, Json]]) -> Run | None:
    """Return the run of a cell among those that were made otherwise: of the same program, knobs, LM and references.

    A folder above it has the name of the data set, with or without a number of questions (`hotpotqa`, `hotpotqa-100`).
    """
    assert request.runs is not None
    wanted = re.compile(rf"({'|'.join(map(re.escape, names(cell.column, request.data)))})(-\d+)?")
    fitting = [
        folder
        for folder, described in before
        if any(map(wanted.fullmatch, folder.relative_to(request.runs).parts)) and _is_of(described, cell, request.limit)
    ]
    if len(fitting) > 1:
        raise UserError(f"{cell.label} has several runs: {fitting[0]} and {fitting[1]}. Keep one below {request.runs}.")
    return _read(fitting[0]) if fitting else None


def _made_before(runs: Path | None) -> list[tuple[Path, Json]]:
    """Return the runs that were made otherwise, each with its description.

    Raises:
        UserError: The user names no folder.
    """
    if runs is None:
        return []
    if not runs.is_dir():
        raise UserError(f"--runs {runs} is no folder.")
    return [(path.parent, read_json(path)) for path in sorted(runs.rglob(RUN))]


def _is_of(described: Json, cell: Cell, limit: int | None) -> bool:
    """Return whether a run is of a cell; knobs that are newer than the run have the value that it had without them."""
    from corpora.retrievers.rerank import NONE, without_reranking
    from experiments.pipeline.setup import SMALL_RETRIEVER
    from programs.catalog import build
    from programs.parts.knobs import knob_values

    program, lm, given = (described.get(name) or {} for name in ("program", "lm", "given"))
    if program.get("name") != cell.program.program or lm.get("id") != id_of(cell.lm):
        return False
    searched = (described.get("corpus") or {}).get("fingerprint") or ""
    multihop = without_reranking(searched).startswith(f"{SMALL_RETRIEVER}-")
    reranked = searched.startswith("rerank")  # by which model, the fingerprint does not name
    if cell.recipe is not None or program.get("artifact_sha256") is not None:
        return False
    if searches(cell.setting) and (
        (cell.setting.retriever or "") not in searched
        or multihop != (cell.program.retriever == SMALL_RETRIEVER)  # chosen elsewhere by default
        or (searched and reranked != (cell.program.rerank not in (None, NONE)))
    ):
        return False
    knobs = knob_values(build(program["name"], preset=cell.program.preset or "paper", **cell.program.knobs))
    setting = cell.setting
    return (
        all(knobs.get(name) == value for name, value in program.get("knobs", {}).items())
        and given.get("knowledge") == setting.references
        and given.get("n") == (setting.n_references or RunSpec.n_references if setting.references else None)
        and described.get("repeats", 1) == (setting.repeats or 1)
        and limit in (None, described["questions"]["n"])
    )


_PART = "part of this row"  # of the budget


def divided(cell: Cell) -> tuple[list[Question], list[Question]]:
    """Return the questions that a program is compiled on, and those that candidates are compared on.

    They are drawn by the hash that draws the questions asked, after these.
    """
    assert cell.source is not None
    assert cell.recipe is not None
    drawn = sorted(read_questions(cell.source.questions), key=lambda question: sha256_text(question.id))[cell.asked :]
    end = cell.recipe.train + cell.recipe.val
    return drawn[: cell.recipe.train], drawn[cell.recipe.train : end]


def compiled(
    cell: Cell,
    program: "AnswererSpec",
    teacher: "Connection | None",
    request: Request,
    say: "Callable[[str], None]",
) -> tuple[Path, str | None]:
    """Compile the program of a cell, unless that is done; return its artifact, and why it is not complete.

    What the row may spend is a part of the budget, out of which it pays for each call as if it were alone: also for one
    whose reply another row has left in the cache. An artifact that it ended is complete.

    Args:
        program: Uncompiled, with its index and a connection.
        teacher: Connection of that of the recipe.

    Raises:
        UserError: It cannot be compiled.
    """
    from experiments.pipeline.verbs import compilation
    from programs.artifact import read_artifact

    recipe, folder, connection = cell.recipe, cell.artifact(request.work), program.connection
    assert recipe is not None
    assert connection is not None
    if (folder / "artifact.json").is_file() and _whole(read_artifact(folder).optimizer["stopped"]):
        return folder, None
    train, val = divided(cell)
    say(f"{cell.label}: compiled by {recipe.how.optimizer} on {len(train)} questions, at most {recipe.calls} LM calls")
    spec = CompileSpec(
        optimizer=recipe.how.optimizer,
        options=recipe.how.options,
        metric=recipe.how.metric,
        max_demos=recipe.how.max_demos,
        accept=recipe.how.accept,
        val=val or None,
        teacher=teacher,
        prompt=teacher,
        threads=request.threads,
    )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with connection.lm.budget.within(calls=recipe.calls, name=_PART, alone=True):
        work = compilation(program, train, spec)
        made, _ = work.run(folder, resume=folder.exists(), progress=request.progress, say=say)
    stopped = made.optimizer["stopped"]
    return folder, None if _whole(stopped) else stopped


def _whole(stopped: str | None) -> bool:
    return stopped is None or _PART in stopped
