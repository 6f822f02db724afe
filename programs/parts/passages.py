"""Find the passage that contains a quote or an answer, and select evidence: new claims, the best scores, nearest texts.

LMs write "None", "No further query is needed" or "Here are the queries:" where a list should be empty or begin; such an
item (`is_no_item`) is neither a claim nor a query.
"""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar
from unicodedata import normalize

from programs.parts.quotes import behind_title, is_paraphrase, verbatim_part
from signatures.citation_marks import find_marks
from signatures.common.words import FUNCTION_WORDS, strip_suffix
from signatures.text import CJK
from signatures.text_words import contains_words, same_words, text_words, without_brackets
from signatures.types import Passage, QuoteMatch, Similarity
from signatures.types import deduplicate as deduplicate
from signatures.yes_no import parse_yes_no

# Whole quotes that say there is nothing to quote, and such statements within a longer one. Empty items of a list
# are those of `is_no_item`, refusals to revise a question in `questions.py`: what means nothing differs with what was
# asked.
_NO_EVIDENCE = {
    *("none", "nothing", "empty", "null", "n/a", "n a", "unknown", "not applicable", "none of the passages"),
    *("no evidence", "no relevant evidence", "not mentioned", "not found", "not given", "not stated", "not available"),
    *("无", "没有", "空", "未知", "不适用", "未提及", "未提到", "没有提及", "没有提到", "未找到", "没有找到"),
    *("无证据", "没有证据", "无相关证据", "没有相关证据", "无相关内容", "没有相关内容", "无相关信息", "没有相关信息"),
}
_NO_EVIDENCE_KEYS = frozenset(map(same_words, _NO_EVIDENCE))
_SAYS_NOTHING = re.compile(
    r"^\W*(?:no|none|nothing|neither|there (?:is|are) no)\b"
    r"|\b(?:passages?|documents?|texts?|references?|context|evidence|information)\b.{0,80}"
    r"(?:\b(?:no|not|none|nothing|neither|cannot|lacks?)\b|n['’]t\b)"
    r"|(?:没有|未|无|不).{0,6}(?:提及|提到|找到|给出|说明|包含|涉及|相关|证据)",
    re.IGNORECASE | re.DOTALL,
)

_LEAD = re.compile(r"^\W*(?:passage|document|source|reference|段落|文档|资料|参考)\s*\d+\s*[:：.、\-–—]", re.IGNORECASE)
_QUESTION = re.compile(r"[?？]\W*$")
_HAN = re.compile(f"[{CJK}]")


class Quoted(NamedTuple):
    """How a quote occurs in passages.

    Args:
        match: "verbatim", "near" (a paraphrase) or "absent".
        passage: The passage that contains it; None if it is absent.
        text: The part of the quote that occurs there: all but a name that is cut at its end; empty if it is absent.
    """

    match: QuoteMatch
    passage: Passage | None
    text: str


_ABSENT = Quoted("absent", None, "")


def find_quote(quote: str, passages: Sequence[Passage]) -> Quoted:
    """Return which of `passages` contains `quote`, and how: word for word, as a paraphrase, or not at all.

    "verbatim": its words occur in the text in order. Case, accents, punctuation, spacing, citation marks, passage
    numbers and a title in front do not count; an ellipsis stands for words without a negation; the last word may be
    cut. A quote may have any length, one word or a name included, if it is not made of function words alone and does
    not say that there is nothing to quote. A title, which an LM sees in front of the text, states nothing by itself:
    alone it is a quote only of a text that contains it.

    "near": each of its sentences, four words or more, paraphrases one or two neighbouring sentences of one passage,
    and every name, number, date and negation in it occurs there as in the quote: the words of a name next to each
    other, names and numbers in the same order or behind the same preposition, nothing else in their place. Names may
    also be those of the title. No word is an opposite of the one that it replaces (`signatures/common/opposites.py`),
    and "she" is not "he". Other ordinary words may be exchanged, so that a change of a word in no list may count. A
    question, as when an LM repeats the one asked, states nothing and counts only verbatim. What is unclear, such as a
    passive for an active, is absent.

    Time is linear in the length of the passages.
    """
    bare = normalize("NFC", _LEAD.sub("", _without_marks(quote)))
    if _is_nothing(bare):
        return _ABSENT
    texts = [normalize("NFC", _without_marks(passage.text)) for passage in passages]
    tried = [
        (passage, text, said)
        for passage, text in zip(passages, texts, strict=True)
        for said in dict.fromkeys((bare, behind_title(bare, passage.title)))
    ]
    for passage, text, said in tried:
        if part := verbatim_part(said, text):
            return Quoted("verbatim", passage, quote if part == said else part)
    if not _SAYS_NOTHING.search(bare) and not _QUESTION.search(bare):
        for passage, text, said in tried:
            if is_paraphrase(said, passage.title, text):
                return Quoted("near", passage, quote)
    return _ABSENT


