"""Quotes with one name, number, date or negation changed, and honest ones: how many count as evidence.

    python -m experiments.benchmarks.quotes --data ../shared/data

Quotes are made from sentences of HotpotQA, 2WikiMultihopQA and MuSiQue, drawn by a hash. An attack changes one thing in
a sentence, a part of it, or a paraphrase of it: a name or number becomes that of another passage (or, harder to tell,
one of the same passage), a month another month, a negation comes or goes. An honest quote is a sentence in other
typography, cut, with an ellipsis, or a paraphrase made by rule: without function words, with synonyms of ordinary
words, with a clause at the other end, with the title for a pronoun, with dates and numbers in another form.
`experiments/results/quotes.json` has the shares that count.
"""

import argparse
import hashlib
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.benchmarks.entailment_contradictions import PASSAGES as BY_HAND
from experiments.runs.config import portable, provenance
from experiments.runs.files import write_json
from programs.parts.passages import find_quote
from signatures.text import split_sentences
from signatures.types import Passage

CHANGES = 4  # a name, a number, a date, a negation
RESULT = Path("experiments/results/quotes.json")
FILES = {
    "hotpotqa": "hotpotqa/hotpot_dev_100.hf.jsonl",
    "2wikimultihopqa": "2wikimultihopqa/2wiki_dev_64.json",
    "musique": "musique/musique_ans_dev_100.jsonl",
}
_FEWEST, _MOST = 8, 40  # words of a sentence

_MONTHS = "January February March April May June July August September October November December".split()
_MONTH = "|".join(_MONTHS)
_NAME = re.compile(rf"(?<=[a-z,(] )(?!(?:{_MONTH}|I)\b)[A-Z][a-zà-ž]{{2,}}(?: [A-Z][a-zà-ž]{{2,}}){{0,2}}(?![\w'’.-])")
_NUMBER_WORDS = (
    "two three four five six seven eight nine ten eleven twelve twenty thirty fifty first second third fourth"
)
_NUMBER = re.compile(
    rf"(?<![\w.,$£€–—/-])(?:\d{{1,3}}(?:,\d{{3}})+|\d{{1,3}}|\d\.\d)(?![\w.,–—/-]|\.\d| (?:{_MONTH})\b)"
    rf"|(?<![\w-])(?:{'|'.join(_NUMBER_WORDS.split())})(?![\w-])"
)
_DATE = re.compile(rf"\b(?:(\d{{1,2}}) )?({_MONTH})(?: (\d{{1,2}}),?)? (\d{{4}})\b|(?<=\bin )(\d{{4}})\b")
_VERB = re.compile(r"\b(?:is|was|are|were|has|had|can|could|will|would)\b(?! (?:not|never|no)\b)")
_NEGATED = re.compile(r"\b(?:not|never) |(?<=\w)n't\b|\bno longer |\bwithout\b")
_CLAUSE = re.compile(r"(?<=[,;]) ")
_SYNONYMS = {
    "film": "movie", "began": "started", "located": "situated", "many": "numerous", "released": "issued",
    "also": "in addition", "built": "constructed", "largest": "biggest", "started": "began", "children": "kids",
    "famous": "well-known", "directed": "made", "movie": "film", "published": "brought out", "received": "got",
    "created": "made", "company": "firm", "song": "track", "died": "passed away", "located in": "found in",
}  # fmt: skip
_DROPPED = re.compile(r"\b(?:the|a|an|that|which|also|is|was|are|were|has|had) ", re.IGNORECASE)
_TYPOGRAPHY: tuple[Callable[[str], str], ...] = (
    lambda text: f"“{text}”",
    str.lower,
    str.upper,
    lambda text: text.replace(" ", "  ").replace("-", "–"),
    lambda text: text.replace(" ", "\N{NO-BREAK SPACE}").replace("'", "’").replace('"', "”"),
    lambda text: f"[2] {text}",
    lambda text: text.rstrip(".") + " [1].",
    lambda text: re.sub(r"\s*([(),])(?!\d)\s*", r" \1 ", text),
)


class Sentence(NamedTuple):
    """A sentence of a passage, and what stands in front of it there."""

    text: str
    passage: Passage


