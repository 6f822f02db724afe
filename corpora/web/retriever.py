"""The web as a retriever, in two stages: search and fetch, then extract and rank.

Liu et al., "WebGLM: Towards An Efficient Web-Enhanced Question Answering System with Human Preferences", KDD 2023,
section 3.1. https://arxiv.org/abs/2306.07906

Departure: passages are ranked by the default embedder or BM25, not by a Contriever trained on an LM's choices. A page
that cannot be read is represented by its snippet, and of a long page the first 100 passages count.
"""

import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from corpora.ingest.ingest import run_in_processes
from corpora.paragraphs import passage_id
from corpora.retrievers.bm25 import query_stems, stems
from corpora.retrievers.dense import passage_text
from corpora.retrievers.embedder import Embedder, EmbedderSimilarity
from corpora.retrievers.engine import check_k
from corpora.retrievers.explain import Explained, Place
from corpora.web.engines import Hit, WebSettings, check_variables, host_of, read_settings, search
from corpora.web.fetching import Fetcher, Page, Unreached, Unreadable
from corpora.web.reading import Task, read_page
from corpora.web.recording import PAGES, SEARCHES, WEB, Recording
from signatures.common.errors import UserError, UserNotice, one_line
from signatures.common.files import sha256_bytes, utf8
from signatures.common.per_process import Uncopied
from signatures.types import Passage, make_passage

_READERS = 2  # processes that read pages
_READING_SECONDS = 30.0
_SEVERAL = 3  # pages: if none of them can be reached, it is not them, and nothing is recorded
_LONGEST_SHOWN = 80  # characters of a query in an error
_DIGITS = 4  # of a score: what more an embedder computes differs with the texts that share a forward pass
_K1, _B = 1.2, 0.75


class _Found(NamedTuple):
    """A passage, and the rank of its page in the search, from 1."""

    passage: Passage
    page: int


