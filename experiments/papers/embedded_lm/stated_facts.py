"""What the first sentence of an encyclopedia's paragraph states of its subject, found by patterns.

Only what a pattern is sure of is taken: a sentence of another form states nothing here.
"""

import html
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from corpora.passages import PassageRecord
from signatures.text import split_sentences
from signatures.text_words import without_brackets

BORN, DIED, RELEASED = "born", "died", "released"  # answered by a date or a year
NATIONALITY, COUNTRY, KIND = "nationality", "country", "kind"  # answered by a word that two subjects may share
DIRECTOR, PERFORMER, AUTHOR = "director", "performer", "author"  # answered by the title of another paragraph


@dataclass(frozen=True)
class Stated:
    """A subject and what its paragraph states of it.

    Args:
        name: The title of the paragraph without what tells it from others of the name.
        passage: The paragraph, whose first sentence states all values.
        values: Property -> value, as the sentence has it.
    """

    name: str
    passage: PassageRecord
    values: dict[str, str]


MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_MONTH = f"(?:{MONTHS})"
_DATE = rf"(?:\d{{1,2}} {_MONTH} \d{{3,4}}|{_MONTH} \d{{1,2}}, \d{{3,4}}|{_MONTH} \d{{3,4}}|\d{{4}})"
_UNSURE = re.compile(r"\bor\b|/|\bca?\.|\bcirca\b|\?|\babout\b")  # of a date
_IN_BRACKETS = re.compile(r"\(([^()]*)\)")
_BIRTH = re.compile(rf"\b(?:born|b\.)(?: on| in)?:? ?(?P<born>{_DATE})")
_DEATH = re.compile(rf"\b(?:died|d\.)(?: on| in)? ?(?P<died>{_DATE})")
_LIFE = re.compile(rf"(?P<born>{_DATE})(?:,? (?:in )?[A-Z][\w ,]*?)?? ?[–-]+ ?(?:[A-Z][\w ,]*?,? )??(?P<died>{_DATE})")
_FILM = re.compile(r"\bis an? (?P<released>\d{4})(?P<about> [^.]*?)?\bfilm\b")
_NAME = (
    r"(?P<{}>[A-Z][\w.'-]*(?: (?:[A-Z][\w.'-]*|de|van|von|da|del|la))+)(?! and [A-Z]|, [A-Z]| & )(?= [a-z(]|[.,;]|$)"
)
_NOT_BY = r"(?:(?!written|composed|produced|published)[^.])*? by (?:the )?(?:[A-Z]\w+ (?=[a-z]))?(?:[a-z][\w -]* )?"
_DIRECTED = re.compile(r"(?<![-–])(?<![-–] )\bdirected by " + _NAME.format(DIRECTOR))
_PERFORMED = re.compile(r"\bis an? (?:\w[\w -]* )?(?:song|single|album)\b" + _NOT_BY + _NAME.format(PERFORMER))
_WRITTEN = re.compile(r"\bis an? (?:\w[\w -]* )?novel\b" + _NOT_BY + _NAME.format(AUTHOR))
_IS = re.compile(r"\b(?:is|was) (?:an?|the) (?P<about>[^.]*)")
_PLACE = re.compile(
    r"\bis an? (?:\w+ ){0,3}?(?:village|town|city|commune|municipality|river|lake|mountain|island|district)\b"
)

_ADJECTIVES = frozenset(
    "American Argentine Armenian Australian Austrian Bangladeshi Belgian Brazilian British Bulgarian Canadian Chilean "
    "Chinese Colombian Croatian Cuban Czech Danish Dutch Egyptian English Estonian Filipino Finnish French Georgian "
    "German Greek Hungarian Icelandic Indian Indonesian Iranian Irish Israeli Italian Jamaican Japanese Kenyan Latvian "
    "Lebanese Lithuanian Malaysian Mexican Nigerian Norwegian Pakistani Peruvian Polish Portuguese Romanian Russian "
    "Scottish Serbian Slovak Slovenian Spanish Swedish Swiss Thai Turkish Ukrainian Uruguayan Venezuelan Vietnamese "
    "Welsh".split()
)
_COUNTRIES = (
    "Afghanistan Albania Argentina Armenia Australia Austria Azerbaijan Bangladesh Belarus Belgium Bolivia Brazil "
    "Bulgaria Canada Chile China Colombia Croatia Cuba Denmark Ecuador Egypt England Estonia Ethiopia Finland "
    "France Germany Greece Hungary Iceland India Indonesia Iran Iraq Ireland Israel Italy Japan Kenya Latvia "
    "Lithuania Malaysia Mexico Morocco Nepal Nigeria Norway Pakistan Peru Poland Portugal Romania Russia Scotland "
    "Serbia Slovakia Slovenia Spain Sweden Switzerland Syria Thailand Turkey Ukraine Venezuela Vietnam Wales"
).split()
_COUNTRY = re.compile(rf"\b(?:in|of) (?:[^.]*, )?(?P<country>{'|'.join(_COUNTRIES)}|the United States)(?=[.,;]|$)")
_KINDS = (
    "rock band", "band", "film", "village", "town", "river", "lake", "mountain", "island", "university",
    "magazine", "newspaper", "novel", "video game", "television series", "album", "song", "footballer", "actress",
    "actor", "singer", "politician", "painter", "composer", "poet", "novelist", "film director", "company",
    "airline", "railway station", "genus", "species",
)  # fmt: skip
_AFTER = "by|directed|from|in|on|of|and|who|that|which|located|based|written|produced|released|recorded|published|for"
_KIND = re.compile(rf"\b(?P<kind>{'|'.join(_KINDS)})(?= (?:{_AFTER})\b|[,.;]|$)")
_NOT_ONE_PERSON = re.compile(
    r"\b(?:band|brothers|company|duo|dynasty|family|group|journal|magazine|merger|newspaper|pair|periodical|team|trio|war)\b"
)
_JOINED = re.compile(r"\s*([-–/])\s*")  # two nationalities in one
_NO_NATION = frozenset(("born", "rules", "language"))  # words behind an adjective that is then no nationality
_LONGEST = 50  # words of a sentence
_SHORTEST_LIFE = 15  # years; what lasted less may be an event
_YEAR = re.compile(r"\d{3,4}")
_FIRST_PART = 160  # characters in which the brackets with the dates of a life begin


