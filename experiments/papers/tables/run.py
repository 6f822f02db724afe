"""Reproduces a table: says what is missing and what the rest costs, asks it, and writes what there is."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.papers.tables.answers import SUFFIX, take_over, write_answers
from experiments.papers.tables.asking import Asked, Said, ask
from experiments.papers.tables.found import lacking, lines_of
from experiments.papers.tables.judging import judging_of
from experiments.papers.tables.kinds import assemble
from experiments.papers.tables.plan import (
    Cell,
    Request,
    cells_of,
    estimate_of,
    examples_of,
    missing_of,
    unsearchable,
)
from experiments.papers.tables.spec import Table
from experiments.papers.tables.write import write_all
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from experiments.pipeline.evaluate import Estimate
    from programs.lms.calls.budget import Budget


@dataclass(frozen=True)
class Plan:
    """What a table needs.

    Args:
        cells: Those of its rows that have a program, without those that runs made otherwise are of.
        missing: What is missing, each with what it leaves out and its cure.
        estimate: What is left to ask, at most.
        judging: What the judge is asked at most.
        taken: How many runs were taken over from a file of answers; None without one.
        distils: Whether an LM is asked for training examples.
    """

    cells: list[Cell]
    missing: list[str]
    estimate: "Estimate"
    judging: "Estimate | None" = None
    taken: str | None = None
    distils: bool = False

    @property
    def asks(self) -> bool:
        """Whether it asks an LM, be what that needs there or missing."""
        return bool(self.cells) or self.distils


@dataclass(frozen=True)
class Reproduced:
    """What was asked, and the files of the table as far as it could be made.

    Args:
        ours: Whether any run is there, or any other number of ours.
    """

    asked: Asked
    paths: list[Path]
    ours: bool


def plan(table: Table, request: Request) -> Plan:
    """Return what a table needs; no LM is opened.

    Questions are converted if their files are there, and answers of the request are taken over.

    Raises:
        UserError: What the user names is damaged, or what the cells to be shown searched is not there.
    """
    if table.kind == "distillation" and request.examples is None:
        estimate, missing = examples_of(table, request)
        return Plan([], missing, estimate, distils=True)
    taken = None if request.answers is None else take_over(request.answers, table, request)
    found = [] if table.kind in ("ratings", "distillation") else cells_of(table, request)
    if request.only_table:
        recorded = {cell.program.index: cell.setting.retriever in request.retrievers for cell in found}
        for folder, own in recorded.items():
            if (without := unsearchable(folder, recorded=own)) is not None:
                raise UserError(f"The table needs {without}.")
    cells = lacking(found, request)
    missing, judging = missing_of(table, cells, request), judging_of(table, cells, request)
    return Plan(cells, missing, estimate_of(cells, request), judging, taken)


def reproduce(
    table: Table,
    planned: Plan,
    request: Request,
    out: Path,
    *,
    command: str,
    budget: "Budget | None" = None,
    say: Said = lambda text: None,
) -> Reproduced:
    """Ask what a table lacks, and write it; what cannot be asked is left out, and the rest is written.

    Raises:
        UserError: Nothing could be asked, or nothing can be written.
        KeyboardInterrupt: After Ctrl-C; what is answered is kept, and nothing is written.
    """
    from programs.lms.calls.budget import BudgetExceeded

    asked = Asked(None, []) if request.only_table else ask(table, planned.cells, request, budget, say)
    lines = lines_of(table, request)
    runs = [run for line in lines for run in line.runs if run is not None]
    try:
        made = assemble(table, lines, request, budget, asked.failed)
    except BudgetExceeded as spent:  # of a judge or a teacher; what is finished is kept
        return Reproduced(Asked(str(spent), asked.failed), [], bool(runs))
    paths = write_all(made, out, command, say) if made.rows or made.texts else []
    answers = write_answers(runs, request.work, out / f"{table.file_name}{SUFFIX}") if paths else None
    return Reproduced(asked, [*paths, *filter(None, [answers])], bool(runs) or made.filled)
