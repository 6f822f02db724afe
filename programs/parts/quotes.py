"""How a quote occurs in a passage: verbatim, near (a paraphrase that keeps names, numbers, dates, negations), absent.

Words are compared without case, accents, punctuation and spacing. What a paraphrase may change is decided from an
alignment of its words with those of one or two neighbouring sentences: words that state nothing by themselves may come
and go, other words may be left out or replaced by unknown ones where no name, number or negation is touched. Where it
is unclear, a quote is absent.
"""

import bisect
import functools
import heapq
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from signatures.common.opposites import alike, exclude_each_other, turns
from signatures.common.words import FUNCTION_WORDS, QUERY_STOPWORDS, strip_suffix
from signatures.text import CJK

NAME, NUMBER, BOUND, WORD, HAN, FUNCTION = "name", "number", "bound", "word", "han", "function"

_NEGATIONS = frozenset(
    "not no never none nobody nothing nowhere neither nor without non un hardly barely 不 没 未 无 非 否".split()
)
# Words whose presence, absence or exchange changes what a sentence states, as a negation does.
_BOUND = _NEGATIONS | frozenset(
    """
    all some any every each most few fewer several both only almost nearly half except unless if least less more
    last former formerly previously latter later earlier older younger elder next previous
    north south east west northern southern eastern western father mother son daughter husband wife brother sister
    uncle aunt nephew niece cousin grandson granddaughter grandchild grandchildren grandfather grandmother
    false fictional deputy vice outside beyond
    allegedly probably possibly perhaps supposedly reportedly likely unlikely certainly might
    """.split()
)
_UNITS = frozenset(
    map(
        strip_suffix,
        """
        km kilometres kilometers miles metres meters m feet foot inches cm mm kg kilograms grams pounds tons tonnes
        percent per dollars euros pounds crowns yen rupees years months weeks days hours minutes seconds acres hectares
        degrees litres gallons decades centuries
        """.split(),
    )
)
_ORDERING = frozenset("before after until since during above below over under against".split())
_PREPOSITIONS = _ORDERING | frozenset("in on at by from to of for with into as".split())
_NEVER_NAMES = _NEGATIONS | _PREPOSITIONS | frozenset("the a an i and but or while".split())
_CONJUNCTIONS = frozenset("and but or while".split())
_CONTRASTS = frozenset("but while 但 而".split())
_OPENERS = frozenset("according however therefore thus moreover".split())
_FUNCTION = (FUNCTION_WORDS | QUERY_STOPWORDS | _PREPOSITIONS | _OPENERS) - _BOUND
_HAN_FUNCTION = frozenset("的了是在和与于之也而及其为有被由对")
_ALSO_NAMES = frozenset({"will", "may"})
_BOTH = (frozenset("he him his himself".split()), frozenset("she her hers herself".split()))
_NEGATING = ("un", "in", "im", "il", "ir", "dis", "non", "mis")

_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_NUMBERS = {word: number for number, word in enumerate(f"{_ONES} seventeen eighteen nineteen".split())}
_DECADES = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS = {word: 10 * number for number, word in enumerate(_DECADES.split(), 2)}
_NUMBERS |= _TENS | {"dozen": 12}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth"
_ORDINALS += " fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
_RANKS = {word: number for number, word in enumerate(_ORDINALS.split(), 1)}
_MONTHS = "january february march april may june july august september october november december".split()
_MONTH = {name[:length]: number for number, name in enumerate(_MONTHS, 1) for length in (3, len(name))} | {"sept": 9}
_DATE = {
    "d": re.compile(r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"),
    "m": re.compile("|".join(_MONTH)),
    "y": re.compile(r"\d{3,4}"),
}

_WORD = re.compile(
    rf"[{CJK}]|[$€£¥]?\d+(?:[.,]\d+)*(?:[^\W\d_{CJK}]+|%)?"
    rf"|(?:[^\W\d_{CJK}]\s?\.\s?){{2,}}|[^\W_{CJK}]+(?:'[^\W\d_{CJK}]+)*[+#]*"
)
_HAN_CHARACTER = re.compile(f"[{CJK}]")
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "＇": "'"})
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉"
_DIGITS = re.compile(r"([$€£¥]?)(\d+(?:[.,]\d+)*)(.*)")
_DOTS = re.compile(r"[.\s]")
_INTEGER = re.compile(r"\d+")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_DECIMAL = re.compile(r"\d{1,15}(?:\.\d{1,9})?")
_RANKED = re.compile(r"(\d+)(?:st|nd|rd|th)")
_YEAR = re.compile(r"\d{4}")
_NUMERO = re.compile(r"\.\s?\d")
_ELLIPSIS = re.compile(r"[\[［(（]?(?:\.{3,}|…+|\. \. \.)[\]］)）]?")
_STOP = re.compile(r"[,;:.!?()\[\]–—…，。；：！？（）、/]")
_APART = re.compile(r"[\"“”„«»]")
_END = re.compile(r"[.!?][\"')\]”’]*\s|[。！？\n]")
_SENTENCE_ENDS = re.compile(r"[.!?。！？]")

