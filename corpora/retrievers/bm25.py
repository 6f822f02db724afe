"""BM25 on tantivy: one field with title and text, and a separate field with the title.

tantivy fixes k1=1.2 and b=0.75. Words are lower-cased and stemmed by the language of the index (English by default);
function words are indexed, but omitted from queries, which changed no measured ranking and makes queries several times
faster.

Chinese and Japanese have no spaces between words: every run of their characters is indexed as its single characters
and pairs of neighbours. On HalluQA the recall is higher than with the words of a dictionary (jieba); see the
`README.md` of this package.
"""

import contextlib
import errno
import functools
import re
import shutil
import struct
import tempfile
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import tantivy

from corpora.languages import DEFAULT_LANGUAGE, FUNCTION_WORDS, STEMMERS
from corpora.retrievers.engine import Ranking
from signatures.common.errors import UserError, one_line
from signatures.common.files import share, temporary_folder
from signatures.common.strict_json import parse_strict_json
from signatures.common.words import QUERY_STOPWORDS
from signatures.text import CJK

_LONGEST_WORD = 40  # bytes; longer runs of letters are base64 or similar
_KEPT_WORDS = 65_536  # query words whose clauses are cached; a few megabytes
_TIE_LIMIT = 10_000  # hits searched at most for the end of a run of equal scores

_CHECKED = 4 << 20  # bytes
_FOOTER = 1337  # the last four bytes of every file of tantivy: https://github.com/quickwit-oss/tantivy (footer.rs)

# What may be wrong although the files are as they were built.
_OF_THE_SYSTEM = {errno.EACCES, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EROFS}

_RUN = re.compile(f"[{CJK}]+")


@functools.cache
def _analyzer(language: str, *, of_query: bool = False) -> "tantivy.TextAnalyzer":
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.remove_long(_LONGEST_WORD))
    builder = builder.filter(tantivy.Filter.lowercase())
    if of_query:
        builder = builder.filter(tantivy.Filter.stopword(STEMMERS[language]))
    return builder.filter(tantivy.Filter.stemmer(STEMMERS[language])).build()


@functools.cache
def _stopword_stems() -> frozenset[str]:
    return frozenset(stem for word in QUERY_STOPWORDS for stem in _analyzer(DEFAULT_LANGUAGE).analyze(word))


def _spaced(text: str) -> str:
    """Return `text` with every run of Han characters or kana written as its characters, then its pairs."""

    def terms(run: re.Match[str]) -> str:
        characters = run[0]
        pairs = (first + second for first, second in pairwise(characters))
        return f" {' '.join((*characters, *pairs))} "

    return _RUN.sub(terms, text)


def stems(text: str, language: str = DEFAULT_LANGUAGE) -> list[str]:
    """Return the words of `text` as the index stores them, with repeats; in order, except for Chinese and Japanese."""
    return list(_analyzer(language).analyze(_spaced(text)))


def query_stems(query: str, language: str = DEFAULT_LANGUAGE) -> list[str]:
    """Return the stems of a query: without function words, unless it has no other words ("The Who").

    Those of English are our own, since the measured rankings rest on them; those of others are tantivy's, if it has
    some.
    """
    words = stems(query, language)
    if language == DEFAULT_LANGUAGE:
        return [word for word in words if word not in _stopword_stems()] or words
    if language not in FUNCTION_WORDS:
        return words
    return list(_analyzer(language, of_query=True).analyze(_spaced(query))) or words


def is_function_word(word: str, language: str = DEFAULT_LANGUAGE) -> bool:
    """Return whether queries omit a word, in lower case, if they have others; see `query_stems`."""
    if language == DEFAULT_LANGUAGE:
        return word in QUERY_STOPWORDS
    if language not in FUNCTION_WORDS:
        return False
    return not _analyzer(language, of_query=True).analyze(word) and bool(_analyzer(language).analyze(word))


