"""A page that was fetched becomes passages: a function for the processes that read untrusted documents."""

from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from corpora.ingest.failures import as_user_error
from corpora.ingest.formats import BY_SUFFIX
from corpora.ingest.passages import document_passages
from corpora.web.engines import host_of
from signatures.common.errors import UserError

MOST_PASSAGES = 100  # of a page


class Task(NamedTuple):
    """A page to be read.

    Args:
        url: After redirects.
        suffix: Of files of its kind.
        charset: As its header states; "" if it does not.
        title: For a page that states none.
        words: Maximum of a passage.
    """

    url: str
    suffix: str
    charset: str
    content: bytes
    title: str
    words: int


def read_page(task: Task) -> list[dict[str, Any]]:
    """Return the passages of a page, as the fields of `signatures.types.make_passage`, each with `source` and `url`.

    What a page says of its own address does not count.

    Raises:
        UserError: It cannot be read, or has no text.
    """
    with as_user_error():
        document = BY_SUFFIX[task.suffix].read(_utf8(task))
    if not document.sections:
        raise UserError("it contains no text")
    host = host_of(task.url)
    document = replace(document, title=document.title or task.title or host, keys={})
    records = islice(document_passages(document, host, words=task.words), MOST_PASSAGES)
    return [{**each.model_dump(exclude={"sentences", "score"}), "url": task.url} for each in records]


def _utf8(task: Task) -> bytes:
    """Return a text in UTF-8, if its header states another encoding."""
    if task.suffix == ".pdf" or task.charset.lower() in ("", "utf-8", "utf8"):
        return task.content
    try:
        return task.content.decode(task.charset, "replace").encode("utf-8", "replace")
    except (LookupError, UnicodeError):
        return task.content
