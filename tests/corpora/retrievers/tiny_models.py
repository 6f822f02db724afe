"""Tiny random models and tokenizers, made on the spot."""

from pathlib import Path

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "sky", "is", "blue", "a", "yes", "no", "query", "doc", ":"]
WORDS += ["[MASK]", "[unused0]", "[unused1]", "."]
SIZES = {
    "vocab_size": len(WORDS), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 32, "max_position_embeddings": 32, "initializer_range": 1.0,
}  # fmt: skip


def save(model, folder: Path, *, pair: bool = True, pad: bool = True) -> str:
    """Save a model of transformers with a tokenizer of whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if pair:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    named = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=32, **named, **({"pad_token": "[PAD]"} if pad else {})
    ).save_pretrained(folder)
    return str(folder)


def bert(folder: Path, head: str = "ForSequenceClassification", *, outputs: int = 1, seed: int = 1) -> str:
    """Save a BERT with a head, or without one."""
    import torch
    import transformers

    torch.manual_seed(seed)
    config = transformers.BertConfig(**SIZES, num_labels=outputs)
    return save(getattr(transformers, f"Bert{head}")(config), folder)
