"""The examples of a run: read, encoded, split, and hashed."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optimizers.distill.examples import Example, read_examples
from optimizers.distill.training.encoding import Encoded, encode
from optimizers.distill.training.settings import TrainingSettings
from signatures.common.errors import UserError, unknown
from signatures.common.files import sha256_file

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

    train: list[Encoded]
    train_examples: list[Example]
    validation: list[Encoded]
    validation_examples: list[Example]
    sha256: str
    left_out: dict[str, int] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)

    def first(self, per_skill: int) -> list[Encoded]:
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
