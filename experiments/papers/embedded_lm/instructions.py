"""Other wordings of the instructions of trained signatures, so that an LM does not learn one wording by heart."""

import functools
import tomllib
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("instructions.toml")


def wordings_of(signature: Any) -> tuple[str, ...]:
    """Return the other wordings of a signature's instruction, without its own; none if there are none."""
    return _wordings().get(signature.instructions.strip(), ())


@functools.cache
def _wordings() -> dict[str, tuple[str, ...]]:
    entries = tomllib.loads(FILE.read_text("utf-8"))["instruction"]
    return {entry["original"].strip(): tuple(text.strip() for text in entry["wordings"]) for entry in entries}
