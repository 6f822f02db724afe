"""A tiny random Llama with a tokenizer of its own, and examples for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from optimizers.distill.examples import Example, Message, write_examples
from optimizers.distill.training.base_model import BaseModel, load_base

pytest.importorskip("peft", reason="the extra [train] is not installed")

WORDS = "system user assistant read the passages and answer question who what where is red blue green yes no 1 2 : . ?"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a Llama with two layers of 32 units and 64 tokens."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("tiny")
    vocabulary = {
        "<unk>": 0,
        "<|im_start|>": 1,
        "<|im_end|>": 2,
        **{word: n for n, word in enumerate(WORDS.split(), 3)},
    }
    core = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="<unk>", eos_token="<|im_end|>", additional_special_tokens=["<|im_start|>"]
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,
        eos_token_id=2,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture
def base(tiny: Path) -> BaseModel:
    return load_base(str(tiny))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Compute on one thread: sums in a fixed order make equal runs equal to the last bit."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def example(number: int, skill: str = "reading", split: str = "train") -> Example:
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


@pytest.fixture
def examples() -> list[Example]:
    """Return 18 examples of two skills, and 6 for validation."""
    train = [example(number, "reading" if number % 3 else "yes_no") for number in range(18)]
    return train + [example(number, "reading" if number % 2 else "yes_no", "validation") for number in range(20, 26)]


@pytest.fixture
def folder(tmp_path: Path, examples: list[Example]) -> Path:
    """Return a folder with the examples."""
    write_examples(tmp_path / "data" / "examples.jsonl", examples)
    return tmp_path / "data"
