"""Comparisons of the generated world in varied wording: earlier and later, the same and different, yes and no."""

import random
import re

from corpora.questions import Question

_FIRST = re.compile(r"(?P<who>Who|Which(?: \w+)?) was (?P<did>\w+) first, (?P<a>.+) or (?P<b>.+)\?")
_SAME = re.compile(
    r"(?P<verb>Were|Did|Do|Are) (?P<a>.+?) and (?P<b>.+?) (?P<rest>[a-z]\w*\b.*\bthe same (?P<noun>\w+))\?"
)
_ONE = {"Were": "Was", "Did": "Did", "Do": "Does", "Are": "Is"}
_MANY = {
    "town": "towns",
    "year": "years",
    "university": "universities",
    "province": "provinces",
    "director": "directors",
}
_OPPOSITE = {"yes": "no", "no": "yes"}


def reworded(question: Question, rng: random.Random) -> Question:
    """Return a comparison in one of several wordings, with its answer; any other question as it is.

    Args:
        question: Of the generated world.
        rng: Chooses the wording.
    """
    asked = _FIRST.fullmatch(question.question) or _SAME.fullmatch(question.question)
    if asked is None or not question.answers:
        return question
    made = _first if asked.re is _FIRST else _same
    text, answer = rng.choice(made(asked, question.answers[0]))
    return question.model_copy(update={"question": text, "answers": [answer]})


def _first(asked: re.Match[str], answer: str) -> list[tuple[str, str]]:
    who, did, one, two = asked["who"], asked["did"], asked["a"], asked["b"]
    low = who[0].lower() + who[1:]
    wordings = [
        (f"{who} was {did} first, {one} or {two}?", answer),
        (f"{who} was {did} earlier: {one} or {two}?", answer),
        (f"Between {one} and {two}, {low} was {did} first?", answer),
        (f"Was {one} or {two} {did} first?", answer),
    ]
    if answer in (one, two):
        other, verdict = (two, "yes") if answer == one else (one, "no")
        wordings += [
            (f"{who} was {did} later, {one} or {two}?", other),
            (f"Of {one} and {two}, {low} was {did} last?", other),
            (f"Was {one} {did} before {two}?", verdict),
            (f"Was {one} {did} after {two}?", _OPPOSITE[verdict]),
        ]
    return wordings


def _same(asked: re.Match[str], answer: str) -> list[tuple[str, str]]:
    verb, one, two, rest = asked["verb"], asked["a"], asked["b"], asked["rest"]
    wordings = [
        (f"{verb} {one} and {two} {rest}?", answer),
        (f"{_ONE[verb]} {one} {rest} as {two}?", answer),
    ]
    if verb in ("Were", "Are"):
        wordings.append((f"Is it true that {one} and {two} {verb.lower()} {rest}?", answer))
    if asked["noun"] in _MANY:
        apart = rest.replace(f"the same {asked['noun']}", f"different {_MANY[asked['noun']]}")
        wordings.append((f"{verb} {one} and {two} {apart}?", _OPPOSITE.get(answer, answer)))
    return wordings
