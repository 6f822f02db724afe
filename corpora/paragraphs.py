"""Paragraphs become passages: stable ids, and sentences joined back into the text they were cut from."""

import hashlib
import re
from collections.abc import Sequence

from corpora.passages import PassageRecord

_SLUG_LENGTH = 40
_DIGEST_LENGTH = 12  # 48 bits, and two passages collide only when their titles do as well


def passage_id(title: str, text: str) -> str:
    """Return `<slug of the title>-<digest of title and text>`, the same in every file that holds the passage.

    White space does not count: benchmarks join the same sentences with or without blanks, and their paragraphs
    must meet in one pooled corpus.
    """
    content = "\0".join("".join(part.split()) for part in (title, text))
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    slug = re.sub(r"[\W_]+", "-", title.lower())[:_SLUG_LENGTH].strip("-")
    return f"{slug or 'untitled'}-{digest}"


def join_sentences(sentences: Sequence[str]) -> str:
    """Return the paragraph the sentences were cut from.

    HotpotQA's sentences carry their leading blank and are only put together; 2WikiMultihopQA's are bare and get one
    blank between them.
    """
    carried = any(sentence[:1].isspace() for sentence in sentences[1:]) or any(
        sentence[-1:].isspace() for sentence in sentences[:-1]
    )
    return ("" if carried else " ").join(sentences)


def paragraph(title: str, text: str | Sequence[str]) -> PassageRecord:
    """Return a benchmark's paragraph as a passage; a list of sentences is kept beside the joined text."""
    if isinstance(text, str):
        return PassageRecord(id=passage_id(title, text), title=title, text=text)
    joined = join_sentences(text)
    return PassageRecord(id=passage_id(title, joined), title=title, text=joined, sentences=list(text))
