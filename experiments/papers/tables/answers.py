"""The answers that a table was made of, as one small file to publish beside it, and their way back into runs.

A line of `<table>-answers.jsonl.zst` is a run: `cell` (its folder below that of the work), `run` (its `run.json`) and
`rows` (those of `experiments.runs.files`). Ids, gold answers, answers, hops, scores and costs stay, so that others can
score again and test differences. The texts of questions and passages are left out, since they belong to the data sets,
and so are the LM calls. Whoever has the questions can go on with the table.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from corpora.compressed import atomic_bytes, read_lines
from corpora.questions import Question, read_questions, select
from experiments.papers.tables.plan import Cell
from experiments.papers.tables.values import Run
from experiments.runs.config import describe_questions, portable
from experiments.runs.files import RUN, Json, Row, read_rows, write_json, write_rows
from signatures.common.errors import UserError
from signatures.common.files import writing
from signatures.common.work import json_line, new_folder

SUFFIX = "-answers.jsonl.zst"
_TEXTS = ("question", "cited_passages", "read_passages")
_TEXTS_OF_HOPS = ("evidence", "candidates")
_ABOUT = "The texts of its passages and its LM calls are not kept: it was taken over from the answers of a table."


def write_answers(runs: Iterable[Run], work: Path, path: Path) -> Path | None:
    """Write the runs below `work`, each once and in order of their folders; return the path, None if there is none.

    Raises:
        UserError: The disk is full or the folder cannot be written.
    """
    of_work = {run.folder: run for run in runs if run.folder.is_relative_to(work)}
    if not of_work:
        return None
    with writing(path), atomic_bytes(path) as file:
        for folder, run in sorted(of_work.items()):
            rows = [_without_texts(row) for rows in run.questions for row in rows]
            name = folder.relative_to(work).as_posix()
            file.write(json_line({"cell": name, "run": portable(run.description), "rows": rows}))
    return path


def _without_texts(row: Row) -> Row:
    kept = {name: value for name, value in row.items() if name not in _TEXTS}
    hops = [{name: value for name, value in hop.items() if name not in _TEXTS_OF_HOPS} for hop in row["hops"]]
    details = {name: value for name, value in row.get("details", {}).items() if isinstance(value, int | float)}
    return {**kept, "hops": hops, "details": details, "error": portable(row["error"])}


def take_over(path: Path, cells: Iterable[Cell], work: Path) -> str:
    """Make runs below `work` of the answers in a file, for those cells that have no folder yet; return how many.

    Scores are those of the file; `verihop score` computes them again.

    Raises:
        UserError: The file is missing or damaged, or a run has answers to other questions than its cell asks.
    """
    open_cells = [cell for cell in cells if cell.source is not None and not cell.folder(work).exists()]
    wanted = {cell.folder(work).relative_to(work).as_posix(): cell for cell in open_cells}
    taken, number = 0, 0
    for number, line in enumerate(read_lines(path), start=1):
        name, run, rows = _parsed(line, f"{path}, line {number}")
        if name not in wanted:
            continue
        try:
            _restore(run, rows, wanted.pop(name), work)
        except (UserError, LookupError, TypeError, AttributeError) as error:
            raise UserError(f"{path}: {name} cannot be taken over ({error}). Leave out --answers.") from error
        taken += 1
    others = "" if taken == number else "; the others are there already, or of other cells"
    return f"{taken} of the {number} runs in {path}{others}"


def _parsed(line: bytes, where: str) -> tuple[str, Json, list[Row]]:
    try:
        found: Any = json.loads(line)
        name, run, rows = (found[key] for key in ("cell", "run", "rows"))
    except (ValueError, LookupError, TypeError, RecursionError):
        raise UserError(f"{where} is no run: name a file that `verihop reproduce` wrote, TABLE{SUFFIX}.") from None
    return str(name), run, rows


def _restore(run: Json, rows: Sequence[Row], cell: Cell, work: Path) -> None:
    """Write the run of a cell with the texts of its questions; what is read back is checked before it is there."""
    assert cell.source is not None
    asked = select(read_questions(cell.source.questions), limit=cell.asked)
    if run["questions"]["sha256"] != describe_questions(asked)["sha256"]:
        raise UserError("it has answers to other questions than those at hand")
    by_id, folder = {question.id: question for question in asked}, cell.folder(work)
    paths = {**run.get("paths", {}), "questions": str(cell.source.questions)}
    with new_folder(folder, f".{folder.name}.") as new:
        new.mkdir()
        write_json(new / RUN, {**run, "paths": paths, "notes": [*run.get("notes", []), _ABOUT]})
        write_rows(new, (_with_question(row, by_id) for row in rows))
        read_rows(new, complete=True)


def _with_question(row: Row, by_id: Mapping[str, Question]) -> Row:
    question = by_id[row["id"]]
    if row["answers"] != question.answers:
        raise UserError(f"question {question.id!r:.60} has other gold answers")
    return {**row, "question": question.question}
