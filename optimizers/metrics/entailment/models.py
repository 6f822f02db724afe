"""Shared by the oracles of downloaded or local models: loading, identity of weights, and cutting premises."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from corpora.retrievers.embedder import Embedder
from optimizers.metrics.entailment.oracle import Pair
from signatures.common.errors import UserError


def load(kind: str, model: str, open_model: Callable[[bool], Any]) -> Any:
    """Return `open_model(local)`, where `local` is whether `model` is a folder, which needs no network.

    Raises:
        UserError: The model cannot be loaded.
    """
    try:
        return open_model(Path(model).is_dir())
    except (OSError, ValueError, KeyError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(
            f"The {kind} {model!r} cannot be loaded ({reason}): give a local model folder or the name of a model on "
            "the hub."
        ) from error


def weights_id(model: str, loaded: Any) -> str:
    """Return an id of a model's weights: a hash of its folder's files, or the hub's revision.

    Args:
        model: Folder or name.
        loaded: The transformers model; its weights are hashed if there is neither folder nor revision.
    """
    if Path(model).is_dir():
        return Embedder(model).weights_hash[:16]
    revision = getattr(loaded.config, "_commit_hash", None)
    if revision:
        return str(revision)[:16]
    digest = hashlib.sha256()
    for name, tensor in sorted(loaded.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().float().numpy().tobytes())
    return digest.hexdigest()[:16]


def cut_to_fit(tokenizer: Any, pairs: Sequence[Pair], limit: int) -> tuple[list[Pair], int]:
    """Return the pairs with premises cut at the end so that a pair has at most `limit` tokens, and how many were cut.

    Hypotheses are never cut; if one takes all tokens, its premise becomes empty.

    Args:
        tokenizer: A transformers tokenizer.
        pairs: (premise, hypothesis).
        limit: Tokens of both sides, without special tokens.
    """
    kept: list[Pair] = []
    cut = 0
    for premise, hypothesis in pairs:
        available = max(0, limit - len(_ids(tokenizer, hypothesis)))
        ids = _ids(tokenizer, premise)
        if len(ids) > available:
            cut += 1
            premise = tokenizer.decode(ids[:available], skip_special_tokens=True)
            while premise and len(_ids(tokenizer, premise)) > available:  # decoded text may have more tokens
                premise = premise.rpartition(" ")[0]
        kept.append((premise, hypothesis))
    return kept, cut


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
    return ids