WHOLE, BUT_LAST = "whole", "but last"
_LONGEST_SENTENCE = 120  # words; longer ones are divided, so that time stays linear in the length of a passage
_LONGEST_NEAR = 400  # words of a quote; a longer one counts verbatim only
_LONGEST_ABBREVIATION = 3  # letters
_MOST_PLACES = 50  # at which a run of words is looked at
_MOST_WINDOWS = 4  # sentences and pairs of neighbouring ones, those that share most words with a quote
_SHORTEST_NEAR = 4  # words
_SHORTEST_PART = 4  # words on both sides of an ellipsis that omits the end of a sentence
_SHORTEST_CUT = 3  # letters of a word that is cut at the end of a short quote
_BEFORE_CUT_NAME = 8  # words
_KNOWN = 0.6  # share of the items of a paraphrase that stand in its sentences
_NEAR_END = 2  # items beside an end of a quote that are compared with what it adds there
_LONGEST_ADDITION = 2  # Chinese characters


class _Word(NamedTuple):
    """One word as it is compared.

    Args:
        key: Lower case, plain letters, numbers without separators.
        kind: One of the constants above.
        capital: Whether it begins with a capital letter.
        stop: Whether punctuation stands between the word before and it.
        begins: Whether a sentence begins with it.
        end: Offset in the text behind it.
        apart: Whether it begins another name: a quotation mark or "'s" stands in front of it.
    """

    key: str
    kind: str
    capital: bool
    stop: bool
    begins: bool
    end: int
    apart: bool = False

    @property
    def stem(self) -> str:
        """The key without its inflection, if the word is no name or number."""
        return strip_suffix(self.key) if self.kind == WORD else self.key


Words: TypeAlias = Sequence[_Word]


@dataclass(frozen=True)
class _Text:
    """The words of a text, also as one string with a space before and behind each, and their places in it."""

    words: tuple[_Word, ...]
    joined: str
    starts: list[int]


@functools.lru_cache(maxsize=128)  # the passages of a question are compared with every quote
def _read(text: str) -> _Text:
    """Return the words of a text; time and memory are linear in its length."""
    words = tuple(_words(text.translate(_APOSTROPHES)))
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word.key) + 1)
    return _Text(words, f" {' '.join(word.key for word in words)} ", starts)


