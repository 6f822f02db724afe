"""The vocabulary of a folder of merged weights or of a GGUF file, which must be that of the embedded LM."""

import json
from collections.abc import Mapping
from pathlib import Path

from programs.lms.weights.gguf_files import read_metadata
from signatures.common.errors import UserError

_TOKENS = "tokenizer.ggml.tokens"
LARGEST = 100_000_000  # bytes of a tokenizer.json


def check_vocabulary(path: Path, size: int, template: Path) -> None:
    """Check that a model has the tokens of the embedded LM.

    Args:
        path: A folder with `tokenizer.json`, or a GGUF file.
        size: Tokens that the model's embeddings are for.
        template: The GGUF file of the embedded LM.

    Raises:
        UserError: The tokenizer is missing or damaged, or has other tokens; or the embeddings are for more or fewer.
    """
    if path.is_dir():
        tokens = _folder_tokens(path)
    else:
        tokens = {token: number for number, token in enumerate(read_metadata(path, _TOKENS)[0] or [])}
    check_tokens(tokens, size, template, str(path))


def check_tokens(tokens: Mapping[str, int], size: int, template: Path, where: str) -> None:
    """Check that a model has the tokens of the embedded LM.

    Args:
        tokens: Their numbers.
        size: Tokens that the model's embeddings are for.
        template: The GGUF file of the embedded LM.
        where: Name of the model in messages.

    Raises:
        UserError: The tokens are others, or the embeddings are for more or fewer.
    """
    expected = read_metadata(template, _TOKENS)[0]
    if tokens != {token: number for number, token in enumerate(expected)}:
        raise UserError(
            f"{where!r} has other tokens than SmolLM2. Serve the model with vLLM or llama.cpp, and name its URL."
        )
    if size != len(expected):
        raise UserError(
            f"{where!r} has {size:,} tokens, SmolLM2 has {len(expected):,}. Resize its embeddings to the "
            "tokenizer's vocabulary."
        )


def _folder_tokens(folder: Path) -> dict[str, int]:
    path = folder / "tokenizer.json"
    if not path.is_file() or path.stat().st_size > LARGEST:
        raise UserError(f"{str(folder)!r} has no tokenizer.json. Save the tokenizer beside the weights.")
    try:
        content = json.loads(path.read_bytes())
        tokens = dict(content["model"]["vocab"])
        tokens.update({token["content"]: token["id"] for token in content.get("added_tokens") or []})
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{str(path)!r} is damaged or no tokenizer of byte pairs. Save or copy it again.") from error
    return tokens