class Case(NamedTuple):
    """A quote of a passage.

    Args:
        kind: What was changed, or how an honest quote was made.
        quote: The quote.
        passage: The passage that it is made from.
    """

    kind: str
    quote: str
    passage: Passage


def sentences(data: Path, seed: int = 0) -> list[Sentence]:
    """Return the sentences of the passages in an order drawn by a hash, none twice."""
    found: dict[str, Sentence] = {}
    for passage in _passages(data):
        for text in split_sentences(passage.text):
            if _FEWEST <= len(text.split()) <= _MOST and text.endswith("."):
                found.setdefault(hashlib.sha256(f"{seed}{text}".encode()).hexdigest(), Sentence(text, passage))
    return [found[key] for key in sorted(found)]


def _passages(data: Path) -> Iterator[Passage]:
    lines = (data / FILES["hotpotqa"]).read_text(encoding="utf-8").splitlines()
    for record in map(json.loads, lines):
        for title, parts in zip(*record["context"].values(), strict=True):
            yield Passage(id=title, title=title, text="".join(parts))
    for record in json.loads((data / FILES["2wikimultihopqa"]).read_text(encoding="utf-8")):
        for title, parts in record["context"]:
            yield Passage(id=title, title=title, text=" ".join(parts))
    lines = (data / FILES["musique"]).read_text(encoding="utf-8").splitlines()
    for record in map(json.loads, lines):
        for part in record["paragraphs"]:
            yield Passage(id=part["title"], title=part["title"], text=part["paragraph_text"])


def attacks(of: Sequence[Sentence], number: int, seed: int = 0) -> list[Case]:
    """Return quotes with one thing changed, as many of each kind; the form of a quote is drawn."""
    draw = random.Random(seed)
    names = sorted({found for each in of for found in _NAME.findall(each.text)})
    numbers = sorted({found for each in of for found in _NUMBER.findall(each.text)})
    changes: dict[str, Callable[[str, Sentence], str | None]] = {
        "name": lambda text, each: _replaced(text, each, _NAME, names, draw),
        "number": lambda text, each: _replaced(text, each, _NUMBER, numbers, draw),
        "date": lambda text, each: _other_date(text, draw),
        "negation": lambda text, each: _negated(text, draw),
        "name, same passage": lambda text, each: _replaced(text, each, _NAME, [], draw),
        "number, same passage": lambda text, each: _replaced(text, each, _NUMBER, [], draw),
    }
    found: list[Case] = []
    for place, (kind, change) in enumerate(changes.items()):
        cases: list[Case] = []
        for each in of[place :: len(changes)]:
            text = draw.choice((_whole, _clause, _paraphrase))(each.text, draw)
            changed = change(text, each)
            if changed and len(cases) < number // CHANGES:
                cases.append(Case(kind, draw.choice((str, str, str, str.lower))(changed), each.passage))
        found += cases
    return found


def _whole(text: str, draw: random.Random) -> str:
    return text


def _clause(text: str, draw: random.Random) -> str:
    """Return the longest part between commas, a short quote."""
    return max(_CLAUSE.split(text), key=len).strip(" ,;.")


def _paraphrase(text: str, draw: random.Random) -> str:
    """Return the text with synonyms of ordinary words, and without some function words."""
    words = [_SYNONYMS.get(word, word) for word in text.split(" ")]
    return _DROPPED.sub(lambda found: "" if draw.random() < 0.5 else found[0], " ".join(words)).strip()


def _replaced(text: str, each: Sentence, pattern: re.Pattern[str], pool: list[str], draw: random.Random) -> str | None:
    """Return the text with one match, or one word of it, changed; None if it has none.

    The other word is drawn from `pool` and not in the passage; with an empty pool, it is one of the passage.
    """
    matches = list(pattern.finditer(text))
    if not matches:
        return None
    match = draw.choice(matches)
    known = set(re.findall(r"\w+", (f"{each.passage.title} {each.passage.text}" if pool else each.text).lower()))
    pool = draw.sample(pool, min(len(pool), 40)) if pool else pattern.findall(each.passage.text)
    others = [
        other
        for other in pool
        if not known & set(re.findall(r"\w+", other.lower())) and len(other.split()) == len(match[0].split())
    ]
    if pattern is _NUMBER:
        others = [other for other in others if other[0].isdigit() == match[0][0].isdigit()]
    if not others:
        return None
    words, new = match[0].split(), others[0].split()
    if len(words) > 1 and draw.random() < 0.5:  # a first or last name
        place = draw.randrange(len(words))
        new = [*words[:place], new[place], *words[place + 1 :]]
    return f"{text[: match.start()]}{' '.join(new)}{text[match.end() :]}"


