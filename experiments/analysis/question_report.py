"""What can be known of a file of questions before anybody answers them, with warnings about what scores will hide."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, starmap
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from corpora.kinds import CHOICE, NO, YES, answer_type, choices, contains_answer, stated, states
from corpora.questions import Question, ids_by_words
from experiments.analysis.closed_book import ALL, OTHER, SCORES, ClosedBook, closed_books, count_types, row_kind
from experiments.analysis.statistics import draw_p, holm, places_p
from experiments.analysis.summary import percent
from optimizers.distill.leakage import (
    SAME_ARTICLE,
    SAME_GOLD,
    SAME_QUESTION,
    SAME_SUB_QUESTION,
    Evaluation,
    gold_of,
    leak_of,
)
from signatures.common.errors import UserError
from signatures.text import normalize_answer

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from signatures.types import Passage

METRICS = ("em", "f1[hotpot]")
_PARTS = ("first", "second", "third", "fourth", "last")  # fifths of a file, each compared with the rest
# A file is sorted by a value of at least so many questions, from so large a difference of two shares, below this p of
# all tests of the file.
_FEWEST, _LEAST, _SURPRISING = 3, 0.15, 0.01
_SKEWED, _FEW = 0.65, 20  # share of one of yes and no, and questions from which it is judged
_MOST_VERDICTS, _MOST_MAJORITY = 0.15, 0.1  # shares of all questions
_EXAMPLES = 5
_NAME = 4  # characters; shorter answers are words that many questions have ("IT", "us")
_SIGNS = re.compile(r"[^\w\s]")
_OVERLAPS = {
    SAME_QUESTION: "Questions that are in the training file, too, to be left out of one of them",
    SAME_SUB_QUESTION: "Questions with a sub-question that is in the training file",
    SAME_GOLD: "Questions that share a gold passage with the training file",
    SAME_ARTICLE: "Questions that share the article of a gold passage with the training file",
}


@dataclass(frozen=True)
class Sorted:
    """A property that a fifth of a file has more or less often than the rest.

    Args:
        what: Type of the question or of the answer.
        value: The type.
        part: The fifth in which chance explains it least, "first" to "last".
        share: Share of that fifth that has it.
        rest: Share of the rest.
    """

    what: str
    value: str
    part: str
    share: float
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
        without_answer: Ids of questions without a `stated` answer.
        order: In what a fifth of the file differs from the rest.
        answer_in_question: Ids of questions that contain their answer without offering it as one of two choices.
        gold_missing: Ids of questions with a gold passage that is not in the corpus; empty without a corpus.
        gold_read: Questions whose gold passages are all known and whose answer could stand in them.
        gold_without_answer: Ids of those of them whose answers are in none of their gold passages.
        duplicates: Ids of questions of the same words, each group in the order of the file.
        trained_on: Reason of `leak_of` -> ids of questions that ask or need what the training questions or their
            sub-questions ask or need; None without a training file.
        warnings: What to know before scores on these questions are read.
    """

    questions: int
    kinds: dict[str, int]
    types: dict[str, int]
    answer_types: dict[str, int]
    closed_book: dict[str, ClosedBook]
    without_answer: list[str]
    order: list[Sorted]
    answer_in_question: list[str]
    gold_missing: list[str]
    gold_read: int
    gold_without_answer: list[str]
    duplicates: list[list[str]]
    trained_on: dict[str, list[str]] | None
    warnings: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    def as_table(self) -> "Group":
        """Return tables for a terminal: shares, what answers without reading score, and the warnings."""
        from rich.console import Group
        from rich.text import Text

        warnings = [Text(f"Warning: {text}", style="yellow") for text in self.warnings]
        scores = [self._scores()] if self.closed_book else []
        return Group(self._shares(), *scores, *(warnings or [Text("No warning.")]))

    def _shares(self) -> "Table":
        table = _table(f"{self.questions} questions", ("", "questions", "share"))
        for counts in (self.kinds, self.types if len(self.types) > 1 else {}, self.answer_types):
            for name, count in counts.items():
                table.add_row(name, str(count), f"{percent(count / self.questions)} %")
            table.add_section()
        return table

    def _scores(self) -> "Table":
        names = [name for name in METRICS if name in SCORES]
        table = _table("Without reading, percent", ("", "answer", *names))
        for group, book in self.closed_book.items():
            table.add_row(group, f"majority: {book.answer[:30]}", *(percent(book.majority[name]) for name in names))
            guess = f"chance: {book.two_choices} of {book.questions} have two choices"
            table.add_row("", guess, *(percent(book.chance[name]) for name in names))
        return table


