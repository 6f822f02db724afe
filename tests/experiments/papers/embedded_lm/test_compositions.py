"""Questions composed of stated facts are true to them."""

import random
from collections import Counter

import pytest

from corpora.passages import PassageRecord
from corpora.questions import Question
from experiments.papers.embedded_lm.compositions import ASKED, Composer
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
    all_stated,
    stated_in,
    year_of,
)  # fmt: skip
from optimizers.distill.gold.annotation import annotate
from optimizers.distill.gold.reading import reasons_of


def paragraph(title: str, text: str) -> PassageRecord:
    return PassageRecord(id=title.lower().replace(" ", "-"), title=title, text=text)


def values(title: str, text: str) -> dict[str, str]:
    found = stated_in(paragraph(title, text))
    return found.values if found else {}


@pytest.mark.parametrize(
    ("title", "text", "expected"),
    [
        (
            "Ann Orn",
            "Ann Maria Orn (born 3 May 1950) is a Danish painter. She lives in Rome.",
            {BORN: "3 May 1950", NATIONALITY: "Danish", KIND: "painter"},
        ),
        (
            "Bo Velt",
            "Bo Velt( May 3, 1901, Oslo – June 7, 1980, Rome) was a Norwegian film director.",
            {BORN: "May 3, 1901", DIED: "June 7, 1980", NATIONALITY: "Norwegian", KIND: "film director"},
        ),
        ("Cy Dahl", "Cy Dahl (4 March 1850 – 1911) was a poet.", {BORN: "4 March 1850", DIED: "1911", KIND: "poet"}),
        ("Di Ek", "Di Ek (died 1455) was an English soldier.", {DIED: "1455", NATIONALITY: "English"}),
        (
            "Grey Tide (film)",
            "Grey Tide is a 1962 Italian drama film directed by J. B. Munk and starring Ann Orn.",
            {RELEASED: "1962", COUNTRY: "Italian", DIRECTOR: "J. B. Munk", KIND: "film"},
        ),
        (
            "Two Hands",
            "Two Hands is a 1999 film directed by Ann Orn and Bo Velt.",
            {RELEASED: "1999", KIND: "film"},
        ),
        ("Low Song", '"Low Song" is a song by Swedish singer Ulla Birk.', {PERFORMER: "Ulla Birk", KIND: "song"}),
        ("Low Song", '"Low Song" is a song written by Ulla Birk.', {KIND: "song"}),
        ("Tarn", "Tarn (also Tarno) is a village in Brook District, Oslo Province, Norway.",
         {COUNTRY: "Norway", KIND: "village"}),
        ("Tarn River Merger", "The Tarn River Merger (2004–2006) was a plan by two banks.", {}),
        ("Eve Falk", "Eve Falk (born 1970) is an American film, stage and television actress.",
         {BORN: "1970", NATIONALITY: "American"}),
        ("Eve Falk", "Eve Falk (born 1984/1985) is a Danish poet.", {KIND: "poet"}),
        ("Eve Falk", "Eve Falk (c. 1905 – 1980) was a Danish poet.", {KIND: "poet"}),
        ("Eve Falk", "Eve Falk (born May 1970) is a Danish poet.",
         {BORN: "May 1970", NATIONALITY: "Danish", KIND: "poet"}),
        ("Eve Falk", "Eve Falk (born 1970) is a Swiss- French poet.", {BORN: "1970", KIND: "poet"}),
        ("Eve Falk", "Eve Falk (born 1970) is a Northern Irish poet.", {BORN: "1970", KIND: "poet"}),
        ("Eve Falk", "Eve Falk (born 1970) is a Scottish Nationalist politician.", {BORN: "1970", KIND: "politician"}),
        ("Eve Falk", "Eve Falk (born 1970) is a Danish born poet.", {BORN: "1970", KIND: "poet"}),
        ("Falk Brothers", "Falk Brothers (1901 – 1980) were a duo; the elder was a Danish poet.", {KIND: "poet"}),
        ("Tarn Journal", "Tarn Journal (1901 – 1980) was a Danish newspaper.", {KIND: "newspaper"}),
        ("Grey Tide", "Grey Tide is a 1962 film co-directed by Ann Orn.", {RELEASED: "1962"}),
        ("Tom &amp; Jo", "Tom & Jo is a novel by Ann Orn.", {AUTHOR: "Ann Orn", KIND: "novel"}),
        ("Eve Falk", "She was born in 1970.", {}),
    ],
)  # fmt: skip
def test_a_first_sentence_states_what_it_says_and_no_more(title, text, expected):
    assert values(title, text) == expected


def test_the_year_of_a_date_is_its_last_number():
    assert year_of("May 3, 1901") == 1901
    assert year_of("11 November 875") == 875
    assert year_of("unknown") is None


def test_of_two_paragraphs_of_one_name_nothing_is_taken():
    one = paragraph("Ann Orn", "Ann Orn (born 1950) is a Danish painter.")
    two = paragraph("Ann Orn (poet)", "Ann Orn (born 1920) is a Danish poet.")
    assert all_stated([one, two]) == []


NATIONS = ("Danish", "Italian", "Polish")


