"""What answers score that nobody had to read anything for: the most frequent answer, and chance between two choices."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from corpora.kinds import ANSWER_TYPES, KINDS, answer_type, choices, kind_of, stated
from experiments.analysis.statistics import Mean
from optimizers.metrics.answer import HOTPOT, MUSIQUE, SQUAD, TWO_WIKI, Definition, exact_match, token_overlap
from signatures.text import normalize_answer

ALL, OTHER = "all", "other"
_Score = Callable[[str, Sequence[str]], float | None]


def _f1(definition: Definition, answer: str, golds: Sequence[str]) -> float | None:
    overlap = token_overlap(answer, golds, definition)
    return None if overlap is None else overlap.f1


SCORES: dict[str, _Score] = {
    "em": exact_match,
    **{f"f1[{each.name}]": partial(_f1, each) for each in (HOTPOT, TWO_WIKI, SQUAD, MUSIQUE)},
}
"""The metrics that closed-book scores are computed for, and that are shown by kind."""


@dataclass(frozen=True)
class ClosedBook:
    """Scores of answers without reading, in [0, 1].

    Args:
        questions: Those with an answer.
        answer: The most frequent one, normalised.
        times: How often it is right.
        majority: Metric -> mean score of that answer.
        two_choices: Questions that offer two choices, yes and no among them.
        chance: Metric -> mean score of a guess between two choices; 0 for a question that offers none.
        answer_types: Type -> answers, by their texts alone: `two_choices` counts what the questions offer.
    """

    questions: int
    answer: str
    times: int
    majority: dict[str, float]
    two_choices: int
    chance: dict[str, float]
    answer_types: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    def best(self, metric: str) -> tuple[float, str]:
        """Return the higher score, and in words what has it; an answer that occurs once is no majority."""
        majority = self.majority[metric] if self.times > 1 else 0.0
        found = (majority, f"the majority answer {self.answer[:40]!r}")
        return max(found, (self.chance[metric], "chance between two choices"))


def closed_book(asked: Iterable[tuple[str, Sequence[str]]], metrics: Iterable[str]) -> ClosedBook | None:
    """Return the closed-book scores of questions; None if none has an answer.

    Args:
        asked: Question and accepted answers; those that are not `stated` are none.
        metrics: Names; those that are not in `SCORES` are skipped.
    """
    known = [(question, golds) for question, answers in asked if (golds := stated(answers))]
    if not known:
        return None
    counts = Counter(normalize_answer(answers[0]) or answers[0] for _, answers in known)
    answer, times = min(counts.items(), key=lambda item: (-item[1], item[0]))
    offered = [(pair, answers) for question, answers in known if (pair := choices(question, answers))]
    names = [name for name in metrics if name in SCORES]
    return ClosedBook(
        len(known),
        answer,
        times,
        {name: sum(SCORES[name](answer, answers) or 0.0 for _, answers in known) / len(known) for name in names},
        len(offered),
        {name: sum(_guess(SCORES[name], *each) for each in offered) / len(known) for name in names},
        count_types(("", answers) for _, answers in known),
    )


def count_types(asked: Iterable[tuple[str, Sequence[str]]]) -> dict[str, int]:
    """Return answer type -> questions, in the order of `ANSWER_TYPES`.

    Args:
        asked: Question and accepted answers; a question without its text offers no two choices.
    """
    counts = Counter(answer_type(question, answers) for question, answers in asked)
    return {name: counts[name] for name in ANSWER_TYPES if name in counts}


def shares(types: Mapping[str, int]) -> str:
    """Return the shares of answer types as a line, such as "answers: 6 % yes, 94 % span"; "" without any."""
    total = sum(types.values())
    told = ", ".join(f"{100 * count / total:.0f} % {name}" for name, count in types.items())
    return f"answers: {told}" if told else ""


def _guess(score: _Score, pair: tuple[str, str], answers: Sequence[str]) -> float:
    return sum(score(choice, answers) or 0.0 for choice in pair) / len(pair)


def main_score(names: Container[str]) -> str | None:
    """Return the metric that a program is judged by: the first F1 among these, else exact match; None without both."""
    return next((name for name in (*list(SCORES)[1:], "em") if name in names), None)


def row_kind(row: Mapping[str, Any]) -> str | None:
    """Return the kind of the question of a row; None if it is not known."""
    return kind_of(row.get("type"), (row.get("about") or {}).get("kind"))


def by_kind(kinds: Sequence[str | None]) -> dict[str, list[int]]:
    """Return kind -> places of the questions of that kind, `OTHER` last; empty if no question has a kind."""
    found: dict[str, list[int]] = {kind: [] for kind in (*KINDS, OTHER)}
    for place, kind in enumerate(kinds):
        found[kind or OTHER].append(place)
    return {kind: places for kind, places in found.items() if places} if len(found[OTHER]) < len(kinds) else {}


def closed_books(rows: Sequence[Mapping[str, Any]], metrics: Sequence[str]) -> dict[str, ClosedBook]:
    """Return the closed-book scores of all questions (`ALL`) and of each kind; empty without answers or metrics."""
    if not any(name in SCORES for name in metrics):
        return {}
    groups = {ALL: list(range(len(rows))), **by_kind(list(map(row_kind, rows)))}
    found = {}
    for group, places in groups.items():
        asked = ((rows[place]["question"], rows[place].get("answers") or []) for place in places)
        scores = closed_book(asked, metrics)
        if scores is not None:
            found[group] = scores
    return found


def answer_line(books: Mapping[str, ClosedBook]) -> str:
    """Return the `shares` of the answer types of all questions; "" if `closed_books` are empty."""
    return shares(books[ALL].answer_types) if ALL in books else ""


def reads_nothing(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether no answer of a run rests on a passage: it is closed book itself; False if that is unknown."""
    return not any(row.get("passage_ids") or "passages" in (row.get("unknown") or []) for row in rows)


def explained(books: Mapping[str, ClosedBook], means: Mapping[str, Mapping[str, Mean]]) -> list[str]:
    """Return a warning for each group of questions whose F1 answers without reading could explain.

    Args:
        books: As of `closed_books`.
        means: Group -> metric -> mean of a program.
    """
    found = []
    for group, book in books.items():
        name = main_score(means.get(group, {}))
        if name is None or (low := means[group][name].low) is None:
            continue
        score, what = book.best(name)
        if score > 0 and low <= score:
            of = "" if group == ALL else f" on {book.questions} {group} questions"
            found.append(
                f"Closed book could explain {name}{of}: its interval reaches down to {100 * low:.1f}, and {what} has "
                f"{100 * score:.1f}. Ask the program standard the same questions, and compare."
            )
    return found