def _table(title: str, headings: Sequence[str]) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place == 0 or heading == "answer" else "right")
    return table


def report_questions(
    questions: "Sequence[Question]",
    *,
    passages: "Mapping[str, Passage] | None" = None,
    train: "Iterable[Question] | None" = None,
    train_passages: "Mapping[str, Passage] | None" = None,
) -> QuestionReport:
    """Return what is known of questions before anybody answers them.

    Args:
        questions: In the order of their file.
        passages: Of their corpus, by id; without them gold passages are not read.
        train: Questions that something was trained on.
        train_passages: Of their corpus, by id; `passages` by default.

    Raises:
        UserError: There is no question.
    """
    if not questions:
        raise UserError("There is no question to report on: give at least one.")
    asked = [(each.question, each.answers) for each in questions]
    answer_types = list(starmap(answer_type, asked))
    rows = [
        {"question": each.question, "answers": each.answers, "type": each.type, "about": each.model_extra}
        for each in questions
    ]
    kinds = list(map(row_kind, rows))
    read, without = _gold(questions, passages or {})
    found = QuestionReport(
        questions=len(questions),
        kinds=dict(Counter(kind or OTHER for kind in kinds)) if any(kinds) else {},
        types=dict(Counter(each.type or "(none)" for each in questions).most_common()) if _has_types(questions) else {},
        answer_types=count_types(asked),
        closed_book=closed_books(rows, METRICS),
        without_answer=[each.id for each in questions if not stated(each.answers)],
        order=_order(
            {
                "kind": [kind or OTHER for kind in kinds],
                "type": [each.type or "(none)" for each in questions],
                "answer": answer_types,
            }
        ),
        answer_in_question=[
            each.id
            for each, type in zip(questions, answer_types, strict=True)
            if type != CHOICE and any(_is_in(each.question, text) for text in _not_offered(each))
        ],
        gold_missing=[
            each.id for each in questions if passages is not None and any(id not in passages for id in gold_of(each))
        ],
        gold_read=read,
        gold_without_answer=without,
        duplicates=[ids for ids in ids_by_words(questions).values() if len(ids) > 1],
        trained_on=None if train is None else _trained_on(questions, passages, train, train_passages or passages),
        warnings=[],
    )
    found.warnings.extend(_warnings(found))
    return found


def _has_types(questions: "Iterable[Question]") -> bool:
    return any(each.type for each in questions)


def _not_offered(question: "Question") -> list[str]:
    """Return the answers that are not one of two choices of the question."""
    return [text for text in question.answers if not choices(question.question, [text])]


def _is_in(question: str, answer: str) -> bool:
    """Return whether an answer stands in a question; a short name must stand there as it is written.

    Otherwise "IT" and "The Who" were in most questions. A short answer of small letters alone is any word.
    """
    if not contains_answer(question, [answer]):
        return False
    if len(normalize_answer(answer)) >= _NAME or answer.lower() == answer.upper():
        return True
    return answer != answer.lower() and f" {_as_written(answer)} " in f" {_as_written(question)} "


def _as_written(text: str) -> str:
    return " ".join(_SIGNS.sub("", text).split())


def _trained_on(
    questions: "Sequence[Question]",
    passages: "Mapping[str, Passage] | None",
    train: "Iterable[Question]",
    train_passages: "Mapping[str, Passage] | None",
) -> dict[str, list[str]]:
    # Only what leaks of the training file is compared with: an index of all its gold texts would fill the memory.
    asked = Evaluation.of(questions, passages, parts=True)
    if passages and train_passages and train_passages is not passages:
        # Two corpora may both number their passages: what both know is compared by title and text alone.
        both = frozenset(id for id in asked.gold_ids if id in passages and id in train_passages)
        asked = replace(asked, gold_ids=asked.gold_ids - both)
    leaking = [each for each in train if leak_of(each, asked, train_passages)]
    trained = Evaluation.of(leaking, train_passages, parts=True)
    trained = replace(trained, gold_ids=trained.gold_ids & asked.gold_ids)
    reasons = [(each.id, leak_of(each, trained, passages)) for each in questions]
    found = {reason: [id for id, why in reasons if why == reason] for reason in _OVERLAPS}
    return {reason: ids for reason, ids in found.items() if ids}


