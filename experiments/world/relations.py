"""The relations of the simulated world, with templates for sentences and questions.

A fact is (head, relation, value); every relation has one value for a head. `{x}` is the head, `{y}` the value. The
templates render passages and questions, and parse both.
"""

from dataclasses import dataclass

YEAR = "year"


@dataclass(frozen=True)
class Relation:
    """A relation between an entity and a value.

    Args:
        name: Unique among the relations.
        heads: Types of entities that have it.
        value: Type of the value: a type of entities, a type of plain names, or `YEAR`.
        statements: Sentences that state it; the first is the canonical one.
        questions: Questions for its value.
        phrases: Noun phrases for its value inside a longer question; none for years.
        earlier: For years: the question which of two heads is earlier, with `{a}` and `{b}`.
        same: The yes/no question whether two heads share the value; empty for relations without such questions.
    """

    name: str
    heads: tuple[str, ...]
    value: str
    statements: tuple[str, ...]
    questions: tuple[str, ...]
    phrases: tuple[str, ...] = ()
    earlier: str = ""
    same: str = ""


RELATIONS: tuple[Relation, ...] = (
    Relation(
        "birthplace",
        ("person",),
        "town",
        ("{x} was born in the town of {y}.", "{x} came into the world in {y}.", "{x} is a native of {y}."),
        ("Where was {x} born?", "In which town was {x} born?"),
        ("the birthplace of {x}", "the town where {x} was born"),
        same="Were {a} and {b} born in the same town?",
    ),
    Relation(
        "birth_year",
        ("person",),
        YEAR,
        ("{x} was born in the year {y}.", "{x} saw the light of day in {y}."),
        ("In which year was {x} born?", "When was {x} born?"),
        earlier="Who was born first, {a} or {b}?",
        same="Were {a} and {b} born in the same year?",
    ),
    Relation(
        "alma_mater",
        ("person",),
        "university",
        ("{x} studied at {y}.", "{x} took a degree from {y}.", "{x} is a graduate of {y}."),
        ("Where did {x} study?", "At which university did {x} study?"),
        ("the university where {x} studied", "the alma mater of {x}"),
        same="Did {a} and {b} study at the same university?",
    ),
    Relation(
        "spouse",
        ("person",),
        "person",
        ("{x} is married to {y}.", "{x} shares a home with a spouse, {y}."),
        ("Who is the spouse of {x}?", "Whom did {x} marry?"),
        ("the spouse of {x}",),
    ),
    Relation(
        "director",
        ("film",),
        "person",
        ("{x} was directed by {y}.", "{x} is a work of the director {y}.", "{y} directed {x}."),
        ("Who directed {x}?", "Who was the director of {x}?"),
        ("the director of {x}", "the person who directed {x}"),
        same="Do {a} and {b} have the same director?",
    ),
    Relation(
        "star",
        ("film",),
        "person",
        ("{x} stars {y} in the leading role.", "{y} played the lead in {x}."),
        ("Who played the lead in {x}?", "Who is the star of {x}?"),
        ("the star of {x}", "the person who played the lead in {x}"),
    ),
    Relation(
        "studio",
        ("film",),
        "company",
        ("{x} was produced by {y}.", "{x} came out of the studios of {y}."),
        ("Which company produced {x}?", "Who produced {x}?"),
        ("the company that produced {x}", "the producer of {x}"),
        same="Were {a} and {b} produced by the same company?",
    ),
    Relation(
        "release_year",
        ("film",),
        YEAR,
        ("{x} was released in {y}.", "{x} reached the cinemas in {y}."),
        ("In which year was {x} released?", "When was {x} released?"),
        earlier="Which film was released first, {a} or {b}?",
        same="Were {a} and {b} released in the same year?",
    ),
    Relation(
        "author",
        ("book",),
        "person",
        ("{x} was written by {y}.", "{x} is from the pen of {y}.", "{y} wrote {x}."),
        ("Who wrote {x}?", "Who is the author of {x}?"),
        ("the author of {x}", "the person who wrote {x}"),
        same="Were {a} and {b} written by the same person?",
    ),
    Relation(
        "publisher",
        ("book",),
        "company",
        ("{x} was published by {y}.", "{x} appeared with the publisher {y}."),
        ("Which company published {x}?", "Who published {x}?"),
        ("the publisher of {x}", "the company that published {x}"),
    ),
    Relation(
        "print_year",
        ("book",),
        YEAR,
        ("{x} was first printed in {y}.", "{x} came to the bookshops in {y}."),
        ("In which year was {x} first printed?", "When was {x} first printed?"),
        earlier="Which book was printed first, {a} or {b}?",
    ),
    Relation(
        "founder",
        ("company",),
        "person",
        ("{x} was founded by {y}.", "{x} goes back to its founder, {y}.", "{y} was the founder of {x}."),
        ("Who founded {x}?", "Who is the founder of {x}?"),
        ("the founder of {x}", "the person who founded {x}"),
    ),
    Relation(
        "headquarters",
        ("company",),
        "town",
        ("{x} has its headquarters in {y}.", "{x} is run from the town of {y}."),
        ("Where does {x} have its headquarters?", "In which town does {x} have its headquarters?"),
        ("the town where {x} has its headquarters", "the seat of {x}"),
        same="Do {a} and {b} have their headquarters in the same town?",
    ),
    Relation(
        "founding_year",
        ("company", "university"),
        YEAR,
        ("{x} was founded in {y}.", "{x} has existed since {y}."),
        ("In which year was {x} founded?", "When was {x} founded?"),
        earlier="Which was founded first, {a} or {b}?",
        same="Were {a} and {b} founded in the same year?",
    ),
    Relation(
        "location",
        ("university",),
        "town",
        ("{x} stands in the middle of {y}.", "{x} has its lecture halls in {y}."),
        ("In which town is {x}?", "In which town does {x} stand?"),
        ("the town where {x} stands", "the home town of {x}"),
    ),
    Relation(
        "rector",
        ("university",),
        "person",
        ("{x} is led by the rector {y}.", "{y} serves as rector of {x}."),
        ("Who is the rector of {x}?", "Who leads {x} as rector?"),
        ("the rector of {x}",),
    ),
    Relation(
        "province",
        ("town",),
        "province",
        ("{x} lies in the province of {y}.", "{x} belongs to the province of {y}."),
        ("In which province is {x}?", "To which province does {x} belong?"),
        ("the province of {x}",),
        same="Are {a} and {b} in the same province?",
    ),
    Relation(
        "mayor",
        ("town",),
        "person",
        ("{x} is governed by the mayor {y}.", "{y} is the mayor of {x}."),
        ("Who is the mayor of {x}?", "Who governs {x} as mayor?"),
        ("the mayor of {x}",),
    ),
    Relation(
        "river",
        ("town",),
        "river",
        ("{x} was built on the banks of the {y}.", "{x} is crossed by the river {y}."),
        ("On which river was {x} built?", "Which river crosses {x}?"),
    ),
    Relation(
        "capital",
        ("province",),
        "town",
        ("{x} has its capital in {y}.", "{x} is administered from its capital, {y}."),
        ("Where is the capital of {x}?", "Which town is the capital of {x}?"),
        ("the capital of {x}",),
    ),
)

BY_NAME: dict[str, Relation] = {relation.name: relation for relation in RELATIONS}

# Words by which a passage refers to its subject after naming it once.
REFERRING_WORDS: dict[str, tuple[str, ...]] = {
    "person": ("She", "He"),
    "film": ("The film",),
    "book": ("The book",),
    "company": ("The company",),
    "university": ("The university",),
    "town": ("The town",),
    "province": ("The province",),
}


def relations_of(kind: str) -> list[Relation]:
    """Return the relations that entities of a type have, in a fixed order."""
    return [relation for relation in RELATIONS if kind in relation.heads]
