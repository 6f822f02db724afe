"""What can be known of a file of questions before anybody answers them, with warnings about what scores will hide."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from corpora.kinds import ANSWER_TYPES, CHOICE, NO, YES, answer_type, contains_answer, states
from experiments.analysis.closed_book import ALL, OTHER, SCORES, ClosedBook, closed_books, row_kind
from optimizers.distill.leakage import gold_of
from signatures.common.errors import UserError
from signatures.text import normalize_answer
from signatures.text_words import same_words

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from corpora.questions import Question
    from signatures.types import Passage

METRICS = ("em", "f1[hotpot]")
_PART = 5  # the first of so many parts of a file is compared with the rest
_LEAST, _SURPRISING = 0.15, 3.3  # difference of two shares, and its standard errors, from which a file is sorted
_SKEWED, _FEW = 0.65, 20  # share of one of yes and no, and questions from which it is judged
_MOST_VERDICTS, _MOST_MAJORITY = 0.15, 0.1  # shares of all questions
_EXAMPLES = 5


@dataclass(frozen=True)
class Sorted:
    """A property that the first fifth of a file has more or less often than the rest.

    Args:
        what: Type of the question or of the answer.
        value: The type.
        first: Share of the first fifth that has it.
        rest: Share of the rest.
    """

    what: str
    value: str
    first: float
    rest: float


@dataclass(frozen=True)
class QuestionReport:
    """What is known of a file of questions.

    Args:
        questions: Their number.
        kinds: Kind (`corpora.kinds`) -> questions; "other" for those without one, empty if no question has one.
        types: The benchmark's type -> questions.
        answer_types: One of `corpora.kinds.ANSWER_TYPES` -> questions.
        closed_book: "all" or a kind -> scores of the majority answer and of chance.
        order: In what the first fifth of the file differs from the rest.
        answer_in_question: Ids of questions that contain their answer without offering it as one of two choices.
        gold_read: Questions whose gold passages are all known and whose answer could stand in them.
        gold_without_answer: Ids of those of them whose answers are in none of their gold passages.
        duplicates: Ids of questions of the same words, each group in the order of the file.
        trained_on: Ids of questions that are, in the same words, in the file of training questions; None without it.
        warnings: What to know before scores on these questions are read.
    """

    questions: int
    kinds: dict[str, int]
    types: dict[str, int]
    answer_types: dict[str, int]
    closed_book: dict[str, ClosedBook]
    order: list[Sorted]
    answer_in_question: list[str]
    gold_read: int
    gold_without_answer: list[str]
    duplicates: list[list[str]]
    trained_on: list[str] | None
    warnings: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    def as_table(self) -> "Group":
        """Return tables for a terminal: shares, what answers without reading score, and the warnings."""
        from rich.console import Group
        from rich.text import Text

        warnings = [Text(f"Warning: {text}", style="yellow") for text in self.warnings]
        return Group(self._shares(), self._scores(), *(warnings or [Text("No warning.")]))

    def _shares(self) -> "Table":
        table = _table(f"{self.questions} questions", ("", "questions", "share"))
        for counts in (self.kinds, self.types if len(self.types) > 1 else {}, self.answer_types):
            for name, count in counts.items():
                table.add_row(name, str(count), f"{_percent(count / self.questions)} %")
            table.add_section()
        return table

    def _scores(self) -> "Table":
        names = [name for name in METRICS if name in SCORES]
        table = _table("Without reading, percent", ("", "answer", *names))
        for group, book in self.closed_book.items():
            table.add_row(group, f"majority: {book.answer[:30]}", *(_percent(book.majority[name]) for name in names))
            guess = f"chance: {book.two_choices} of {book.questions} have two choices"
            table.add_row("", guess, *(_percent(book.chance[name]) for name in names))
        return table


def _table(title: str, headings: Sequence[str]) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place == 0 or heading == "answer" else "right")
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def report_questions(
    questions: "Sequence[Question]",
    *,
    passages: "Mapping[str, Passage] | None" = None,
    train: "Iterable[Question] | None" = None,
) -> QuestionReport:
    """Return what is known of questions before anybody answers them.

    Args:
        questions: In the order of their file.
        passages: Of their corpus, by id; without them gold passages are not read.
        train: Questions that something was trained on.

    Raises:
        UserError: There is no question.
    """
    if not questions:
        raise UserError("There is no question to report on: give at least one.")
    answer_types = [answer_type(each.question, each.answers) for each in questions]
    rows = [
        {"question": each.question, "answers": each.answers, "type": each.type, "about": each.model_extra}
        for each in questions
    ]
    kinds = list(map(row_kind, rows))
    read, without = _gold(questions, passages or {})
    trained = None if train is None else {same_words(each.question) for each in train}
    found = QuestionReport(
        questions=len(questions),
        kinds=dict(Counter(kind or OTHER for kind in kinds)) if any(kinds) else {},
        types=dict(Counter(each.type or "(none)" for each in questions).most_common()) if _has_types(questions) else {},
        answer_types={name: answer_types.count(name) for name in ANSWER_TYPES if name in answer_types},
        closed_book=closed_books(rows, METRICS),
        order=[
            *_order("kind", [kind or OTHER for kind in kinds]),
            *_order("type", [each.type or "(none)" for each in questions]),
            *_order("answer", answer_types),
        ],
        answer_in_question=[
            each.id
            for each, type in zip(questions, answer_types, strict=True)
            if type != CHOICE and contains_answer(each.question, each.answers)
        ],
        gold_read=read,
        gold_without_answer=without,
        duplicates=_duplicates(questions),
        trained_on=None if trained is None else [each.id for each in questions if same_words(each.question) in trained],
        warnings=[],
    )
    found.warnings.extend(_warnings(found))
    return found


def _has_types(questions: "Iterable[Question]") -> bool:
    return any(each.type for each in questions)


def _gold(questions: "Iterable[Question]", passages: "Mapping[str, Passage]") -> tuple[int, list[str]]:
    """Return how many questions have an answer that could stand in known gold passages, and where it does not."""
    read, without = 0, []
    for each in questions:
        golds = [text for text in each.answers if normalize_answer(text)]
        ids = dict.fromkeys(gold_of(each))
        if not ids or not golds or normalize_answer(golds[0]) in (YES, NO) or not all(id in passages for id in ids):
            continue
        read += 1
        texts = [f"{passages[id].title} {passages[id].text}" for id in ids]
        if not any(states(text, gold) for gold in golds for text in texts):
            without.append(each.id)
    return read, without


def _order(what: str, values: Sequence[str]) -> list[Sorted]:
    """Return the values that are much more or less frequent in the first part than chance allows."""
    size = len(values) // _PART
    first, rest = values[:size], values[size:]
    found = []
    for value in dict.fromkeys(values) if size > 1 else ():
        shares = first.count(value) / len(first), rest.count(value) / len(rest)
        overall = values.count(value) / len(values)
        error = math.sqrt(overall * (1 - overall) * (1 / len(first) + 1 / len(rest)))
        if abs(shares[0] - shares[1]) >= max(_LEAST, _SURPRISING * error):
            found.append(Sorted(what, value, *shares))
    return found


def _duplicates(questions: "Iterable[Question]") -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for each in questions:
        groups.setdefault(same_words(each.question) or each.question, []).append(each.id)
    return [ids for ids in groups.values() if len(ids) > 1]


def _warnings(of: QuestionReport) -> list[str]:
    lists: list[tuple[Sequence[str], str]] = [
        (of.answer_in_question, "Questions that contain their answer"),
        (of.gold_without_answer, f"Answers in no gold passage of their question, of {of.gold_read}"),
        ([id for ids in of.duplicates for id in ids[1:]], "Questions that repeat an earlier one in the same words"),
        (of.trained_on or [], "Questions that are in the training file, too, to be left out of one of them"),
    ]
    return [*map(_sorted_text, of.order), *_skewed(of), *(_listed(ids, text) for ids, text in lists if ids)]


def _sorted_text(found: Sorted) -> str:
    return (
        f"The file is sorted: {found.what} {found.value!r} has {_percent(found.first)} % of the first fifth and "
        f"{_percent(found.rest)} % of the rest. Never take the first n; --limit draws by a hash of the ids."
    )


def _skewed(of: QuestionReport) -> Iterable[str]:
    yes, no = of.answer_types.get(YES, 0), of.answer_types.get(NO, 0)
    if yes + no > _MOST_VERDICTS * of.questions:
        share = _percent((yes + no) / of.questions)
        yield f"Skewed answers: {share} % are yes or no, which an LM without passages often guesses."
    if yes + no >= _FEW and max(yes, no) > _SKEWED * (yes + no):
        more = YES if yes > no else NO
        yield f"Skewed answers: {_percent(max(yes, no) / (yes + no))} % of the yes/no questions have the answer {more}."
    book = of.closed_book.get(ALL)
    if book is not None and book.times > 1 and book.majority["em"] > _MOST_MAJORITY:
        yield f"Skewed answers: {book.answer!r} is right for {_percent(book.majority['em'])} % of the questions."


def _listed(ids: Sequence[str], text: str) -> str:
    more = ", ..." if len(ids) > _EXAMPLES else ""
    return f"{text}: {len(ids)} ({', '.join(ids[:_EXAMPLES])}{more})."