class WebRetriever(Uncopied):
    """A `Retriever` of the web, or of what was recorded of it. Safe under threads; copies of a program share it.

    Args:
        recording: What is recorded is never asked for again.
        live: How to search and fetch what is not recorded; None does neither.
        embedder: Ranks the passages, unless the settings say BM25.
    """

    def __init__(self, recording: Recording, live: WebSettings | None = None, embedder: Embedder | None = None):
        self._recording, self._live, self._settings = recording, live, recording.settings
        dense = self._settings.rank == "dense"
        self._similarity = EmbedderSimilarity(embedder or Embedder()) if dense else None
        self._locks: dict[str, threading.Lock] = {}
        self._reading = threading.Lock()  # by one thread at a time: each starts processes
        self._fetcher = None if live is None else Fetcher(live)

    @property
    def fingerprint(self) -> str:
        """Engine, settings, recording, and the embedder that ranks."""
        ranked = "" if self._similarity is None else f"-{self._similarity.fingerprint}"
        return f"{self._recording.fingerprint}{ranked}"

    def load(self) -> None:
        """Load the embedder, which the first query would do; nothing is searched."""
        if self._similarity is not None:
            self._similarity.load()

    def __call__(self, query: str, k: int) -> list[Passage]:
        """Return at most `k` passages of the pages that a search finds, best first.

        Raises:
            UserError: `k` is below 1; the search fails; or it is replayed, and the query was not recorded.
        """
        return self.many([query], k)[0]

    def many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the rankings of all queries in their order; raises as `__call__`."""
        return [[each.passage for each in ranked] for ranked in self._rankings(queries, k)]

    def explain(self, query: str, k: int) -> list[Explained]:
        """Return what a call returns, each passage with the rank of its page in the search, and its own."""
        (ranked,) = self._rankings([query], k)
        engine, rank = self._settings.engine, self._settings.rank
        return [
            Explained(each.passage, (Place(engine, each.page, None), Place(rank, number, each.passage.score)))
            for number, each in enumerate(ranked, start=1)
        ]

    def passages(self, ids: Iterable[str]) -> list[Passage]:
        """Return the passages with these ids that were recorded; all that was recorded is read for it."""
        wanted, found = set(ids), dict[str, Passage]()
        for stored in self._recording.all(SEARCHES):
            hits = self._recorded_hits(stored)
            pages = {hit.url: self._recorded(hit.url) for hit in hits} if self._settings.fetch else {}
            found.update((each.passage.id, each.passage) for each in _pool(hits, pages) if each.passage.id in wanted)
        return list(found.values())

    def _rankings(self, queries: Sequence[str], k: int) -> list[list[_Found]]:
        check_k(k)
        if self._live is not None:
            self.load()  # what ranks is missed now, and not after a search is paid
        asked = [utf8(query).strip() for query in queries]
        found = {query: self._hits(query) for query in dict.fromkeys(asked) if query}
        titles = {hit.url: hit.title for hits in reversed(found.values()) for hit in reversed(hits)}
        pages = self._pages(titles) if self._settings.fetch else {}
        ranked = {query: self._ranked(query, _pool(hits, pages)) for query, hits in found.items()}
        return [ranked.get(query, [])[:k] for query in asked]

    def _hits(self, query: str) -> list[Hit]:
        stored = self._recording.get(SEARCHES, query)
        if stored is None and self._live is not None:
            # A search costs money: what another thread has just asked is not asked again.
            with self._locks.setdefault(query, threading.Lock()):
                stored = self._recording.get(SEARCHES, query)
                if stored is None:
                    hits = [hit._asdict() for hit in search(self._live, query)]
                    stored = self._recording.put(SEARCHES, query, {"results": hits})
            self._locks.pop(query, None)  # what is recorded needs none
        if stored is None:
            raise self._missing(f"search for {one_line(query, _LONGEST_SHOWN)!r}")
        return self._recorded_hits(stored)

    def _recorded_hits(self, stored: Mapping[str, Any]) -> list[Hit]:
        with self._whole(str(stored.get("key"))):
            return [Hit(str(each["url"]), str(each["title"]), str(each["snippet"])) for each in stored["results"]]

    def _pages(self, titles: Mapping[str, str]) -> Mapping[str, list[Passage] | None]:
        """Return the passages of pages, by their addresses; what is not recorded is fetched."""
        found = {url: self._recorded(url) for url in titles}
        if new := [url for url, passages in found.items() if passages is None]:
            if self._fetcher is None:
                raise self._missing(f"page {one_line(new[0], _LONGEST_SHOWN)}")
            fetched = self._fetcher.fetch_all(new)
            if len(fetched) >= _SEVERAL and all(isinstance(page, Unreached) for page in fetched.values()):
                raise UserError(
                    f"None of {len(fetched)} pages can be reached: check the network; behind a proxy set fetch = false."
                )
            self._tell(fetched)
            with self._reading:
                for url, page, passages in self._read(fetched, titles):
                    self._recording.put(PAGES, url, _described(page, passages))
            found.update((url, self._recorded(url)) for url in new)
        return found

    def _tell(self, fetched: Mapping[str, Page | Unreadable]) -> None:
        """Say so where most pages cannot be had: their snippets are recorded in place of them, and stay."""
        why = Counter(str(page) for page in fetched.values() if isinstance(page, Unreadable))
        if 2 * why.total() > len(fetched):
            reason = one_line(why.most_common(1)[0][0], _LONGEST_SHOWN)
            notice = (
                f"{why.total()} of {len(fetched)} pages could not be fetched ({reason}): their snippets are in "
                f"{self._recording.folder}, and stay; with other limits record into a new folder."
            )
            warnings.warn(UserNotice(notice), stacklevel=2)

    def _recorded(self, url: str) -> list[Passage] | None:
        """Return the passages of a page, none if it could not be read; None if it is not recorded."""
        stored = self._recording.get(PAGES, url)
        with self._whole(url):
            return None if stored is None else [make_passage(each) for each in stored["passages"]]

    def _read(
        self, fetched: Mapping[str, Page | Unreadable], titles: Mapping[str, str]
    ) -> Iterator[tuple[str, Page | Unreadable, list[dict[str, Any]] | UserError]]:
        """Yield address, page and passages of what was fetched; pages are read in other processes."""
        words = self._settings.words
        tasks = {
            url: Task(page.url, page.suffix, page.charset, page.content, titles[url], words)
            for url, page in fetched.items()
            if isinstance(page, Page) and self._recorded(url) is None  # another thread may have been faster
        }
        results = run_in_processes(read_page, list(tasks.values()), _READERS, seconds=_READING_SECONDS)
        read = dict(zip(tasks, results, strict=True))
        yield from ((url, page, read.get(url, [])) for url, page in fetched.items())

    def _ranked(self, query: str, pool: Sequence[_Found]) -> list[_Found]:
        """Return passages best first; equal ones in the order of the search."""
        if not pool:
            return []
        texts = [passage_text({"title": each.passage.title, "text": each.passage.text}) for each in pool]
        scores = _bm25(query, texts) if self._similarity is None else self._similarity([query], texts)[0]
        rounded = [round(float(score), _DIGITS) for score in scores]
        order = sorted(range(len(pool)), key=lambda number: -rounded[number])
        return [
            pool[number]._replace(passage=pool[number].passage.model_copy(update={"score": rounded[number]}))
            for number in order
        ]

    def _missing(self, what: str) -> UserError:
        engine = self._settings.engine
        return UserError(
            f"{self._recording.folder} contains no {what}: set the engine (retriever) to search the web, as recorded "
            f"with {engine}, or repeat the recorded run."
        )

    @contextmanager
    def _whole(self, key: str) -> Iterator[None]:
        """Turn what a damaged file of the recording causes into a UserError."""
        try:
            yield
        except (LookupError, TypeError, ValidationError) as error:
            raise UserError(
                f"{self._recording.folder} is damaged at {one_line(key, _LONGEST_SHOWN)!r} "
                f"({type(error).__name__}): restore it, or record again."
            ) from None


def _described(page: Page | Unreadable, passages: list[dict[str, Any]] | UserError) -> dict[str, Any]:
    if isinstance(page, Unreadable):
        return {"error": str(page), "passages": []}
    came = {"url": page.url, "bytes": len(page.content), "sha256": sha256_bytes(page.content)}
    if isinstance(passages, UserError):
        return {**came, "error": one_line(passages, 200), "passages": []}
    return {**came, "error": None, "passages": passages}


def _pool(hits: Sequence[Hit], pages: Mapping[str, list[Passage] | None]) -> list[_Found]:
    """Return the passages of the pages of a search, each once; a page without any is represented by its snippet."""
    found = [_Found(each, rank) for rank, hit in enumerate(hits, 1) for each in pages.get(hit.url) or _snippet(hit)]
    first: dict[str, _Found] = {}
    for each in found:
        first.setdefault(each.passage.id, each)
    return list(first.values())


def _snippet(hit: Hit) -> list[Passage]:
    if not hit.snippet:
        return []
    host = host_of(hit.url)
    title = hit.title or host
    named = {"id": passage_id(title, hit.snippet), "title": title, "text": hit.snippet}
    return [make_passage({**named, "source": host, "url": hit.url})]


def _bm25(query: str, texts: Sequence[str]) -> Sequence[float]:
    """Return the BM25 score of each text among all of them."""
    import bm25s

    tokens = [stems(text) or ["\0"] for text in texts]  # bm25s rejects texts without words
    index = bm25s.BM25(k1=_K1, b=_B, method="lucene", backend="numpy")
    index.index(tokens, show_progress=False)
    words = [word for word in query_stems(query) if word in index.vocab_dict]
    scores: list[float] = np.asarray(index.get_scores(words)).tolist() if words else [0.0] * len(texts)
    return scores


def open_web(folder: Path | None, retriever: str | None, *, precision: str = "f32") -> WebRetriever:
    """Return the retriever of a recording, or of an engine that is recorded.

    Args:
        folder: Of the recording; made for an engine that is named.
        retriever: None or `web` replays, without any request; an engine, or a file `FILE.toml` that describes one,
            also searches and fetches what is not recorded. The name must come from the user: it decides which
            variables of the environment are sent where.
        precision: Of the embedder.

    Raises:
        UserError: No folder is named, there is no recording or one of another engine or settings, the engine is not
            known, or its key is missing.
    """
    if folder is None:
        raise UserError(f"The retriever {retriever} records what it finds: name the folder for it (index), too.")
    live = None if retriever in (None, WEB) else read_settings(str(retriever))
    if live is not None:
        check_variables(live)  # before a folder is made
    return WebRetriever(Recording(folder, live), live, Embedder(precision=precision))
