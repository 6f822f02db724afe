"""Given references under conditions of knowledge, and how well a program tells them apart.

"How Credible Is an Answer From Retrieval-Augmented LLMs?", sections 6.3 (no, partial and complete references; more and
more noise) and 6.4 (self-reflection on as many complete as partial sets). A program gets the references by `passages=`.
"""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal

from signatures.common.errors import UserError
from signatures.types import Passage

if TYPE_CHECKING:
    from corpora.questions import Question

Condition = Literal["closed", "partial", "complete"]
REFERENCES = 5  # the paper's default


@dataclass(frozen=True)
class Given:
    """A question with the references it is asked with.

    Args:
        question: With its gold.
        passages: In the order they are shown.
        complete: Whether all gold passages are among them.
    """

    question: "Question"
    passages: tuple[Passage, ...]
    complete: bool


@dataclass(frozen=True)
class ReflectionScores:
    """How often a program abstained where it should, counted; abstaining is the positive class.

    Args:
        abstained_partial: Right abstentions.
        abstained_complete: Abstentions although the references were complete.
        answered_partial: Answers although they were not.
        answered_complete: Right not to abstain.
    """

    abstained_partial: int
    abstained_complete: int
    answered_partial: int
    answered_complete: int

    @property
    def n(self) -> int:
        """Return how many questions were counted, at least 1."""
        return self.abstained_partial + self.abstained_complete + self.answered_partial + self.answered_complete

    @property
    def accuracy(self) -> float:
        """Return the share of right decisions, in [0, 1]."""
        return (self.abstained_partial + self.answered_complete) / self.n

    @property
    def f1(self) -> float:
        """Return the F1 of abstaining, in [0, 1]; 0 where it neither happened nor should have."""
        found = 2 * self.abstained_partial
        return found / (found + self.abstained_complete + self.answered_partial) if found else 0.0


