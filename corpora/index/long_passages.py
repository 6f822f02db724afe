"""A notice of passages that are documents: an index of them finds little, and no LM can read them."""

import warnings

import numpy as np

from corpora.retrievers.store import PassageStore
from signatures.common.errors import UserNotice

# Bytes of a passage with id and title: about 1,600 English words or 3,300 Chinese characters, at least four times the
# 512 tokens that most embedders read; five such passages exceed a context of 8,192 tokens. Of 13,938 paragraphs of
# HotpotQA, 2WikiMultihopQA, MuSiQue and StrategyQA the longest has 8,306.
LONG = 10_000


def note_long_passages(store: PassageStore, first: int = 0) -> None:
    """Warn with a `UserNotice` if passages are longer than `LONG`; it names the longest, and what to do.

    Args:
        store: The passages.
        first: Row of the first passage that counts.
    """
    sizes = store.sizes()[first:]
    count = int((sizes > LONG).sum())
    if not count:
        return
    row = int(sizes.argmax())
    (longest,) = store.passages(np.array([first + row]), np.zeros(1))
    name = longest.id if len(longest.id) <= 60 else f"{longest.id[:60]}..."
    warnings.warn(
        UserNotice(
            f"{count:,} of {len(sizes):,} passages are longer than {LONG:,} bytes (about 1,600 words); the longest, "
            f"{name!r}, has {_size(int(sizes[row]))}. An embedder reads only the first few hundred words of a passage, "
            "and a few such passages overflow the context of an LM: cut documents into passages of about 100 words."
        ),
        stacklevel=2,
    )


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.0f} kB"
