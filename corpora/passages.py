"""`passages.jsonl`: the corpus, one passage per line, `{"id", "title", "text", "sentences"?}` and any other keys."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from corpora.compressed import read_chunks
from corpora.jsonl import bad_line, read_objects, read_records, write_records
from signatures.common.errors import UserError
from signatures.types import Passage

_RULE = 'Every line needs "id" (a unique string) and "text"; "title" and "sentences" are optional.'


SECTION_DIVIDER = " > "  # in titles of passages: "document > heading"


def document_title(title: str) -> str:
    """Return the title of the document from that of one of its passages, which may name a heading as well."""
    return title.split(SECTION_DIVIDER, 1)[0]


def not_blank(text: str) -> str:
    """Return `text`; raise ValueError if it is blank."""
    if not text.strip():
        raise ValueError("is empty")
    return text


NotBlank = Annotated[str, AfterValidator(not_blank)]


class PassageRecord(Passage):
    """A passage in a file, with its sentences, if available, and any other keys.

    Args:
        id: Unique in its file, not blank.
        sentences: The sentences of `text`, verbatim and in order; gold sentence numbers count them from 0. None
            if the text is not split.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    id: NotBlank
    sentences: list[str] | None = Field(default=None)

    @model_validator(mode="after")
    def _not_empty(self) -> "PassageRecord":
        if not (self.title.strip() or self.text.strip()):
            raise ValueError("'title' and 'text' are both empty")
        return self


def read_passages(path: Path | str) -> Iterator[PassageRecord]:
    """Yield the passages of a file in its order; memory use is one passage, and a hash per id.

    Args:
        path: JSONL, plain or compressed (`.gz`, `.bz2`, `.zst`).

    Raises:
        UserError: An invalid line, two passages with one id, or no passage. The message names file and line.
    """
    seen: set[int] = set()
    for line, passage in read_records(path, PassageRecord, _RULE):
        key = hash(passage.id)
        if key in seen:
            _refuse_duplicate(path, line, passage.id)
        seen.add(key)
        yield passage
    if not seen:
        raise UserError(f"{str(path)!r} contains no passage. {_RULE}")


def write_passages(path: Path | str, passages: Iterable[Passage]) -> int:
    """Write passages, one per line, and return their number; the file appears complete or not at all.

    Raises:
        UserError: Two passages share an id, or there is none.
    """
    return write_records(path, passages, unique_ids("passages", path))


def corpus_hash(path: Path | str) -> str:
    """Return the hexadecimal SHA-256 of the uncompressed content; the order of the lines matters."""
    digest = hashlib.sha256()
    for chunk in read_chunks(path):
        digest.update(chunk)
    return digest.hexdigest()


def unique_ids(kind: str, path: Path | str) -> Callable[..., None]:
    """Return a function that raises UserError for the second record with the same id."""
    seen: set[str] = set()

    def check(record: Passage) -> None:
        if record.id in seen:
            raise UserError(f"Two {kind} for {str(path)!r} have the id {record.id!r}. Give each its own id.")
        seen.add(record.id)

    return check


def _refuse_duplicate(path: Path | str, line: int, passage_id: str) -> None:
    """Raise UserError if `passage_id` is on an earlier line: two ids may have the same hash."""
    for number, value in read_objects(path):
        if number >= line:
            return
        if value.get("id") == passage_id:
            fix = "Give each passage its own id, or pool the files, which keeps repeated passages once."
            raise bad_line(path, line, f"the id {passage_id!r} is already on line {number}", fix)
