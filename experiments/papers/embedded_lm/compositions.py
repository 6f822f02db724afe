"""Questions of two to four hops composed of what the paragraphs of a data set state, beside the questions it has.

Comparisons of two subjects by a date, a year, a country or a kind, and questions that reach a fact by way of the
director, performer or author of a work: few questions of the train files at hand are of these kinds, and an LM that
saw a few dozen of them answers such a question by a coin. Which of two choices is right, and whether yes or no, is
drawn before the subjects are.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from corpora.datasets.schema import text_id
from corpora.passages import PassageRecord
from corpora.questions import Question, SubQuestion
from experiments.papers.embedded_lm.stated_facts import (
    AUTHOR,
    BORN,
    COUNTRY,
    DIED,
    DIRECTOR,
    KIND,
    NATIONALITY,
    PERFORMER,
    RELEASED,
    Stated,
    all_stated,
    year_of,
)

# Property -> wordings for the subject with the earlier value, and for the one with the later.
EARLIER: dict[str, tuple[str, ...]] = {
    BORN: (
        "Who was born first, {a} or {b}?",
        "Who is older, {a} or {b}?",
        "Was {a} or {b} born first?",
        "Of {a} and {b}, who was born earlier?",
        "Which of the two was born first: {a} or {b}?",
    ),
    DIED: (
        "Who died first, {a} or {b}?",
        "Did {a} or {b} die earlier?",
        "Between {a} and {b}, who died first?",
    ),
    RELEASED: (
        "Which film was released first, {a} or {b}?",
        "Which film came out earlier, {a} or {b}?",
        "Of the films {a} and {b}, which is older?",
        "Was {a} or {b} released first?",
    ),
}
LATER: dict[str, tuple[str, ...]] = {
    BORN: (
        "Who was born later, {a} or {b}?",
        "Who is younger, {a} or {b}?",
        "Between {a} and {b}, who was born last?",
    ),
    DIED: ("Who died later, {a} or {b}?", "Of {a} and {b}, who was the last to die?"),
    RELEASED: (
        "Which film was released more recently, {a} or {b}?",
        "Which film came out later, {a} or {b}?",
        "Which of the films {a} and {b} is newer?",
    ),
}
BEFORE: dict[str, tuple[str, ...]] = {  # yes if the first is earlier
    BORN: ("Was {a} born before {b}?", "Is {a} older than {b}?"),
    DIED: ("Did {a} die before {b}?",),
    RELEASED: ("Was {a} released before {b}?", "Did {a} come out earlier than {b}?"),
}
SAME: dict[str, tuple[str, ...]] = {
    NATIONALITY: (
        "Are {a} and {b} of the same nationality?",
        "Do {a} and {b} have the same nationality?",
        "Did {a} and {b} share a nationality?",
        "Were both {a} and {b} {value}?",
        "Are {a} and {b} both {value}?",
    ),
    COUNTRY: (
        "Are {a} and {b} from the same country?",
        "Do {a} and {b} come from the same country?",
        "Is the country of {a} the same as that of {b}?",
    ),
    KIND: (
        "Are {a} and {b} both {values}?",
        "Are both {a} and {b} {values}?",
        "Is it true that {a} and {b} are {values}?",
    ),
}
ASKED: dict[str, str] = {
    BORN: "When was {} born?",
    DIED: "When did {} die?",
    RELEASED: "When was {} released?",
    NATIONALITY: "What is the nationality of {}?",
    COUNTRY: "Which country is {} from?",
    KIND: "What is {}?",
    DIRECTOR: "Who directed {}?",
    PERFORMER: "Who performed {}?",
    AUTHOR: "Who wrote {}?",
}
BY_WAY: dict[str, tuple[str, ...]] = {  # of a person who is reached by a work
    BORN: ("When was {} born?", "What is the date of birth of {}?", "On what date was {} born?"),
    DIED: ("When did {} die?", "What is the date of death of {}?", "What was the day on which {} died?"),
    NATIONALITY: ("What is the nationality of {}?", "What nationality does {} have?"),
}
MAKER: dict[str, tuple[str, ...]] = {
    DIRECTOR: ("the director of the film {}", "the director of {}", "the person who directed {}"),
    PERFORMER: ("the performer of {}", "the artist behind {}"),
    AUTHOR: ("the author of {}", "the writer of the novel {}"),
}
DIRECTORS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # of two films: earlier and later
    BORN: (
        (
            "Which film has the director who was born first, {a} or {b}?",
            "Which film was made by the older director, {a} or {b}?",
        ),
        (
            "Which film has the director who was born later, {a} or {b}?",
            "Which film has the younger director, {a} or {b}?",
        ),
    ),
    DIED: (
        ("Which film has the director who died first, {a} or {b}?", "Which film's director died earlier, {a} or {b}?"),
        ("Which film has the director who died later, {a} or {b}?",),
    ),
}
SAME_DIRECTORS = (
    "Do the directors of {a} and {b} have the same nationality?",
    "Are the directors of the films {a} and {b} from the same country?",
    "Do both films, {a} and {b}, have directors of the same nationality?",
)
_PLURALS = {
    "actress": "actresses",
    "company": "companies",
    "genus": "genera",
    "species": "species",
    "television series": "television series",
    "university": "universities",
}
_USES = 5  # questions for which a paragraph is used, at most

# What the paragraph of a person says who made such a work, and not another of the name.
_TRADE = {
    DIRECTOR: re.compile(r"\b(?:direct|film)"),
    PERFORMER: re.compile(r"\b(?:sing|music|rapper|song)"),
    AUTHOR: re.compile(r"\b(?:writ|author|novel|poet|playwright)"),
}
_BRITISH = frozenset(("British", "English", "Scottish", "Welsh"))  # one nationality, or several
# Kinds of which one subject may have two: an actress may be a singer, a film director a poet.
_ARTISTS = frozenset(("actress", "actor", "singer", "composer", "poet", "novelist", "film director", "painter"))
_PERSONS = _ARTISTS | {"footballer", "politician"}
_UNDECIDED = (_BRITISH, _ARTISTS, frozenset(("band", "rock band")))
_TRIES = 40  # for a question of one kind
_CLOSE = 6  # candidates of which the one with the closest year is taken, half of the time

Hop = tuple[Stated, str]  # a subject, and its property that is asked for


class _Draft(NamedTuple):
    """What was drawn; most of it is asked already, or of paragraphs used too often, so that it is no `Question` yet."""

    question: str
    answer: str
    hops: Sequence[Hop]
    type: str

    @property
    def gold_ids(self) -> list[str]:
        return list(dict.fromkeys(subject.passage.id for subject, _ in self.hops))


Draw = Callable[[], _Draft | None]


class Composer:
    """Composes questions of the facts that paragraphs state.

    Args:
        passages: Of one data set; those that state the same name are left out.
        seed: Of every choice.
    """

    def __init__(self, passages: Sequence[PassageRecord], seed: int):
        self._rng = random.Random(seed)
        stated = all_stated(passages)
        self._by_name = {each.name.casefold(): each for each in stated}
        self._with: dict[str, list[Stated]] = defaultdict(list)
        self._valued: dict[tuple[str, str], list[Stated]] = defaultdict(list)
        for each in stated:
            for name, value in each.values.items():
                self._with[name].append(each)
                self._valued[name, value].append(each)
        self._made = {
            by: [(work, person) for work in self._with[by] if (person := self._maker(work, by))] for by in MAKER
        }
        self._uses: Counter[str] = Counter()

    def questions(self, most: int) -> Iterator[Question]:
        """Yield at most so many questions, each once, of all kinds in turn; fewer where the facts run out."""
        seen = set[str]()
        kinds: list[tuple[Draw, int]] = [
            (lambda: self._ordered(BORN), 4),
            (lambda: self._ordered(DIED), 2),
            (lambda: self._ordered(RELEASED), 3),
            (lambda: self._same(NATIONALITY), 3),
            (lambda: self._same(COUNTRY), 2),
            (lambda: self._same(KIND), 2),
            (self._by_way, 6),
            (self._directors, 8),
            (self._same_directors, 4),
        ]
        draws = [draw for draw, share in kinds for _ in range(share)]
        while True:
            before = len(seen)
            for draw in draws:
                made = self._new(draw, seen)
                if made is not None and len(seen) < most:
                    seen.add(made.question)
                    yield made
            if len(seen) in (before, most):
                return

    def _new(self, draw: Draw, seen: set[str]) -> Question | None:
        """Return a question that was not asked yet, of paragraphs that were not used too often."""
        for _ in range(_TRIES):
            made = draw()
            if made and made.question not in seen and all(self._uses[name] < _USES for name in made.gold_ids):
                self._uses.update(made.gold_ids)
                return _question(made)
        return None

    def _maker(self, work: Stated, by: str) -> Stated | None:
        """Return the person who made a work, if a paragraph on one of that name and trade states the birth."""
        person = self._by_name.get(work.values.get(by, "").casefold())
        known = person is not None and BORN in person.values and _TRADE[by].search(person.passage.text)
        return person if known else None

    def _ordered(self, by: str) -> _Draft | None:
        """Return a comparison of two subjects by a date, whose years differ."""
        found, rng = self._with[by], self._rng
        if len(found) < 2:
            return None
        one, *others = rng.sample(found, min(_CLOSE + 1, len(found)))
        year = year_of(one.values[by])
        if rng.random() < 0.5 and year is not None:
            others.sort(key=lambda each: abs((year_of(each.values[by]) or 0) - year))
        pair = [one, next((each for each in others if year_of(each.values[by]) != year), one)]
        rng.shuffle(pair)
        return self._compared(pair, by, pair, [])

    def _compared(
        self, named: list[Stated], by: str, valued: list[Stated], ways: list[Hop], *, directors: bool = False
    ) -> _Draft | None:
        rng = self._rng
        years = [year_of(each.values[by]) for each in valued]
        if years[0] is None or years[1] is None or years[0] == years[1]:
            return None
        first = int(years[1] < years[0])
        hops = [*ways, *((each, by) for each in valued)]
        kind = BRIDGE if directors else COMPARISON
        if not directors and rng.random() < 0.2:
            text = rng.choice(BEFORE[by])
            return _Draft(text.format(a=named[0].name, b=named[1].name), "no" if first else "yes", hops, kind)
        earlier, later = DIRECTORS[by] if directors else (EARLIER[by], LATER[by])
        wanted = rng.random() < 0.5
        text = rng.choice(earlier if wanted else later).format(a=named[0].name, b=named[1].name)
        return _Draft(text, named[first if wanted else 1 - first].name, hops, kind)

    def _same(self, by: str) -> _Draft | None:
        """Return a question whether two subjects have one value: of two persons, or two works or places."""
        rng, yes = self._rng, self._rng.random() < 0.5
        pair = self._pair(by, yes)
        if pair is None:
            return None
        value = pair[0].values[by]
        text = rng.choice(SAME[by]).format(
            a=pair[0].name, b=pair[1].name, value=value, values=_PLURALS.get(value, f"{value}s")
        )
        return _Draft(text, "yes" if yes else "no", [(each, by) for each in pair], COMPARISON)

    def _pair(self, by: str, yes: bool) -> list[Stated] | None:
        """Return two subjects of one sort, with one value or two that exclude each other."""
        rng = self._rng
        for _ in range(_TRIES if self._with[by] else 0):
            one = rng.choice(self._with[by])
            two = rng.choice(self._valued[by, one.values[by]] if yes else self._with[by])
            values = {one.values[by], two.values[by]}
            decided = yes or (len(values) > 1 and not any(group >= values for group in _UNDECIDED))
            if two is not one and _sort(one) == _sort(two) and decided:
                return [one, two]
        return None

    def _by_way(self) -> _Draft | None:
        """Return a question for a fact of the person who made a work."""
        rng = self._rng
        by = rng.choice([by for by in (DIRECTOR, DIRECTOR, PERFORMER, AUTHOR) if self._made[by]] or [""])
        if not by:
            return None
        work, person = rng.choice(self._made[by])
        wanted = rng.choice([name for name in BY_WAY if name in person.values])
        text = rng.choice(BY_WAY[wanted]).format(rng.choice(MAKER[by]).format(work.name))
        return _Draft(text, person.values[wanted], [(work, by), (person, wanted)], "compositional")

    def _of_directors(self, by: str) -> tuple[list[Stated], list[Stated], list[Hop]] | None:
        """Return two films, their directors of whom something is stated, and the questions for these."""
        if len(self._made[DIRECTOR]) < 2:
            return None
        drawn = self._rng.sample(self._made[DIRECTOR], 2)
        films, persons = [film for film, _ in drawn], [person for _, person in drawn]
        if persons[0] is persons[1] or any(by not in person.values for person in persons):
            return None
        return films, persons, [(film, DIRECTOR) for film in films]

    def _directors(self) -> _Draft | None:
        """Return a comparison of two films by a date of their directors."""
        by = self._rng.choice((BORN, BORN, DIED))
        drawn = self._of_directors(by)
        return self._compared(drawn[0], by, drawn[1], drawn[2], directors=True) if drawn else None

    def _same_directors(self) -> _Draft | None:
        """Return a question whether the directors of two films have one nationality."""
        yes = self._rng.random() < 0.5
        for drawn in (self._of_directors(NATIONALITY) for _ in range(_TRIES)):
            if drawn is None:
                continue
            films, persons, ways = drawn
            nations = {person.values[NATIONALITY] for person in persons}
            if (len(nations) == 1) == yes and (yes or not nations <= _BRITISH):
                text = self._rng.choice(SAME_DIRECTORS).format(a=films[0].name, b=films[1].name)
                hops = [*ways, *((person, NATIONALITY) for person in persons)]
                return _Draft(text, "yes" if yes else "no", hops, BRIDGE)
        return None


def _sort(subject: Stated) -> str:
    """Return whether a subject is a person, a work, or something else."""
    if BORN in subject.values or DIED in subject.values or subject.values.get(KIND) in _PERSONS:
        return "person"
    return "work" if RELEASED in subject.values or DIRECTOR in subject.values else "other"


def _hop(subject: Stated, by: str) -> SubQuestion:
    asked = ASKED[by].format(subject.name)
    return SubQuestion(question=asked, answer=subject.values[by], gold_ids=[subject.passage.id])


COMPARISON, BRIDGE = "comparison", "bridge_comparison"  # types of 2WikiMultihopQA


def _question(draft: _Draft) -> Question:
    gold = draft.gold_ids
    return Question(
        id=f"composed-{text_id(draft.question)}",
        question=draft.question,
        answers=[draft.answer],
        gold_ids=gold,
        gold_sentences=[(name, 0) for name in gold],
        sub_questions=[_hop(subject, by) for subject, by in draft.hops],
        type=draft.type,
        split="train",
    )