def build_bm25(
    folder: Path,
    records: Iterable[dict[str, str]],
    advance: Callable[[int], object] = lambda _: None,
    *,
    language: str = DEFAULT_LANGUAGE,
) -> None:
    """Write a tantivy index of `records` (title, text), in order, into `folder`; `language` is one of `STEMMERS`.

    Raises:
        OSError, ValueError: The files cannot be written.
    """
    schema, analyzer = tantivy.SchemaBuilder(), f"{STEMMERS[language]}_stems"
    schema.add_unsigned_field("row", fast=True)
    for field in ("all", "title"):
        schema.add_text_field(field, tokenizer_name=analyzer, index_option="freq")
    folder.mkdir(parents=True)
    index = tantivy.Index(schema.build(), path=str(folder), reuse=False)
    index.register_tokenizer(analyzer, _analyzer(language))
    writer = index.writer(heap_size=128_000_000, num_threads=1)  # one thread: rows stay in corpus order
    for row, record in enumerate(records):
        document = tantivy.Document()
        document.add_unsigned("row", row)
        document.add_text("title", _spaced(record["title"]))
        document.add_text("all", _spaced(f"{record['title']}\n{record['text']}"))
        writer.add_document(document)
        advance(1)
    writer.commit()
    writer.wait_merging_threads()
    for file in folder.iterdir():
        share(file)  # tantivy gives some of them 0600, and who serves an index may be another user


def damaged(folder: Path, why: str) -> UserError:
    """Return the error for files of an index that cannot be what was built."""
    return UserError(f"{folder} is damaged ({one_line(why, 200)}): rebuild the index with overwrite.")


@contextlib.contextmanager
def tantivy_errors(folder: Path) -> Iterator[None]:
    """Turn tantivy's errors about its files, and its panics, which are no `Exception`, into UserErrors."""
    try:
        yield
    except UserError:
        raise
    except (OSError, ValueError, TypeError, OverflowError) as error:  # a row that is missing is None
        if isinstance(error, OSError) and error.errno in _OF_THE_SYSTEM:
            raise
        raise damaged(folder, str(error)) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise damaged(folder, str(error)) from error


def _check_sums(folder: Path) -> None:
    """Raise ValueError if a file differs from the checksum that tantivy wrote at its end.

    tantivy trusts the sizes in its files, and a wrong one can end the process. Files above 4 MiB are not read: that
    would take seconds. The checksum is no secret, so this stops damage, and not an attacker.
    """
    for path in folder.iterdir():
        if path.suffix in (".json", ".lock") or not path.is_file() or path.stat().st_size > _CHECKED:
            continue
        content = path.read_bytes()
        length, magic = struct.unpack("<II", content[-8:]) if len(content) >= 8 else (0, 0)
        if magic != _FOOTER or length > len(content) - 8:
            raise ValueError(f"{path.name} is cut off")
        start = len(content) - 8 - length
        footer = parse_strict_json(content[start:-8])
        if not isinstance(footer, dict) or footer.get("crc") != zlib.crc32(content[:start]):
            raise ValueError(f"{path.name} differs from its checksum")


def _link(folder: Path, links: Path) -> None:
    """Fill a temporary folder with links to the files of `folder`.

    tantivy writes a lock file beside the files that it opens, but an index may be read-only, or another user's.
    """
    for file in folder.resolve().iterdir():
        if file.is_file() and not file.name.startswith(".tantivy-"):
            try:
                (links / file.name).symlink_to(file)
            except OSError:  # Windows without the right to make links
                shutil.copyfile(file, links / file.name)


def _place_of_links() -> str:
    try:
        return tempfile.gettempdir()
    except FileNotFoundError as error:  # a read-only file system
        raise UserError(f"{one_line(error.strerror)}: set TMPDIR to a folder that can be written.") from error