@pytest.fixture(scope="module")
def corpus() -> dict[str, PassageRecord]:
    """Return forty directors with their films, and villages."""
    chance, made = random.Random(4), []
    for number in range(40):
        first = chr(65 + number % 26) + "a" * (number // 26 + 1)
        name, born = f"{first} Orn", chance.randint(1850, 1950)
        nation = NATIONS[number % 3]
        made.append(paragraph(name, f"{name} (born {born} – {born + 60}) was a {nation} film director."))
        film = f"Tide {first}"
        made.append(paragraph(film, f"{film} is a {born + 30} {nation} film directed by {name}."))
        made.append(
            paragraph(f"Dorp {first}", f"Dorp {first} is a village in Velt District, {('Iran', 'Peru')[number % 2]}.")
        )
    return {one.id: one for one in made}


def test_every_question_is_answered_by_its_paragraphs(corpus):
    questions = list(Composer(list(corpus.values()), seed=1).questions(300))
    assert len(questions) > 150
    assert len({question.question for question in questions}) == len(questions)
    assert {question.type for question in questions} == {"comparison", "bridge_comparison", "compositional"}
    for question in questions:
        annotation = annotate(question, corpus)
        assert annotation is not None
        assert len(annotation.hops) == len(question.sub_questions) > 1
        for hop in annotation.hops:
            assert hop.answer in hop.sentence
        hops = question.sub_questions
        if question.type == "compositional":
            assert question.answers == [hops[-1].answer]
            assert hops[0].answer in hops[1].question
        elif question.answers[0] in ("yes", "no") and year_of(hops[-1].answer) is None:
            assert (hops[-1].answer == hops[-2].answer) == (question.answers[0] == "yes")


def test_the_earlier_subject_is_the_answer_where_the_earlier_is_asked_for(corpus):
    late = ("later", "younger", "last", "recently", "newer")
    checked = Counter[bool]()
    for question in Composer(list(corpus.values()), seed=2).questions(300):
        hops = question.sub_questions
        years = [year_of(hop.answer) for hop in hops[-2:]]
        if None in years or years[0] == years[1] or question.type == "compositional":
            continue
        answer, first = question.answers[0], years[0] < years[1]
        names = [corpus[hop.gold_ids[0]].title for hop in hops[:2]]
        if answer in ("yes", "no"):
            assert (answer == "yes") == first
            assert question.question.index(names[0]) < question.question.index(names[1])
            continue
        latest = any(word in question.question for word in late)
        assert answer == names[0 if first != latest else 1]
        checked[question.question.index(answer) == min(question.question.index(name) for name in names)] += 1
    assert all(checked[first] > 0.3 * checked.total() for first in (True, False))  # neither place is a prior


@pytest.fixture(scope="module")
def of_four_seeds(corpus) -> list[Question]:
    return [question for seed in range(4) for question in Composer(list(corpus.values()), seed=seed).questions(300)]


@pytest.mark.parametrize("asked", ["nationality", "country", "directors"])
def test_yes_and_no_are_equally_frequent(of_four_seeds, asked):
    answers = Counter(
        question.answers[0]
        for question in of_four_seeds
        if asked in question.question and question.answers[0] in ("yes", "no")
    )
    assert all(answers[verdict] > 0.35 * answers.total() for verdict in ("yes", "no"))


def lives(*described: tuple[str, str]) -> list[PassageRecord]:
    return [paragraph(name, f"{name} (born {1900 + n}) is {text}.") for n, (name, text) in enumerate(described)]


def test_what_need_not_differ_is_not_called_different():
    made = lives(("Ann Orn", "a British poet"), ("Bo Velt", "a Scottish singer"), ("Cy Dahl", "a Welsh film director"))
    questions = list(Composer(made, seed=0).questions(50))
    assert questions
    assert "no" not in {question.answers[0] for question in questions if "before" not in question.question
                        and "older" not in question.question}  # fmt: skip


def test_a_maker_of_another_trade_is_another_person():
    work = paragraph("Grey Tide", "Grey Tide is a 1962 Italian film directed by Ann Orn.")
    for trade, reached in (("a Danish film director", True), ("a Danish footballer", False)):
        asked = Composer([work, *lives(("Ann Orn", trade))], seed=0).questions(50)
        assert any(question.type == "compositional" for question in asked) == reached


def test_a_paragraph_is_used_a_few_times_at_most(corpus):
    uses = Counter(
        name for question in Composer(list(corpus.values()), seed=3).questions(1000) for name in question.gold_ids
    )
    assert max(uses.values()) <= 5


def test_reasons_of_comparisons_are_what_is_compared(corpus):
    for question in Composer(list(corpus.values()), seed=5).questions(200):
        annotation = annotate(question, corpus)
        assert annotation is not None
        reasons = reasons_of(annotation)
        hops = question.sub_questions
        years = [year_of(hop.answer) for hop in hops[-2:]]
        if question.type == "compositional":
            assert question.answers[0] in reasons
            continue
        names = [corpus[hop.gold_ids[0]].title for hop in hops[:2]]
        if question.type == "bridge_comparison":
            names = [f"{name}, {hop.answer}" for name, hop in zip(names, hops, strict=False)]
        said = "; ".join(f"{name}: {hop.answer}" for name, hop in zip(names, hops[-2:], strict=True))
        order = "" if years[0] is None else f" {years[0]} is {'before' if years[0] < years[1] else 'after'} {years[1]}."
        assert reasons == f"{said}.{order}"


def test_every_property_has_a_question(corpus):
    found = {name for one in all_stated(list(corpus.values())) for name in one.values}
    assert found <= ASKED.keys()
