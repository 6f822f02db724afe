"""Fixed contexts: passages chosen per question instead of retrieved, with no, half or all of the gold among noise.

"How Credible Is an Answer From Retrieval-Augmented LLMs?", sections 6.3 (no, partial and complete references; growing
noise) and 6.4 (self-reflection on as many complete as partial sets). A program receives the passages as `passages=`.
"""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from corpora.questions import Question
from signatures.common.errors import UserError
from signatures.types import Passage

Condition = Literal["closed", "partial", "complete"]
REFERENCES = 5  # the paper's default


@dataclass(frozen=True)
class FixedContext:
    """A question with its fixed context.

    Args:
        question: The question with its gold.
        passages: In the order shown.
        complete: Whether all gold passages are among them.
    """

    question: Question
    passages: tuple[Passage, ...]
    complete: bool


@dataclass(frozen=True)
class ReflectionScores:
    """The confusion matrix of abstaining (the positive class) on partial contexts.

    The paper names no positive class; accuracy does not depend on it, and the counts give the F1 of answering, too.

    Args:
        abstained_partial: Correct abstentions.
        abstained_complete: Abstentions although the context was complete.
        answered_partial: Answers although the context was partial.
        answered_complete: Correct answers, in the sense of not abstaining.
    """

    abstained_partial: int
    abstained_complete: int
    answered_partial: int
    answered_complete: int

    @property
    def n(self) -> int:
        """Return the number of questions, at least 1."""
        return self.abstained_partial + self.abstained_complete + self.answered_partial + self.answered_complete

    @property
    def accuracy(self) -> float:
        """Return the share of correct decisions, in [0, 1]."""
        return (self.abstained_partial + self.answered_complete) / self.n

    @property
    def f1(self) -> float:
        """Return the F1 of abstaining, in [0, 1]; 0 without a correct abstention."""
        return f1_of_abstaining(self.abstained_partial, self.abstained_complete + self.answered_partial)


def f1_of_abstaining(rightly_abstained: float, wrong: float) -> float:
    """Return the F1 of abstaining, in [0, 1]; 0 without a correct abstention.

    Args:
        rightly_abstained: Correct abstentions, as a count or a share of the decisions.
        wrong: Wrong decisions of both kinds, in the same unit.
    """
    return 2 * rightly_abstained / (2 * rightly_abstained + wrong) if rightly_abstained else 0.0


def fixed_context(
    question: Question,
    corpus: Mapping[str, Passage],
    *,
    condition: Condition,
    n: int = REFERENCES,
    seed: int = 0,
    spare: Sequence[Passage] = (),
) -> FixedContext:
    """Return the question with its context under one condition, the same for the same seed and question id.

    "closed" has no passages: a program then answers from memory, if it has a prompt for that. "complete" has all gold
    passages and "partial" half of them (rounded down, at least one), filled up with noise to exactly `n`, so that their
    number reveals nothing, and shuffled. A larger `n` adds noise to that of a smaller one. The paper says no more of
    partial references than that necessary ones are left out.

    Args:
        question: Needs `gold_ids`, at least two for "partial".
        corpus: Passages by id, including the gold.
        condition: How much of the gold is included.
        n: Number of passages.
        seed: Seed of the draw and of the order.
        spare: Noise for a question without `context_ids`, which benchmarks choose to mislead; it may contain the answer
            by chance.

    Raises:
        UserError: The gold is missing or exceeds `n`, or there is too little noise.
    """
    if condition == "closed":
        return FixedContext(question, (), complete=False)
    gold = _gold(question, corpus)
    if len(gold) > n or (condition == "partial" and len(gold) < 2):
        need = "2 gold passages or more" if len(gold) < 2 else f"n >= {len(gold)}"
        raise UserError(f"Question {question.id!r} with {len(gold)} gold passages and n={n} needs {need}.")
    rng = random.Random(f"{seed}:{question.id}")
    kept = rng.sample(gold, len(gold) if condition == "complete" else len(gold) // 2)
    pool = [corpus[id] for id in question.context_ids if id in corpus] or spare
    drawn = list(islice(_draw_noise(pool, set(question.gold_ids), rng), n - len(kept)))
    if len(kept) + len(drawn) < n:
        raise UserError(
            f"Question {question.id!r} has {len(drawn)} noise passages, n={n} needs {n - len(kept)}. "
            "Pass a larger pool or a smaller n."
        )
    shown = [*kept, *drawn]
    rng.shuffle(shown)
    return FixedContext(question, tuple(shown), complete=condition == "complete")


def balanced_contexts(
    questions: Sequence[Question],
    corpus: Mapping[str, Passage],
    *,
    n: int = REFERENCES,
    seed: int = 0,
    spare: Sequence[Passage] = (),
) -> list[FixedContext]:
    """Return as many complete as partial contexts, each question once, in the order of `questions`.

    Questions that do not allow both conditions (see `fixed_context`) are skipped, and one more if the rest is odd. The
    group of a question is random.

    Raises:
        UserError: Fewer than two questions can be used.
    """
    pairs = []
    for question in questions:
        try:
            complete = fixed_context(question, corpus, condition="complete", n=n, seed=seed, spare=spare)
            partial = fixed_context(question, corpus, condition="partial", n=n, seed=seed, spare=spare)
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


def reflection_scores(complete: Sequence[bool], abstained: Sequence[bool]) -> ReflectionScores:
    """Return the counts of decisions, from which accuracy and F1 are computed (section 6.4, table 4).

    Args:
        complete: Per question, whether its context was complete.
        abstained: Per question, whether the program abstained.

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


def _gold(question: Question, corpus: Mapping[str, Passage]) -> list[Passage]:
    ids = list(dict.fromkeys(question.gold_ids))
    missing = [id for id in ids if id not in corpus]
    if missing or not ids:
        lacks = f"the gold passage {missing[0]!r} is not in the corpus" if missing else "it has no gold_ids"
        raise UserError(f"Question {question.id!r} cannot have a fixed context: {lacks}.")
    return [corpus[id] for id in ids]


def _draw_noise(pool: Sequence[Passage], gold: Collection[str], rng: random.Random) -> Iterator[Passage]:
    """Yield the passages of a pool that are not gold, each id once, in random order.

    A lazy Fisher-Yates shuffle, because the pool may be a whole corpus.
    """
    seen, moved = set(gold), dict[int, int]()
    for position in range(len(pool)):
        chosen = rng.randrange(position, len(pool))
        passage = pool[moved.get(chosen, chosen)]
        moved[chosen] = moved.get(position, position)
        if passage.id not in seen:
            seen.add(passage.id)
            yield passage