def _words(text: str) -> list[_Word]:
    words: list[_Word] = []
    done = length = 0
    for found in _WORD.finditer(text):
        between = text[done : found.start()]
        if words and words[-1].capital and len(words[-1].key) <= _LONGEST_ABBREVIATION:
            between = between.removeprefix(".")
        begins = not words or length >= _LONGEST_SENTENCE or _END.search(between) is not None
        length = 1 if begins else length + 1
        done_before, done = done, found.end()
        for key in _keys(found[0], text[done : done + 3]):
            stop = between != "" and _STOP.search(between) is not None
            kind, capital = _kind(key, found[0]), found[0][0].isupper()
            if capital and not begins and kind in (BOUND, FUNCTION) and key not in _NEVER_NAMES:
                kind = NAME if kind == BOUND or not stop else kind  # "Big Brother", "The Who"
            if found[0].isalpha() and text[done : done + 1] in set("$€£¥"):
                kind = NAME  # "A$5" is not "US$5"
            apart = _APART.search(between) is not None or text[done_before - 2 : done_before].casefold() == "'s"
            words.append(_Word(key, kind, capital, stop or begins, begins, done, apart))
            between, begins = "", False
    for place, (word, after) in enumerate(pairwise(words)):
        if word.key in _ALSO_NAMES and word.capital and after.capital:
            words[place] = word._replace(kind=NAME)
    return words


def _keys(raw: str, after: str) -> Iterator[str]:
    """Yield the keys of a word: two for "isn't"."""
    word = (raw if raw.isascii() else "".join(map(_folded, raw))).casefold()
    if digits := _DIGITS.fullmatch(word):
        number = digits[2].replace(",", "") if _THOUSANDS.fullmatch(digits[2]) else digits[2]
        yield f"{digits[1]}{number}{digits[3]}"
    elif word == "no" and _NUMERO.match(after):
        yield "numero"
    elif word.endswith("n't"):
        yield {"ca": "can", "wo": "will", "sha": "shall"}.get(word[:-3], word[:-3])
        yield "not"
    elif word == "cannot":
        yield from ("can", "not")
    elif word.isalnum():
        yield word
    else:
        yield _DOTS.sub("", word).removesuffix("'s").replace("'", "") or word


@functools.lru_cache(maxsize=4096)
def _folded(character: str) -> str:
    """Return a Latin letter without its accents and a full-width form as ASCII; any other character as it is."""
    parts = unicodedata.normalize("NFKD", character)
    plain = "".join(part for part in parts if not unicodedata.combining(part))
    return plain if plain.isascii() and plain.isalnum() and character not in _RAISED else character


def _kind(key: str, raw: str) -> str:
    if any(map(str.isnumeric, key)) or key in _NUMBERS or key in _RANKS or key in _SCALES:
        return NUMBER  # Chinese numerals are numeric, too
    if key in _BOUND:
        return BOUND
    if key in _FUNCTION or key in _HAN_FUNCTION:
        return FUNCTION
    if _HAN_CHARACTER.match(raw):
        return HAN
    return NAME if raw[0].isupper() or (key in _MONTHS and key not in ("march", "may")) else WORD


def verbatim_part(quote: str, text: str) -> str:
    """Return the part of `quote` that occurs in a text word for word: all, all but a name cut at its end, or nothing.

    A name of which only the first letters were quoted, as happens at a limit of tokens, is left out of a long quote.
    """
    words = _read(quote).words
    if not words:
        return ""
    parts = [part for part in (_read(part).words for part in _ELLIPSIS.split(quote)) if part]
    cut = not _SENTENCE_ENDS.search(_ELLIPSIS.sub("", quote[words[-1].end :]))
    found = _verbatim(parts, _read(text), cut)
    return "" if not found else quote if found == WHOLE else quote[: words[-2].end]


def is_paraphrase(quote: str, title: str, text: str) -> bool:
    """Return whether each sentence of `quote` occurs in a text or paraphrases one or two neighbouring sentences of it.

    Its names may also be those of the title.
    """
    words, passage = _read(quote).words, _read(text)
    return _SHORTEST_NEAR <= len(words) <= _LONGEST_NEAR and all(
        _verbatim([part], passage, False) or _is_near(part, passage.words, _read(title).words)
        for part in _sentences(words)
    )


def behind_title(quote: str, title: str) -> str:
    """Return a quote without the words of a title in front of it."""
    words, front = _read(quote).words, [word.key for word in _read(title).words]
    if not front or [word.key for word in words[: len(front)]] != front:
        return quote
    return quote[words[len(front) - 1].end :]


