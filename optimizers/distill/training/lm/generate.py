"""Greedy replies of the LM in training, in batches."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from optimizers.distill.training.data import EncodedExample
from optimizers.distill.training.lm.student import Student

_MOST_TOKENS = 256  # of a reply
_PADDED_TOKENS = 16_384  # prompts of a batch, with their padding


def replies(student: Student, examples: Sequence[EncodedExample]) -> list[str]:
    """Return the greedy reply to the prompt of each example, in their order.

    Args:
        student: The LM.
        examples: Their gold replies are not shown to the LM; a reply ends after twice the tokens of the longest.
    """
    most_tokens = min(_MOST_TOKENS, 2 * max((len(example.reply) for example in examples), default=0) + 8)
    texts = [""] * len(examples)
    with _inference(student):
        for batch in _batches(examples):
            generated = _generate(student, [examples[place].prompt for place in batch], most_tokens)
            for place, text in zip(batch, generated, strict=True):
                texts[place] = text
    return texts


def _batches(examples: Sequence[EncodedExample]) -> Iterator[list[int]]:
    batch: list[int] = []
    for place in sorted(range(len(examples)), key=lambda place: len(examples[place].prompt)):
        if batch and (len(batch) + 1) * len(examples[place].prompt) > _PADDED_TOKENS:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _generate(student: Student, prompts: Sequence[tuple[int, ...]], most_tokens: int) -> list[str]:
    import torch

    tokenizer, end = student.base.tokenizer, student.end_token
    longest = max(len(prompt) for prompt in prompts)
    # On the left, so that all replies begin in the same column.
    tokens = torch.tensor([[end] * (longest - len(prompt)) + list(prompt) for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    made = student.model.generate(
        tokens.to(student.device.name),
        attention_mask=mask.to(student.device.name),
        max_new_tokens=most_tokens,
    )
    return list(tokenizer.batch_decode(made[:, longest:], skip_special_tokens=True))


@contextlib.contextmanager
def _inference(student: Student) -> Iterator[None]:
    """Switch to the attention of transformers, which has a cache, and to no gradients, while the block runs.

    Decoding is plainly greedy, as the LM is served: the settings that the base came with, such as a penalty for
    repetition, would apply to whatever a call leaves open.
    """
    import torch
    from transformers import GenerationConfig

    model: Any = student.model
    own = model.generation_config
    end = student.end_token
    model.generation_config = GenerationConfig(do_sample=False, eos_token_id=end, pad_token_id=end)
    try:
        with torch.no_grad(), student.mixed_precision(), student.ordinary_attention():
            yield
    finally:
        model.generation_config = own
