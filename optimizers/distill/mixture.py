"""Mix examples: no repeats, a cap per source, counts or weights per skill, a limit on made data, two splits."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from optimizers.distill.balance import balanced_within
from optimizers.distill.examples import Example, by_skill, shuffled
from optimizers.distill.specs import Mixture
from signatures.common.errors import UserError, unknown

MADE_SOURCE, MADE_LABELS = "world", "made"


class Mixed(NamedTuple):
    """The examples of a mixture, and how many were left out by which step."""

    examples: list[Example]
    dropped: dict[str, int]


def mix(examples: Iterable[Example], mixture: Mixture) -> Mixed:
    """Return the mixture; what is chosen depends on the examples and the seed, not on their order.

    Raises:
        UserError: A skill of the mixture has no example, or none that is to be balanced says what it decides for.
    """
    given = list(examples)
    distinct = without_repeats(given)
    capped = cap_sources(distinct, mixture.cap, seed=mixture.seed)
    named = by_skill(given)
    for skill in {**mixture.counts, **mixture.weights}:
        if skill not in named:
            raise unknown("skill", skill, named)
    groups = by_skill(capped)
    limited = {skill: limit_made(group, mixture.made_share, seed=mixture.seed) for skill, group in groups.items()}
    wanted = _wanted({skill: len(group) for skill, group in limited.items()}, mixture)
    drawn = {
        skill: limit_made(group, mixture.made_share, most=wanted.get(skill), seed=mixture.seed)
        for skill, group in groups.items()
    }
    chosen = {id(example) for group in drawn.values() for example in group}
    taken = [example for example in capped if id(example) in chosen]
    mixed = _balanced(taken, mixture) if mixture.balance else taken
    dropped = {
        "repeats": len(given) - len(distinct),
        "cap_of_source": len(distinct) - len(capped),
        "made_share": len(capped) - sum(map(len, limited.values())),
        "skill": sum(map(len, limited.values())) - len(taken),
        "balance": len(taken) - len(mixed),
    }
    if mixture.validation is None:
        return Mixed(one_split_each(mixed), dropped)
    return Mixed(split_by_question(mixed, mixture.validation, seed=mixture.seed), dropped)


def _balanced(examples: list[Example], mixture: Mixture) -> list[Example]:
    """Return the examples of which neither a verdict nor the generated world has too many."""
    if not any(example.verdict for example in examples):
        raise UserError("No example says what it decides for, so nothing can be balanced: synthesize them again.")

    def limited(even: Sequence[Example]) -> list[Example]:
        groups = [limit_made(group, mixture.made_share, seed=mixture.seed) for group in by_skill(even).values()]
        kept = {id(example) for group in groups for example in group}
        return [example for example in even if id(example) in kept]

    return balanced_within(examples, mixture.seed, limited)


def _wanted(available: Mapping[str, int], mixture: Mixture) -> dict[str, int]:
    if not mixture.weights:
        return {skill: min(mixture.counts.get(skill, count), count) for skill, count in available.items()}
    whole = sum(mixture.weights.values())
    total = min(available.get(skill, 0) * whole / weight for skill, weight in mixture.weights.items())
    total = total if mixture.total is None else min(total, mixture.total)
    # The smallest product may be 2.9999999 where it is 3.
    return {skill: int(total * mixture.weights.get(skill, 0) / whole + 1e-9) for skill in available}


def without_repeats(examples: Iterable[Example]) -> list[Example]:
    """Return the examples in their order, each prompt with its reply once; real data takes precedence over made."""
    best: dict[str, Example] = {}
    for example in examples:
        known = best.setdefault(example.key, example)
        if _precedence(example) < _precedence(known):
            best[example.key] = example
    return list(best.values())


def _precedence(example: Example) -> tuple[bool, str]:
    return is_made(example), example.model_dump_json(exclude={"messages", "completion"})


def cap_sources(examples: Sequence[Example], cap: int | None, *, seed: int = 0) -> list[Example]:
    """Return the examples in their order, of each source a random choice of at most `cap`."""
    if cap is None:
        return list(examples)
    left: Counter[str] = Counter()
    chosen = set()
    for example in shuffled(examples, seed):
        if left[example.source] < cap:
            left[example.source] += 1
            chosen.add(id(example))
    return [example for example in examples if id(example) in chosen]


def is_made(example: Example) -> bool:
    """Return whether an example is of the generated world."""
    return example.source == MADE_SOURCE or example.labels == MADE_LABELS


def limit_made(
    examples: Sequence[Example], share: float = 0.5, *, most: int | None = None, seed: int = 0
) -> list[Example]:
    """Return a random choice of at most `most` examples, of which at most `share` are of the generated world.

    Real examples take the place of made ones where there are enough; else there are fewer examples.
    """
    order = shuffled(examples, seed)
    size = len(order) if most is None else min(most, len(order))
    real = [example for example in order if not is_made(example)]
    made = [example for example in order if is_made(example)]
    first_made = sum(map(is_made, order[:size]))
    allowed = min(first_made, int(share * size + 1e-9))
    while True:
        kept_real = min(len(real), size - allowed)
        if allowed <= share * (kept_real + allowed) + 1e-9:
            break
        allowed = min(allowed - 1, int(share / (1 - share) * kept_real + 1e-9))
    chosen = {id(example) for example in (*real[:kept_real], *made[:allowed])}
    return [example for example in examples if id(example) in chosen]


def split_by_question(examples: Iterable[Example], validation: float, *, seed: int = 0) -> list[Example]:
    """Return the examples with their split, which depends on seed and question id alone.

    All examples of a question are in one split, whatever program, skill or source they are of.

    Args:
        examples: Whatever split they have is replaced.
        validation: Share of the questions that are held out, in [0, 1).
        seed: Chooses them.
    """

    def split(question_id: str) -> str:
        # With a prefix of its own: a limit chooses questions by the hash of seed and id (`corpora.questions.select`),
        # and would else choose those that are held back.
        digest = hashlib.sha256(f"validation:{seed}:{question_id}".encode(errors="replace")).digest()
        return "validation" if int.from_bytes(digest[:8]) < validation * 2**64 else "train"

    return [example.model_copy(update={"split": split(example.question_id)}) for example in examples]


def one_split_each(examples: Sequence[Example]) -> list[Example]:
    """Return the examples with their splits, a question held out in one example held out in all."""
    held = {example.question_id for example in examples if example.split == "validation"}
    return [
        example.model_copy(update={"split": "validation"}) if example.question_id in held else example
        for example in examples
    ]


def counts_of(examples: Sequence[Example]) -> dict[str, Any]:
    """Return how many examples there are by skill, source, split, labels and predictor, and the made share by skill."""
    facets = ("skill", "source", "split", "labels", "program", "predictor")
    counts: dict[str, Any] = {
        f"by_{facet}": dict(sorted(Counter(getattr(example, facet) for example in examples).items()))
        for facet in facets
    }
    shares = {
        skill: round(sum(map(is_made, group)) / len(group), 4) for skill, group in sorted(by_skill(examples).items())
    }
    return {"examples": len(examples), **counts, "made_share_by_skill": shares}
