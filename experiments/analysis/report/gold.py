"""What a question's row shows of its gold: passages that were missed, and the first hop that went wrong."""

from typing import Any

from experiments.runs.files import Row
from signatures.text_words import contains_words

DROPPED, NOT_READ = "weighed and dropped", "not read"


def missed_gold(row: Row) -> list[tuple[str, str]]:
    """Return the gold passages that the program did not read for its answer, each with why.

    `DROPPED`: some hop weighed the passage and did not keep it. `NOT_READ`: nothing read it; rows do not say what a
    search found that no step read. Nothing is missed where nothing was read at all, as in a closed book, or the
    question failed.
    """
    read = _read(row)
    if row["error"] is not None or not read:
        return []
    weighed = {candidate.get("passage_id") for hop in row["hops"] for candidate in hop.get("candidates") or []}
    missing = [name for name in row.get("gold_ids") or [] if name not in read]
    return [(name, DROPPED if name in weighed else NOT_READ) for name in missing]


def _read(row: Row) -> set[str]:
    return {*row["passage_ids"], *(name for hop in row["hops"] for name in hop.get("passage_ids") or [])}


def first_wrong_hop(row: Row) -> tuple[int, str] | None:
    """Return the place of the first hop that went wrong, from 0, and why; None if none is known to be wrong.

    With gold sub-answers that is the first hop whose answer neither states one of them, or a gold answer, nor is a part
    of it; in any order, since programs cut a question differently. Hops without an answer, such as searches, are passed
    over. Without gold sub-answers it is the first hop that read passages none of which is gold.
    """
    steps = row.get("sub_answers") or []
    stated = [*steps, *row["answers"]] if steps else []
    gold = set(row.get("gold_ids") or [])
    for place, hop in enumerate(row["hops"]):
        if stated and hop["answer"] and not any(_agree(hop["answer"], answer) for answer in stated):
            return place, "no gold sub-answer"
        if not stated and gold and _lacks(hop, gold):
            return place, "no gold passage read"
    return None


def _agree(answer: str, gold: str) -> bool:
    return contains_words(answer, gold) or contains_words(gold, answer)


def _lacks(hop: dict[str, Any], gold: set[str]) -> bool:
    read = hop.get("passage_ids") or []
    return bool(read) and gold.isdisjoint(read)
