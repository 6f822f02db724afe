"""The questions of a report as its page reads them: an index for the table, and compressed blocks of traces.

Both are JSON, compressed with zlib and written as base64, which the page unpacks: the index when it opens, a block when
one of its questions is opened. Text that runs share (cited passages of a question) is stored once per question.
"""

import base64
import os
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup
from pydantic_core import to_json

from experiments.runs.files import Json, Row, repeat_of
from experiments.runs.sources import evidence_line, source_and_link
from optimizers.metrics.cost import costs_known
from signatures.common.secrets import redact, redacted

BLOCK = 16  # questions; with five runs about 300 kB of JSON, which a browser unpacks within 10 ms
_LEVEL = 1  # of zlib; 4 saves a seventh of the page and takes half as long again
_AHEAD = 16  # blocks compressed or waiting to be written: bounds memory
_LONGEST = 200  # characters of an answer in the table and its search; the trace has all of it
_FAILED, _ABSTAINED = 1, 2


@dataclass
class Entry:
    """A question with its row in every run that answered it.

    Args:
        id: Of the question.
        question: Its wording.
        answers: Its gold answers.
        rows: The place of a run, with one of its rows.
    """

    id: str
    question: str
    answers: list[str]
    rows: list[tuple[int, Row]] = field(default_factory=list)


def entries_of(runs: Sequence[Iterable[Row]]) -> list[Entry]:
    """Return the questions of any run, sorted by id.

    Args:
        runs: The rows of each.
    """
    entries: dict[str, Entry] = {}
    for place, rows in enumerate(runs):
        for row in rows:
            entry = entries.get(row["id"])
            if entry is None:
                entry = entries[row["id"]] = Entry(row["id"], row["question"], row["answers"])
            entry.rows.append((place, row))
    return sorted(entries.values(), key=lambda entry: entry.id)


def index(entries: Sequence[Entry], labels: Sequence[str], metrics: Sequence[str]) -> Markup:
    """Return what the table of questions shows and searches, packed.

    Args:
        entries: The questions, in order.
        labels: Of the runs.
        metrics: Names of the metrics whose scores are shown.
    """
    questions = [[entry.id, entry.question, entry.answers, _index_rows(entry, metrics)] for entry in entries]
    return _packed(
        {"runs": [_encodable(label) for label in labels], "metrics": metrics, "block": BLOCK, "questions": questions}
    )


def _encodable(text: str) -> str:
    return text.encode(errors="replace").decode()  # names of folders may be no UTF-8


def _index_rows(entry: Entry, metrics: Sequence[str]) -> list[list[Any]]:
    return [
        [
            place,
            repeat_of(row) if "repeat" in row else 0,
            row["answer"][:_LONGEST],
            [row["scores"].get(name) for name in metrics],
            _FAILED * (row["error"] is not None) + _ABSTAINED * row["abstained"],
        ]
        for place, row in entry.rows
    ]


def blocks(entries: Sequence[Entry]) -> Iterator[Markup]:
    """Yield the traces of `BLOCK` questions after another, packed; a few blocks are in memory at a time."""
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:  # zlib runs without the interpreter lock
        waiting: deque[Future[Markup]] = deque()
        for start in range(0, len(entries), BLOCK):
            waiting.append(pool.submit(_packed, [_trace(entry) for entry in entries[start : start + BLOCK]]))
            if len(waiting) == _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _packed(value: Any) -> Markup:
    raw = to_json(value, inf_nan_mode="null")
    text = raw.decode()
    if redact(text) != text:  # rarely: redacted part by part, so that it stays JSON
        raw = to_json(redacted(value), inf_nan_mode="null")
    return Markup(base64.b64encode(zlib.compress(raw, _LEVEL)).decode())


def _trace(entry: Entry) -> Json:
    """Return the rows of a question in the order of the index; they refer to cited passages by place."""
    passages: dict[tuple[str | None, ...], int] = {}
    rows = []
    for _, row in entry.rows:
        texts = map(_cited, row["cited_passages"])
        cited = [passages.setdefault(text, len(passages)) for text in texts]
        rows.append({**_answer(row), "cited": cited, "hops": [_hop(hop) for hop in row["hops"]]})
    return {"passages": list(passages), "rows": rows}


def _cited(passage: Json) -> tuple[str | None, ...]:
    """Return id, title and text of a passage, and, if it has a source, that and its link."""
    source, link = source_and_link(passage)
    named = (source, link) if source or link else ()
    return (passage["id"], passage.get("title", ""), passage.get("text", ""), *named)


def _answer(row: Row) -> Json:
    tokens = row["prompt_tokens"] + row["completion_tokens"] + row["cached_tokens"]
    counts = [row["calls"], tokens, row["rounds"], row["seconds"], row["parse_failures"], row["truncated"]]
    return {
        "answer": row["answer"],
        "response": None if row["response"] == row["answer"] else row["response"],
        "error": row["error"],
        "costs": counts if costs_known(row) else None,
        "read": len(row["passage_ids"]),
        "citations": len(row["citations"]),
    }


def _hop(hop: Json) -> list[Any]:
    draft = hop.get("draft")
    return [
        hop["question"],
        hop["answer"],
        None if draft == hop["answer"] else draft,
        hop.get("evidence") and evidence_line(hop["evidence"], hop.get("match")),
        hop.get("verdict"),
    ]
