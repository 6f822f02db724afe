"""The gold of a question as a hash, so that scores by other gold answers are not taken for those of the present."""

import json
from typing import Any

import dspy

from signatures.common.files import sha256_text

_NOT_GOLD = {"id", "question", "split"}


def gold_sha256(example: dspy.Example) -> str:
    """Return the SHA-256 of all that a metric may read of an example (`optimizers.examples.to_examples`)."""
    fields: dict[str, Any] = {name: value for name, value in example.toDict().items() if name not in _NOT_GOLD}
    return sha256_text(json.dumps(fields, sort_keys=True, ensure_ascii=False, default=str))