def _verbatim(parts: Sequence[Words], passage: _Text, cut: bool) -> str:
    """Return whether a passage contains parts in order: WHOLE, all but the last word (BUT_LAST), or ""."""
    start, found = 0, ""
    for number, part in enumerate(parts):
        cut_here = cut and number == len(parts) - 1
        for first in _places(part, passage, start, cut_here):
            found = _stands(part, first, passage.words, cut_here)
            if found and (number == 0 or _may_omit(parts[number - 1], part, passage.words[start : first + 1])):
                start = first + len(part)
                break
        else:
            return ""
    return found


def _places(part: Words, passage: _Text, start: int, cut: bool) -> Iterator[int]:
    """Yield the places from `start` on at which the words of a part follow each other, the last perhaps cut."""
    wanted = f" {' '.join(word.key for word in part)}{'' if cut else ' '}"
    at = passage.joined.find(wanted, passage.starts[start])
    for _ in range(_MOST_PLACES):
        if at < 0:
            return
        yield bisect.bisect_left(passage.starts, at)
        at = passage.joined.find(wanted, at + 1)


def _stands(part: Words, first: int, words: Words, cut: bool) -> str:
    """Return whether a part that stands at a place is quoted whole there: no "not" in front, no number divided."""
    last = first + len(part) - 1
    if _is_denied(first, words) or _divides(first, words) or _divides(last + 1, words):
        return ""
    whole, end = words[last], part[-1]
    if whole.key == end.key:
        return WHOLE
    if not cut or NUMBER in (whole.kind, end.kind) or end.kind == BOUND or len(part) < _SHORTEST_NEAR:
        return ""
    if whole.kind == NAME:
        return BUT_LAST if len(part) > _BEFORE_CUT_NAME else ""
    return WHOLE if len(end.key) >= _SHORTEST_CUT or len(part) > _BEFORE_CUT_NAME else ""


def _is_denied(first: int, words: Words) -> bool:
    """Return whether a negation stands in front of a place, next to it or with a function word between."""
    for place in range(first, max(first - 2, 0), -1):
        if words[place].stop:
            return False
        before = words[place - 1].key
        if before in _NEGATIONS or (turns(before) and words[place].key == "to"):
            return True
        if words[place - 1].kind != FUNCTION:
            return False
    return False


def _divides(place: int, words: Words) -> bool:
    """Return whether a number goes on at a place: "5 million", "twenty-five"."""
    if not 0 < place < len(words) or words[place].stop:
        return False
    before, after = words[place - 1], words[place]
    if before.kind != NUMBER:
        return False
    return after.key in _SCALES or (before.key in _TENS and (after.key in _NUMBERS or after.key in _RANKS))


def _may_omit(before: Words, after: Words, passage: Words) -> bool:
    """Return whether an ellipsis may stand for all but the last of these words.

    It may not hide a negation, or join a name or number to what is said of another.
    """
    *omitted, then = passage
    if any(word.key in _NEGATIONS for word in omitted):
        return False
    if any(word.begins for word in passage):
        return len(before) >= _SHORTEST_PART and len(after) >= _SHORTEST_PART
    hard = {word.kind for word in omitted} & {NAME, NUMBER}
    return not hard or (then.kind not in hard and then.key not in {word.key for word in omitted} - _CONJUNCTIONS)


def _sentences(words: Words) -> list[Words]:
    """Return the sentences of a quote; a short one belongs to that before it."""
    cuts = [place for place, word in enumerate(words) if word.begins]
    found: list[Words] = []
    for start, end in pairwise([*cuts, len(words)]):
        if found and min(end - start, len(found[-1])) < _SHORTEST_NEAR:
            found[-1] = [*found[-1], *words[start:end]]
        else:
            found.append(words[start:end])
    return found