def _is_nothing(quote: str) -> bool:
    """Return whether a quote is empty, made of function words alone, or a phrase that says there is no evidence."""
    key = same_words(quote)
    yes_or_no = parse_yes_no(quote) is not None
    return yes_or_no or key in _NO_EVIDENCE_KEYS or FUNCTION_WORDS.issuperset(key.split())


def _without_marks(text: str) -> str:
    """Return a text with a space in place of each citation mark, so that the words on both sides stay two."""
    for mark in reversed(find_marks(text)):
        text = f"{text[: mark.start]} {text[mark.end :]}"
    return text


def terms_of(text: str) -> set[str]:
    """Return the stems of content words and the pairs of neighbouring Chinese characters."""
    words = text_words(text)
    stems = {strip_suffix(word) for word in words if word not in FUNCTION_WORDS and not _HAN.match(word)}
    return stems | {first + second for first, second in pairwise(words) if _HAN.match(first) and _HAN.match(second)}


def passages_stating(answer: str, passages: Iterable[Passage]) -> list[str]:
    """Return the ids of the passages that contain `answer` as whole words after normalisation; in Chinese, as text.

    The list is empty for a yes/no answer.
    """
    if not same_words(answer) or parse_yes_no(answer) is not None:
        return []
    return [passage.id for passage in passages if contains_words(f"{passage.title} {passage.text}", answer)]


def passages_supporting(question: str, answer: str, passages: Iterable[Passage]) -> list[str]:
    """Return the ids of the passages that an answer seems to rest on: the citations where the reader quotes none.

    First come those that state the answer (`passages_stating`), the one whose stating sentence shares most words with
    the question before the others. Then come those that lead there: whose title the question or the first of them
    names, or that name the title of the first; of several passages of one title the nearest to the question. Of an
    answer that no passage states, such as yes or no, these are what the question names. A title of one word is a name
    only where it is spelled as the title, and a function word ("It") is none.

    Args:
        question: That was answered.
        passages: What was read, in reading order, which decides between equals.
    """
    if not same_words(answer):
        return []
    read = deduplicate(passages)
    asked = terms_of(question)
    stating = set(passages_stating(answer, read))
    shared = {each.id: _shared_terms(asked, each, answer if each.id in stating else "") for each in read}
    nearest = sorted(read, key=lambda passage: -shared[passage.id])
    cited = [passage for passage in nearest if passage.id in stating]
    titles = {without_brackets(passage.title) for passage in cited}
    for passage in nearest:
        title = without_brackets(passage.title)
        if title not in titles and _leads(title, passage, question, cited[0] if cited else None):
            titles.add(title)
            cited.append(passage)
    return [passage.id for passage in cited]


# Ends of sentences, or nearly so: passages may be long, and this only ranks them.
_ENDS = re.compile(r"(?<=[.!?])\s|(?<=[。！？])|\n")


def _shared_terms(asked: set[str], passage: Passage, answer: str) -> int:
    """Return the most terms that a sentence under its title, of those that state the answer, shares with a question."""
    sentences = [text for text in _ENDS.split(passage.text) if contains_words(text, answer)] if answer else []
    return max(len(asked & terms_of(f"{passage.title} {text}")) for text in sentences or [passage.text])


def passages_named(question: str, passages: Iterable[Passage]) -> list[Passage]:
    """Return the passages whose title the question names, in their order.

    Of titles that differ in brackets alone, the first one counts, and those that the question names with the bracket.
    """
    kept: list[Passage] = []
    for passage in passages:
        bare = without_brackets(passage.title)
        rivals = any(without_brackets(each.title) == bare and each.title != passage.title for each in kept)
        if _is_named(bare, question) and (not rivals or passage.title.casefold() in question.casefold()):
            kept.append(passage)
    return kept


