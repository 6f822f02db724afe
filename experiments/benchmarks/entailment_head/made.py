"""Statements made from real passages: entailed ones, and six kinds of contradictions that differ in one point.

The edits are rules on the words of one sentence, so that some are clumsy; each is false, or at least not stated, given
its passage. A statement is never made from a passage that lacks what the edit needs.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

KINDS = ("changed number", "negation", "swapped roles", "wrong entity", "wrong relation", "added detail")
ENTAILED = "entailed"
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?![\w.,]*\d)")
_NAME = re.compile(r"(?<![.!?] )(?<!^)\b[A-Z][\w'’-]+(?: (?:of |the )?[A-Z][\w'’-]+)*")
_AUXILIARY = re.compile(r"\b(is|was|are|were|has|had|can|will|could|would|did|does)\b(?! (?:not|no|never)\b)")
_PRONOUN = re.compile(r"^(?:He|She|It|They)\b")
_TAIL = re.compile(r"^(.{25,}?), (?:which|who|where|and|but|with|while) .*$")
_OPPOSITES = (
    ("before", "after"), ("born", "died"), ("first", "last"), ("north", "south"), ("northern", "southern"),
    ("east", "west"), ("eastern", "western"), ("won", "lost"), ("largest", "smallest"), ("older", "younger"),
    ("increased", "decreased"), ("opened", "closed"), ("founded", "dissolved"), ("more", "fewer"), ("early", "late"),
    ("father", "son"), ("mother", "daughter"), ("husband", "brother"), ("wife", "sister"), ("joined", "left"),
    ("directed", "produced"), ("written", "directed"), ("male", "female"), ("higher", "lower"), ("began", "ended"),
    ("bought", "sold"), ("public", "private"), ("oldest", "newest"), ("most", "least"), ("actor", "politician"),
    ("singer", "painter"), ("film", "novel"), ("album", "film"), ("river", "mountain"), ("city", "island"),
)  # fmt: skip
_OPPOSITE = {word: other for pair in _OPPOSITES for word, other in (pair, pair[::-1])}
_RELATION = re.compile(r"\b(" + "|".join(sorted(_OPPOSITE, key=len, reverse=True)) + r")\b")
_BRACKETED = re.compile(r"\s*\([^()]*\)")
_ASIDE = re.compile(r"^(.{10,}?), (?:[a-z][^,]{5,}), ((?:is|was|were|are|has|had|[a-z]+ed) .+)$")
_ADJUNCT = re.compile(r"^(.{25,}) (?:in|on|at|during|for|from|with|after|before) (?:the )?[A-Z0-9][^,;]{2,30}\.$")
_LEADING = re.compile(r"^((?:In|On|At|During|After|Before) [^,]{3,40}), (.{15,})\.$")
_FEWEST, _MOST = 7, 40  # words of a sentence that statements are made from


@dataclass(frozen=True)
class Statement:
    """A statement made from a passage.

    Args:
        premise: The passage.
        text: The statement.
        kind: "entailed", or one of `KINDS`.
    """

    premise: str
    text: str
    kind: str


def sentences(text: str) -> list[str]:
    """Return the sentences of a passage that statements can be made from."""
    found = [sentence.strip() for sentence in _END.split(text)]
    return [sentence for sentence in found if _FEWEST <= len(sentence.split()) <= _MOST]


def make_statements(passages: Sequence[tuple[str, str]], seed: int = 0) -> list[Statement]:
    """Return for each passage an entailed statement, and up to two contradictions of the rarest kinds so far.

    Args:
        passages: (title, text); names and details of one are put into statements on others.
        seed: Of all choices.
    """
    chance = random.Random(seed)
    names = [name for _, text in passages for name in _NAME.findall(text)] or ["Ansa Merrow"]
    others = [sentence for _, text in passages for sentence in sentences(text)]
    counts = dict.fromkeys(KINDS, 0)
    made: list[Statement] = []
    for title, text in passages:
        chosen = sentences(text)
        if not chosen:
            continue
        base = _reworded(_named(chance.choice(chosen), title), chance)
        made.append(Statement(text, base, ENTAILED))
        edits: dict[str, Callable[[], str | None]] = {
            "changed number": lambda base=base, text=text: _changed_number(base, text, chance),  # type: ignore[misc]
            "negation": lambda base=base: _negated(base, chance),  # type: ignore[misc]
            "swapped roles": lambda base=base, title=title: _swapped(base, title, chance),  # type: ignore[misc]
            "wrong entity": lambda base=base, text=text: _wrong_entity(base, text, names, chance),  # type: ignore[misc]
            "wrong relation": lambda base=base, text=text: _wrong_relation(base, text, chance),  # type: ignore[misc]
            "added detail": lambda base=base, text=text: _added(base, text, others, chance),  # type: ignore[misc]
        }
        left = 2
        for kind in sorted(KINDS, key=lambda kind: (counts[kind], kind)):
            edited = edits[kind]() if left else None
            if edited is not None and edited not in text:
                made.append(Statement(text, edited, kind))
                counts[kind] += 1
                left -= 1
    return made


def _named(sentence: str, title: str) -> str:
    """Return a sentence that says whom it is about: a pronoun at its beginning becomes the title."""
    name = re.sub(r"\s*\([^)]*\)$", "", title)
    return _PRONOUN.sub(lambda _: name, sentence) if name else sentence


def _reworded(sentence: str, chance: random.Random) -> str:
    """Return a sentence with some of its details left out, or one moved to its end; it says nothing new.

    Otherwise a copy would be entailed and any other statement not.
    """
    if chance.random() < 0.5:
        sentence = _BRACKETED.sub("", sentence)
    if chance.random() < 0.5 and (match := _TAIL.match(sentence)):
        sentence = f"{match[1]}."
    if chance.random() < 0.7 and (match := _ASIDE.match(sentence)):
        sentence = f"{match[1]} {match[2]}"
    if chance.random() < 0.7 and (match := _LEADING.match(sentence)):
        moved = f" {match[1][0].lower()}{match[1][1:]}" if chance.random() < 0.5 else ""
        sentence = f"{match[2][0].upper()}{match[2][1:]}{moved}."
    if chance.random() < 0.4 and (match := _ADJUNCT.match(sentence)):
        sentence = f"{match[1]}."
    return sentence


def _replace(text: str, start: int, end: int, new: str) -> str:
    return text[:start] + new + text[end:]


def _changed_number(sentence: str, premise: str, chance: random.Random) -> str | None:
    found = list(_NUMBER.finditer(sentence))
    if not found:
        return None
    match = chance.choice(found)
    present = set(_NUMBER.findall(premise))
    others = sorted(present - {match[0]})
    if others and chance.random() < 0.3:
        new = chance.choice(others)  # a number of the passage that belongs elsewhere
    else:
        digits = list(match[0])
        places = [place for place, digit in enumerate(digits) if digit.isdigit()]
        place = chance.choice(places)
        digits[place] = str((int(digits[place]) + chance.randint(1, 8)) % 10 or 1)
        new = "".join(digits)
    return None if new == match[0] else _replace(sentence, *match.span(), new)


def _negated(sentence: str, chance: random.Random) -> str | None:
    match = _AUXILIARY.search(sentence)
    if match is None:
        return None
    word = chance.choice(("not", "not", "never"))
    return _replace(sentence, match.end(), match.end(), f" {word}")


def _swapped(sentence: str, title: str, chance: random.Random) -> str | None:
    subject = re.sub(r"\s*\([^)]*\)$", "", title)
    found = [match for match in _NAME.finditer(sentence) if match[0] not in subject]
    if subject and sentence.startswith(subject) and found:
        other = chance.choice(found)
        return other[0] + sentence[len(subject) : other.start()] + subject + sentence[other.end() :]
    if len(found) < 2:
        return None
    first, second = found[0], found[-1]
    if first[0] == second[0]:
        return None
    return (
        sentence[: first.start()]
        + second[0]
        + sentence[first.end() : second.start()]
        + first[0]
        + sentence[second.end() :]
    )


def _wrong_entity(sentence: str, premise: str, names: Sequence[str], chance: random.Random) -> str | None:
    found = list(_NAME.finditer(sentence))
    if not found:
        return None
    match = chance.choice(found)
    size = len(match[0].split())
    for _ in range(30):
        name = chance.choice(names)
        if name not in premise and len(name.split()) == size:
            return _replace(sentence, *match.span(), name)
    return None


def _wrong_relation(sentence: str, premise: str, chance: random.Random) -> str | None:
    found = [match for match in _RELATION.finditer(sentence) if not re.search(rf"\b{_OPPOSITE[match[0]]}\b", premise)]
    if not found:
        return None
    match = chance.choice(found)
    return _replace(sentence, *match.span(), _OPPOSITE[match[0]])


def _added(sentence: str, premise: str, others: Sequence[str], chance: random.Random) -> str | None:
    other = chance.choice(others)
    if other in premise:
        return None
    words = other.rstrip(".!?").split()
    cut = next(
        (place for place, word in enumerate(words) if place > 2 and word in ("in", "by", "from", "with", "at")), None
    )
    if cut is None or len(words) - cut > 10:
        return None
    return f"{sentence.rstrip('.!?')} {' '.join(words[cut:])}."