def _gold(questions: "Iterable[Question]", passages: "Mapping[str, Passage]") -> tuple[int, list[str]]:
    """Return how many questions have an answer that could stand in known gold passages, and where it does not."""
    read, without = 0, []
    for each in questions:
        golds = [text for text in stated(each.answers) if normalize_answer(text)]
        ids = dict.fromkeys(gold_of(each))
        if not ids or not golds or normalize_answer(golds[0]) in (YES, NO) or not all(id in passages for id in ids):
            continue
        read += 1
        texts = [f"{passages[id].title} {passages[id].text}" for id in ids]
        if not any(states(text, gold) for gold in golds for text in texts):
            without.append(each.id)
    return read, without


def _order(properties: Mapping[str, Sequence[str]]) -> list[Sorted]:
    """Return the values that are much more or less frequent in a fifth than a shuffled file would have them.

    Args:
        properties: What -> its value of each question, in their order.
    """
    tested = [each for what, values in properties.items() for each in _tested(what, values)]
    adjusted = holm([p for p, _ in tested])
    return [
        found
        for (_, found), p in zip(tested, adjusted, strict=True)
        if p is not None and p < _SURPRISING and abs(found.share - found.rest) >= _LEAST
    ]


def _tested(what: str, values: Sequence[str]) -> Iterator[tuple[float, Sorted]]:
    """Yield each value with the p of where it stands, and the fifth in which chance explains it least.

    Two tests share a p: of each fifth against the rest, and of all places, which sees a small file that is sorted.
    """
    size = len(values)
    ends = [place * size // len(_PARTS) for place in range(len(_PARTS) + 1)]
    for value, total in Counter(values).items():
        if size < 2 * len(_PARTS) or min(total, size - total) < _FEWEST:
            continue
        parts = []
        for part, (start, end) in zip(_PARTS, pairwise(ends), strict=True):
            have, drawn = values[start:end].count(value), end - start
            found = Sorted(what, value, part, have / drawn, (total - have) / (size - drawn))
            parts.append((draw_p(have, drawn, total, size), found))
        p, found = min(parts, key=itemgetter(0))
        of_places = places_p([place for place, own in enumerate(values) if own == value], size)
        yield min(1.0, 2 * min(len(_PARTS) * p, of_places)), found


def _warnings(of: QuestionReport) -> list[str]:
    lists: list[tuple[Sequence[str], str]] = [
        (of.without_answer, "Questions without an answer (`answers` lists texts with a letter or digit)"),
        (of.gold_missing, "Questions with a gold passage that is not in the corpus"),
        (of.answer_in_question, "Questions that contain their answer"),
        (of.gold_without_answer, f"Answers in no gold passage of their question, of {of.gold_read}"),
        ([id for ids in of.duplicates for id in ids[1:]], "Questions that repeat an earlier one in the same words"),
        *((ids, _OVERLAPS[reason]) for reason, ids in (of.trained_on or {}).items()),
    ]
    return [*map(_sorted_text, of.order), *_skewed(of), *(_listed(ids, text) for ids, text in lists if ids)]


def _sorted_text(found: Sorted) -> str:
    return (
        f"The file is sorted: {found.what} {found.value!r} has {percent(found.share)} % of the {found.part} fifth and "
        f"{percent(found.rest)} % of the rest. Never take the first n; --limit draws by a hash of the ids."
    )


def _skewed(of: QuestionReport) -> Iterable[str]:
    yes, no = of.answer_types.get(YES, 0), of.answer_types.get(NO, 0)
    if yes + no > _MOST_VERDICTS * of.questions:
        share = percent((yes + no) / of.questions)
        yield f"Skewed answers: {share} % are yes or no, which an LM without passages often guesses."
    if yes + no >= _FEW and max(yes, no) > _SKEWED * (yes + no):
        more = YES if yes > no else NO
        yield f"Skewed answers: {percent(max(yes, no) / (yes + no))} % of the yes/no questions have the answer {more}."
    book = of.closed_book.get(ALL)
    if book is not None and book.times > 1 and book.majority["em"] > _MOST_MAJORITY:
        yield f"Skewed answers: {book.answer!r} is right for {percent(book.majority['em'])} % of the questions."


def _listed(ids: Sequence[str], text: str) -> str:
    more = ", ..." if len(ids) > _EXAMPLES else ""
    return f"{text}: {len(ids)} ({', '.join(ids[:_EXAMPLES])}{more})."