def _leads(title: str, passage: Passage, question: str, first: Passage | None) -> bool:
    """Return whether a passage is named by the question, or one of it and the first one cited names the other."""
    return _is_named(title, question) or (
        first is not None and (_names(first.text, title) or _names(passage.text, without_brackets(first.title)))
    )


def _is_named(title: str, question: str) -> bool:
    return _names(question, title) or (len(terms_of(title)) > 1 and contains_words(question, title))


def _names(text: str, title: str) -> bool:
    """Return whether a text has a title as it is spelled: "home" is not the film "Home", and "It" is no title."""
    return title in text and bool(terms_of(title)) and contains_words(text, title)


def titled_text(passage: Passage) -> str:
    """Return the text of a passage after its title, if it has one."""
    return f"{passage.title}: {passage.text}" if passage.title else passage.text


Key = TypeVar("Key", bound=Hashable)

# On the words of an item: lower case, no punctuation, no articles, a blank between Chinese characters.
_NO_ITEM = re.compile(
    r"(?:none|nothing|nil|null|na|empty|unknown|not applicable|not needed|not required|not necessary"
    r"|no (?:(?:further|more|other|additional|new|relevant) )*"
    r"(?:quer(?:y|ies)|search(?:es)?|inferences?|information|facts?|claims?"
    r"|(?:(?:follow ?up|sub|intermediate) ?)*questions?)"
    r")?(?: (?:else|more|further|new))?(?: (?:is|are|can be))?"
    r"(?: (?:needed|required|necessary|missing|follows?|applicable|found|drawn|inferred|stated))?"
    r"|[无無]|没 有|沒 有|空|未 知|(?:不 需 要|[无無] 需)(?: [再进一步搜索检查询提问追]){0,6}|不 适 用|没 有 了"
)


def is_no_item(text: str) -> bool:
    """Return whether an item of a list, or a query, is empty, says that there is none, or announces a list (":")."""
    return text.rstrip(" *_`").endswith((":", "：")) or bool(_NO_ITEM.fullmatch(same_words(text)))


def passes(score: float | None, threshold: float) -> bool:
    """Return whether a score is above a threshold; an unparseable one (None) is not."""
    return score is not None and score > threshold


def passing(
    keys: Iterable[Key], scores: Mapping[tuple[Key, str], float | None], thresholds: Mapping[str, float]
) -> list[Key]:
    """Return the keys that pass all of their gates, in order; a key without a gate passes.

    Args:
        keys: The keys to filter.
        scores: P(yes) by key and name of the gate; None if unparseable.
        thresholds: The bound of each gate, which its score must exceed.
    """
    failed = {key for (key, gate), score in scores.items() if not passes(score, thresholds[gate])}
    return [key for key in keys if key not in failed]


def top(scores: Mapping[Key, float | None], size: int) -> list[Key]:
    """Return the keys of the `size` highest scores, best first; ties keep their order, unparseable scores come last."""
    return sorted(scores, key=lambda key: (scores[key] is None, -(scores[key] or 0.0)))[:size]


def closest(query: str, texts: Sequence[str], similarity: Similarity | None, size: int) -> list[int]:
    """Return the places of the `size` texts closest to a query, best first; texts that are equally close keep order.

    Without a similarity, a text is the closer the more terms it shares with the query: stems of content words, and
    pairs of neighbouring characters in Chinese.
    """
    if not texts:
        return []
    if similarity is None:
        wanted = terms_of(query)
        scores = [float(len(wanted & terms_of(text))) for text in texts]
    else:
        scores = [float(score) for score in similarity([query], list(texts))[0]]
    return sorted(range(len(texts)), key=lambda place: -scores[place])[:size]


def new_items(items: Iterable[str], known: Iterable[str], *, max_words: int | None = None) -> list[str]:
    """Return the items of a list, stripped, that say something (`is_no_item`) and are not `known`, each once.

    Items are compared by their words; in Chinese, each character is one.

    Args:
        items: Claims or queries, as an LM wrote them.
        known: What they must not repeat.
        max_words: Longer items are left out; None for no limit.
    """
    seen = set(map(same_words, known))
    new = []
    for item in items:
        words = same_words(item)
        too_long = max_words is not None and len(text_words(item)) > max_words
        if not is_no_item(item) and words not in seen and not too_long:
            seen.add(words)
            new.append(item.strip())
    return new
