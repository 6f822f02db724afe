"""`multihop` with notes (preset `hover`) and with summaries (preset `gepa`): what each prompt shows and what counts."""

import pytest

from programs.catalog import build
from signatures.types import Passage
from tests.programs.fakes import Fake, traced

CLAIM = "The island where Ansa Merrow was born lies in the Amber Sea."
TITLES = {"birth of Merrow": ["Ansa Merrow", "Merrow (name)"], "sea of Quillon": ["Quillon", "Quillon (ship)"]}
BAD = "no fields"


class Shelf(Fake):
    """Has two articles for each query of the story, and one for any other."""

    def find(self, query, k):
        return [Passage(id=title, title=title, text=f"About {title}.") for title in TITLES.get(query, ["Other"])][:k]


def story(steps, answer="the Amber Sea"):
    """Reply with a query and what is noted of its passages for each step, and with the answer in the end."""
    queries, noted = iter([query for query, _ in steps]), iter([each for _, each in steps])

    def reply(system, user):
        if "search query" in system:
            return {"reasoning": "so", "query": next(queries)}
        if "Answer the question" in system:
            return {"reasoning": "so", "answer": answer}
        said = next(noted)
        return said if said == BAD else {"reasoning": "so", **said}

    return reply


def note(fact, *titles):
    return {"new_notes": [fact], "titles": list(titles)}


STEPS = [
    ("birth of Merrow", note("Merrow was born on Quillon.", "ansa merrow", "Nobody Atall")),
    ("sea of Quillon", note("Quillon is in the Amber Sea.", "Quillon")),
    ("anything else", note("Nothing.", "Ansa Merrow", "")),
    ("no more", BAD),
]


def test_notes_lead_from_query_to_query_and_the_named_articles_are_the_result(scripted):
    engine, search = scripted(story(STEPS)), Shelf()
    result = build("multihop", search, preset="hover")(CLAIM)
    assert search.asked == [(query, 10) for query, _ in STEPS]
    assert [passage.id for passage in result.passages] == ["Ansa Merrow", "Quillon"]
    assert [hop.passage_ids for hop in result.hops] == [*TITLES.values(), ["Other"], ["Other"]]
    assert result.details["notes"] == ["Merrow was born on Quillon.", "Quillon is in the Amber Sea.", "Nothing."]
    assert (result.answer, result.abstained, result.stop_reason) == ("", False, "done")
    assert len(engine.prompts) == 8 == build("multihop", preset="hover").max_calls()
    second_query = engine.prompts[2]
    assert "Merrow was born on Quillon." in second_query
    assert "About Ansa Merrow" not in second_query


def test_with_a_conclusion_the_answer_is_read_from_the_notes(scripted):
    engine = scripted(story(STEPS[:2]))
    result = build("multihop", Shelf(), carry="notes")(CLAIM)
    assert (result.answer, result.citations) == ("the Amber Sea", ["Ansa Merrow", "Quillon"])
    assert "Quillon is in the Amber Sea." in engine.prompts[-1]
    assert "About Quillon" not in engine.prompts[-1]
    assert len(engine.prompts) == 5 == build("multihop", carry="notes").max_calls()


def test_summaries_begin_with_the_question_and_end_with_an_answer_from_both(scripted):
    steps = [("sea of Quillon", {"summary": "Merrow is from Quillon."}), ("", {"summary": "It is in the Amber Sea."})]
    engine, search = scripted(story(steps)), Shelf()
    result = build("multihop", search, preset="gepa")("In which sea?")
    assert search.asked == [("In which sea?", 7), ("sea of Quillon", 7)]
    assert (result.answer, [passage.id for passage in result.passages]) == (
        "the Amber Sea", ["Other", "Quillon", "Quillon (ship)"]
    )  # fmt: skip
    assert all(summary in engine.prompts[-1] for summary in result.details["notes"])
    assert result.details["notes"][0] in engine.prompts[2]  # the second summary is written with the first
    assert len(engine.prompts) == 4 == build("multihop", preset="gepa").max_calls()


@pytest.mark.parametrize("preset", ["hover", "gepa"])
def test_fixed_passages_are_noted_in_place_of_the_first_search(scripted, preset):
    said = {"new_notes": ["One."], "titles": ["Isle"], "summary": "One."}
    scripted(story([("unused", said), ("unused", said)]))
    result = build("multihop", preset=preset)("In which sea?", passages=[Passage(id="i", title="Isle", text="Isle.")])
    assert ([passage.id for passage in result.passages], len(result.hops)) == (["i"], 1)


@pytest.mark.parametrize("preset", ["paper", "small", "gepa"])
def test_with_nothing_to_read_the_answer_is_from_memory(scripted, preset):
    said = {"reasoning": "so", "query": "q", "summary": "Nothing.", "answer": "Tren"}
    engine = scripted(lambda system, user: said)
    program = build("multihop", preset=preset)
    result, trace = traced(program, CLAIM, passages=[])
    assert (result.answer, result.citations, result.stop_reason) == ("Tren", [], "done")
    assert "Answer the question from what you know" in str(engine.requests[-1].system)
    assert not [output for _, _, output in trace if "answer" in output]
    assert len(engine.prompts) == 1  # there is nothing to take notes of
    assert not result.details.get("notes")
