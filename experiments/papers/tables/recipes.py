"""Rows whose program is compiled first: through the door of `verihop compile`, on questions that no cell is asked."""

from pathlib import Path
from typing import TYPE_CHECKING

from corpora.questions import Question, read_questions
from experiments.papers.tables.plan import Cell, Request
from experiments.runs.specs import CompileSpec
from signatures.common.files import sha256_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from experiments.pipeline.opened import AnswererSpec
    from programs.lms.connect import Connection

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