def stated_in(passage: PassageRecord) -> Stated | None:
    """Return what the first sentence of a paragraph states of the subject that its title names; None if nothing.

    Dates are looked for in brackets, so that they are of the subject's own life.
    """
    name = html.unescape(without_brackets(passage.title))
    sentences = list(passage.sentences or split_sentences(passage.text))
    first = sentences[0].strip() if sentences else ""
    if not name or not all(word in first.casefold() for word in _ends(name)) or len(first.split()) > _LONGEST:
        return None
    values = _life(first) or _work(first) or _place(first)
    found = _kind(first)
    if found and (found != "film" or RELEASED in values):  # "film" often stands before "actor"
        values = {**values, KIND: found}
    return Stated(name, passage, values) if values else None


def _ends(name: str) -> tuple[str, str]:
    words = name.casefold().split()
    return words[0], words[-1]


def _life(sentence: str) -> dict[str, str]:
    brackets = _IN_BRACKETS.search(sentence[:_FIRST_PART])
    about = _IS.search(sentence, brackets.end()) if brackets else None
    if brackets is None or about is None or _UNSURE.search(brackets[1]) or _NOT_ONE_PERSON.search(sentence.lower()):
        return {}
    found: dict[str, str] = {}
    for pattern in (_LIFE, _BIRTH, _DEATH):
        if match := pattern.search(brackets[1]):
            found = {**match.groupdict(), **found}
    if not found or _years(found) < _SHORTEST_LIFE:
        return {}
    nation = _nation(about["about"])
    return {**found, NATIONALITY: nation} if nation else found


def year_of(date: str) -> int | None:
    """Return the year of a date, as its last number of three or four digits; None without one."""
    found = _YEAR.findall(date)
    return int(found[-1]) if found else None


def _years(life: dict[str, str]) -> int:
    """Return how many years a life has, where both ends are stated; else many."""
    born, died = (year_of(life.get(name, "")) for name in (BORN, DIED))
    return died - born if born is not None and died is not None else _SHORTEST_LIFE


def _nation(about: str) -> str | None:
    """Return the nationality that a description has among its first three words; None for several, or none.

    Words beside it begin with small letters, so that "Northern Irish" and "Scottish Nationalist" are none.
    """
    words = re.split(r"[ ,]+", _JOINED.sub(r"\1", about))[:4]
    place = next((number for number, word in enumerate(words[:3]) if word in _ADJECTIVES), None)
    if place is None or any(word[:1].isupper() for word in words[:place] + words[place + 1 : place + 2]):
        return None
    return None if _NO_NATION.intersection(words[place + 1 : place + 2]) else words[place]


def _work(sentence: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for pattern in (_DIRECTED, _PERFORMED, _WRITTEN):
        if match := pattern.search(sentence):
            values |= {name: value.rstrip(".") for name, value in match.groupdict().items()}
    if film := _FILM.search(sentence):
        values[RELEASED] = film[RELEASED]
        if nation := _nation((film["about"] or "").strip()):
            values[COUNTRY] = nation
    wanted = (DIRECTOR, RELEASED, COUNTRY) if film else (PERFORMER, AUTHOR)
    return {name: value for name, value in values.items() if name in wanted}


def _place(sentence: str) -> dict[str, str]:
    found = _PLACE.search(sentence) and _COUNTRY.search(sentence)
    return {COUNTRY: found["country"]} if found else {}


def _kind(sentence: str) -> str | None:
    about = _IS.search(sentence)
    found = _KIND.search(about["about"][:60]) if about else None
    return found["kind"] if found else None


def all_stated(passages: Sequence[PassageRecord]) -> list[Stated]:
    """Return what paragraphs state, in their order, of each name once; of two paragraphs of one name, of none."""
    found = [each for each in map(stated_in, passages) if each is not None]
    times = Counter(each.name.casefold() for each in found)
    return [each for each in found if times[each.name.casefold()] == 1]
