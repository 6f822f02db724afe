"""Whether a run agrees with its own files: possible scores, each question once, what it was made with.

`impossible_score` is asked of every run of a leaderboard, `checked` of those to compare (`--check`).
"""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import dspy

from experiments.analysis.closed_book import reads_nothing
from experiments.analysis.compare import Run, is_foreign
from experiments.runs.calls import Frame, last_frames, read_calls
from experiments.runs.config import rows_hash
from experiments.runs.files import CALLS, ROWS, RUN, Json, Row, RowKey, checked_lines, key_of, repeat_of
from experiments.runs.models import AnswerRow
from experiments.runs.rebuild import UNKNOWN, rebuild
from optimizers.metrics.catalog import JUDGED, find_metric
from optimizers.metrics.metric import Metric, Need
from signatures.common.costs import total
from signatures.common.errors import UserError, one_line

_INDEX = re.compile(r"(?:^|\()[a-z_]+(?:-[a-z_]+)*-[0-9a-f]{16}\b")  # in the fingerprint of a retriever over an index
_ROUNDING = 1e-6  # of a mean over parts, or of a score that another system printed
# What a row says as it was scored. Of a question it lacks what only some metrics read: gold titles, those of other
# annotators, key facts. Of passages it has the texts of those cited.
_IN_ROWS = {Need.ANSWERS, Need.GOLD_IDS, Need.PASSAGES, Need.HOPS, Need.CITATIONS, Need.VERIFICATIONS}
_OTHER_GOLD = "passage_recall[annotator]"


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


def checked(run: Run) -> tuple[list[str], list[str]]:
    """Return in what a run contradicts itself or leaves open what it was made with, and what was not computed again.

    The first are sentences, the second the metrics whose scores do not follow from the rows, and the costs if LM calls
    were not kept.
    """
    scores, frames = list(_scores(run)), last_frames(run.folder)
    found = (
        _other_questions(run),
        _repeated(run),
        _other_scores(scores),
        _other_costs(run, frames),
        _without_command(run),
        _without_corpus(run),
    )
    names = dict.fromkeys(name for _, name, stored, own in scores if not own and stored is not None)
    kept = bool(frames) and all(key_of(row) in frames or not any(map(row.get, _COUNTED)) for row in run.rows)
    return [f"{run.folder}: {each}" for each in found if each], [*names, *([] if kept else ["LM calls and tokens"])]


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


_Score = tuple[Row, str, float | None, list[float | None]]
"""A row, the name of a metric, its score there, and what it may be; nothing if the row does not say."""


def _other_scores(scores: Sequence[_Score]) -> str | None:
    """Return the first score that is not that of what its row says."""
    for row, name, stored, own in scores:
        if own and not any(_same(stored, each) for each in own):
            answer, golds = (one_line(repr(row[field]), 60) for field in ("answer", "answers"))
            return (
                f"{name} of {_named(row)} is {_shown(stored)}, but its row (answer {answer}, golds {golds}, "
                f"{len(row['passage_ids'])} passages read) scores {_shown(own[0])}: restore {ROWS}, or evaluate again."
            )
    return None


def _same(first: float | None, second: float | None) -> bool:
    return first is second if first is None or second is None else abs(first - second) <= _ROUNDING


def _scores(run: Run) -> Iterator[_Score]:
    """Yield the scores of all rows."""
    metrics = _recomputed(run.description)
    # Without a hash of its questions, a run of an earlier version may lack gold passages.
    known = {Need.ANSWERS, *([Need.GOLD_IDS] if (run.description.get("paths") or {}).get("rows_sha256") else [])}
    for row in run.rows:
        about = {"question": row["question"], "answerable": row["about"].get("answerable", True)}
        example = dspy.Example(answers=row["answers"], gold_ids=row.get("gold_ids") or [], **about)
        told = row if is_foreign(run.description) else {**row, UNKNOWN: []}
        try:  # hops and details of a row may be anything
            (item,) = rebuild([told], {row["id"]: example}, {})
            scores: dict[str, list[float | None]] = {name: [] for name in metrics}
            for name, metric in metrics.items():
                if metric is not None and not (item.lacks - known).intersection(metric.needs):
                    scores[name] = [
                        metric.of_answer(example, item.prediction, failed=failed) for failed in _failed(row)
                    ]
        except (KeyError, TypeError, AttributeError, IndexError, ValueError, ArithmeticError) as error:
            raise UserError(
                f"{run.folder / ROWS}: {_named(row)} cannot be scored again ({one_line(error, 100)}): restore the file."
            ) from error
        for name, own in scores.items():
            yield row, name, row["scores"].get(name), own


def _failed(row: Row) -> list[bool]:
    """Return whether the program failed; an error may be that of a judge, which leaves other scores as they are."""
    if row["error"] is None:
        return [False]
    unjudged = any(value is None and name in JUDGED for name, value in row["scores"].items())
    return [False, True] if unjudged else [True]


def _recomputed(description: Json) -> dict[str, Metric | None]:
    """Return the metrics by name; None for those not defined as here, or by what the rows do not have."""
    later = {name for entry in description.get("scored", []) for name in _of_other_golds(entry, description)}
    found: dict[str, Metric | None] = dict.fromkeys(description["metrics"])
    for name, definition in description["metrics"].items():
        with contextlib.suppress(UserError):  # a cutoff that there is not
            metric = None if name in later or name.startswith(_OTHER_GOLD) else find_metric(name)
            if metric is not None and metric.definition == definition and _IN_ROWS.issuperset(metric.needs):
                found[name] = metric
    return found


def _of_other_golds(entry: Json, description: Json) -> list[str]:
    """Return the metrics that were scored after the run by the golds of a file, which rows do not have."""
    asked = (description.get("paths") or {}).get("questions_file_sha256")
    if entry.get("questions_file_sha256") in (None, asked):
        return []
    return [*entry.get("added", []), *entry.get("replaced", []), *entry.get("completed", [])]


def _shown(score: float | None) -> str:
    return "undefined" if score is None else f"{score:.4g}"


_COUNTED = ("calls", "cached_calls", "prompt_tokens", "completion_tokens", "cached_tokens")


def _other_costs(run: Run, frames: Mapping[RowKey, Frame]) -> str | None:
    """Return the first count that is not that of the LM calls that were kept."""
    for row, frame in ((row, frames[key_of(row)]) for row in run.rows if key_of(row) in frames):
        made = [call for call in read_calls(run.folder, frame) if call.get("metric") is None]  # not of a judge
        try:
            counts = total(map(_counted, made), _COUNTED)
            # A call that failed was perhaps never sent, because a budget was spent.
            unsent = sum(_replies(call) for call in made if call.get("error") is not None)
        except (TypeError, AttributeError, ValueError):
            return f"{CALLS} has calls of {_named(row)} that cannot be counted: restore it, or evaluate again."
        for name, most in counts.items():
            least = most - (unsent if name == "calls" else 0)
            if not least - _ROUNDING <= (row.get(name) or 0) <= most + _ROUNDING:
                return (
                    f"{name} of {_named(row)} is {row.get(name) or 0:,.0f}, but its LM calls in {CALLS} have "
                    f"{most:,.0f}: restore {ROWS}, or evaluate again."
                )
    return None


def _counted(call: Json) -> Json:
    """Return a call with what its row counts: each attempt, and each of the replies that were asked for at once."""
    n = _replies(call)
    return {**call, "calls": n * (1 + call.get("retries", 0)), "cached_calls": n * bool(call.get("cached"))}


def _replies(call: Json) -> int:
    return int(call.get("settings", {}).get("n", 1))


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
