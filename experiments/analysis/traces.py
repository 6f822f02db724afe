"""The traces of several runs on one question."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.analysis.compare import labels_of
from experiments.runs.files import Json, Row, read_rows, read_run, repeat_of
from experiments.runs.sources import evidence_line, source_line
from optimizers.metrics.scoring import costs_known
from signatures.common.costs import asked
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Traces:
    """The rows of one question.

    Args:
        question: Its id.
        text: What was asked.
        golds: Accepted answers.
        rows: Label of a run (with the number of the repeat if there are several) -> its row; None if the run has not
            answered the question.
    """

    question: str
    text: str
    golds: list[str]
    rows: dict[str, Row | None]

    def as_dict(self) -> Json:
        """Return everything as JSON values, each row as in its run."""
        return {"id": self.question, "question": self.text, "answers": self.golds, "runs": self.rows}

    def as_table(self) -> "Table":
        """Return a table with a column per run and a line per hop."""
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        table = Table(
            title=escape(f"{self.question}: {self.text}"),
            caption=escape(f"gold: {' / '.join(self.golds) or 'none'}"),
            title_justify="left",
            caption_justify="left",
            box=box.SIMPLE_HEAD,
            show_lines=True,
        )
        table.add_column("")
        for label in self.rows:
            table.add_column(escape(label), ratio=1, overflow="fold")
        cells = [_cells(row) for row in self.rows.values()]
        for heading in _headings(cells):
            table.add_row(heading, *(escape(own.get(heading, "")) for own in cells))
        return table


def _headings(cells: Sequence[dict[str, str]]) -> list[str]:
    """Return the headings of the lines that are not empty: the answer first, hops in order, then the rest."""
    used = {heading for own in cells for heading, text in own.items() if text}
    most = max((len([heading for heading in own if heading.startswith("hop ")]) for own in cells), default=0)
    order = ["answer", "response", "scores", *(f"hop {number}" for number in range(1, most + 1))]
    return [heading for heading in [*order, "cited", "details", "stopped", "cost", "error"] if heading in used]


def _cells(row: Row | None) -> dict[str, str]:
    if row is None:
        return {"answer": "not answered in this run"}
    answer = row["answer"] or "no answer"
    tokens = asked(row, "tokens")
    return {
        "answer": f"{answer} (abstained)" if row["abstained"] else answer,
        "response": row["response"] if row["response"] != row["answer"] else "",
        "scores": "\n".join(f"{name} {_number(value)}" for name, value in row["scores"].items()),
        **{f"hop {number}": _hop(hop) for number, hop in enumerate(row["hops"], start=1)},
        "cited": "\n".join(map(_cited, row["cited_passages"])),
        "details": "\n".join(f"{name}: {_text(value)}" for name, value in (row.get("details") or {}).items()),
        "stopped": row.get("stop_reason") or "",
        "cost": f"{row['calls']} LM calls, {tokens} tokens, {row['rounds']} rounds" if costs_known(row) else "unknown",
        "error": row["error"] or "",
    }


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _text(value: Any, most: int = 300) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _cited(passage: Json) -> str:
    source = source_line(passage)
    return f"[{passage['id']}] {passage.get('title', '')}{f' ({source})' if source else ''}"


def _hop(hop: Json) -> str:
    lines = [str(hop["question"]), f"-> {hop['answer'] or 'no answer'}"]
    if hop.get("draft") is not None and hop["draft"] != hop["answer"]:
        lines.append(f"draft: {hop['draft']}")
    if hop.get("verdict"):
        lines.append(f"verdict: {hop['verdict']}")
    if hop.get("evidence"):
        lines.append(evidence_line(hop["evidence"], hop.get("match")))
    if hop.get("passage_ids"):
        lines.append(f"read: {', '.join(hop['passage_ids'])}")
    return "\n".join(lines)


def traces(folders: Sequence[Path | str], question: str) -> Traces:
    """Return the traces of each run on one question.

    Raises:
        UserError: A folder contains no run, or none of the runs has a row of that id.
    """
    paths = [Path(folder) for folder in folders]
    found: dict[str, Row | None] = {}
    for label, folder in zip(labels_of(paths), paths, strict=True):
        repeats = read_run(folder).get("repeats", 1)
        rows = {repeat_of(row): row for row in read_rows(folder, complete=True) if str(row["id"]) == question}
        for repeat in range(1, repeats + 1):
            found[label if repeats == 1 else f"{label} #{repeat}"] = rows.get(repeat)
    first = next((row for row in found.values() if row is not None), None)
    if first is None:
        raise UserError(
            f"No run has answered a question with the id {question!r}. rows.jsonl of a run contains the ids."
        )
    return Traces(question, first["question"], list(first["answers"]), found)