def _is_near(quote: Words, passage: Words, title: Words) -> bool:
    """Return whether a sentence is a paraphrase of one or two neighbouring sentences of a passage."""
    wanted = {word.stem for word in quote if word.kind != FUNCTION}
    cuts = [*(place for place, word in enumerate(passage) if word.begins), len(passage)]
    known = [wanted & {word.stem for word in passage[start:end]} for start, end in pairwise(cuts)]
    windows = [(number, number + 1, len(one)) for number, one in enumerate(known)]
    windows += [(number, number + 2, len(one | two)) for number, (one, two) in enumerate(pairwise(known))]
    best = heapq.nlargest(_MOST_WINDOWS, windows, key=lambda window: window[2])
    return any(
        _paraphrases(_merged(quote), _merged(passage[cuts[start] : cuts[end]]), title)
        for start, end, shared in best
        if shared >= _KNOWN * len(wanted) / 2
    )


def _merged(words: Words) -> list[_Word]:
    """Return the words with each date and each number of several words as one."""
    found: list[_Word] = []
    place = 0
    while place < len(words):
        length, key = _date_at(words[place : place + 3]) or _number_at(words[place : place + 3])
        found.append(words[place]._replace(key=key, kind=NUMBER) if key else words[place])
        place += length
    return found


def _date_at(words: Words) -> tuple[int, str] | None:
    """Return how many words a date has that begins here, and its key: year, month and day, empty where not stated."""
    for form in ("dmy", "mdy", "my", "dm", "md"):
        parts = dict(zip(form, words, strict=False))
        apart = any(word.stop for part, word in [*parts.items()][1:] if part != "y")
        if len(parts) == len(form) and not apart and all(_DATE[part].fullmatch(parts[part].key) for part in form):
            year, day = (_INTEGER.match(parts[part].key) if part in parts else None for part in "yd")
            return len(form), f"{year[0] if year else ''}-{_MONTH[parts['m'].key]}-{int(day[0]) if day else ''}"
    return None


def _number_at(words: Words) -> tuple[int, str]:
    """Return how many words a number has that begins here, and its key; an empty key if it begins none."""
    first, *more = words
    rank = _RANKS.get(first.key)
    if first.kind != NUMBER:
        return 1, ""
    if rank is not None:
        return 1, f"{rank}th"
    if ranked := _RANKED.fullmatch(first.key):
        return 1, f"{ranked[1]}th"
    value = _NUMBERS.get(first.key, first.key)
    if more and not more[0].stop and first.key in _TENS:
        if more[0].key in _NUMBERS:
            return 2, str(_TENS[first.key] + _NUMBERS[more[0].key])
        if more[0].key in _RANKS:
            return 2, f"{_TENS[first.key] + _RANKS[more[0].key]}th"
    if more and not more[0].stop and more[0].key in _SCALES and _DECIMAL.fullmatch(str(value)):
        return 2, f"{float(value) * _SCALES[more[0].key]:.10g}"
    return 1, f"{float(value):.10g}" if _DECIMAL.fullmatch(str(value)) else str(value)


class _Item(NamedTuple):
    """A word or a name of several words that states something.

    Args:
        key: As compared; of a word its stem.
        kind: As of a word.
        stop: Whether punctuation stands between the item before and it.
        before: The preposition or conjunction in front of it, after that item; empty if there is none.
    """

    key: str
    kind: str
    stop: bool
    before: str


def _items(words: Words, names: set[tuple[str, ...]]) -> list[_Item]:
    """Return the items of a text: function words left out, the words of each of `names` joined."""
    lengths = sorted({len(name) for name in names}, reverse=True)
    keys = tuple(word.key for word in words)
    found: list[_Item] = []
    place, stop, before, since = 0, False, "", 0
    while place < len(words):
        word = words[place]
        length = next((length for length in lengths if keys[place : place + length] in names), 0)
        stop, before = stop or word.stop, "" if word.stop else before
        if length or word.kind != FUNCTION:
            key, kind = (" ".join(keys[place : place + length]), NAME) if length else (word.stem, word.kind)
            found.append(_Item(key, kind, stop, before))
            stop, since = False, since + 1
            before = before if kind == WORD and since == 1 else ""  # "in late 1990": of the year, too
        elif word.key in _PREPOSITIONS | _CONJUNCTIONS:
            before, since = word.key, 0
        place += length or 1
    return found


