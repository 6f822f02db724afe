"""Questions of two to four hops composed of what the paragraphs of a data set state, beside the questions it has.

Comparisons of two subjects by a date, a year, a country or a kind, and questions that reach a fact by way of the
director, performer or author of a work: few questions of the train files at hand are of these kinds, and an LM that
saw a few dozen of them answers such a question by a coin. Of two choices each is right equally often, and as many
answers are yes as no.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import count

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
        "Do both {a} and {b} belong to the same country?",
        "Is the country of {a} the same as that of {b}?",
    ),
    KIND: (
        "Are {a} and {b} both {values}?",
        "Is each of {a} and {b} a {value}?",
        "Do the names {a} and {b} both stand for {values}?",
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
    NATIONALITY: ("What is the nationality of {}?", "What nationality does {} have?", "From which country is {}?"),
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
            "Which film's director is older, that of {a} or that of {b}?",
            "Which film was made by the older director, {a} or {b}?",
        ),
        (
            "Which film has the director who was born later, {a} or {b}?",
            "Which film has the younger director, {a} or {b}?",
        ),
    ),
    DIED: (
        ("Which film has the director who died first, {a} or {b}?", "Whose director died earlier, {a}'s or {b}'s?"),
        ("Which film has the director who died later, {a} or {b}?",),
    ),
}
SAME_DIRECTORS = (
    "Do the directors of {a} and {b} have the same nationality?",
    "Are the directors of the films {a} and {b} from the same country?",
    "Do both films, {a} and {b}, have directors of one nationality?",
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

Draw = Callable[[], Question | None]


class Composer:
    """Composes questions of the facts that paragraphs state.

    Args:
        passages: Of one data set; those that state the same name are left out.
        seed: Of every choice.
    """

    def __init__(self, passages: Sequence[PassageRecord], seed: int):
        self._rng = random.Random(seed)
        self._all = all_stated(passages)
        self._by_name = {each.name.casefold(): each for each in self._all}
        self._with: dict[str, list[Stated]] = defaultdict(list)
        self._valued: dict[tuple[str, str], list[Stated]] = defaultdict(list)
        for each in self._all:
            for name, value in each.values.items():
                self._with[name].append(each)
                self._valued[name, value].append(each)
        self._films = [film for film in self._with[DIRECTOR] if self._maker(film, DIRECTOR)]
        self._uses: Counter[str] = Counter()

    def questions(self, most: int) -> Iterator[Question]:
        """Yield at most so many questions, each once, of all kinds in turn; fewer where the facts run out."""
        rng, seen, missed = self._rng, set[str](), 0
        kinds: list[tuple[Draw, int]] = [
            (lambda: self._ordered(BORN), 5),
            (lambda: self._ordered(DIED), 3),
            (lambda: self._ordered(RELEASED), 3),
            (lambda: self._same(NATIONALITY), 4),
            (lambda: self._same(COUNTRY), 3),
            (lambda: self._same(KIND), 2),
            (self._by_way, 4),
            (self._directors, 3),
            (self._same_directors, 2),
        ]
        draws = [draw for draw, share in kinds for _ in range(share)]
        for number in count():
            if len(seen) >= most or missed > 50 * len(draws):
                return
            made = draws[number % len(draws)]() if number % 2 else rng.choice(draws)()
            if made is None or made.question in seen or not self._take(made):
                missed += 1
                continue
            missed = 0
            seen.add(made.question)
            yield made

    def _take(self, question: Question) -> bool:
        if any(self._uses[name] >= _USES for name in question.gold_ids):
            return False
        self._uses.update(question.gold_ids)
        return True

    def _two(self, found: Sequence[Stated]) -> list[Stated] | None:
        return self._rng.sample(found, 2) if len(found) > 1 else None

    def _maker(self, work: Stated, by: str) -> Stated | None:
        """Return the person who made a work, if a paragraph states when that person was born."""
        person = self._by_name.get(work.values.get(by, "").casefold())
        return person if person is not None and BORN in person.values else None

    def _ordered(self, by: str) -> Question | None:
        """Return a comparison of two subjects by a date, whose years differ."""
        pair = self._two(self._with[by])
        return self._compared(pair, by, [pair[0], pair[1]], []) if pair else None

    def _compared(
        self, named: list[Stated], by: str, valued: list[Stated], before: list[SubQuestion], *, directors: bool = False
    ) -> Question | None:
        rng = self._rng
        years = [year_of(each.values[by]) for each in valued]
        if None in years or years[0] == years[1]:
            return None
        first = int(years[1] < years[0])  # type: ignore[operator]
        hops = [*before, *(_hop(each, by) for each in valued)]
        if not directors and rng.random() < 0.2:
            text = rng.choice(BEFORE[by])
            return _question(text.format(a=named[0].name, b=named[1].name), "no" if first else "yes", hops, named)
        earlier, later = DIRECTORS[by] if directors else (EARLIER[by], LATER[by])
        wanted = rng.random() < 0.5
        text = rng.choice(earlier if wanted else later).format(a=named[0].name, b=named[1].name)
        return _question(text, named[first if wanted else 1 - first].name, hops, named, directors=directors)

    def _same(self, by: str) -> Question | None:
        """Return a question whether two subjects have one value: of two persons, or two works or places."""
        rng, yes = self._rng, self._rng.random() < 0.5
        one = rng.choice(self._with[by]) if self._with[by] else None
        if one is None:
            return None
        value = one.values[by]
        others = self._valued[by, value] if yes else self._with[by]
        two = rng.choice(others)
        alike = (DIRECTOR in one.values or RELEASED in one.values) == (DIRECTOR in two.values or RELEASED in two.values)
        if two is one or (two.values[by] == value) != yes or (by == COUNTRY and not alike):
            return None
        undecided = _LIKE_OTHERS if by == KIND else _BRITISH
        if not yes and undecided >= {value, two.values[by]}:
            return None
        named = [one, two]
        rng.shuffle(named)
        plural = _PLURALS.get(value, f"{value}s")
        text = rng.choice(SAME[by]).format(a=named[0].name, b=named[1].name, value=value, values=plural)
        return _question(text, "yes" if yes else "no", [_hop(each, by) for each in named], named)

    def _by_way(self) -> Question | None:
        """Return a question for a fact of the person who made a work."""
        rng = self._rng
        by = rng.choice((DIRECTOR, DIRECTOR, PERFORMER, AUTHOR))
        work = rng.choice(self._with[by]) if self._with[by] else None
        person = self._maker(work, by) if work else None
        if work is None or person is None:
            return None
        wanted = rng.choice([name for name in BY_WAY if name in person.values])
        text = rng.choice(BY_WAY[wanted]).format(rng.choice(MAKER[by]).format(work.name))
        hops = [_hop(work, by), _hop(person, wanted)]
        return _question(text, person.values[wanted], hops, [work, person], type="compositional")

    def _of_directors(self) -> tuple[list[Stated], list[Stated], list[SubQuestion]] | None:
        films = self._two(self._films)
        if films is None:
            return None
        persons = [person for film in films if (person := self._maker(film, DIRECTOR))]
        return None if persons[0] is persons[1] else (films, persons, [_hop(film, DIRECTOR) for film in films])

    def _directors(self) -> Question | None:
        """Return a comparison of two films by a date of their directors."""
        drawn = self._of_directors()
        by = self._rng.choice((BORN, BORN, DIED))
        if drawn is None or any(by not in person.values for person in drawn[1]):
            return None
        films, persons, hops = drawn
        return self._compared(films, by, persons, hops, directors=True)

    def _same_directors(self) -> Question | None:
        """Return a question whether the directors of two films have one nationality."""
        drawn = self._of_directors()
        if drawn is None or any(NATIONALITY not in person.values for person in drawn[1]):
            return None
        films, persons, hops = drawn
        text = self._rng.choice(SAME_DIRECTORS).format(a=films[0].name, b=films[1].name)
        nations = {person.values[NATIONALITY] for person in persons}
        if len(nations) > 1 and nations <= _BRITISH:
            return None
        hops = [*hops, *(_hop(person, NATIONALITY) for person in persons)]
        return _question(text, "yes" if len(nations) == 1 else "no", hops, films, directors=True)


_BRITISH = frozenset(("British", "English", "Scottish", "Welsh"))  # one nationality, or several
# Kinds of which one subject may have two: an actress may be a singer, a film director a politician.
_LIKE_OTHERS = frozenset(
    "footballer actress actor singer politician painter composer poet novelist band company".split()
) | {"film director", "rock band"}


def _hop(subject: Stated, by: str) -> SubQuestion:
    asked = ASKED[by].format(subject.name)
    return SubQuestion(question=asked, answer=subject.values[by], gold_ids=[subject.passage.id])


def _question(
    text: str,
    answer: str,
    hops: Sequence[SubQuestion],
    named: Sequence[Stated],
    *,
    type: str = "comparison",
    directors: bool = False,
) -> Question:
    gold = list(dict.fromkeys(name for hop in hops for name in hop.gold_ids))
    return Question(
        id=f"composed-{text_id(text)}",
        question=text,
        answers=[answer],
        gold_ids=gold,
        gold_sentences=[(name, 0) for name in gold],
        sub_questions=list(hops),
        type="bridge_comparison" if directors else type,
        split="train",
    )
