"""The numbers of a run that tables print: scores, costs, what is computed of the whole run, and outcomes.

`f1[hotpot] of composed` is the number over the questions of a kind (`corpora.kinds.KINDS`), and `published[...]` one
that only the paper has.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from experiments.analysis.closed_book import ALL, answer_line, closed_books, row_kind
from experiments.analysis.outcomes import CONVERSION, conversion, found_outcomes, is_outcome, main_metric, outcome_means
from experiments.analysis.repeats import by_question, question_values
from experiments.analysis.statistics import Mean, mean_of, of_means
from experiments.analysis.summary import percent
from experiments.papers.tables.spec import OF_KIND
from experiments.runs.files import Row, read_rows, read_run
from experiments.runs.fixed_contexts import COMPLETE
from optimizers.contexts import f1_of_abstaining
from optimizers.metrics.catalog import ORACLE_METRICS, get_metric
from optimizers.metrics.keyfact_scores import harmonic_mean
from optimizers.metrics.scoring import COSTS
from signatures.common.errors import UserError

OF_MEANS, REFLECTION, REFLECTION_F1, GAIN = (
    "keyfacts_f1[of means]",
    "reflection[accuracy]",
    "reflection[f1]",
    "references[gain]",
)
_ABSTAINED = "reflection[rightly abstained]"
# Computed of the scores of other metrics, which the run must have.
NEEDED: dict[str, tuple[str, ...]] = {
    OF_MEANS: ("keyfacts_precision", "keyfacts_recall"),
    GAIN: ("references[before]", "references[after]"),
    REFLECTION: (),
    _ABSTAINED: (),
    REFLECTION_F1: (),
    CONVERSION: (),
}


# Number of the whole run -> the numbers of each question whose means it is made of, and how.
_WHOLE: dict[str, tuple[tuple[str, ...], Callable[..., float]]] = {
    OF_MEANS: (NEEDED[OF_MEANS], harmonic_mean),
    REFLECTION_F1: ((_ABSTAINED, REFLECTION), lambda right, accuracy: f1_of_abstaining(right, 1 - accuracy)),
}


def parts_of(name: str) -> tuple[list[str], Callable[..., float]]:
    """Return the numbers of each question whose means a number is made of, and how: by default it is the mean."""
    base, mark, kind = name.partition(OF_KIND)
    parts, of = _WHOLE.get(base, ((base,), float))
    return [f"{part}{mark}{kind}" for part in parts], of


def needed(name: str) -> tuple[str, ...]:
    """Return the metrics that a run must have been scored by for a number."""
    name = name.partition(OF_KIND)[0]
    return () if name in COSTS or name.startswith(("outcome[", "published[")) else NEEDED.get(name, (name,))


def is_cost(name: str) -> bool:
    """Return whether a number is a cost, of all questions or of a kind."""
    return name.partition(OF_KIND)[0] in COSTS


def is_judged(name: str) -> bool:
    """Return whether an LM decides a number."""
    return any(each not in ORACLE_METRICS and get_metric(each).judged for each in needed(name))


_DECIDED = (
    "program", "lm", "questions", "corpus", "given", "judge", "repeats", "git_revision", "started", "machine",
)  # fmt: skip


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
        return {name: self.description[name] for name in _DECIDED if name in self.description}

    def has(self, name: str) -> bool:
        """Whether the run was scored by all that a number needs."""
        return all(each in self.description["metrics"] for each in needed(name))

    def mean(self, name: str) -> Mean | None:
        """Return a number with its interval over questions; None if there is none."""
        if not self.has(name) or not self.questions:
            return None
        parts, of = parts_of(name)
        return mean_of(self.values(name)) if parts == [name] else of_means([self.values(part) for part in parts], of)

    def values(self, name: str) -> list[float | None]:
        """Return the number of each question, in the order of `ids`."""
        return question_values(self.questions, self._of_row(name))

    def _of_row(self, name: str) -> Callable[[Row], float | None]:
        name, _, kind = name.partition(OF_KIND)
        if kind:
            return partial(_of_kind, kind=kind, value=self._of_row(name))
        if name in COSTS:
            return COSTS[name].function
        if name == REFLECTION:
            return _reflected
        if name == _ABSTAINED:
            return _rightly_abstained
        if name == GAIN:
            return _gain
        if name == CONVERSION:
            return partial(conversion, metric=self.main)
        if name.startswith("outcome["):
            wanted, program = name[len("outcome[") : -1], self.description["program"]["name"]
            return lambda row: is_outcome(wanted, row, self.main, program)
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
        found = found_outcomes(self.questions, self.main, self.description["program"]["name"])
        return outcome_means([(self.questions, found)], self.main)[0]


def _of_kind(row: Row, kind: str, value: Callable[[Row], float | None]) -> float | None:
    return value(row) if row_kind(row) == kind else None


def _reflected(row: Row) -> float | None:
    complete = (row.get("about") or {}).get(COMPLETE)
    return None if complete is None else float(bool(row["abstained"]) != bool(complete))


def _rightly_abstained(row: Row) -> float | None:
    right = _reflected(row)
    return None if right is None else right * bool(row["abstained"])


def _gain(row: Row) -> float | None:
    before, after = (row["scores"].get(name) for name in NEEDED[GAIN])
    return None if before is None or after is None else after - before
