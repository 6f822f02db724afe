"""Examples as tokens: prompt and reply are tokenized apart, as they meet at inference."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from optimizers.distill.examples import Example
from signatures.common.errors import UserError, one_line


@dataclass(frozen=True)
class Encoded:
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


def encode(examples: Sequence[Example], tokenizer: Any) -> list[Encoded]:
    """Return the examples as tokens, in their order.

    Raises:
        UserError: The chat template refuses a prompt.
    """
    groups: dict[str, int] = {}
    encoded = []
    for example in examples:
        messages = [message.model_dump() for message in example.messages]
        try:
            prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        except Exception as error:  # templates raise errors of their own
            raise UserError(f"The chat template refuses an example of {example.skill!r}: {one_line(error)}.") from error
        first = messages[0]
        group = groups.setdefault(first["content"] if first["role"] == "system" else "", len(groups))
        reply = [*_tokens(tokenizer, example.completion), end_token(tokenizer, messages)]
        encoded.append(Encoded(tuple(_tokens(tokenizer, prompt)), tuple(reply), group, example.skill))
    return encoded


def _tokens(tokenizer: Any, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def end_token(tokenizer: Any, messages: list[dict[str, str]]) -> int:
    """Return the token that ends the assistant's turn: what the chat template writes after a reply."""
    mark = "verihop-reply"
    text = tokenizer.apply_chat_template([*messages[-1:], {"role": "assistant", "content": mark}], tokenize=False)
    tail = _tokens(tokenizer, text.rpartition(mark)[2].strip())
    return int(tail[0] if tail else tokenizer.eos_token_id)
