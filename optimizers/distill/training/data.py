"""The examples of a run, read, encoded, split and hashed, and the rows of tokens that are computed at once.

In a packed row, examples share the tokens that their prompts begin with: every example is a segment that sees itself
and its group's prefix, and nothing else; its positions continue the prefix. So the loss of a packed row equals that
of its examples computed one by one.
"""

import functools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optimizers.distill.examples import Example, read_examples
from optimizers.distill.training.settings import TrainingSettings
from signatures.common.errors import UserError, one_line, unknown
from signatures.common.files import sha256_file


@dataclass(frozen=True)
class EncodedExample:
    """The tokens of an example.

    Args:
        prompt: Of the prompt in the chat template, up to where the reply begins.
        reply: Of the reply and the token that ends it; the loss is computed on these.
        group: Number of its predictor's instructions; examples of a group begin with the same tokens.
        skill: What the example teaches.
    """

    prompt: tuple[int, ...]
    reply: tuple[int, ...]
    group: int
    skill: str

    def __len__(self) -> int:
        return len(self.prompt) + len(self.reply)


def encode(examples: Sequence[Example], tokenizer: Any) -> list[EncodedExample]:
    """Return the examples as tokens, in their order.

    Raises:
        UserError: The chat template refuses a prompt.
    """
    groups: dict[str, int] = {}
    numbers, prompts, ends = [], [], []
    for example in examples:
        messages = [message.model_dump() for message in example.messages]
        try:
            prompts.append(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
            ends.append(end_token(tokenizer, messages))
        except Exception as error:  # templates raise errors of their own
            raise UserError(f"The chat template refuses an example of {example.skill!r}: {one_line(error)}.") from error
        first = messages[0]
        numbers.append(groups.setdefault(first["content"] if first["role"] == "system" else "", len(groups)))
    replies = _tokens(tokenizer, [example.completion for example in examples])
    return [
        EncodedExample(tuple(prompt), (*reply, end), number, example.skill)
        for example, prompt, reply, end, number in zip(
            examples, _tokens(tokenizer, prompts), replies, ends, numbers, strict=True
        )
    ]


def _tokens(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    return tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []


def end_token(tokenizer: Any, messages: list[dict[str, str]]) -> int:
    """Return the token that ends the assistant's turn: what the chat template writes after a reply."""
    mark = "verihop-reply"
    text = tokenizer.apply_chat_template([*messages[-1:], {"role": "assistant", "content": mark}], tokenize=False)
    return _end(tokenizer, text.rpartition(mark)[2].strip())


@functools.lru_cache(maxsize=64)  # one tail for all examples
def _end(tokenizer: Any, tail: str) -> int:
    (tokens,) = _tokens(tokenizer, [tail])
    return int(tokens[0] if tokens else tokenizer.eos_token_id)


EXAMPLES = "examples.jsonl"


@dataclass(frozen=True)
class TrainingData:
    """Examples for training and validation.

    Args:
        train: As tokens.
        train_examples: Their texts, in the same order.
        validation: As tokens; no loss is learnt from them.
        validation_examples: Their texts, in the same order.
        sha256: Of the file.
        left_out: How many are longer than the settings allow, by skill.
        sources: How many training examples are of each data set, with its licence.
    """

    train: list[EncodedExample]
    train_examples: list[Example]
    validation: list[EncodedExample]
    validation_examples: list[Example]
    sha256: str
    left_out: dict[str, int] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)

    def first(self, per_skill: int) -> list[EncodedExample]:
        """Return the first validation examples of each skill, at most `per_skill`."""
        counts: Counter[str] = Counter()
        chosen = []
        for example in self.validation:
            counts[example.skill] += 1
            if counts[example.skill] <= per_skill:
                chosen.append(example)
        return chosen

    def counts(self) -> dict[str, int]:
        """Return how many training examples each skill has."""
        return dict(sorted(Counter(example.skill for example in self.train).items()))


@dataclass(frozen=True)
class ExampleFile:
    """The examples of a run as they were read, which needs no LM.

    Args:
        path: Their file.
        examples: All of them, in the order of the file.
    """

    path: Path
    examples: list[Example]

    @property
    def held_back(self) -> list[Example]:
        """Those for validation, in their order."""
        return [example for example in self.examples if example.split == "validation"]


def open_examples(folder: Path | str, settings: TrainingSettings) -> ExampleFile:
    """Return the examples of a folder, or of a file, before the LM to train is loaded.

    Raises:
        UserError: The file is missing or invalid, or a weight is for an unknown skill.
    """
    path = Path(folder)
    path = path / EXAMPLES if path.is_dir() else path
    examples = read_examples(path)
    if strange := settings.weights.keys() - {example.skill for example in examples}:
        raise unknown("skill", min(strange), {example.skill for example in examples})
    return ExampleFile(path, examples)


def read_data(folder: Path | str, tokenizer: Any, settings: TrainingSettings) -> TrainingData:
    """Return the examples of a folder, or of a file, as tokens.

    Raises:
        UserError: The file is missing or invalid, no example can be trained on, or a weight is for an unknown skill.
    """
    return encode_examples(open_examples(folder, settings), tokenizer, settings)


def encode_examples(opened: ExampleFile, tokenizer: Any, settings: TrainingSettings) -> TrainingData:
    """Return examples that were read as tokens.

    Raises:
        UserError: No example can be trained on.
    """
    path, examples = opened.path, opened.examples
    encoded = list(zip(examples, encode(examples, tokenizer), strict=True))
    kept = [(example, tokens) for example, tokens in encoded if len(tokens) <= settings.max_tokens]
    left_out = Counter(example.skill for example, tokens in encoded if len(tokens) > settings.max_tokens)
    used = [
        (example, tokens)
        for example, tokens in kept
        if example.split == "train" and settings.weights.get(example.skill, 1.0)
    ]
    if not used:
        raise UserError(
            f"No example of {str(path)!r} can be trained on: {sum(left_out.values())} of {len(examples)} are longer "
            f"than {settings.max_tokens} tokens, the others are for validation or have the weight 0."
        )
    held_back = [(example, tokens) for example, tokens in kept if example.split == "validation"]
    return TrainingData(
        train=[tokens for _, tokens in used],
        train_examples=[example for example, _ in used],
        validation=[tokens for _, tokens in held_back],
        validation_examples=[example for example, _ in held_back],
        sha256=sha256_file(path),
        left_out=dict(sorted(left_out.items())),
        sources=dict(sorted(Counter(f"{example.source} ({example.licence})" for example, _ in used).items())),
    )


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


def pack(examples: Sequence[EncodedExample], row_tokens: int, weights: Sequence[float]) -> list[Row]:
    """Return packed rows of a batch.

    Args:
        examples: Of one batch.
        row_tokens: Most tokens of a row; an example that is longer gets its own row.
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


def _fitting(examples: Sequence[EncodedExample], order: Sequence[int], room: int) -> tuple[list[int], int]:
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
    row: Row, examples: Sequence[EncodedExample], members: Sequence[int], shared: int, weights: Sequence[float]
) -> None:
    prefix = row.add(examples[members[0]].prompt[:shared]) if shared else None
    for member in members:
        example = examples[member]
        start = len(row.tokens) + len(example.prompt) - shared - 1  # the last token of the prompt
        # The token that ends the reply predicts nothing.
        row.add((*example.prompt, *example.reply)[shared:-1], prefix)
        row.targets += [(start + n, token, weights[member], member) for n, token in enumerate(example.reply)]


def single_rows(examples: Sequence[EncodedExample], weights: Sequence[float]) -> list[Row]:
    """Return one row per example, shortest first."""
    rows = []
    for member in sorted(range(len(examples)), key=lambda place: len(examples[place])):
        rows.append(Row())
        _append(rows[-1], examples, [member], 0, weights)
    return rows


def token_weights(examples: Sequence[EncodedExample], loss: str) -> list[float]:
    """Return the weight of a reply token of each example; the sum over all reply tokens of the batch is 1."""
    if loss == "examples":
        return [1 / (len(examples) * len(example.reply)) for example in examples]
    return [1 / sum(len(example.reply) for example in examples)] * len(examples)


def _extra(examples: int, weight: float) -> int:
    """Return how many examples of a skill are used once more than the whole part of its weight says."""
    part = weight % 1
    return max(round(part * examples), 1) if part else 0


def epoch_size(examples: Sequence[EncodedExample], weights: Mapping[str, float]) -> int:
    """Return how many examples all `batches` of an epoch have; every epoch has as many."""
    of_skills = Counter(example.skill for example in examples)
    sizes = ((count, weights.get(skill, 1.0)) for skill, count in of_skills.items())
    return sum(int(weight) * count + _extra(count, weight) for count, weight in sizes)


def _times(examples: Sequence[EncodedExample], weights: Mapping[str, float], chance: random.Random) -> list[int]:
    """Return how often each example is used in an epoch; chance decides which of a skill are used once more."""
    drawn: dict[str, list[tuple[float, int]]] = {}
    for place, example in enumerate(examples):
        drawn.setdefault(example.skill, []).append((chance.random(), place))
    times = [int(weights.get(example.skill, 1.0)) for example in examples]
    for skill, places in drawn.items():
        for _, place in sorted(places)[: _extra(len(places), weights.get(skill, 1.0))]:
            times[place] += 1
    return times


def batches(
    examples: Sequence[EncodedExample], batch_size: int, weights: Mapping[str, float], seed: int, epoch: int
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