def _other_date(text: str, draw: random.Random) -> str | None:
    """Return the text with another day, month or year in one of its dates; None if it has none."""
    matches = list(_DATE.finditer(text))
    if not matches:
        return None
    match = draw.choice(matches)
    part = draw.choice([number for number in range(1, 6) if match[number]])
    old = match[part]
    if part == 2:
        new = draw.choice([month for month in _MONTHS if month != old])
    else:
        new = str(draw.choice([value for value in range(1, 29) if str(value) != old]))
        new = str(int(old) + draw.choice((-30, -10, -1, 1, 3, 10))) if part > 3 else new
    return f"{text[: match.start(part)]}{new}{text[match.end(part) :]}"


def _negated(text: str, draw: random.Random) -> str | None:
    """Return the text without its negation, or with one; None if it has neither that nor a verb to negate."""
    if match := _NEGATED.search(text):
        return f"{text[: match.start()]}{'with' if match[0] == 'without' else ''}{text[match.end() :]}"
    if match := _VERB.search(text):
        return f"{text[: match.end()]}{draw.choice((' not', ' never', ' no longer', 'n’t'))}{text[match.end() :]}"
    return None


def honest(of: Sequence[Sentence], number: int, seed: int = 1) -> list[Case]:
    """Return quotes that state what their passage does, as many of each way in which they are made."""
    draw = random.Random(seed)
    ways: dict[str, Callable[[Sentence], str | None]] = {
        "typography": lambda each: draw.choice(_TYPOGRAPHY)(draw.choice((_whole, _clause))(each.text, draw)),
        "cut": lambda each: _cut(each.text, draw),
        "ellipsis": lambda each: _shortened(each.text, " … "),
        "function words": lambda each: _changed(each.text, _DROPPED.sub("", each.text)),
        "synonyms": lambda each: _changed(each.text, " ".join(_SYNONYMS.get(word, word) for word in each.text.split())),
        "clause moved": lambda each: _moved(each.text),
        "title for pronoun": _resolved,
        "other form": lambda each: _changed(each.text, _reformatted(each.text)),
    }
    found: list[Case] = []
    for place, (kind, make) in enumerate(ways.items()):
        made = ((each.passage, make(each)) for each in of[place :: len(ways)])
        cases = [Case(kind, quote, passage) for passage, quote in made if quote]
        found += cases[: number // len(ways) if place < len(ways) - 1 else number - len(found)]
    return found


def _changed(text: str, other: str) -> str | None:
    return other if other != text else None


def _cut(text: str, draw: random.Random) -> str:
    """Return a run of words, the last cut if it is an ordinary one."""
    words = text.rstrip(".").split()
    start = draw.randrange(len(words) // 3)
    run = words[start : draw.randrange(start + 6, len(words) + 1)] if start + 6 <= len(words) else words
    last = run[-1]
    if last.isalpha() and last.islower() and len(last) > 5:
        run[-1] = last[: draw.randrange(3, len(last))]
    return " ".join(run)


def _shortened(text: str, sign: str) -> str | None:
    """Return the text with an ellipsis for what stands in brackets or between two commas, if it negates nothing."""
    match = re.search(r" ?\([^()]{5,}\) |, [a-z][^,.;]{10,}, ", text)
    return None if match is None or _NEGATED.search(match[0]) else f"{text[: match.start()]}{sign}{text[match.end() :]}"


def _moved(text: str) -> str | None:
    """Return the text with a phrase of time or place in front at its end; None if it begins with none."""
    match = re.match(r"((?:In|On|At|From|During|Since) [^,]{3,40}), ([^\W\d][^,;:()]+)\.$", text)
    return f"{match[2][0].upper()}{match[2][1:]} {match[1][0].lower()}{match[1][1:]}." if match else None


def _resolved(each: Sentence) -> str | None:
    """Return a sentence with the title for "He", "She" or "It" in front, if the passage begins with the title."""
    match = re.match(r"(?:He|She|It) (?=[a-z])", each.text)
    title = re.sub(r" \(.*\)$", "", each.passage.title)
    if match is None or not each.passage.text.startswith(title):
        return None
    return f"{title} {each.text[match.end() :]}"


def _reformatted(text: str) -> str:
    """Return the text with dates in the other order, numbers without separators, and small numbers as words."""
    text = re.sub(rf"\b(\d{{1,2}}) ({_MONTH}) (\d{{4}})\b", r"\2 \1\0, \3", text)
    text = re.sub(rf"\b({_MONTH}) (\d{{1,2}}), (\d{{4}})\b", r"\2 \1 \3", text).replace("\0", "")
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    words = dict(zip(map(str, range(2, 10)), _NUMBER_WORDS.split(), strict=False))
    return re.sub(r"(?<= )[2-9](?= [a-z])", lambda found: words[found[0]], text)


def swapped(of: Sequence[Sentence], number: int) -> list[Case]:
    """Return quotes in which two names, not listed beside each other, have changed places."""
    found = []
    for each in of:
        names = list(_NAME.finditer(each.text))
        if len(names) < 2 or names[0][0] == names[1][0]:
            continue
        between = each.text[names[0].end() : names[1].start()]
        if re.search(r"\b(?:and|or|with|between)\b|^,\s*$|,", between) or len(between.split()) < 2:
            continue
        quote = "".join((each.text[: names[0].start()], names[1][0], between, names[0][0], each.text[names[1].end() :]))
        found.append(Case("swapped", quote, each.passage))
    return found[:number]


def counted(cases: Sequence[Case], accept: Callable[[str, Passage], str]) -> dict[str, dict[str, int]]:
    """Return kind -> how a check judges its quotes ("verbatim", "near", "absent") -> how many."""
    found: dict[str, Counter[str]] = {}
    for case in cases:
        found.setdefault(case.kind, Counter())[accept(case.quote, case.passage)] += 1
    return {kind: dict(sorted(counts.items())) for kind, counts in found.items()}


def by_hand() -> tuple[list[Case], list[Case]]:
    """Return the contradictions written by hand for the entailment oracles, and the statements that are entailed."""
    passages = [(each, Passage(id=str(place), text=each.premise)) for place, each in enumerate(BY_HAND)]
    wrong = [Case(kind, text, passage) for each, passage in passages for kind, text in each.contradictions()]
    return wrong, [Case("entailed", each.entailed, passage) for each, passage in passages]


def measured(data: Path, number: int, accept: Callable[[str, Passage], str], seed: int = 0) -> dict[str, Any]:
    """Return how a check judges `number` attacks, as many honest quotes, swapped names, and quotes written by hand."""
    of = sentences(data, seed)
    wrong, right = by_hand()
    sets = {
        "changed": attacks(of, number, seed),
        "honest": honest(of, number, seed + 1),
        "swapped": swapped(of, number // 5),
        "contradictions by hand": wrong,
        "entailed by hand": right,
    }
    return {name: counted(cases, accept) for name, cases in sets.items()}


def judged(quote: str, passage: Passage) -> str:
    """Return how a quote stands in its passage."""
    return find_quote(quote, [passage]).match


def main() -> None:
    """Measure which quotes count, print a line for each kind, and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with the official files")
    parser.add_argument("--quotes", type=int, default=500, help="with something changed, and honest ones")
    parser.add_argument("--seed", type=int, default=0, help="draws sentences and changes")
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    settings = {"quotes": arguments.quotes, "seed": arguments.seed}
    found = measured(arguments.data, arguments.quotes, judged, arguments.seed)
    head = provenance("experiments.benchmarks.quotes")
    write_json(arguments.out, portable({**head, **settings, "files": FILES, "judged": found}))
    for name, kinds in found.items():
        for kind, counts in kinds.items():
            print(f"{name}, {kind}: {', '.join(f'{count} {match}' for match, count in counts.items())}")
    print(f"Written: {arguments.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
