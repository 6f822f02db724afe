"""Whether a run says what its own files bear out: possible scores, each question once, what it was made with.

`impossible_score` is asked of every run of a leaderboard, `contradictions` of those to compare (`--check`).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import dspy

from experiments.analysis.closed_book import reads_nothing
from experiments.analysis.compare import Run, is_foreign
from experiments.runs.config import rows_hash
from experiments.runs.files import ROWS, RUN, Json, Row, checked_lines, key_of, repeat_of
from experiments.runs.models import AnswerRow
from optimizers.metrics.catalog import JUDGED
from optimizers.metrics.families.answer import ANSWER_METRICS
from optimizers.metrics.metric import Metric
from signatures.common.errors import one_line

_INDEX = re.compile(r"(?:^|\()[a-z_]+(?:-[a-z_]+)*-[0-9a-f]{16}\b")  # in the fingerprint of a retriever over an index
_ROUNDING = 1e-6  # of a mean over parts, or of a score that another system printed
# Those of the short answer; the response of a row is not always the one that was scored.
_BY_ANSWER = {
    metric.name: metric
    for metric in ANSWER_METRICS
    if metric.name.partition("[")[0] in ("em", "f1", "precision", "recall")
    or metric.name in ("acc[substring]", "acc[token]", "acc[yes_no]")
}


def impossible_score(folder: Path, rows: Sequence[Row]) -> str | None:
    """Return in words the first score of a run outside [0, 1], the range of every metric; None if there is none."""
    for row in rows:
        for name, value in row["scores"].items():
            if value is not None and not -_ROUNDING <= value <= 1 + _ROUNDING:
                return (
                    f"{folder / ROWS}: {name} of {_named(row)} is {value:g}, but scores are from 0 to 1: restore the "
                    "file, or leave the run out."
                )
    return None


def contradictions(run: Run) -> list[str]:
    """Return in what a run contradicts itself or leaves open what it was made with, one sentence each."""
    found = (_other_questions(run), _repeated(run), _other_scores(run), _without_command(run), _without_corpus(run))
    return [f"{run.folder}: {each}" for each in found if each]


def _named(row: Mapping[str, object]) -> str:
    return f"question {one_line(repr(row['id']), 80)}"


def _other_questions(run: Run) -> str | None:
    """Return that the rows are not of the questions that were asked; earlier runs and shards have no hash of them."""
    stored = (run.description.get("paths") or {}).get("rows_sha256")
    if stored is None or run.description.get("shard") is not None or (own := rows_hash(run.rows)) == stored:
        return None
    return (
        f"ids, texts or golds of the questions in {ROWS} have the SHA-256 {own[:16]}, those that were asked "
        f"{stored[:16]} (paths.rows_sha256 of {RUN}): restore {ROWS}, or evaluate again."
    )


def _repeated(run: Run) -> str | None:
    """Return that a question was answered again; after an error, that is how a run is resumed."""
    failed: dict[tuple[str, int], bool] = {}
    for number, (_, row) in enumerate(checked_lines(run.folder / ROWS, AnswerRow), start=1):
        if not failed.get(key_of(row), True):
            again = f" (repeat {repeat_of(row)})" if run.description.get("repeats", 1) > 1 else ""
            return (
                f"row {number} of {ROWS} answers {_named(row)}{again} again, although it was answered without an "
                "error: delete the row that the run did not write."
            )
        failed[key_of(row)] = row["error"] is not None
    return None


def _other_scores(run: Run) -> str | None:
    """Return the first score that is not that of the row's answer and golds."""
    metrics = list(_recomputed(run.description))
    for row in run.rows:
        if is_foreign(run.description) and "answer" in (row.get("unknown") or []):
            continue
        for metric, stored, own in _scores(row, metrics):
            if (stored is None) != (own is None) or abs((stored or 0) - (own or 0)) > _ROUNDING:
                return (
                    f"{metric.name} of {_named(row)} is {_shown(stored)}, but its answer "
                    f"{one_line(repr(row['answer']), 60)} and golds {one_line(repr(row['answers']), 60)} score "
                    f"{_shown(own)}: restore {ROWS}, or evaluate again."
                )
    return None


def _scores(row: Row, metrics: Sequence[Metric]) -> Iterator[tuple[Metric, float | None, float | None]]:
    """Yield each metric with the score in a row and that of the row's answer; an answer that failed scores 0."""
    example = dspy.Example(answers=row["answers"])
    prediction = dspy.Prediction(answer=row["answer"])
    unjudged = any(value is None and name in JUDGED for name, value in row["scores"].items())
    failed = row["error"] is not None and not unjudged  # the error is then that of the judge
    for metric in metrics:
        own = metric(example, prediction)
        yield metric, row["scores"].get(metric.name), 0.0 if failed and own is not None else own


def _recomputed(description: Json) -> Iterator[Metric]:
    """Yield the metrics to compute again: defined as here, and by the golds that the rows have."""
    later = {name for entry in description.get("scored", []) for name in _of_other_golds(entry, description)}
    for name, definition in description["metrics"].items():
        if name not in later and name in _BY_ANSWER and _BY_ANSWER[name].definition == definition:
            yield _BY_ANSWER[name]


def _of_other_golds(entry: Json, description: Json) -> list[str]:
    """Return the metrics that were scored after the run by the golds of a file, which rows do not have."""
    asked = (description.get("paths") or {}).get("questions_file_sha256")
    if entry.get("questions_file_sha256") in (None, asked):
        return []
    return [*entry.get("added", []), *entry.get("replaced", []), *entry.get("completed", [])]


def _shown(score: float | None) -> str:
    return "undefined" if score is None else f"{score:.4g}"


def _without_command(run: Run) -> str | None:
    merged = (run.description.get("merged") or {}).get("parts") or []
    commands = [own.get("command") or "" for own in (run.description, *merged)]
    if is_foreign(run.description) or any(each.strip() for each in commands):
        return None  # the command of another system is not known
    value = json.dumps(run.description.get("command"))
    return f"command of {RUN} is {value}: put the command there that made the run, as `verihop eval` does."


def _without_corpus(run: Run) -> str | None:
    """Return that it is not known what a run searched; fixed contexts have a hash of their own."""
    own, fingerprint = run.description, run.description["corpus"]["fingerprint"]
    if reads_nothing(run.rows) or is_foreign(own) or own.get("given"):
        return None
    if fingerprint and (own.get("index") or not _INDEX.search(fingerprint)):
        return None
    field = "index" if fingerprint else "corpus.fingerprint"
    return f"{field} of {RUN} is null, although answers rest on passages: restore the file, or evaluate again."