def _paraphrases(quote: list[_Word], window: list[_Word], title: Words) -> bool:
    """Return whether a sentence states no more than neighbouring sentences do; all have numbers and dates merged."""
    if _changes_gender(quote, window):
        return False
    quote = _same_dates(quote, window)
    cased = _is_cased(quote, window)
    quote, window = _with_names(quote, window, cased), _with_names(window, window, True)
    names, keys = _runs_of_names(quote), tuple(word.key for word in window)
    headed = {name for name in names if _contains(tuple(word.key for word in title), name)}
    if not all(name in headed or _contains(keys, name) for name in names):
        return False
    said, there = _items(quote, names), _items(window, names)
    return _Alignment(said, there, {" ".join(name) for name in headed}).is_harmless(cased)


def _changes_gender(quote: Words, window: Words) -> bool:
    """Return whether a quote has "she" where its window has nothing but "he", or the other way around."""
    said, there = {word.key for word in quote}, {word.key for word in window}
    return any(
        said & one and there & other and not (said & other or there & one) for one, other in (_BOTH, _BOTH[::-1])
    )


def _is_cased(quote: Words, window: Words) -> bool:
    """Return whether names can be told by their capitals: not if a known one is in small letters, or all words are."""
    small = {word.key for word in quote if word.kind == WORD and not word.capital}
    content = [word.capital for word in quote[1:] if word.kind in (NAME, WORD)]
    names = {word.key for word in window if word.kind == NAME} - {word.key for word in window if word.kind == WORD}
    return any(word.capital for word in quote) and not small & names and (len(content) < 3 or not all(content))


def _same_dates(quote: list[_Word], window: list[_Word]) -> list[_Word]:
    """Return the quote with the keys of the dates of the window for those that state less: "May 1990", "1990"."""
    keys = {word.key: word.key.split("-") for word in window if word.kind == NUMBER}
    dates = {key: parts for key, parts in keys.items() if len(parts) == 3}

    def same(word: _Word) -> _Word:
        stated = [word.key, "", ""] if _YEAR.fullmatch(word.key) else word.key.split("-")
        if word.kind != NUMBER or word.key in keys or len(stated) != 3:
            return word
        fuller = (key for key, parts in dates.items() if all(a in ("", b) for a, b in zip(stated, parts, strict=True)))
        return word._replace(key=next(fuller, word.key))

    return list(map(same, quote))


def _with_names(quote: list[_Word], window: list[_Word], cased: bool) -> list[_Word]:
    """Return the quote with those words as names that the window has with capitals alone, and without common nouns."""
    names = {word.key for word in window if word.kind == NAME}
    common = {word.stem for word in window if word.kind == WORD}

    def told(word: _Word) -> _Word:
        if word.kind not in (NAME, WORD):
            return word
        plain = word._replace(kind=WORD)
        if plain.stem in common or word.key in common:
            return plain
        return word._replace(kind=NAME) if word.key in names or (cased and word.kind == NAME) else plain

    return list(map(told, quote))


def _runs_of_names(words: Words) -> set[tuple[str, ...]]:
    """Return the names: words next to each other, without punctuation between them."""
    runs: list[list[str]] = []
    previous = ""
    for word in words:
        if word.kind == NAME:
            if previous != NAME or word.stop or word.apart:
                runs.append([])
            runs[-1].append(word.key)
        previous = word.kind
    return set(map(tuple, runs))


def _contains(keys: tuple[str, ...], name: tuple[str, ...]) -> bool:
    return any(keys[place : place + len(name)] == name for place in range(len(keys) - len(name) + 1))


class _Gap(NamedTuple):
    """What stands between two runs of items that a quote shares with its window.

    Args:
        said: Items of the quote alone.
        left: Items of the window alone; at an end of the quote, up to the next punctuation.
        inner: Whether shared items stand on both sides.
        bracketed: Whether `left` stands between punctuation.
        then: The kind of the shared item behind it; empty if there is none.
    """

    said: list[_Item]
    left: list[_Item]
    inner: bool
    bracketed: bool
    then: str