def given_references(
    question: "Question",
    corpus: Mapping[str, Passage],
    noise: Sequence[Passage] | None = None,
    *,
    condition: Condition,
    n: int = REFERENCES,
    seed: int = 0,
    spare: Sequence[Passage] = (),
) -> Given:
    """Return the question with references under one condition, the same for the same seed and question id.

    "closed" gives none. "complete" gives all gold passages and "partial" half of them (rounded down, one at least),
    each filled up to exactly `n` with noise, so that the number tells nothing; then they are shuffled. A larger `n`
    keeps the noise of a smaller one and adds to it.

    Args:
        question: Needs `gold_ids`, two at least for "partial".
        corpus: Passages by id; holds the gold.
        noise: Where noise is drawn from; gold is never drawn. None takes the question's own `context_ids`, which
            benchmarks choose to mislead. Nothing keeps other noise from holding the answer by chance.
        condition: How much of the gold is given.
        n: References in all.
        seed: Of the draw and the order.
        spare: Noise for a question without `context_ids`, where `noise` is None.

    Raises:
        UserError: The gold is missing or does not fit, or there is too little noise.
    """
    if condition == "closed":
        return Given(question, (), complete=False)
    gold = _gold(question, corpus)
    if len(gold) > n or (condition == "partial" and len(gold) < 2):
        need = "2 gold passages or more" if len(gold) < 2 else f"n >= {len(gold)}"
        raise UserError(f"Question {question.id!r} with {len(gold)} gold passages and n={n} needs {need}.")
    dice = random.Random(f"{seed}:{question.id}")
    kept = dice.sample(gold, len(gold) if condition == "complete" else len(gold) // 2)
    pool = (_context(question, corpus) or spare) if noise is None else noise
    drawn = list(islice(_strangers(pool, set(question.gold_ids), dice), n - len(kept)))
    if len(kept) + len(drawn) < n:
        raise UserError(
            f"Question {question.id!r} has {len(drawn)} noise passages, n={n} needs {n - len(kept)}. "
            "Pass a larger pool or a smaller n."
        )
    shown = [*kept, *drawn]
    dice.shuffle(shown)
    return Given(question, tuple(shown), complete=condition == "complete")


def balanced(
    questions: Sequence["Question"],
    corpus: Mapping[str, Passage],
    noise: Sequence[Passage] | None = None,
    *,
    n: int = REFERENCES,
    seed: int = 0,
    spare: Sequence[Passage] = (),
) -> list[Given]:
    """Return as many complete as partial items, each question once, in the order of `questions`.

    A question that cannot be given under both conditions (see `given_references`) is left out, and one more where the
    rest is odd; `len(questions)` less the length of the result is how many. Chance decides who is in which group.

    Raises:
        UserError: Fewer than two questions can be used.
    """
    pairs = []
    for question in questions:
        try:
            complete = given_references(question, corpus, noise, condition="complete", n=n, seed=seed, spare=spare)
            partial = given_references(question, corpus, noise, condition="partial", n=n, seed=seed, spare=spare)
        except UserError:
            continue
        pairs.append((complete, partial))
    half = len(pairs) // 2
    if not half:
        raise UserError(
            f"Of {len(questions)} questions, {len(pairs)} have the gold and noise for both groups of n={n}."
        )
    order = random.Random(seed).sample(range(len(pairs)), 2 * half)
    groups = dict.fromkeys(order[:half], 0) | dict.fromkeys(order[half:], 1)
    return [pairs[number][groups[number]] for number in sorted(groups)]


def precision_sweep(
    question: "Question",
    corpus: Mapping[str, Passage],
    noise: Sequence[Passage] | None = None,
    *,
    sizes: Sequence[int] = (2, 5, 10),
    seed: int = 0,
) -> dict[int, Given]:
    """Return the complete references by their number, all gold and more and more noise (section 6.3).

    Raises:
        UserError: As for `given_references`.
    """
    return {size: given_references(question, corpus, noise, condition="complete", n=size, seed=seed) for size in sizes}


def reflection_scores(complete: Sequence[bool], abstained: Sequence[bool]) -> ReflectionScores:
    """Return the counts of decisions, for accuracy and F1 (section 6.4, table 4).

    Args:
        complete: Per question, whether its references were complete.
        abstained: Per question, whether the program declined to answer.

    Raises:
        ValueError: The lists differ in length or are empty.
    """
    decisions = list(zip(complete, abstained, strict=True))
    if not decisions:
        raise ValueError("There is no decision to score.")
    return ReflectionScores(
        abstained_partial=decisions.count((False, True)),
        abstained_complete=decisions.count((True, True)),
        answered_partial=decisions.count((False, False)),
        answered_complete=decisions.count((True, False)),
    )


def _gold(question: "Question", corpus: Mapping[str, Passage]) -> list[Passage]:
    ids = list(dict.fromkeys(question.gold_ids))
    missing = [id for id in ids if id not in corpus]
    if missing or not ids:
        lacks = f"the gold passage {missing[0]!r} is not in the corpus" if missing else "it has no gold_ids"
        raise UserError(f"Question {question.id!r} cannot be given references: {lacks}.")
    return [corpus[id] for id in ids]


def _context(question: "Question", corpus: Mapping[str, Passage]) -> list[Passage]:
    return [corpus[id] for id in question.context_ids if id in corpus]


def _strangers(pool: Sequence[Passage], gold: Collection[str], dice: random.Random) -> Iterator[Passage]:
    """Yield the passages of a pool that are not gold, each id once, in random order.

    The pool may be a whole corpus, so it is shuffled no further than it is read (Fisher and Yates, lazily).
    """
    seen, moved = set(gold), dict[int, int]()
    for place in range(len(pool)):
        chosen = dice.randrange(place, len(pool))
        passage = pool[moved.get(chosen, chosen)]
        moved[chosen] = moved.get(place, place)
        if passage.id not in seen:
            seen.add(passage.id)
            yield passage
