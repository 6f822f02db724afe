"""Asks the cells of a table through the door that every command uses, and scores their runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.questions import Question, read_questions
from experiments.papers.tables.found import merged
from experiments.papers.tables.plan import (
    Cell,
    Request,
    distinct,
    done_rows,
    folder_of_lm,
    index_of,
    shard_folder,
)
from experiments.papers.tables.spec import Table
from experiments.papers.tables.values import is_judged, needed
from experiments.runs.files import RUN, read_json, read_rows
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
    if (request.shard is None and merged(folder)) or _finished(folder):
        _require_same_questions(cell, folder)
        return None
    say(f"{cell.label}: {cell.program.program}, {cell.asked} questions")
    if request.shard is not None:
        folder = shard_folder(folder, request.shard)
    index = index_of(cell, progress=request.progress)
    asked = replace(cell.program, index=index, retriever=searched_by(cell, index))
    program = AnswererSpec(asked, cell.lm, connection=lms.of(cell.lm))
    if cell.recipe is not None:
        teacher = None if cell.recipe.teacher is None else lms.of(cell.recipe.teacher)
        artifact, stopped = compiled(cell, program, teacher, request, say)
        if stopped is not None:
            return stopped
        chosen = replace(asked, program=None, preset=None, knobs={}, artifact=artifact)
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


def searched_by(cell: Cell, index: Path | None) -> str | None:
    """Return the retriever of a cell; all programs of the embedded LM have that of the preset `small`."""
    from corpora.index.open import chosen_by_default
    from experiments.pipeline.setup import is_embedded

    named = cell.program.retriever
    return chosen_by_default(index) if named is None and index is not None and is_embedded(cell.lm) else named


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


def _score(wanted: Sequence[str], cell: Cell, folder: Path, request: Request, lms: LMs, *, judged: bool) -> Failed:
    """Score a run by the metrics that it lacks; return what could not be scored."""
    from experiments.pipeline import setup
    from experiments.pipeline.scoring.passage_texts import Corpus
    from experiments.pipeline.scoring.score import score_run
    from experiments.pipeline.scoring.score_config import ScoreConfig

    assert cell.source is not None
    had, index = read_json(folder / RUN)["metrics"], cell.program.index
    scored = [row["scores"] for row in read_rows(folder, complete=True)]  # rows may have been added since the run was
    lacking = [name for name in wanted if name not in had or any(name not in scores for scores in scored)]
    if not lacking:
        return []
    try:
        judge = lms.of(request.judge) if judged and request.judge else None
        if judge is not None:
            setup.refuse_simulated_judge(judge, lacking)
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
        made, _ = work.run(folder, resume=True, progress=request.progress, say=say)
    stopped = made.optimizer["stopped"]
    return folder, None if _whole(stopped) else stopped


def _whole(stopped: str | None) -> bool:
    return stopped is None or _PART in stopped
