"""A random Llama with two layers and a tokenizer of its own, and examples that it can learn in a second."""

from pathlib import Path
from typing import Any

from optimizers.distill.examples import Example, Message

WORDS = "system user assistant read the passages and answer question who what where is red blue green yes no 1 2 : . ?"
SPECIAL = ["<unk>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_tiny_llama(folder: Path, *, characters: bool = False) -> None:
    """Write a Llama with two layers of 32 units, and its tokenizer: some words, or all bytes."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_bytes() if characters else _words(),
        unk_token="<unk>",
        eos_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"],
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=320 if characters else 64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        initializer_range=0.3,
        eos_token_id=2,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def write_servable_llama(folder: Path, *, positions: int = 2048) -> None:
    """Write a random Llama with one layer of 64 units and the vocabulary of the embedded LM, which is served."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from optimizers.distill.training.lm.base_model import embedded_tokenizer

    tokenizer = embedded_tokenizer()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 32, "num_attention_heads": 1, "num_hidden_layers": 1}
    config = LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=positions, eos_token_id=2, **sizes)
    LlamaForCausalLM(config).save_pretrained(folder)


def _words() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *WORDS.split()])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    return tokenizer


def _bytes() -> Any:
    from tokenizers import Tokenizer, decoders
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel

    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *sorted(ByteLevel.alphabet())])}
    tokenizer = Tokenizer(BPE(vocabulary, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def make_example(number: int, skill: str = "reading", split: str = "train") -> Example:
    """Return an example whose answer is the colour of its first passage, or whether its number is odd."""
    colours = ("red", "blue", "green")
    colour = colours[number % 3]
    system = "read the passages and answer the question ." if skill == "reading" else "answer the question yes or no ."
    user = f"1 : {colour} {'passages ' * (number % 5)} . 2 : who is {colours[number // 3 % 3]} ? what is 1 ?"
    return Example(
        messages=(Message(role="system", content=system), Message(role="user", content=user)),
        completion=f"{colour} ." if skill == "reading" else "yes" if number % 2 else "no",
        program="rag",
        predictor="reader",
        skill=skill,
        question_id=f"q{number}",
        source="made",
        licence="CC0-1.0",
        labels="made",
        split=split,
    )


def make_examples() -> list[Example]:
    """Return 18 examples of two skills, and 6 for validation."""
    train = [make_example(number, "reading" if number % 3 else "yes_no") for number in range(18)]
    held_back = range(20, 26)
    return train + [make_example(number, "reading" if number % 2 else "yes_no", "validation") for number in held_back]
