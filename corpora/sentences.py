"""Sentences of documents: those of `split_sentences`, at many times its speed.

pysbd, which splits English, looks at every text with hundreds of expressions and takes 4 s a MB. Most stops need one
look at the words beside them, by the same rules (its tables are used); a sentence in which a stop needs more, such as
an ellipsis, single quotation marks or a list within a line, is given to pysbd itself.
"""

import bisect
import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from signatures.text import CJK, is_chinese, split_sentences

# What a sentence may end with: most cells of tables and items of lists have nothing of it.
_MAY_END = re.compile(r"""[.!?。．！？)\n\r]|-["'“”]""")
_SPECIAL = re.compile(r"[。．！？\\∯∮♨☝ȸȹ\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")  # pysbd's own signs, too
_CJK = re.compile(f"[{CJK}]")
_ITEM = re.compile(r"[\s(](?:([a-z]|[ivx]{2,5})[.)]|[-⁃]?(\d{1,2})(?:\.(?=[\s)])|(\))(?=\s)))")
# Where one may end, for a quick look.
_ITEM_END = re.compile(
    r"[.)](?:(?<=[\s(⁃-][a-z\d].)|(?<=[\s(⁃-][ivx\d]{2}.)|(?<=[\s(][ivx]{3}.)|(?<=[\s(][ivx]{4}.)|(?<=[\s(][ivx]{5}.))"
)
_NUMBER_IN_BRACKETS = re.compile(r"\d{1,2}(?=\)\s)")
_ROMAN = "i ii iii iv v vi vii viii ix x xi xii xiii xiv xv xvi xvii xviii xix xx".split()
_SINGLE_QUOTES = re.compile(r"(?<!\w)‘|(?<=[.!?])’(?=\s|$)")  # as `split_sentences` replaces them
_SINGLE_QUOTED = re.compile(r"(?<=\s)'(?:[^']|'[a-zA-Z])*'")
_MARK = r"\s*\[\s?\d{1,3}(?:\s?[,;–-]\s?\d{1,3})*\s?\]"
_MARKS, _MARKS_BEFORE = re.compile(rf"(?:{_MARK})+"), re.compile(rf"(?:{_MARK})+$")
_STOP = re.compile(r"[.!?]")
_DASH = re.compile(r"""-["'“”]\s[A-Z]""")
_STOP_OR_DASH = re.compile(r"""[.!?]|-(?=["'“”]\s[A-Z])""")
_SPANS = {  # stops in these end no sentence
    '"': re.compile(r'"[^"]+"'),
    "(": re.compile(r"\([^()]+\)"),
    "[": re.compile(r"\[[^\]]+\]"),
    "«": re.compile(r"«[^»]+»"),
    "“": re.compile(r"“[^”]+”"),
    "--": re.compile(r"--[^-]+--"),
}
_OPENED = re.compile(r"""\s*(\([^)]{2,}\)|"[^"]*[^,]"|'[^']*[^,]'|“[^”]*[^,]”)(?=\s[A-Z])""")
_OPENING = ('"', "(", "'", "“", "")
_BETWEEN_QUOTES = re.compile(r"""["”]\s\(.*\)\s["“]""")
_QUOTED_END = re.compile(r"""["'“”]\s[A-Z]""")
_QUOTES = ('"', "'", "“", "”")
_PERIODS = re.compile(r"\b[a-z](?:\.[a-z])+$", re.IGNORECASE)
_BEFORE_STARTER = re.compile(r"(?:U.S|U.K|E.U|U.S.A|I|i.v|I.V)$")
_IN_WORD = re.compile(r"\w\.\w", re.ASCII)
_REFERENCE = re.compile(r"\.(?:\d{1,3}\s?)?\d{1,3}\s[A-Z]")
_GOES_ON = re.compile(r"\s(?:[a-z\d(]|I\s|I'm|I'll)|[:\-?,]")  # after an abbreviation
_LONGEST_WORD = 40  # before a stop, for it to be looked at


class _Rules(NamedTuple):
    """pysbd's tables for English."""

    abbreviations: frozenset[str]
    before_names: frozenset[str]
    before_numbers: frozenset[str]
    starter: re.Pattern[str]


@functools.cache
def _rules() -> _Rules:
    from pysbd.lang.english import English  # imported late, because it takes 0.1 seconds

    table = English.Abbreviation
    starters = "|".join(English.AbbreviationReplacer.SENTENCE_STARTERS)
    return _Rules(
        frozenset(table.ABBREVIATIONS),
        frozenset(table.PREPOSITIVE_ABBREVIATIONS),
        frozenset(table.NUMBER_ABBREVIATIONS),
        re.compile(rf"\s(?:{starters})\s"),
    )


