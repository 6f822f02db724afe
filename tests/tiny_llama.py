"""A random Llama with two layers and a tokenizer of its own, and examples that it can learn in a second."""

from pathlib import Path

from optimizers.distill.examples import Example, Message

WORDS = "system user assistant read the passages and answer question who what where is red blue green yes no 1 2 : . ?"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_tiny_llama(folder: Path) -> None:
    """Write a Llama with two layers of 32 units and 64 tokens, and its tokenizer."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    special = ["<unk>", "<|im_start|>", "<|im_end|>"]
    vocabulary = {word: number for number, word in enumerate([*special, *WORDS.split()])}
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
