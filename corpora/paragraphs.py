"""Benchmark paragraphs as passages: stable ids, and sentences joined into the original text."""

import functools
import hashlib
import re
from collections.abc import Sequence

from corpora.passages import PassageRecord

_SLUG_LENGTH = 40
_DIGEST_LENGTH = 12  # 48 bits; two passages collide only if the slugs of their titles are equal as well


def passage_id(title: str, text: str) -> str:
    """Return `<slug of the title>-<digest of title and text>`, the same in every file that contains the passage.

    White space is ignored: benchmarks join the same sentences with or without spaces, and equal paragraphs must have
    one id in a pooled corpus.
    """
    single, slug = _of_title(title)
    content = f"{single}\0{''.join(text.split())}"
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{slug or 'untitled'}-{digest}"


@functools.lru_cache(maxsize=64)  # passages of a document have one title
def _of_title(title: str) -> tuple[str, str]:
    """Return a title without white space, and its slug."""
    return "".join(title.split()), re.sub(r"[\W_]+", "-", title.lower())[:_SLUG_LENGTH].strip("-")


def join_sentences(sentences: Sequence[str]) -> str:
    """Return the paragraph that was split into these sentences.

    HotpotQA's sentences start with their space and are concatenated; 2WikiMultihopQA's have none and are joined by
    spaces.
    """
    spaced = any(sentence[:1].isspace() for sentence in sentences[1:]) or any(
        sentence[-1:].isspace() for sentence in sentences[:-1]
    )
    return ("" if spaced else " ").join(sentences)


def paragraph(title: str, text: str | Sequence[str]) -> PassageRecord:
    """Return a benchmark's paragraph as a passage; a list of sentences is kept along with the joined text."""
    if isinstance(text, str):
        return PassageRecord(id=passage_id(title, text), title=title, text=text)
    joined = join_sentences(text)
    return PassageRecord(id=passage_id(title, joined), title=title, text=joined, sentences=list(text))