class Bm25Engine:
    """Ranks by BM25; passages that share no word with the query are omitted.

    Args:
        folder: Written by `build_bm25`; memory-mapped.
        passages: Number of passages of the corpus.
        title_boost: Weight of a match in the title, added to its match in title and text.
        language: That of the stems in the index.

    Raises:
        UserError: The files are damaged.
    """

    name = "bm25"

    def __init__(self, folder: Path, *, passages: int, title_boost: float = 0.5, language: str = DEFAULT_LANGUAGE):
        opened = contextlib.ExitStack()
        links = opened.enter_context(temporary_folder(_place_of_links(), "verihop-bm25-"))
        weakref.finalize(self, opened.close)
        with tantivy_errors(folder):
            _check_sums(folder)
            _link(folder, links)
            index = tantivy.Index.open(str(links))
            index.config_reader(reload_policy="Manual")  # an index never changes once built: no file watcher is needed
            index.reload()
            self.schema, self.searcher = index.schema, index.searcher()
        if self.searcher.num_docs != passages:
            raise damaged(folder, f"it has {self.searcher.num_docs} passages instead of {passages}")
        self._folder, self._passages = folder, passages
        self._title_boost, self._language = title_boost, language
        # Building clauses is the largest cost outside the engine, and questions share their words.
        self._clauses = functools.lru_cache(maxsize=_KEPT_WORDS)(self._build_clauses)

    def query(self, text: str) -> "tantivy.Query | None":
        """Return the tantivy query for `text`, built from its words and never parsed; None if it has no words."""
        words = Counter(query_stems(text, self._language))
        clauses = [clause for stem, count in words.items() for clause in self._clauses(stem, count)]
        return tantivy.Query.boolean_query(clauses) if clauses else None

    def _build_clauses(self, stem: str, count: int) -> "list[tuple[tantivy.Occur, tantivy.Query]]":
        clauses = []
        for field, boost in (("all", 1.0), ("title", self._title_boost)):
            if weight := boost * count:
                term = tantivy.Query.term_query(self.schema, field, stem, index_option="freq")
                clauses.append((tantivy.Occur.Should, term if weight == 1 else tantivy.Query.boost_query(term, weight)))
        return clauses

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Return one ranking per query; empty for a query without words."""
        with tantivy_errors(self._folder):
            return self._rankings([self._search(self.query(query), k) for query in queries], k)

    def _search(self, query: "tantivy.Query | None", k: int) -> "list[tuple[float, tantivy.DocAddress]]":
        if query is None:
            return []
        limit = k + 1
        hits = self.searcher.search(query, limit, count=False).hits
        # If equal scores straddle the cut, the engine's choice depends on its segments: get all of them, then cut.
        while len(hits) == limit and hits[-1][0] == hits[k - 1][0] and limit < _TIE_LIMIT:
            limit *= 4
            hits = self.searcher.search(query, limit, count=False).hits
        return hits

    def _rankings(self, results: "list[list[tuple[float, tantivy.DocAddress]]]", k: int) -> list[Ranking]:
        # Rows and order of all queries at once: per query, numpy's fixed costs are a tenth of the search.
        addresses = [address for hits in results for _, address in hits]
        rows = np.array(self.searcher.fast_field_values("row", addresses), dtype=np.int64)
        if len(rows) and not (rows.min() >= 0 and rows.max() < self._passages):
            raise damaged(self._folder, "a row is outside the corpus")
        scores = np.array([score for hits in results for score, _ in hits], dtype=np.float64)
        sizes = np.array([len(hits) for hits in results], dtype=np.int64)
        order = np.lexsort((rows, -scores, np.repeat(np.arange(len(results)), sizes)))
        rows, scores = rows[order], scores[order]
        starts = np.cumsum(sizes) - sizes
        ends = starts + np.minimum(sizes, k)
        cuts = [slice(*cut) for cut in zip(starts.tolist(), ends.tolist(), strict=True)]
        return [Ranking(rows[cut], scores[cut]) for cut in cuts]
