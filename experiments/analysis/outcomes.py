"""What became of each question of a run: right, or what went wrong first.

The outcomes exclude one another and are tried in the order of `OUTCOMES`: a question has the first that holds. Where it
names no gold passages, retrieval missed nothing; where it names no gold steps, no hop was wrong.

Only a step can be wrong: a hop that has an answer and asks less than the whole question. Searches without answers
(`multihop`, `react`, `search_r1`) are no steps, and neither are drafts of the answer to the whole question, which hops
whose query contains it write, and all hops of the programs in `ROUNDS`. Those of programs that ask others
(`ASKING_OTHERS`) may be of such a one, and are not taken for steps either.
"""

from collections.abc import Sequence
from functools import partial

from experiments.analysis.repeats import question_values
from experiments.analysis.statistics import Mean, means_of
from experiments.runs.files import Row
from optimizers.metrics.answer import exact_match
from signatures.text import normalize_answer
from signatures.text_words import contains_words

RIGHT, FAILED, REFUSED, UNPARSEABLE = "right", "failed", "refused", "unparseable"
MISSED, HOP, MEMORY, READ = "retrieval missed", "hop wrong", "wrong from memory", "read wrong"
OUTCOMES = {
    RIGHT: "the main score is 1",
    FAILED: "the program, or the judge of its answer, ended in an exception",
    REFUSED: "the program declined",
    UNPARSEABLE: "no answer, and a reply that could not be parsed",
    MISSED: "passages were read, but not all gold ones",
    HOP: "no gold passage was missed, but the program took steps, and a gold answer on the way is in no hop's answer",
    MEMORY: "nothing was read, and no hop is known to be wrong",
    READ: "no gold passage was missed, and no hop is known to be wrong",
}
ROUNDS = frozenset({"cov_rag", "iter_retgen", "meta_rag", "retro_rag", "self_completion"})
"""Programs each of whose hops answers the whole question, whatever it searches for."""
ASKING_OTHERS = frozenset({"ensemble", "cascade", "selective", "knn"})
CONVERSION = "recall conversion"


def outcome(row: Row, metric: str, *, program: str = "") -> str | None:
    """Return the key in `OUTCOMES` of a row; None if its answer has no score.

    Args:
        row: Of a run.
        metric: Decides what is right, at 1; best one that is 0 or 1.
        program: Its name, which says whether hops are steps; "" if it is unknown.
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
    return HOP if _lacks_a_step(row, program) else READ if row["passage_ids"] else MEMORY


def in_words(row: Row, found: str) -> str:
    """Return the outcome of a row that was found, and in what it shows."""
    gold, read = set(row.get("gold_ids") or []), set(row["passage_ids"])
    if found == MISSED:
        return f"{MISSED}: {len(gold - read)} of {len(gold)} gold passages not read"
    if found == READ:
        return f"{READ}: {'all gold passages were read' if gold else 'passages were read, and no gold ones are named'}"
    return found if found == RIGHT else f"{found}: {OUTCOMES[found]}"


def read_all_gold(row: Row) -> bool | None:
    """Return whether all gold passages were read; None if the question names none."""
    gold = set(row.get("gold_ids") or [])
    return gold <= set(row["passage_ids"]) if gold else None


def first_wrong_hop(row: Row, program: str) -> int | None:
    """Return the place of the first step, from 0, that states no gold answer; None if no hop is known to be wrong.

    Its answer neither states the gold answer of a step or of the question, nor is a part of it; in any order, since
    programs cut a question differently.
    """
    gold = [*(row.get("sub_answers") or []), *row["answers"]]
    wrong = [
        place
        for place in _steps(row, program)
        if not any(_agree(row["hops"][place]["answer"], str(answer)) for answer in gold)
    ]
    return wrong[0] if wrong and _lacks_a_step(row, program) else None


def _agree(answer: str, gold: str) -> bool:
    return contains_words(answer, gold) or contains_words(gold, answer)


def _steps(row: Row, program: str) -> list[int]:
    """Return the places of the hops that are steps: with an answer, to less than the whole question."""
    return [
        place
        for place, hop in enumerate(row["hops"] if program not in ROUNDS | ASKING_OTHERS else [])
        if normalize_answer(str(hop.get("answer") or "")) and not contains_words(hop["question"], row["question"])
    ]


def _lacks_a_step(row: Row, program: str) -> bool:
    """Return whether the program took steps, and the answer of a gold step on the way is in no hop's answer.

    The last one is on the way, too, where its answer is not that of the question, as where two dates are compared.
    Answers are compared by their words: a date in another form is another.
    """
    earlier = [str(answer) for answer in row.get("sub_answers") or []]
    if earlier and any(_agree(str(answer), earlier[-1]) for answer in row["answers"]):
        earlier.pop()
    if not earlier or not _steps(row, program):
        return False
    # A sentence written for the whole question may state a step, so that the answers of all hops are looked at.
    stated = [normalize_answer(str(hop.get("answer") or "")) for hop in row["hops"]]
    return any(
        not any(exact_match(text, [gold]) or normalize_answer(gold) in text for text in stated) for gold in earlier
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


Found = list[list[str | None]]
"""The outcome of each row of each question of a run."""


def found_outcomes(questions: Sequence[Sequence[Row]], metric: str | None, program: str) -> Found:
    """Return the outcomes of a run, as `outcome` does, given the rows of each question; None without a metric."""
    return [[metric and outcome(row, metric, program=program) for row in rows] for rows in questions]


def outcome_means(runs: Sequence[tuple[Sequence[Sequence[Row]], Found]], metric: str) -> list[dict[str, Mean]]:
    """Return for each run the share of each outcome among the scored questions, then the recall conversion.

    Args:
        runs: The rows of each question of a run, and their outcomes.
        metric: As for `outcome`.
    """
    names = [*OUTCOMES, CONVERSION]
    columns = []
    for questions, found in runs:
        columns += [[_share(name, own) for own in found] for name in OUTCOMES]
        columns.append(question_values(questions, partial(conversion, metric=metric)))
    means = means_of(columns)
    starts = range(0, len(means), len(names))
    return [dict(zip(names, means[start : start + len(names)], strict=True)) for start in starts]


def _share(name: str, found: Sequence[str | None]) -> float | None:
    """Return the share of an outcome among those of a question's repeats; None if none has any."""
    known = [each for each in found if each is not None]
    return known.count(name) / len(known) if known else None


def is_outcome(name: str, row: Row, metric: str, program: str) -> float | None:
    """Return whether this is the outcome of a row (1 or 0); None if it has none."""
    return _share(name, [outcome(row, metric, program=program)])
