"""The transcript of an agent: what it thought, did and found, as lines of one input field.

Each turn is one LM call, whose inputs are the question and the transcript so far. The field is a list of texts, which
the adapter writes one a line, escaped: a passage cannot begin a line of its own, nor imitate a turn or a field. Lines
are only appended, so that the calls of a question share their prefix, until the limit is reached:

    Thought 1: Who is the harbour master?
    Action 1: search: harbour master of Quillon
    Result 1: Quillon: The harbour master of Quillon is Ansa Merrow.

The limit is in words, a Han character counting as one, since a program does not know the tokenizer. An adapter that
knows the size of its context cuts fields of passages, not these lines.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import dspy

from programs.parts.passages import titled_text
from signatures.text import CJK
from signatures.types import Passage

LEFT_OUT, CUT = "(left out)", "..."
_WORD = re.compile(rf"[{CJK}]|[^\s{CJK}]+")


class Entry(Protocol):
    """What a transcript shows of one turn, whatever the turn is."""

    @property
    def results(self) -> tuple[str, ...]:
        """Return what the LM was shown after the turn: one text per passage, or a notice."""
        ...

    def said(self, number: int) -> list[str]:
        """Return the lines that the LM wrote in the turn of this number."""
        ...


class Turn(NamedTuple):
    """One turn of an agent.

    Args:
        thought: What it wrote before it acted; may be empty.
        action: What it did, in a word; empty if the reply named no action.
        argument: What it did that with.
        results: What it was shown: one text per passage, or a notice.
    """

    thought: str = ""
    action: str = ""
    argument: str = ""
    results: tuple[str, ...] = ()

    def said(self, number: int) -> list[str]:
        """Return the lines that the LM wrote."""
        lines = [f"Thought {number}: {self.thought.strip()}"] if self.thought.strip() else []
        return [*lines, f"Action {number}: {self.action}: {self.argument.strip()}"] if self.action else lines


def turn_of(reply: dspy.Prediction | None) -> Turn:
    """Return the turn of a reply with thought, action and argument, before its results; without them if unparseable."""
    return Turn(reply.thought, reply.action, reply.argument) if reply is not None else Turn()


def found_texts(passages: Iterable[Passage], *, most_words: int | None = None) -> tuple[str, ...]:
    """Return the results of a search: each passage after its title; all together at most `most_words` words."""
    texts = [titled_text(passage) for passage in passages]
    return tuple(texts if most_words is None else first_words(texts, most_words))


def transcript_lines(turns: Sequence[Entry], most_words: int) -> list[str]:
    """Return the turns as lines of at most `most_words` words together.

    What does not fit is left out: first the results of the oldest turns, which a line says; then the oldest turns as a
    whole; at last the end of what is left. The last turn is left out last, since it is what the LM has to go on from;
    what it said is cut to half of the words before its results are.
    """
    said = [turn.said(number) for number, turn in enumerate(turns, start=1)]
    shown = [[f"Result {number}: {text}" for text in turn.results] for number, turn in enumerate(turns, start=1)]
    sizes = [_size(lines) + _size(results) for lines, results in zip(said, shown, strict=True)]
    for place in range(len(turns) - 1):
        if sum(sizes) <= most_words:
            break
        short = [f"Result {place + 1}: {LEFT_OUT}"]
        if _size(short) < _size(shown[place]):
            shown[place] = short
            sizes[place] = _size(said[place]) + _size(short)
    first = 0
    while first < len(turns) - 1 and sum(sizes[first:]) > most_words:
        first += 1
    if turns and sizes[-1] > most_words:
        said[-1] = first_words(said[-1], max(most_words // 2, most_words - _size(shown[-1])))
    lines = [line for both in zip(said[first:], shown[first:], strict=True) for part in both for line in part]
    return first_words(lines, most_words)


def first_words(texts: Iterable[str], most: int) -> list[str]:
    """Return texts up to `most` words together, the last one cut, which dots say; a Han character is a word."""
    kept: list[str] = []
    for text in texts:
        size = count(text)
        if size > most:
            if most > 0:
                ends = [0, *(match.end() for _, match in zip(range(most), _WORD.finditer(text), strict=False))]
                cut = (f"{text[:end]}{CUT}" for end in reversed(ends))  # behind a Han character the dots are a word
                kept.append(next(each for each in cut if count(each) <= most))
            break
        kept.append(text)
        most -= size
    return kept


def count(text: str) -> int:
    """Return the number of words of a text, each Han character being one."""
    return sum(1 for _ in _WORD.finditer(text))


def _size(lines: Iterable[str]) -> int:
    return sum(map(count, lines))