def document_sentences(paragraph: str, language: str = "en") -> list[str]:
    """Return the sentences of a paragraph, stripped, none empty; no character is lost but white space.

    Where they differ from those of `split_sentences`, which is rare, a sentence has two of the other's, or is half.
    The rules of a language other than English are pysbd's alone, at its speed.
    """
    if not _MAY_END.search(paragraph):
        return [paragraph.strip()]
    chinese = not paragraph.isascii() and _CJK.search(paragraph) and is_chinese(paragraph)
    if chinese or _SPECIAL.search(paragraph) or _is_list(paragraph) or language != "en":
        return _by_pysbd(paragraph, language)
    found: list[str] = []
    for line in paragraph.splitlines():
        if line and not line.isspace():
            found += _of_line(line, first=not found)
    return found


def _by_pysbd(text: str, language: str = "en") -> list[str]:
    """Split into sentences; if the splitter would lose a character, keep the text in one piece."""
    sentences = split_sentences(text, language)
    if len(sentences) == 1:
        return sentences
    # The order of characters does not count, because citation marks move in front of the full stop.
    kept = Counter("".join("".join(sentences).split()))
    return sentences if kept == Counter("".join(text.split())) else [text.strip()]


def _is_list(paragraph: str) -> bool:
    """Return whether a paragraph may have items of a list, at which pysbd breaks lines: neighbours in order."""
    if len(_ITEM_END.findall(f" {paragraph}")) < 2:  # one item is not a list
        return False
    items = _ITEM.findall(f" {paragraph}")
    lists = [[int(number) for _, number, bracket in items if number and not bracket]]
    if any(bracket for _, _, bracket in items):
        lists.append([int(number) for number in _NUMBER_IN_BRACKETS.findall(paragraph)])
    if any(abs(one - other) in (1, 9) for numbers in lists for one, other in itertools.pairwise(numbers)):
        return True
    letters = [letter for letter, _, _ in items if letter]
    places = [ord(letter) for letter in letters if len(letter) == 1]
    romans = [_ROMAN.index(letter) for letter in letters if letter in _ROMAN]
    # The last is compared with the first, too, as pysbd does.
    rings = ([*each, *each[:1]] for each in (places, romans))
    return any(abs(one - other) == 1 for ring in rings for one, other in itertools.pairwise(ring))


def _of_line(shown: str, *, first: bool) -> Iterator[str]:
    """Yield the sentences of one line; `first` if it begins its paragraph."""
    if "(" in shown and _BETWEEN_QUOTES.search(shown):
        yield from _by_pysbd(shown)
        return
    line = _SINGLE_QUOTES.sub("'", shown) if "‘" in shown or "’" in shown else shown
    spans = _spans(line)
    start, unclear = _opened(line, 0)
    if start:
        yield shown[:start].strip()
    for match in (_STOP_OR_DASH if "-" in line and _DASH.search(line) else _STOP).finditer(line, start):
        end = _end(line, match.start(), spans, first)
        if end is None:
            unclear = True
        elif end > start:
            yield from _sentence(shown[start:end], unclear)
            start = end
            end, unclear = _opened(line, start) if line[start : start + 4].lstrip()[:1] in _OPENING else (start, False)
            if end > start:
                yield shown[start:end].strip()
                start = end
    yield from _sentence(shown[start:], unclear)


def _sentence(text: str, unclear: bool) -> list[str]:
    if unclear:
        return _by_pysbd(text)
    return [text.strip()] if text and not text.isspace() else []


def _spans(line: str) -> list[tuple[int, int]]:
    """Return what stands in brackets and quotation marks, in order; what overlaps is one."""
    found = [match.span() for sign, span in _SPANS.items() if sign in line for match in span.finditer(line)]
    if " '" in line:
        quoted = [match.span() for match in _SINGLE_QUOTED.finditer(line)]
        apostrophes = any(end < len(line) and not line[end].isspace() for _, end in quoted) and "' " not in line
        found += [] if apostrophes else quoted
    spans: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if spans and start < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


def _opened(line: str, start: int) -> tuple[int, bool]:
    """Return where a sentence in brackets or quotation marks ends that begins at `start`, and whether that is unclear.

    Without such a sentence that is `start`.
    """
    match = _OPENED.match(line, start)
    if match is None:
        return start, False
    return (start, True) if match[1].strip("()").strip("mdclxvi") == "" else (match.end(), False)


