"""Triples of passages by an LM, extracted once for a corpus.

The output folder contains `run.json` (configuration) and `rows.jsonl`, a line per passage with its triples and costs:
the file of triples from which an index is built (`corpora.retrievers.triples`).
"""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import dspy

from corpora.index.info import canonical
from corpora.passages import read_passages
from corpora.retrievers.triples import well_formed
from experiments.pipeline.map_rows import map_rows
from experiments.pipeline.setup import refuse_simulated
from experiments.runs.config import describe_lm
from experiments.runs.files import SCHEMA, Row, git_revision
from programs.parts.meter import metered
from programs.parts.prediction import try_predict
from signatures.common.files import sha256_text
from signatures.triples import ExtractTriples
from signatures.types import Passage

if TYPE_CHECKING:
    from programs.lms.connect import Connection

ROWS = "rows.jsonl"


@dataclass(frozen=True)
class Extracted:
    """Counts of an extraction."""

    passages: int
    triples: int
    ill_formed: int
    without: int
    parse_failures: int


def extract_triples(
    corpus: Path,
    *,
    connection: "Connection",
    out: Path,
    threads: int = 8,
    resume: bool = False,
    progress: bool = True,
) -> Extracted:
    """Extract the triples of all passages of a corpus; each passage is a row as soon as it is done.

    The corpus may have changed since: `resume` asks for passages that are new or have another title or text, and rows
    of passages that are gone stay, but do not count.

    Args:
        corpus: A `passages.jsonl`, possibly compressed.
        connection: The LM; a spent budget ends the work, and `resume` goes on with another.
        out: Output folder.
        threads: Passages in parallel.
        resume: Continue with the rows in `out`.
        progress: Show a bar on stderr.

    Raises:
        UserError: The corpus cannot be read, the LM is the simulated one, or `out` contains something else.
        BaseException: See `map_rows`.
    """
    refuse_simulated(connection, "extract triples")
    passages = [Passage(id=each.id, title=each.title, text=each.text) for each in read_passages(corpus)]
    predict = dspy.Predict(ExtractTriples)
    rows = map_rows(
        passages,
        functools.partial(_row, predict),
        id_of=lambda passage: passage.id,
        description={
            "schema": SCHEMA,
            "kind": "triples",
            "lm": describe_lm(connection),
            "git_revision": git_revision(),
        },
        connection=connection,
        out=out,
        threads=threads,
        resume=resume,
        progress=progress,
        current=lambda row, passage: row.get("passage") == _print_of(passage),
    )
    here = {passage.id for passage in passages}
    rows = [row for row in rows if row["id"] in here]
    return Extracted(
        passages=len(rows),
        triples=sum(len(row["triples"]) for row in rows),
        ill_formed=sum(row["ill_formed"] for row in rows),
        without=sum(not row["triples"] for row in rows),
        parse_failures=int(sum(row["parse_failures"] for row in rows)),
    )


def _row(predict: dspy.Predict, passage: Passage) -> Row:
    with metered() as meter:
        found = try_predict(predict, passages=[passage])
    lines = [] if found is None else [str(line) for line in found.triples or []]
    triples = [parts for line in lines if well_formed(parts := [part.strip() for part in line.split("|")])]
    own = {"id": passage.id, "passage": _print_of(passage), "triples": triples}
    return {**own, "ill_formed": len(lines) - len(triples), **meter.counts()}


def _print_of(passage: Passage) -> str:
    """Return a hash of what the LM reads: ids of a user's own passages may stay when their texts change."""
    return sha256_text(canonical([passage.title, passage.text]))[:16]
