"""The content of a review's screens (a question with its references and the items to judge), and the rating scales.

The scales are the tasks and grades of the papers' human evaluations:

- "How Credible Is an Answer From Retrieval-Augmented LLMs?", section 3 (human filtering of key facts) and section 6.2
  (sentences helpful or not; completeness in five grades).
- Shi et al., "Generate-then-Ground in Retrieval-Augmented Generation for Multi-hop Question Answering", ACL 2024,
  appendix IV (stepwise correctness in three grades, two annotators, a third where they differ) and section 7.2
  (success, failure and error of the grounding). https://arxiv.org/abs/2406.14891
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from signatures.common.errors import UserError, unknown
from signatures.common.files import sha256_text
from signatures.types import Passage


class _Shown(BaseModel):
    model_config = ConfigDict(frozen=True)


class Item(_Shown):
    """One thing to judge: a key fact, a sentence, an answer or a hop.

    Args:
        id: Opaque, so that it does not reveal the item's origin; the key of decisions and of CSV files of ratings.
        part: Its index in the question's key facts, or in the answer's sentences or hops, from 0.
        text: The text to judge.
        details: Further lines as (label, text), such as a hop's first answer or the results of automatic checks.
    """

    id: str
    part: int
    text: str
    details: list[tuple[str, str]] = []


class ReasoningStep(_Shown):
    """One hop or sub-question, shown to follow the reasoning."""

    question: str
    answer: str


class Reference(_Shown):
    """A passage shown with the items.

    Args:
        title: Its title, or its id if it has none, after the number by which the answer cites it.
        segments: Its text in segments, each with whether it is a gold sentence.
        gold: Whether the benchmark names the passage as gold.
    """

    title: str
    segments: list[tuple[str, bool]]
    gold: bool


class Card(_Shown):
    """One screen.

    Args:
        id: Id of the card.
        question_id: Id of the question in its file.
        question: The question.
        golds: Accepted short answers.
        steps: The gold decomposition for key facts, the answer's hops for ratings.
        response: The answer to rate; None for key facts.
        references: Gold passages first, then cited passages.
        run: Label of the answer's run, hidden from reviewers; None for key facts.
        items: The items to judge, at least one.
    """

    id: str
    question_id: str
    question: str
    golds: list[str] = []
    steps: list[ReasoningStep] = []
    response: str | None = None
    references: list[Reference] = []
    run: str | None = None
    items: list[Item]


def opaque_id(*parts: object) -> str:
    """Return twelve hexadecimal digits, a hash of `parts`."""
    return sha256_text("\x1f".join(map(str, parts)))[:12]


def segments(text: str, gold: Iterable[str]) -> list[tuple[str, bool]]:
    """Return `text` split at the sentences of `gold`, each segment with whether it is one; joined they are `text`."""
    spans = sorted((start, start + len(part)) for part in gold if part and (start := text.find(part)) >= 0)
    pieces, done = [], 0
    for start, end in spans:
        if start < done:
            continue  # of two overlapping sentences, the first is marked
        pieces += [(text[done:start], False), (text[start:end], True)]
        done = end
    return [(piece, marked) for piece, marked in [*pieces, (text[done:], False)] if piece]


def reference(
    passage: Passage, *, gold: bool, gold_sentences: Sequence[int] = (), number: int | None = None
) -> Reference:
    """Return a passage as it is shown.

    Args:
        passage: The passage.
        gold: Whether the benchmark names it as gold.
        gold_sentences: Indices from 0 of the sentences to mark, if the passage has sentences.
        number: The n of the marks `[n]` that cite it; None if it has no number.
    """
    sentences = getattr(passage, "sentences", None) or []
    marked = [sentences[number] for number in gold_sentences if number < len(sentences)]
    title = passage.title or passage.id
    # In the title: a field of its own would change the hash of the cards of every review.
    title = title if number is None else f"[{number}] {title}"
    return Reference(title=title, segments=segments(passage.text, marked), gold=gold)


EDIT = "edit"
_CREDIBLE = "How Credible Is an Answer From Retrieval-Augmented LLMs?"
_GENGROUND = "https://arxiv.org/abs/2406.14891"


@dataclass(frozen=True)
class Grade:
    """One grade of a scale.

    Args:
        value: The value that is stored.
        label: The label shown to reviewers.
        key: The key to press on the page and in the terminal.
        score: Number in [0, 1] for means; None if the grades are not numeric.
    """

    value: str
    label: str
    key: str
    score: float | None


@dataclass(frozen=True)
class Scale:
    """A task and the grades to choose from.

    Args:
        name: Name of the scale.
        unit: The unit that is judged.
        task: The instruction shown to reviewers, one or two sentences.
        grades: From worst to best if they are ordered.
        ordered: Whether the grades are ordinal.
        raters: Default number of reviewers per unit.
        settle: "majority": reviewers must agree, else one more judges; "mean": grades are averaged.
        source: Publication that defines the scale.
    """

    name: str
    unit: Literal["key fact", "sentence", "answer", "hop"]
    task: str
    grades: tuple[Grade, ...]
    ordered: bool
    raters: int
    settle: Literal["majority", "mean"]
    source: str

    @property
    def values(self) -> Sequence[str]:
        """The values of the grades in order."""
        return [grade.value for grade in self.grades]

    def grade(self, value: str) -> Grade:
        """Return the grade with that value; numbers may be written differently, such as ".5" for "0.5".

        Raises:
            UserError: The scale has no such grade.
        """
        for grade in self.grades:
            if grade.value == value.strip() or _same_number(grade.value, value):
                return grade
        raise UserError(f"{value!r} is not a grade of {self.name!r}. Choose from: {', '.join(self.values)}.")


def _same_number(first: str, second: str) -> bool:
    try:
        return float(first) == float(second)
    except ValueError:
        return False


def _whole_answer(
    name: str, task: str, labels: dict[str, str], *, raters: int, settle: Literal["majority", "mean"], source: str
) -> Scale:
    """Return an ordered scale for whole answers from value -> label, worst first, with the keys 1, 2, 3, ..."""
    grades = [Grade(value, label, str(key), float(value)) for key, (value, label) in enumerate(labels.items(), start=1)]
    return Scale(name, "answer", task, tuple(grades), ordered=True, raters=raters, settle=settle, source=source)


KEYFACTS = Scale(
    "keyfacts",
    "key fact",
    "Accept a fact that the references state, that the answer needs and that no other fact repeats. Edit one that is "
    "right but badly worded; reject the rest.",
    (
        Grade("accept", "Accept", "a", None),
        Grade(EDIT, "Edit", "e", None),
        Grade("reject", "Reject", "r", None),
    ),
    ordered=False,
    raters=1,
    settle="majority",
    source=f"{_CREDIBLE}, section 3",
)

HELPFUL = Scale(
    "helpful",
    "sentence",
    "Does this sentence help to answer the question?",
    (Grade("0", "Not helpful", "0", 0.0), Grade("1", "Helpful", "1", 1.0)),
    ordered=True,
    raters=1,  # Departure: ten in the paper; `--raters 10`
    settle="mean",
    source=f"{_CREDIBLE}, section 6.2",
)


COMPLETENESS = _whole_answer(
    "completeness",
    "How completely does this answer the question?",
    {"0": "Inadequate", "0.25": "A quarter", "0.5": "Half", "0.75": "Nearly all", "1": "Complete"},
    raters=1,  # Departure: ten in the paper; `--raters 10`
    settle="mean",
    source=f"{_CREDIBLE}, section 6.2",
)

STEPWISE = _whole_answer(
    "stepwise",
    "Follow the steps against the references: is the reasoning correct, step by step?",
    {"0": "Wrong", "0.5": "Partly correct", "1": "Correct"},
    raters=2,
    settle="majority",
    source=f"{_GENGROUND}, appendix IV",
)

HOPS = Scale(
    "hops",
    "hop",
    "Right at once: the first answer was correct and stayed so. Corrected: it was wrong, and checking made it right. "
    "Failure: it was wrong and stayed wrong. Error: a correct first answer was made wrong.",
    (
        Grade("direct", "Right at once", "d", 1.0),
        Grade("corrected", "Corrected", "c", 1.0),
        Grade("failure", "Failure", "f", 0.0),
        Grade("error", "Error", "e", 0.0),
        Grade("success", "Right, cannot tell how", "s", 1.0),  # the one grade for both in earlier reviews
    ),
    ordered=False,
    raters=1,  # Departure: three in the paper; `--raters 3`
    settle="majority",
    source=f"{_GENGROUND}, section 7.2 and figure 5",
)

ANSWER_SCALES = {scale.name: scale for scale in (HELPFUL, COMPLETENESS, STEPWISE, HOPS)}
SCALES = {KEYFACTS.name: KEYFACTS, **ANSWER_SCALES}


def answer_scale(name: str) -> Scale:
    """Return the scale for rating answers with that name.

    Raises:
        UserError: The name is unknown.
    """
    if name not in ANSWER_SCALES:
        raise unknown("scale", name, ANSWER_SCALES)
    return ANSWER_SCALES[name]
