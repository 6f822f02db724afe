"""The answers that a table was made of, as one small file to publish beside it, and their way back into runs.

A line of `<table>-answers.jsonl.zst` is a run: `cell` (its folder below that of the work) and `run` (its `run.json`).
Those after it are its rows (`experiments.runs.files`). Ids, gold answers, answers, hops, scores and costs stay, so that
others can score again and test differences. The texts of questions and passages are left out, since they belong to the
data sets, and so are the LM calls and replies. Whoever has the questions can go on with the table.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from corpora.compressed import atomic_bytes, read_lines
from corpora.questions import Question, read_questions, select
from experiments.papers.tables.plan import Cell, Request, cells_of, folder_of_lm, id_of
from experiments.papers.tables.spec import Table
from experiments.papers.tables.values import Run
from experiments.runs.config import describe_questions, portable
from experiments.runs.files import RUN, Json, Row, write_json, write_rows
from experiments.runs.models import AnswerRow, check_description, parse_row
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError
from signatures.common.files import writing
from signatures.common.strict_json import parse_strict_json
from signatures.common.work import json_line, new_folder

SUFFIX = "-answers.jsonl.zst"
_TEXTS = ("question", "cited_passages", "read_passages", "thinking", "unreadable")
_TEXTS_OF_HOPS = ("evidence", "candidates")
_IDS = "references"  # of details: the passages that citation marks count
_SETTINGS = re.compile(r"(?<=.)-[0-9a-f]{8}/")  # ends the folder of an LM with settings of its own
_QUESTION = "⟦question⟧"  # where a program or an LM repeats the question
_ABOUT = "The texts of its passages and its LM calls are not kept: it was taken over from the answers of a table."


def write_answers(runs: Iterable[Run], work: Path, path: Path) -> Path | None:
    """Write the runs below `work`, each once and in order of their folders; return the path, None if there is none.

    Without any, a file of an older table is deleted.

    Raises:
        UserError: The disk is full or the folder cannot be written.
    """
    of_work = {run.folder: run for run in runs if run.folder.is_relative_to(work)}
    if not of_work:
        path.unlink(missing_ok=True)
        return None
    with writing(path), atomic_bytes(path) as file:
        for folder, run in sorted(of_work.items()):
            name = _name(folder, work, run.lm)
            file.write(json_line({"cell": name, "run": portable(run.description)}))
            for row in (row for rows in run.questions for row in rows):
                file.write(json_line(_without_texts(row)))
    return path


def _name(folder: Path, work: Path, lm: str) -> str:
    """Return what a run is called in a file: its folder below `work`, without a path that is the id of its LM."""
    own, shown = (folder_of_lm(LMSpec(id=each)) for each in (lm, portable(lm)))
    return folder.relative_to(work).as_posix().replace(own, shown, 1)


def _without_texts(row: Row) -> Row:
    """Return a row without what may have a text of the data set, but with what an LM answered."""
    kept = {name: value for name, value in row.items() if name not in _TEXTS}
    hops = [{name: value for name, value in hop.items() if name not in _TEXTS_OF_HOPS} for hop in row["hops"]]
    details = {name: item for name, item in row.get("details", {}).items() if _is_number(item) or name == _IDS}
    about = {name: item for name, item in row["about"].items() if _is_number(item)}  # no description of StrategyQA's
    error = row["error"] and row["error"].partition(":")[0]  # its message may have a whole reply
    shown = {**kept, "hops": hops, "details": details, "about": about, "error": error}
    found: Row = _replaced(shown, row["question"], _QUESTION)
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _replaced(value: Any, old: str, new: str) -> Any:
    """Return a JSON value with a text replaced in all its texts."""
    if isinstance(value, dict):
        return {name: _replaced(item, old, new) for name, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, old, new) for item in value]
    return value.replace(old, new) if isinstance(value, str) and old else value


def take_over(path: Path, table: Table, request: Request) -> str:
    """Make runs of the answers in a file, for those cells of a table that have no folder yet; return how many.

    They may be of any LM, as a table shows all that have answered. Scores are those of the file; `verihop score`
    computes them again.

    Raises:
        UserError: The file is missing or damaged, a run has answers to other questions than its cell asks, or the
            folder cannot be written.
    """
    of_lm = cache(lambda lm: _by_name(cells_of(table, replace(request, lm=LMSpec(id=lm))), request.work))
    own, taken, there = _by_name(cells_of(table, request), request.work), 0, 0
    for name, run, rows in _runs(path):
        there += 1
        try:
            check_description(run)
            cell, folder = own.get(name), request.work / name
            if cell is not None:
                folder = cell.folder(request.work)  # of an LM whose id is a path
            else:
                others = of_lm(run["lm"]["id"])
                cell = others.get(name) or others.get(_SETTINGS.sub("/", name, count=1))
            if cell is None or folder.exists():
                continue
            made = _checked(run, rows, cell)
        except (UserError, ValueError) as error:
            raise UserError(f"{path}: {name} cannot be taken over ({error}). Leave out --answers.") from error
        _write(folder, *made)
        taken += 1
    rest = "" if taken == there else "; the others are there already, or of cells with another LM, --limit or setting"
    return f"{taken} of the {there} runs in {path}{rest}"


def _by_name(cells: Iterable[Cell], work: Path) -> dict[str, Cell]:
    """Return the cells with questions by what their runs are called in a file."""
    return {_name(cell.folder(work), work, id_of(cell.lm)): cell for cell in cells if cell.source is not None}


def _runs(path: Path) -> Iterator[tuple[str, Json, list[Row]]]:
    """Yield the name of each run of a file, its `run.json` and its rows, nothing of which is checked."""
    name, run, rows = "", None, list[Row]()
    for number, line in enumerate(read_lines(path), start=1):
        try:
            found = parse_strict_json(line)
            if "cell" not in found and run is not None:
                rows.append(dict(found))
                continue
            begun = str(found["cell"]), dict(found["run"])
        except (ValueError, LookupError, TypeError):
            cure = f"name a file that `verihop reproduce` wrote, TABLE{SUFFIX}"
            raise UserError(f"{path}, line {number} is neither a run nor an answer: {cure}.") from None
        if run is not None:
            yield name, run, rows
        (name, run), rows = begun, []
    if run is not None:
        yield name, run, rows


def _checked(run: Json, rows: Sequence[Row], cell: Cell) -> tuple[Json, list[Row]]:
    """Return `run.json` and the rows of a cell, with the texts of its questions.

    Raises:
        UserError, ValueError: They are damaged, or of something else.
    """
    assert cell.source is not None
    of = (run.get("kind"), run["program"]["name"], run["lm"]["id"])
    if of != (None, cell.program.program, portable(id_of(cell.lm))):
        raise UserError(f"it is of {of[1]!r:.60} and the LM {of[2]!r:.60}")
    asked = select(read_questions(cell.source.questions), limit=cell.asked)
    if run["questions"]["sha256"] != describe_questions(asked)["sha256"]:
        raise UserError("it has answers to other questions than those at hand")
    by_id = {question.id: question for question in asked}
    paths = {**(run.get("paths") or {}), "questions": str(cell.source.questions)}
    return {**run, "paths": paths, "notes": [*run.get("notes", []), _ABOUT]}, [_restored(row, by_id) for row in rows]


def _restored(row: Row, by_id: Mapping[str, Question]) -> Row:
    from experiments.pipeline.run_question import other_fields
    from optimizers.examples import to_examples

    question = by_id.get(str(row.get("id")))
    if question is None:
        raise UserError(f"question {row.get('id')!r:.60} is not asked")
    made: Row = {**_replaced(row, _QUESTION, question.question), "question": question.question}
    parse_row(json_line(made), AnswerRow)
    if made["answers"] != question.answers:
        raise UserError(f"question {question.id!r:.60} has other gold answers")
    return {**made, "about": {**other_fields(to_examples([question])[0]), **made.get("about", {})}}


def _write(folder: Path, run: Json, rows: Sequence[Row]) -> None:
    with writing(folder), new_folder(folder, f".{folder.name}.") as new:
        new.mkdir()
        write_json(new / RUN, run)
        write_rows(new, rows)
