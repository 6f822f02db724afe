"""Gold passages of questions that name them as people do: by title, by document, or by a quotation."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from corpora.passages import PassageRecord, document_title
from corpora.questions import Question
from signatures.common.errors import UserError


@dataclass
class Resolved:
    """Questions with the gold that was found for them.

    Args:
        questions: All, in their order.
        counts: How many questions had `gold_ids` already (`had_ids`), got them (`resolved`), name titles, documents or
            quotations of several passages (`ambiguous`), name some that the corpus lacks (`missing`), or name nothing
            (`without_gold`).
        missing: Names and quotations that no passage has, each once.
        ambiguous: Name or quotation -> number of passages it may mean.
        found: Whether any question has gold that can be measured: ids, or the documents of an ambiguous name.
    """

    questions: list[Question] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    missing: list[str] = field(default_factory=list)
    ambiguous: dict[str, int] = field(default_factory=dict)
    found: bool = False


def resolve_gold(questions: Iterable[Question], passages: Iterable[PassageRecord]) -> Resolved:
    """Fill in `gold_ids` of questions that have `gold_titles`, `gold_documents` or `gold_quotes`.

    A title is that of a passage, or of its document; a document is the `source` of a passage, or the end of it from a
    `/` on. Case and white space do not matter. Of several passages with a name, the only one that contains one of the
    question's `gold_quotes` is meant; in a question without names, each quotation names the passage that contains it.
    A question gets `gold_ids` if each of its names means one passage: some of them would make every recall wrong.
    `gold_titles` become titles of documents, which `passage_recall[title]` compares.

    Args:
        questions: Those with `gold_ids` are kept as they are.
        passages: The corpus, read once.

    Raises:
        UserError: The corpus has none of the names, or a key is not a list of texts.
    """
    asked = list(questions)
    wanted = [(question, _names(question)) for question in asked]
    book = _NameIndex(passages, {(kind, _plain(name)) for _, names in wanted for kind, name in names})
    result = Resolved()
    for question, names in wanted:
        result.questions.append(_with_gold(question, names, book, result))
    named = result.counts.total() - result.counts["had_ids"] - result.counts["without_gold"]
    if named and result.counts["missing"] == named and not book.known:
        raise UserError(
            "The corpus contains none of the titles, documents and quotations in the questions, e.g. "
            f"{result.missing[0]!r}: "
            "use the corpus that they were written for."
        )
    return result


class _NameIndex:
    """The passages that the names of all questions may mean."""

    def __init__(self, passages: Iterable[PassageRecord], wanted: set[tuple[str, str]]):
        self._by_name: dict[tuple[str, str], list[PassageRecord]] = defaultdict(list)
        quotations = _Quotations(name for kind, name in wanted if kind == "quote")
        for passage in passages:
            for key in _keys(passage) & wanted:
                self._by_name[key].append(passage)
            for quote in quotations.within(passage.text):
                self._by_name["quote", quote].append(passage)

    @property
    def known(self) -> bool:
        """Whether the corpus has any of the names."""
        return bool(self._by_name)

    def of(self, kind: str, name: str) -> list[PassageRecord]:
        """Return the passages of a name; those that have it as their full title, if there are any."""
        found = self._by_name.get((kind, _plain(name)), [])
        exact = [passage for passage in found if kind != "quote" and _plain(passage.title) == _plain(name)]
        return exact or found


class _Quotations:
    """Finds which of many quotations a text contains; most are ruled out by their longest word.

    Args:
        quotes: Plain ones. Their first and last words may be parts of words.
    """

    def __init__(self, quotes: Iterable[str]):
        self._by_word: dict[str, list[str]] = defaultdict(list)
        self._short: list[str] = []
        for quote in quotes:
            inner = quote.split()[1:-1]
            (self._by_word[max(inner, key=len)] if inner else self._short).append(quote)

    def within(self, text: str) -> list[str]:
        """Return the quotations in a text."""
        if not self._by_word and not self._short:
            return []
        plain = _plain(text)
        likely = [quote for word in self._by_word.keys() & set(plain.split()) for quote in self._by_word[word]]
        return [quote for quote in (*likely, *self._short) if quote in plain]


def _keys(passage: PassageRecord) -> set[tuple[str, str]]:
    keys = {("title", _plain(title)) for title in (passage.title, document_title(passage.title))}
    source = (passage.model_extra or {}).get("source")
    parts = _plain(source).split("/") if isinstance(source, str) else []
    return keys | {("document", "/".join(parts[start:])) for start in range(len(parts))}


def _names(question: Question) -> list[tuple[str, str]]:
    if question.gold_ids:
        return []
    titles, documents = _texts(question, "gold_titles"), _texts(question, "gold_documents")
    names = [*(("title", name) for name in titles), *(("document", name) for name in documents)]
    return names or [("quote", quote) for quote in _texts(question, "gold_quotes") if quote.strip()]


def _texts(question: Question, key: str) -> list[str]:
    value: Any = (question.model_extra or {}).get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UserError(f"Question {question.id!r}: {key!r} must be a list of texts.")
    return value


def _with_gold(question: Question, names: Sequence[tuple[str, str]], book: _NameIndex, result: Resolved) -> Question:
    if not names:
        result.counts["had_ids" if question.gold_ids else "without_gold"] += 1
        result.found = result.found or bool(question.gold_ids)
        return question
    quotes = [_plain(quote) for quote in _texts(question, "gold_quotes")]
    gold: list[PassageRecord] = []
    articles: list[str] = []
    unclear, lacking = False, False
    for kind, name in names:
        found = _chosen(book.of(kind, name), quotes)
        documents = {document_title(passage.title) for passage in found}
        articles += documents if len(documents) == 1 else []
        if len(found) == 1:
            gold += found
        elif found:
            unclear = True
            result.ambiguous[name] = len(found)
        else:
            lacking = True
            result.missing += [] if name in result.missing else [name]
    result.counts["missing" if lacking else "ambiguous" if unclear else "resolved"] += 1
    if lacking:
        return question
    update: dict[str, Any] = {"gold_titles": list(dict.fromkeys(articles))} if len(articles) == len(names) else {}
    if not unclear:
        update["gold_ids"] = list(dict.fromkeys(passage.id for passage in gold))
    result.found = result.found or bool(update)
    return Question.model_validate(question.model_dump(exclude_defaults=True) | update)


def _chosen(passages: list[PassageRecord], quotes: Sequence[str]) -> list[PassageRecord]:
    """Return the only passage with a quote if there are several passages; all of them without one."""
    if len(passages) < 2:
        return passages
    quoted = [passage for passage in passages if any(quote and quote in _plain(passage.text) for quote in quotes)]
    return quoted if len(quoted) == 1 else passages


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
