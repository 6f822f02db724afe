"""The effect of checking drafts against passages: corrected, left wrong, or made wrong.

GenGround, section 7.2, "Knowledge Incorporation" (https://arxiv.org/abs/2406.14891), where three annotators judged 100
questions. Here a judge is a function: exact match with a gold decomposition, or any other, which a table must name.

`by_question` finds the gold of a hop by its sub-question, equal after normalising. `by_position` takes the sub-question
at the hop's position, which is correct only for programs that ask the gold's sub-questions in the gold's order. Hops
without gold or without a draft are skipped and counted.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from optimizers.metrics.answer import exact_match
from signatures.text import normalize_answer
from signatures.types import Hop

if TYPE_CHECKING:
    from corpora.questions import SubQuestion

Revision = Literal["direct", "revised", "failure", "error"]
Judge = Callable[[Hop, str], bool | None]  # whether an answer to the hop's question is correct; None without gold

_CLASSES: dict[tuple[bool, bool], Revision] = {
    (True, True): "direct",
    (False, True): "revised",
    (False, False): "failure",
    (True, False): "error",
}


@dataclass(frozen=True)
class Revisions:
    """The revision classes of the hops of one or more questions.

    Args:
        classes: One per hop, in order: "direct" (draft and answer correct), "revised" (wrong, then correct), "failure"
            (both wrong), "error" (correct, then wrong); None for a skipped hop.
    """

    classes: tuple[Revision | None, ...]

    @property
    def judged(self) -> int:
        """Return the number of hops that have a class."""
        return len(self.classes) - self.skipped

    @property
    def skipped(self) -> int:
        """Return the number of hops that have no gold or no draft."""
        return self.classes.count(None)

    def count(self, *names: Revision) -> int:
        """Return the number of hops of these classes."""
        return sum(self.classes.count(name) for name in names)

    def rate(self, *names: Revision) -> float | None:
        """Return the share in [0, 1] of judged hops that are of one of these classes; None if none was judged.

        The rates of the paper: success `rate("direct", "revised")`, failure `rate("failure")`, error `rate("error")`;
        they sum to 1.
        """
        return self.count(*names) / self.judged if self.judged else None


def revisions(hops: Sequence[Hop], judge: Judge) -> Revisions:
    """Return the class of each hop according to the judge."""
    return Revisions(tuple(_revision(hop, judge) for hop in hops))


def pooled(parts: Iterable[Revisions]) -> Revisions:
    """Return the revisions of several questions as one, each hop with the same weight."""
    return Revisions(tuple(name for part in parts for name in part.classes))


def by_question(sub_questions: "Sequence[SubQuestion]") -> Judge:
    """Return a judge by exact match with the gold of the sub-question that is equal after normalising."""
    return _by_words({item.question: item.answer for item in sub_questions})


def _by_words(golds: Mapping[str, str | None]) -> Judge:
    by_words = {normalize_answer(question): answer for question, answer in golds.items()}
    return lambda hop, answer: _correct(answer, by_words.get(normalize_answer(hop.question)))


def by_position(hops: Sequence[Hop], sub_questions: "Sequence[SubQuestion]") -> Judge:
    """Return a judge of these hops, by exact match with the gold of the sub-question at the same position."""
    positions = {id(hop): position for position, hop in enumerate(hops)}

    def judge(hop: Hop, answer: str) -> bool | None:
        position = positions[id(hop)]
        return _correct(answer, sub_questions[position].answer) if position < len(sub_questions) else None

    return judge


def _correct(answer: str, gold: str | None) -> bool | None:
    return None if gold is None else exact_match(answer, [gold]) == 1.0


def _revision(hop: Hop, judge: Judge) -> Revision | None:
    if hop.draft is None:
        return None
    before, after = judge(hop, hop.draft), judge(hop, hop.answer)
    return None if before is None or after is None else _CLASSES[before, after]


def share(*names: Revision) -> Callable[[Any, Any], float | None]:
    """Return a scoring function: the `rate` of these classes over a prediction's hops, judged `by_question`."""

    def score(example: Any, prediction: Any) -> float | None:
        sub_questions = getattr(example, "sub_questions", None) or []
        judge = _by_words({item["question"]: item.get("answer") for item in sub_questions})
        return revisions(getattr(prediction, "hops", None) or [], judge).rate(*names)

    return score
