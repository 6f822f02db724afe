"""What a retriever in front of another one passes on: what only the index below knows."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from corpora.encoders.query_vectors import never
from corpora.retrievers.engine import Prefetching
from signatures.common.per_process import Uncopied
from signatures.types import Passage, Retriever


class Over(Uncopied):
    """The part of a `Retriever` in front of another one that is the same for all."""

    def __init__(self, retriever: Retriever):
        self.retriever = retriever

    @property
    def folder(self) -> Path | None:
        """The folder of the index below; None if it cannot say."""
        found: Path | None = getattr(self.retriever, "folder", None)
        return found

    def missing(self, ids: Iterable[str]) -> set[str]:
        """Return those of `ids` that no passage of the retriever's index has; none if it cannot say."""
        ask = getattr(self.retriever, "missing", None)
        return set(ask(ids)) if ask is not None else set()

    def titles(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the titles of those of `ids` that the retriever's index has, by id; none if it cannot say."""
        ask = getattr(self.retriever, "titles", None)
        return dict(ask(ids)) if ask is not None else {}

    def passages(self, ids: Iterable[str]) -> list[Passage]:
        """Return the passages with these ids that the retriever's index has; none if it cannot say."""
        ask = getattr(self.retriever, "passages", None)
        return list(ask(ids)) if ask is not None else []

    def __call__(self, query: str, k: int) -> list[Passage]:
        """Return at most `k` passages, best first, with the scores of this retriever.

        Raises:
            UserError: `k` is below 1.
        """
        return self.many([query], k)[0]

    def many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the same as one call per query, in the order of `queries`."""
        raise NotImplementedError

    def prefetch(self, queries: Sequence[str], stop: Callable[[], bool] = never) -> None:
        """Encode `queries` ahead for the retriever, if it can; see `Prefetching`."""
        if isinstance(self.retriever, Prefetching):
            self.retriever.prefetch(queries, stop)