def _end(line: str, stop: int, spans: list[tuple[int, int]], first: bool) -> int | None:
    """Return where the sentence ends that the stop ends; 0 if it ends none, None if pysbd must say."""
    after = line[stop + 1 : stop + 2]
    quoted = after in _QUOTES and bool(_QUOTED_END.match(line, stop + 1))
    place = bisect.bisect_right(spans, (stop, 0)) - 1 if spans else -1
    inside = place >= 0 and stop < spans[place][1]
    if after == " " and not inside and line[stop] == "." and line[stop + 2 : stop + 3] != "[":
        word = line[line.rfind(" ", 0, stop) + 1 : stop]
        if len(word) > 1 and word.isalpha() and word.lower() not in _rules().abbreviations:  # most stops
            return stop + 1
    if inside or line[stop] == "-":
        if after in _QUOTES and "[" in line[stop + 2 : stop + 4]:
            return None
        return stop + 2 if quoted else 0
    if "[" in line[stop + 1 : stop + 3] and (marks := _MARKS.match(line, stop + 1)):
        # The text is split as it reads without its citation marks, and these belong to the sentence before.
        if not line[marks.end() : marks.end() + 1].isspace() and marks.end() < len(line):
            return None
        end = _end(line[: stop + 1] + line[marks.end() :], stop, spans, first)
        return end and end + marks.end() - stop - 1
    if line[stop] != ".":
        several = line[stop - 1 : stop] in (".", "!", "?")
        if several or (after and not after.isspace()) or line.endswith(("Yahoo", "Yum"), 0, stop):
            return None
        return 0 if line[stop] == "!" and "a" <= line[stop + 2 : stop + 3] <= "z" else stop + 1
    if quoted:
        return None
    return _end_of_word(line, stop, after, first)


def _end_of_word(line: str, stop: int, after: str, first: bool) -> int | None:
    """Return what `_end` does for a full stop outside of quotation marks and brackets."""
    before = line[max(0, stop - _LONGEST_WORD) : stop]
    if before[-1:] == "]":
        before = _MARKS_BEFORE.sub("", before)
    word = "" if before[-1:].isspace() or not before else before.split()[-1]
    if not after and word[-1:] != ".":
        return len(line)
    if after and not after.isspace():
        return _inside_word(line, stop, after, word)
    following = line[stop + 1 : stop + 4].strip()[:1]
    if not word:
        return None if following == "." or "." in before[-3:] else stop + 1
    if word[-1] in ".°":  # part of an ellipsis
        return None
    at_start = stop <= _LONGEST_WORD and before == word
    if len(word) == 1 and "A" <= word <= "Z":
        return _if_starter(line, stop)
    if "." in word and (match := _PERIODS.search(word)):
        if match[0].casefold() in ("a.m", "p.m"):
            return stop + 1 if "A" <= following <= "Z" else 0
        return _if_starter(line, stop)
    if at_start and word.isdigit() and len(word) <= (2 if first else 1):
        return 0 if following else stop + 1
    return _after_abbreviation(line, stop, word.lower())


def _if_starter(line: str, stop: int) -> int:
    """Return the end after initials, which end a sentence only in front of some words."""
    ends = _BEFORE_STARTER.search(line, max(0, stop - 5), stop) and _rules().starter.match(line, stop + 1)
    return stop + 1 if ends else 0


def _after_abbreviation(line: str, stop: int, word: str) -> int | None:
    rules = _rules()
    if word not in rules.abbreviations:
        return stop + 1
    if word in rules.before_names:
        return 0
    following = line[stop + 1 : stop + 8]
    if word in rules.before_numbers:
        return 0 if following[1:2].isdigit() or following.lstrip()[:1] == "(" else stop + 1
    if word == "co" and following.strip().startswith("KG"):
        return 0
    return 0 if _GOES_ON.match(following) else stop + 1


def _inside_word(line: str, stop: int, after: str, word: str) -> int | None:
    """Return what `_end` does for a full stop that white space does not follow."""
    before = word[-1:]
    if after.isdigit():
        return None if not before.isdigit() and _REFERENCE.match(line, stop) else 0
    if before.isdigit():
        return 0
    if _PERIODS.search(word):
        return 0
    if _IN_WORD.match(line, max(0, stop - 1)):
        return 0 if word[-2:-1] != "." else None
    if after == "," and len(word) == 1 and "A" <= word <= "Z" and line[stop + 2 : stop + 3].isspace():
        return 0
    rules = _rules()
    if word.lower() not in rules.abbreviations:
        return stop + 1 if after == "[" else None
    general = word.lower() not in rules.before_names and word.lower() not in rules.before_numbers
    return 0 if general and after in ":-?," else None
