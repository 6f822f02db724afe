"""The content of a review's screens: a card is a question with its references and the items to judge."""

from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict

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


class Step(_Shown):
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
    steps: list[Step] = []
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
