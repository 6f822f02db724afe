"""Training examples: each is one rendered prompt and the reply of one predictor, with its provenance.

What is trained is what is asked: `messages` are exactly what the adapter sends for the predictor, and `completion` is
the text that it parses.
"""

import codecs
import hashlib
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import ujson
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator

from signatures.common.errors import UserError, first_problem
from signatures.common.files import atomic_write

Split = Literal["train", "validation"]
Verdict = Literal["", "yes", "no", "first", "second"]


class Message(BaseModel):
    """One turn of a prompt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Literal["system", "user", "assistant"]
    content: str


class Example(BaseModel):
    """One training example.

    Args:
        messages: The prompt, in order; the last is the user's.
        completion: The reply to learn; the loss is computed on it alone.
        program: Name of the program in the catalog.
        predictor: Name of the predictor in that program, such as "grounding".
        skill: What it teaches, such as "reading" or "grounding"; mixtures are given by skill.
        question_id: Id of the question in its source.
        source: Name of the data set, as `verihop data list` names it, or "world".
        licence: Licence of the source's data.
        labels: Where the reply comes from: "gold", "made" (generated world) or "teacher:NAME".
        split: Whether it is trained on, or held back to measure the loss.
        verdict: Which of two the reply decides for: yes or no, or the first or second choice of its question; "" for
            neither.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    messages: tuple[Message, ...]
    completion: str
    program: str
    predictor: str
    skill: str
    question_id: str
    source: str
    licence: str
    labels: str
    split: Split = "train"
    verdict: Verdict = ""

    @model_validator(mode="after")
    def _asks_and_answers(self) -> Self:
        if not self.messages or self.messages[-1].role != "user":
            raise ValueError("the last of the messages must be the user's")
        if not self.messages[-1].content.strip() or not self.completion.strip():
            raise ValueError("the last message and the completion must not be empty")
        return self

    @property
    def key(self) -> str:
        """Return a hash of prompt and reply; equal examples have equal keys."""
        text = ujson.dumps([[message.role, message.content] for message in self.messages] + [self.completion])
        return hashlib.sha256(text.encode()).hexdigest()


_EXAMPLE = TypeAdapter(Example)


def read_examples(path: Path | str) -> list[Example]:
    """Return the examples of a JSONL file in its order.

    Raises:
        UserError: The file is missing or empty, or a line is invalid.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"No file {str(path)!r}. Write one with `verihop distill synthesize`.")
    examples: list[Example] = []
    with open(path, "rb") as file:  # a line that is not UTF-8 is an error of that line
        for number, line in enumerate(file, 1):
            line = line.removeprefix(codecs.BOM_UTF8)  # editors write it, and joined files have several
            if not line.strip():
                continue
            try:
                examples.append(_EXAMPLE.validate_json(line))
            except ValidationError as error:
                raise UserError(f"{path}, line {number}: not a training example ({first_problem(error)}).") from error
    if not examples:
        raise UserError(f"{str(path)!r} has no examples.")
    return examples


def write_examples(path: Path | str, examples: Iterable[Example]) -> str:
    """Write the examples as JSONL and return the SHA-256 of the file."""
    text = "".join(line_of(example) for example in examples)
    with atomic_write(path) as file:
        file.write(text)
    return hashlib.sha256(text.encode()).hexdigest()


def line_of(example: Example) -> str:
    """Return the line of an example in a file, with its line break."""
    return ujson.dumps(example.model_dump(), ensure_ascii=False, escape_forward_slashes=False) + "\n"


def make_example(
    adapter: Any,
    signature: Any,
    inputs: dict[str, Any],
    outputs: dict[str, Any],
    *,
    demos: Sequence[Any] = (),
    **about: str,
) -> Example:
    """Render one example as `adapter` would ask it and expect it to be answered.

    Args:
        adapter: Of the LM to train (`Connection.adapter`).
        signature: Of the predictor, with the instructions that it will have at inference.
        inputs: Values of all input fields.
        outputs: Values of all output fields.
        demos: Demonstrations that the predictor will have at inference.
        about: The other fields of `Example`.
    """
    messages = [Message(**message) for message in adapter.format(signature, list(demos), inputs)]
    completion = adapter.format_assistant_message_content(signature, outputs)
    return Example(messages=tuple(messages), completion=completion, **about)


def by_skill(examples: Sequence[Example]) -> dict[str, list[Example]]:
    """Return the examples of each skill, in their order."""
    groups: dict[str, list[Example]] = {}
    for example in examples:
        groups.setdefault(example.skill, []).append(example)
    return groups


def shuffled(examples: Sequence[Example], seed: int) -> list[Example]:
    """Return the examples in a random order that depends on seed and contents alone."""
    ordered = sorted(examples, key=lambda example: example.key)
    random.Random(seed).shuffle(ordered)
    return ordered
