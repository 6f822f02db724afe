"""What became of each question of a run: right, or the first thing that went wrong; and what reading all gold is worth.

The outcomes exclude one another and are tried in the order of `OUTCOMES`, so that a question has the first that holds.
Where the question names no gold passages, retrieval counts as having missed nothing; where it names no gold steps, no
hop counts as wrong.
"""

from collections.abc import Sequence

from experiments.runs.files import Row
from optimizers.metrics.answer import exact_match
from signatures.text import normalize_answer

RIGHT, FAILED, REFUSED, UNPARSEABLE = "right", "failed", "refused", "unparseable"
MISSED, HOP, MEMORY, READ = "retrieval missed", "hop wrong", "wrong from memory", "read wrong"
OUTCOMES = {
    RIGHT: "the main score is 1",
    FAILED: "the program ended in an exception",
    REFUSED: "the program declined",
    UNPARSEABLE: "no answer, and a reply that could not be parsed",
    MISSED: "passages were read, but not all gold ones",
    HOP: "no gold passage was missed, but a gold answer of an earlier step is in no hop's answer",
    MEMORY: "nothing was read, and no hop is known to be wrong",
    READ: "no gold passage was missed, and no hop is known to be wrong",
}


def outcome(row: Row, metric: str) -> str | None:
    """Return the key in `OUTCOMES` of a row; None if its answer has no score.

    Args:
        row: Of a run.
        metric: Decides what is right, at 1; best one that is 0 or 1.
    """
    score = row["scores"].get(metric)
    if row["error"] is None and score is None:
        return None
    if row["error"] is None and score >= 1:
        return RIGHT
    if row["error"] is not None:
        return FAILED
    unread = bool(row["parse_failures"]) and not normalize_answer(str(row["answer"] or ""))
    if row["abstained"] and not unread:
        return REFUSED
    if unread:
        return UNPARSEABLE
    if row["passage_ids"] and read_all_gold(row) is False:
        return MISSED
    return HOP if _hop_is_wrong(row) else READ if row["passage_ids"] else MEMORY


def read_all_gold(row: Row) -> bool | None:
    """Return whether all gold passages were read; None if the question names none."""
    gold = set(row.get("gold_ids") or [])
    return gold <= set(row["passage_ids"]) if gold else None


def _hop_is_wrong(row: Row) -> bool:
    """Return whether the answer of a gold step before the last is in no hop's answer."""
    found = [normalize_answer(str(hop.get("answer") or "")) for hop in row["hops"]]
    earlier = [str(answer) for answer in (row.get("sub_answers") or [])[:-1]]
    return bool(found) and any(
        not any(exact_match(text, [gold]) or normalize_answer(gold) in text for text in found) for gold in earlier
    )


def main_metric(names: Sequence[str]) -> str | None:
    """Return the metric that decides what is right: an accuracy, else exact match; None without both.

    `acc[substring]`, which every run can have, gives way to one that fits the answers of its questions.
    """
    accuracies = [name for name in names if name.startswith("acc[") and "judge" not in name]
    fitting = [name for name in accuracies if name != "acc[substring]"]
    return next((name for name in (*fitting, *accuracies, "em") if name in names), None)


def conversion(row: Row, metric: str) -> float | None:
    """Return the score of an answer given that all gold was read; None for other rows.

    The mean over a run is how much of what it retrieves it turns into right answers.
    """
    score: float | None = row["scores"].get(metric)
    return score if read_all_gold(row) else None
