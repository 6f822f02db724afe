"""Reproduces a table: says what is missing and what the rest costs, asks it, and writes what there is."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.papers.tables.asking import Asked, Said, ask, lines_of
from experiments.papers.tables.grid import Grid
from experiments.papers.tables.kinds import assemble
from experiments.papers.tables.plan import Cell, Request, cells_of, estimate_of, missing_of
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
        cells: Those of its rows that have a program.
        missing: What is missing, each with what it leaves out and its cure.
        estimate: What is left to ask, at most.
    """

    cells: list[Cell]
    missing: list[str]
    estimate: "Estimate"


@dataclass(frozen=True)
class Reproduced:
    """A table as far as it could be made."""

    grid: Grid
    asked: Asked
    paths: list[Path]


def plan(table: Table, request: Request) -> Plan:
    """Return what a table needs; questions are converted if their files are there, and no LM is opened."""
    cells = [] if table.kind in ("ratings", "distillation") else cells_of(table, request)
    return Plan(cells, missing_of(table, cells, request), estimate_of(cells, request))


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

    Args:
        planned: As `plan` returns it.
        out: Folder for the table.
        command: That the files name.
        budget: Of all LMs together.

    Raises:
        UserError: Nothing could be asked, or nothing can be written.
        KeyboardInterrupt: After Ctrl-C; what is answered is kept, and nothing is written.
    """
    asked = Asked(None, []) if request.only_table else ask(table, planned.cells, request, budget, say)
    made = _assembled(table, planned.cells, request, budget, say, asked.failed)
    return Reproduced(made, asked, write_all(made, out, command) if made.rows or made.texts else [])


def _assembled(
    table: Table, cells: Sequence[Cell], request: Request, budget: "Budget | None", say: Said, failed: list[str]
) -> Grid:
    lines = lines_of(table, cells, request)
    try:
        return assemble(table, lines, request, budget, say)
    except UserError as error:  # e.g. a judge without a readable verdict: what is published is still printed
        failed.append(str(error))
        return Grid(table, [], [], notes=[str(error)])
