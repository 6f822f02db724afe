"""The vocabulary of a folder of merged weights, which must be that of the embedded LM."""

import json
from pathlib import Path

from programs.lms.weights.gguf_files import read_metadata
from signatures.common.errors import UserError

LARGEST = 100_000_000  # bytes of a tokenizer.json


def check_vocabulary(folder: Path, template: Path) -> None:
    """Check that a folder's `tokenizer.json` has the tokens of a GGUF file.

    Raises:
        UserError: It is missing or damaged, or has other tokens.
    """
    path = folder / "tokenizer.json"
    if not path.is_file() or path.stat().st_size > LARGEST:
        raise UserError(f"{str(folder)!r} has no tokenizer.json. Save the tokenizer beside the weights.")
    try:
        content = json.loads(path.read_bytes())
        tokens = dict(content["model"]["vocab"])
        tokens.update({token["content"]: token["id"] for token in content.get("added_tokens") or []})
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{str(path)!r} is damaged or no tokenizer of byte pairs. Save or copy it again.") from error
    expected = read_metadata(template, "tokenizer.ggml.tokens")[0]
    if tokens != {token: number for number, token in enumerate(expected)}:
        raise UserError(
            f"{str(path)!r} has other tokens than SmolLM2. Serve the model with vLLM or llama.cpp, and name its URL."
        )
