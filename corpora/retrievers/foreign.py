"""What retrievers of other frameworks have in common: their passages become ours, and ours theirs."""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from corpora.paragraphs import passage_id
from corpora.retrievers.engine import check_k
from signatures.common.errors import UserError, seen
from signatures.common.per_process import Uncopied
from signatures.types import Passage, make_passage

K = 10  # passages that our retrievers return in other frameworks, whose calls name no number
_SIMPLE = str | int | float | bool | None


class ForeignRetriever(Uncopied):
    """A retriever of another framework as one of ours; copies of a program share it.

    Args:
        search: Called with queries and k, from several threads; returns the passages of each, best first, perhaps more
            than k.
        fingerprint: Changes with corpus, engine and parameters.
    """

    def __init__(self, search: Callable[[list[str], int], list[list[Passage]]], fingerprint: str):
        self._search = search
        self.fingerprint = fingerprint

    def __call__(self, query: str, k: int) -> list[Passage]:
        """Return at most `k` passages, best first; their scores are None if the framework tells none.

        Raises:
            UserError: `k` is below 1, or the retriever returned something else than its framework says.
        """
        return self.many([query], k)[0]

    def many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the rankings of all queries in their order.

        Raises:
            UserError: See `__call__`.
        """
        check_k(k)
        return [found[:k] for found in self._search(list(queries), k)]


def passage_of(text: str, metadata: Mapping[str, Any], *, id: str | None = None, score: float | None = None) -> Passage:
    """Return a document of another framework as a passage.

    Args:
        text: The document without its title.
        metadata: Becomes that of the passage; a text `title` and a number `score` become its title and score. Other
            values that a passage has under the name of a key are kept as `document_<key>`.
        id: By default the text `id` of the metadata, else made of title and text (`corpora.paragraphs.passage_id`).
        score: By default that of the metadata.
    """
    rest = dict(metadata)
    title = rest.pop("title") if isinstance(rest.get("title"), str) else ""
    if _is_number(rest.get("score")):
        own = rest.pop("score")
        score = own if score is None else score
    if id is None and isinstance(rest.get("id"), str):
        id = rest.pop("id")
    fields = {"id": id or passage_id(title, text), "title": title, "text": text, "score": score}
    return make_passage({**{_free(str(name)): value for name, value in rest.items()}, **fields})


def metadata_of(passage: Passage) -> dict[str, Any]:
    """Return what other frameworks keep as metadata: the passage's, and its title, if it has one."""
    return {**({"title": passage.title} if passage.title else {}), **passage.metadata}


def described(framework: str, retriever: Any, ignored: Collection[str] = ()) -> str:
    """Return a fingerprint of a retriever: its class, and a digest of its settings of simple types.

    What it searches in is not known here.

    Args:
        ignored: Settings that `k` replaces.
    """
    settings = {name: value for name, value in vars(retriever).items() if name not in ignored and _is_simple(value)}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
    return f"{framework}:{type(retriever).__module__}.{type(retriever).__qualname__}:{digest}"


def check_found(framework: str, found: Any, kind: type) -> None:
    """Raise UserError if a retriever returned something else than a list of its framework's kind."""
    if not isinstance(found, list) or not all(isinstance(each, kind) for each in found):
        raise UserError(f"The {framework} retriever returned {seen(found)}, not a list of {kind.__name__}.")


def _free(name: str) -> str:
    return f"document_{name}" if name in Passage.model_fields else name


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_simple(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(name, str) and _is_simple(each) for name, each in value.items())
    return isinstance(value, _SIMPLE) or (isinstance(value, list | tuple) and all(map(_is_simple, value)))
