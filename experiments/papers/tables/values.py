"""The numbers of a run that tables print: scores, costs, what is computed of the whole run, and outcomes.

The outcomes of questions exclude one another and are tried in the order of `OUTCOMES`: a question has the first that
holds. Where it names no gold passages, retrieval missed nothing; where it names no gold steps, no hop was wrong.
`f1[hotpot] of composed` is the number over the questions of a kind (`corpora.kinds.KINDS`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from experiments.analysis.closed_book import ALL, answer_line, closed_books, row_kind
from experiments.analysis.repeats import by_question, question_values
from experiments.analysis.statistics import Mean, f1_of_means, mean_of
from experiments.analysis.summary import percent
from experiments.papers.tables.spec import OF_KIND
from experiments.runs.files import Row, read_rows, read_run
from experiments.runs.fixed_contexts import COMPLETE, abstention_scores
from optimizers.metrics.answer import exact_match
from optimizers.metrics.catalog import ORACLE_METRICS, get_metric
from optimizers.metrics.scoring import COSTS
from signatures.common.errors import UserError
from signatures.text import normalize_answer

OF_MEANS, REFLECTION, REFLECTION_F1, GAIN = (
    "keyfacts_f1[of means]",
    "reflection[accuracy]",
    "reflection[f1]",
    "references[gain]",
)
CONVERSION = "recall conversion"
# Computed of the scores of other metrics, which the run must have.
NEEDED: dict[str, tuple[str, ...]] = {
    OF_MEANS: ("keyfacts_precision", "keyfacts_recall"),
    GAIN: ("references[before]", "references[after]"),
    REFLECTION: (),
    REFLECTION_F1: (),
    CONVERSION: (),
}


def needed(name: str) -> tuple[str, ...]:
    """Return the metrics that a run must have been scored by for a number."""
    name = name.partition(OF_KIND)[0]
    return () if name in COSTS or name.startswith("outcome[") else NEEDED.get(name, (name,))


def is_cost(name: str) -> bool:
    """Return whether a number is a cost, of all questions or of a kind."""
    return name.partition(OF_KIND)[0] in COSTS


def is_judged(name: str) -> bool:
    """Return whether an LM decides a number."""
    return any(each not in ORACLE_METRICS and get_metric(each).judged for each in needed(name))


class Run:
    """A run that was asked, read once."""

    def __init__(self, folder: Path):
        self.folder, self.description = folder, read_run(folder)

    @cached_property
    def questions(self) -> list[list[Row]]:
        """The rows of each question, in order of their ids."""
        return list(by_question(read_rows(self.folder, complete=True)).values())

    @property
    def ids(self) -> list[str]:
        """The ids of the questions."""
        return [rows[0]["id"] for rows in self.questions]

    @property
    def complete(self) -> bool:
        """Whether all questions have their rows."""
        asked = self.description["questions"]["n"] * self.description.get("repeats", 1)
        return sum(map(len, self.questions)) == asked

    @property
    def lm(self) -> str:
        """The id of the LM."""
        return str(self.description["lm"]["id"])

    @cached_property
    def asked(self) -> str:
        """Its questions, what was searched, what the majority answer and chance score, and the answer types."""
        questions, path = self.description["questions"], (self.description.get("paths") or {}).get("questions")
        named = f" of {Path(path).parent.name}" if isinstance(path, str) else ""
        if not named and "sha256" in questions:  # asked from Python, or elsewhere
            named = f" (SHA-256 {questions['sha256'][:16]})"
        corpus = (self.description.get("corpus") or {}).get("fingerprint")
        books = closed_books([rows[0] for rows in self.questions], ["em", "f1[hotpot]"])
        book, said = books.get(ALL), []
        if book is not None and book.times > 1:
            said.append(f"the majority answer {book.answer[:40]!r} has {percent(book.majority['em'])} EM")
        if book is not None and book.two_choices:
            said.append(f"chance between two choices ({book.two_choices} offer them) {percent(book.chance['em'])} EM")
        searched = f"searched in {corpus}" if corpus else "without a search"
        asked = ", ".join([f"{questions['n']} questions{named}", searched, *said])
        return "; ".join(filter(None, [asked, answer_line(books)]))

    @property
    def knobs(self) -> str:
        """Its knobs that are not those of the preset `paper`, such as "k=3, reader=direct"; "" if all are."""
        from programs.catalog import PROGRAMS, build
        from programs.parts.knobs import knob_values

        program = self.description["program"]
        if program["name"] not in PROGRAMS:
            return ""
        papers = knob_values(build(program["name"]))
        return ", ".join(f"{name}={value}" for name, value in program["knobs"].items() if papers.get(name) != value)

    @property
    def made_with(self) -> dict[str, Any]:
        """What decided its answers, and by which code they were made."""
        decided = (
            "program",
            "lm",
            "questions",
            "corpus",
            "given",
            "judge",
            "repeats",
            "git_revision",
            "started",
            "machine",
        )
        return {name: self.description[name] for name in decided if name in self.description}

    def has(self, name: str) -> bool:
        """Whether the run was scored by all that a number needs."""
        return all(each in self.description["metrics"] for each in needed(name))

    def mean(self, name: str) -> Mean | None:
        """Return a number with its interval over questions, which one of the whole run lacks; None if there is none."""
        if not self.has(name) or not self.questions:
            return None
        if name in (OF_MEANS, REFLECTION_F1):
            value = self._of_whole(name)
            return None if value is None else Mean(value, None, None, len(self.questions), 0)
        return mean_of(self.values(name))

    def values(self, name: str) -> list[float | None]:
        """Return the number of each question, in the order of `ids`."""
        return question_values(self.questions, self._of_row(name))

    def _of_whole(self, name: str) -> float | None:
        if name == OF_MEANS:
            precision, recall = (mean_of(self.values(each)).mean for each in NEEDED[OF_MEANS])
            return f1_of_means(precision, recall)
        f1: float | None = abstention_scores([row for rows in self.questions for row in rows])["f1"]
        return f1

    def _of_row(self, name: str) -> Callable[[Row], float | None]:
        name, _, kind = name.partition(OF_KIND)
        if kind:
            return partial(_of_kind, kind=kind, value=self._of_row(name))
        if name in COSTS:
            return COSTS[name].function
        if name == REFLECTION:
            return _reflected
        if name == GAIN:
            return _gain
        if name == CONVERSION:
            return partial(conversion, metric=self.main)
        if name.startswith("outcome["):
            return lambda row: _is(outcome(row, self.main), name[len("outcome[") : -1])
        return lambda row: row["scores"].get(name)

    @cached_property
    def main(self) -> str:
        """The metric that decides what is right."""
        found = main_metric(list(self.description["metrics"]))
        if found is None:
            raise UserError(f"{self.folder} has no metric that says whether an answer is right: score it by em.")
        return found

    def outcomes(self) -> Mapping[str, Mean]:
        """Return the share of each outcome among the scored questions, then the recall conversion."""
        names = {**{name: f"outcome[{name}]" for name in OUTCOMES}, CONVERSION: CONVERSION}
        return {name: mean_of(self.values(what)) for name, what in names.items()}


def _of_kind(row: Row, kind: str, value: Callable[[Row], float | None]) -> float | None:
    return value(row) if row_kind(row) == kind else None


def _is(found: str | None, name: str) -> float | None:
    return None if found is None else float(found == name)


def _reflected(row: Row) -> float | None:
    complete = (row.get("about") or {}).get(COMPLETE)
    return None if complete is None else float(bool(row["abstained"]) != bool(complete))


def _gain(row: Row) -> float | None:
    before, after = (row["scores"].get(name) for name in NEEDED[GAIN])
    return None if before is None or after is None else after - before


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