class _Alignment:
    """A quote beside its window, item by item.

    Args:
        said: Items of the quote.
        there: Items of the window.
        headed: Names of the quote that the title has.
    """

    def __init__(self, said: list[_Item], there: list[_Item], headed: set[str]):
        self._said, self._there, self._headed = said, there, headed
        matcher = SequenceMatcher(None, [item.key for item in there], [item.key for item in said], autojunk=False)
        self._runs = [run for run in matcher.get_matching_blocks() if run.size]
        self._gaps = list(self._found_gaps())
        shared = {place for run in self._runs for place in range(run.a, run.a + run.size)}
        self._unshared = [item for place, item in enumerate(there) if place not in shared]

    def _found_gaps(self) -> Iterator[_Gap]:
        at_said = at_there = 0
        for number, run in enumerate([*self._runs, None]):
            end_said, end_there = (run.b, run.a) if run else (len(self._said), len(self._there))
            said, left = self._said[at_said:end_said], self._there[at_there:end_there]
            inner = 0 < number < len(self._runs)
            then = self._there[end_there] if run else None
            ends = then is not None and then.stop and then.before not in _CONJUNCTIONS
            bracketed = inner and ends and bool(left) and left[0].stop
            if not inner:  # at an end, what is near and not behind punctuation
                near = len(said) + _NEAR_END
                stops = [place for place, item in enumerate([*left, *self._there[end_there:][:1]]) if item.stop]
                left = left[max([0, len(left) - near, *stops]) :] if run else left[: min([near, *stops])]
            yield _Gap(said, left, inner, bracketed, then.kind if then else "")
            if run:
                at_said, at_there = run.b + run.size, run.a + run.size

    def is_harmless(self, cased: bool) -> bool:
        """Return whether nothing in the quote changes a name, number, date or negation of the window."""
        unknown = [item for gap in self._gaps for item in gap.said if self._is_unknown(item)]
        shared = sum(run.size for run in self._runs)
        if (
            2 * shared <= len(self._said)
            or len(unknown) > (1 - _KNOWN) * len(self._said)
            or (not cased and any(item.kind == WORD for item in unknown))
        ):
            return False
        gaps = all(all(self._may_add(item, gap) for item in gap.said) and self._may_omit(gap) for gap in self._gaps)
        return gaps and not any(map(self._reverses, self._gaps)) and all(map(self._keeps_bonds, self._runs))

    def _reverses(self, gap: _Gap) -> bool:
        """Return whether a quote puts an opposite for a word of the window, or adds or leaves out "failed to"."""
        said, left = ([item.key for item in items if item.kind == WORD] for items in (gap.said, gap.left))
        unshared = [item.key for item in self._unshared if item.kind == WORD]
        rivals = [(item.key, unshared if self._is_unknown(item) else left) for item in gap.said if item.kind == WORD]
        opposed = any(
            any(exclude_each_other(word, other) for other in others) and not any(alike(word, other) for other in others)
            for word, others in rivals
        )
        added = any(turns(word) and word not in unshared for word in said) and not any(map(turns, left))
        known = {item.key for item in self._said}
        omitted = any(turns(word) and word not in known and not any(alike(word, one) for one in said) for word in left)
        return opposed or added or (omitted and not any(map(turns, said)))

    def _is_unknown(self, item: _Item) -> bool:
        return item.key not in {other.key for other in self._there} | self._headed

    def _may_omit(self, gap: _Gap) -> bool:
        """Return whether what a quote leaves out in a gap is no negation, and nothing in whose place it puts other."""
        if any(item.kind == BOUND and (gap.inner or gap.said or item.key in _NEGATIONS) for item in gap.left):
            return False
        hard = [item for item in gap.left if item.kind in (NAME, NUMBER)]
        if gap.said:
            of_title = {key for item in gap.said if item.key in self._headed for key in item.key.split()}
            moved = {item.key for item in self._said} if not any(item.kind == NAME for item in gap.said) else set()
            return all(item.key in of_title | moved for item in hard) and not any(item.kind == HAN for item in gap.left)
        if gap.inner and _leads_elsewhere(gap.left):
            return False
        if not gap.inner or gap.bracketed or all(item.key in {other.key for other in self._said} for item in hard):
            return True
        phrase = all(item.before in _PREPOSITIONS for item in hard) and len(hard) == len(gap.left)
        return phrase and gap.then not in {item.kind for item in hard}

    def _may_add(self, item: _Item, gap: _Gap) -> bool:
        if item.kind in (NAME, NUMBER):
            return self._is_of_title(item) or self._is_repeated(item) or self._is_moved(item)
        if item.kind == HAN:
            return len(gap.said) <= _LONGEST_ADDITION and all(
                item.key != other.key for other_gap in self._gaps for other in other_gap.left
            )
        return item.kind != BOUND and not (self._is_unknown(item) and self._is_negated(item))

    def _is_of_title(self, item: _Item) -> bool:
        """Return whether a name stands for a pronoun: the title has it, and the window not at another place."""
        return item.key in self._headed and all(item.key != other.key for other in self._unshared)

    def _is_repeated(self, item: _Item) -> bool:
        """Return whether the quote has the name elsewhere within a longer one."""
        return item.kind == NAME and any(
            f" {item.key} " in f" {other.key} " and other.key != item.key for other in self._said if other.kind == NAME
        )

    def _is_moved(self, item: _Item) -> bool:
        """Return whether the window has a name or number at another place behind a preposition that no other has."""
        rivals = {other.key for other in self._said if (other.kind, other.before) == (item.kind, item.before)}
        same = any((item.key, item.before) == (other.key, other.before) for other in self._unshared)
        return item.before in _PREPOSITIONS and same and rivals == {item.key}

    def _is_negated(self, item: _Item) -> bool:
        """Return whether an unknown word is a word of the window with or without "un-"."""
        there = {other.key for other in self._there}
        without = {item.key.removeprefix(prefix) for prefix in _NEGATING} - {item.key}
        return bool(there & (without | {f"{prefix}{item.key}" for prefix in _NEGATING}))

    def _keeps_bonds(self, run: Match) -> bool:
        """Return whether a run keeps words such as "after", and what follows a negation or number at its end."""
        pairs = list(zip(self._said[run.b :][: run.size], self._there[run.a :], strict=False))
        if any(one.before != two.before and _is_ordered(one.before, two.before) for one, two in pairs):
            return False
        if any(one.kind == NAME and {one.before, two.before} == {"by", ""} for one, two in pairs[1:] if not one.stop):
            return False  # "beaten by" and "beat"
        last = self._said[run.b + run.size - 1]
        said, there = self._said[run.b + run.size :][:1], self._there[run.a + run.size :][:1]
        if last.kind != BOUND and (last.kind != NUMBER or (_is_free(last.key) and not _are_units(said, there))):
            return True
        if not said or said[0].stop or not there or there[0].stop:
            return True
        if last.kind == NUMBER and (said[0].kind in (NAME, NUMBER) or said[0].before):
            return True
        return self._is_unknown(said[0]) and there[0].kind == WORD and not _are_units(said, there)


def _leads_elsewhere(left: Sequence[_Item]) -> bool:
    """Return whether words that are left out lead from the middle of a clause into the middle of another."""
    contrast = any((item.stop and item.before in _CONTRASTS) or item.key in _CONTRASTS for item in left)
    return contrast or any(item.stop and not left[0].stop for item in left)


def _is_ordered(one: str, other: str) -> bool:
    """Return whether the exchange of two prepositions changes an order or a direction."""
    return bool({one, other} & _ORDERING) or {one, other} == {"from", "to"}


def _are_units(*items: Sequence[_Item]) -> bool:
    return any(item.key in _UNITS for each in items for item in each)


def _is_free(number: str) -> bool:
    """Return whether a number counts nothing: a date, a year or a rank."""
    return _YEAR.fullmatch(number) is not None or number.count("-") == 2 or number.endswith("th")
