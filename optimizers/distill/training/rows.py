"""Rows: the tokens that are computed at once. Packed examples share the tokens that their prompts begin with.

In a packed row, every example is a segment that sees itself and its group's prefix, and nothing else; its positions
go on from the prefix. So the loss of a packed row equals that of its examples computed one by one.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from optimizers.distill.training.encoding import Encoded

_SHORTEST_PREFIX = 8  # tokens; below, sharing saves nothing
_TOGETHER = 4  # examples of one predictor that stay together, so that they can share their prefix


@dataclass
class Row:
    """Tokens of one or more examples in a line.

    Args:
        tokens: All tokens.
        positions: Of each token in its example.
        lengths: Tokens of each segment.
        prefixes: For each segment the number of the segment that it continues; None for one that stands alone.
        targets: Places whose hidden state predicts a reply token, with that token, its weight and its example's number.
    """

    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    prefixes: list[int | None] = field(default_factory=list)
    targets: list[tuple[int, int, float, int]] = field(default_factory=list)

    def add(self, tokens: Sequence[int], prefix: int | None = None) -> int:
        """Append a segment and return its number."""
        start = 0 if prefix is None else self.lengths[prefix]
        self.tokens.extend(tokens)
        self.positions.extend(range(start, start + len(tokens)))
        self.lengths.append(len(tokens))
        self.prefixes.append(prefix)
        return len(self.lengths) - 1


def pack(examples: Sequence[Encoded], row_tokens: int, weights: Sequence[float]) -> list[Row]:
    """Return packed rows of a batch.

    Args:
        examples: Of one batch.
        row_tokens: Most tokens of a row; an example that is longer gets a row of its own.
        weights: Of each reply token of each example, in the loss.
    """
    rows: list[Row] = []
    order = sorted(range(len(examples)), key=lambda place: (examples[place].group, len(examples[place])))
    place = 0
    while place < len(order):
        if not rows or len(rows[-1].tokens) >= row_tokens:
            rows.append(Row())
        members, shared = _fitting(examples, order[place:], row_tokens - len(rows[-1].tokens))
        if not members and rows[-1].tokens:
            rows.append(Row())
            continue
        _append(rows[-1], examples, members or order[place : place + 1], shared, weights)
        place += max(len(members), 1)
    return rows


def _fitting(examples: Sequence[Encoded], order: Sequence[int], room: int) -> tuple[list[int], int]:
    """Return the first places of `order` of one group that fit into `room` tokens, and the tokens that they share."""
    members: list[int] = []
    shared = 0
    for place in order:
        example = examples[place]
        if members and example.group != examples[members[0]].group:
            break
        both = common(examples[members[0]].prompt, example.prompt, shared) if members else len(example.prompt)
        several = [*members, place]
        length = sum(len(examples[member]) for member in several)
        if len(several) > 1 and both >= _SHORTEST_PREFIX:
            length -= both * (len(several) - 1)
        if length > room:
            break
        members, shared = several, both
    return members, shared if len(members) > 1 and shared >= _SHORTEST_PREFIX else 0


def common(one: Sequence[int], other: Sequence[int], most: int) -> int:
    """Return how many leading tokens two prompts share, at most `most` and less than either."""
    most = min(most, len(one) - 1, len(other) - 1)
    return next((place for place in range(most) if one[place] != other[place]), most)


def _append(
    row: Row, examples: Sequence[Encoded], members: Sequence[int], shared: int, weights: Sequence[float]
) -> None:
    prefix = row.add(examples[members[0]].prompt[:shared]) if shared else None
    for member in members:
        example = examples[member]
        start = len(row.tokens) + len(example.prompt) - shared - 1  # the last token of the prompt
        # The token that ends the reply predicts nothing.
        row.add((*example.prompt, *example.reply)[shared:-1], prefix)
        row.targets += [(start + n, token, weights[member], member) for n, token in enumerate(example.reply)]


def single_rows(examples: Sequence[Encoded], weights: Sequence[float]) -> list[Row]:
    """Return one row per example, shortest first."""
    rows = []
    for member in sorted(range(len(examples)), key=lambda place: len(examples[place])):
        rows.append(Row())
        _append(rows[-1], examples, [member], 0, weights)
    return rows


def token_weights(examples: Sequence[Encoded], loss: str) -> list[float]:
    """Return the weight of a reply token of each example; the sum over all reply tokens of the batch is 1."""
    if loss == "examples":
        return [1 / (len(examples) * len(example.reply)) for example in examples]
    return [1 / sum(len(example.reply) for example in examples)] * len(examples)


def _times(examples: Sequence[Encoded], weights: dict[str, float], chance: random.Random) -> Iterator[int]:
    """Yield how often each example is used in an epoch."""
    for example in examples:
        weight = weights.get(example.skill, 1.0)
        yield int(weight) + (chance.random() < weight - int(weight))


def epoch_size(examples: Sequence[Encoded], weights: dict[str, float], seed: int, epoch: int) -> int:
    """Return how many examples all `batches` of an epoch have, without making them."""
    return sum(_times(examples, weights, random.Random(f"{seed}/{epoch}")))


def batches(
    examples: Sequence[Encoded], batch_size: int, weights: dict[str, float], seed: int, epoch: int
) -> list[list[int]]:
    """Return the batches of an epoch as places in `examples`: shuffled, the same for the same arguments.

    A few examples of one predictor stay together, which lets them share their prefix; batches mix predictors.
    """
    chance = random.Random(f"{seed}/{epoch}")
    groups: dict[int, list[int]] = {}
    for place, times in enumerate(_times(examples, weights, chance)):
        groups.setdefault(examples[place].group, []).extend([place] * times)
    chunks = []
    for group in sorted(groups):
        members = groups[group]
        chance.shuffle(members)
        together = min(_TOGETHER, max(batch_size // 2, 1))
        chunks += [members[start : start + together] for start in range(0, len(members), together)]
    chance.shuffle(chunks)
    places = [place for chunk in chunks for place in chunk]
    return [places[start : start + batch_size] for start in range(0, len(places), batch_size)]
