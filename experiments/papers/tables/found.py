"""Finds the runs of cells: those that a table has asked, and those that other commands have made."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.papers.tables.plan import Cell, Request, cells_of, folder_of_lm, id_of, searches
from experiments.papers.tables.sources import names
from experiments.papers.tables.spec import Row, Table
from experiments.papers.tables.values import Run
from experiments.runs.files import RUN, Json, read_json
from experiments.runs.specs import RunSpec
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError


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
            others = before if lm is request.lm else []
            runs = [None if cell is None else _run(cell, request, folder, others) for cell in own]
            lms = [run.lm for run in runs if run is not None]
            # A student's runs are found beside those of every LM.
            known = [line.lm for line in found[row.label]]
            name = _name_of(lms[0], folder) if lms else ""
            if lms and not (row.role == "student" and name in known):
                found[row.label].append(Line(row, name, runs))
    return [
        line for row in table.rows for line in found[row.label] or [Line(row, None, [None] * len(table.all_columns))]
    ]


def first_runs(lines: Sequence[Line], request: Request) -> dict[str, Run]:
    """Return the run of each row in its first column, of the LM of the request if there is one of it."""
    found: dict[str, Run] = {}
    for line in lines:
        run = line.runs[0] if line.runs else None
        if run is not None and (line.row.label not in found or run.lm == id_of(request.lm)):
            found[line.row.label] = run
    return found


def lacking(cells: Sequence[Cell], request: Request) -> list[Cell]:
    """Return the cells that no complete run made otherwise is of.

    Raises:
        UserError: Several are of the same cell, or the user names no folder.
    """
    before = _made_before(request.runs)
    made = [None if cell.other_lm else _made_otherwise(cell, request, before) for cell in cells]
    return [cell for cell, run in zip(cells, made, strict=True) if run is None or not run.complete]


def _name_of(lm: str, folder: Path) -> str:
    """Return the id of an LM; with settings that are not the defaults, the name of the folder of its runs."""
    return lm if folder.name == folder_of_lm(LMSpec(id=lm)) else folder.name


def _answered(request: Request) -> Iterator[tuple[Path, LMSpec]]:
    """Yield the LM of the request, and the others that answered, each with the folder of its runs."""
    named, cells = folder_of_lm(request.lm), request.work / "cells"
    yield cells / named, request.lm
    others = {path.name for path in cells.glob("*")} - {named, request.student and folder_of_lm(request.student)}
    for folder in (cells / str(name) for name in sorted(map(str, others))):
        if (run := next(folder.rglob(RUN), None)) is not None:
            yield folder, LMSpec(id=str(read_json(run)["lm"]["id"]))


def _run(cell: Cell, request: Request, folder: Path, before: Sequence[tuple[Path, Json]]) -> Run | None:
    """Return the run of a cell: with its number of questions, else with the most, else one that was made otherwise."""
    if cell.other_lm:
        return None
    if cell.setting.role == "student":
        folder = request.work / "cells" / folder_of_lm(cell.lm)
    name, sets = f"{cell.program.program}-{cell.hash}", names(cell.column, request.data)
    exact = [folder / f"{each}-{cell.asked}" / name for each in sets]
    others = [path for each in sets for path in folder.glob(f"{each}-[0-9]*") if not request.limit]
    most_first = sorted(others, key=lambda path: -int(path.name.rpartition("-")[2]))
    asked = next(filter(None, map(_read, (*exact, *(path / name for path in most_first)))), None)
    return asked or _made_otherwise(cell, request, before)


def _read(folder: Path) -> Run | None:
    if not (folder / RUN).is_file() and not merged(folder):
        return None
    run = Run(folder)
    return run if run.questions else None


def _made_otherwise(cell: Cell, request: Request, before: Sequence[tuple[Path, Json]]) -> Run | None:
    """Return the run of a cell among those that were made otherwise: of the same program, knobs, LM and references.

    A folder above it has the name of the data set, with or without a number of questions (`hotpotqa`, `hotpotqa-100`).
    """
    if request.runs is None:
        return None
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
        raise UserError(f"--runs {runs} is not a folder.")
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
        or multihop != (cell.retriever == SMALL_RETRIEVER)
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


def merged(folder: Path) -> bool:
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
