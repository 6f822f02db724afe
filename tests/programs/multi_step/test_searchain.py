"""SearChain: what is searched for and fed back, which branch follows, when it ends, and what the response cites."""

import pytest

from programs.multi_step.searchain import SearChain
from signatures.types import Passage
from tests.programs.fakes import Similar, traced
from tests.programs.multi_step import searchain_story as story

QUESTION, WHO, BORN, SEA, CONTENT, KNOWN = (
    story.QUESTION, story.WHO, story.BORN, story.SEA, story.CONTENT, story.KNOWN
)  # fmt: skip
SHELVES, Shelves, chain, field, kinds, plans = (
    story.SHELVES, story.Shelves, story.chain, story.field, story.kinds, story.plans
)  # fmt: skip


@pytest.fixture
def tell(scripted):
    return story.teller(scripted)


def test_the_first_step_without_an_answer_is_completed_and_another_chain_follows(tell):
    first = chain((WHO, "Ansa Merrow"), (BORN, "unknown"), ("Which sea?", "unknown"))
    engine, shelves = tell(first, KNOWN), Shelves()
    result = SearChain(shelves, reader="direct")(QUESTION)
    assert kinds(engine) == ["plan", "read", "read", "plan", "read", "read"]
    assert field(plans(engine)[0], "transcript") == ["(none)"]
    assert field(plans(engine)[1], "transcript") == [
        f"- Chain 1, step 1: {WHO} -> Ansa Merrow",
        f"- Chain 1, step 2: {BORN} -> unknown",
        "- Chain 1, step 3: Which sea? -> unknown",
        f"- Result 1: {BORN} -> Tren",
        "- Result 1: Born: Ansa Merrow was born on Tren.",
    ]
    assert shelves.asked == [(WHO, 1), (BORN, 1), (SEA, 1)]  # what was handled is not searched for again
    assert [(hop.question, hop.draft, hop.answer, hop.verdict) for hop in result.hops] == [
        (WHO, "Ansa Merrow", "Ansa Merrow", "confirmed"),
        (BORN, None, "Tren", "completed"),
        (SEA, "the Amber Sea", "the Amber Sea", "confirmed"),
    ]
    assert (result.answer, result.stop_reason) == ("Amber Sea", "finished")
    assert [passage.id for passage in result.passages] == result.citations == ["who", "born", "sea"]
    assert result.response == CONTENT
    assert field(engine.prompts[-1], "passages")[1] == "[2] Born: Ansa Merrow was born on Tren."
    assert result.details == {
        "chains": [
            [f"{WHO} -> Ansa Merrow", f"{BORN} -> unknown", "Which sea? -> unknown"],
            [f"{WHO} -> Ansa Merrow", f"{BORN} -> Tren", f"{SEA} -> the Amber Sea", CONTENT],
        ],
        "confidences": [None, None, None],
        "said": "the Amber Sea",
        "probability_mode": None,
    }


def test_a_confident_reader_that_disagrees_corrects_and_the_wrong_chain_is_no_demonstration(tell):
    wrong = chain((WHO, "Bert Oyle"), ("Where was Bert Oyle born?", "Sund"), content="So the answer is: fog.")
    engine, shelves = tell(wrong, KNOWN), Shelves()
    program = SearChain(shelves, reader="direct")
    result, trace = traced(program, QUESTION)
    planned = [output.chain for predictor, _, output in trace if predictor is program.planning]
    assert planned == [KNOWN["chain"]]
    assert kinds(engine) == ["plan", "read", "trust", "plan", "read", "read", "read"]
    assert field(engine.prompts[2], "answer") == ["Ansa Merrow"]
    assert field(plans(engine)[1], "transcript")[2:] == [
        "- Chain 1, final content: So the answer is: fog.",
        f"- Result 1: {WHO} -> Ansa Merrow",
        "- Result 1: Who: The harbour master of Quillon is Ansa Merrow.",
    ]
    hop = result.hops[0]
    assert (hop.draft, hop.answer, hop.verdict) == ("Bert Oyle", "Ansa Merrow", "corrected")
    assert (result.details["confidences"], result.details["probability_mode"]) == ([0.9, None, None], "verbalised")


@pytest.mark.parametrize("trusted", [0.7, 0.1, "?"])
def test_a_reader_that_is_not_confident_changes_nothing(tell, trusted):
    engine = tell(chain((WHO, "Bert Oyle"), content="So the answer is: Bert Oyle."), trusted=trusted)
    result = SearChain(Shelves(), reader="content")(QUESTION)
    assert kinds(engine) == ["plan", "read", "trust"]
    assert (result.hops[0].verdict, result.hops[0].answer) == ("kept", "Bert Oyle")
    assert (result.answer, result.stop_reason) == ("Bert Oyle", "finished")
    assert result.details["confidences"] == [None if trusted == "?" else trusted]


@pytest.mark.parametrize("said", ["unknown", "?", "The passage does not mention it."])
def test_a_reader_without_an_answer_disagrees_with_nothing_but_its_passage_is_shown(tell, said):
    engine = tell(chain((WHO, "Bert Oyle")), read={WHO: said})
    assert SearChain(Shelves(), reader="direct")(QUESTION).hops[0].verdict == "kept"
    assert "trust" not in kinds(engine)
    engine = tell(chain((WHO, "unknown")), read={WHO: said})
    result = SearChain(Shelves(), reader="direct")(QUESTION)
    assert [line for line in field(plans(engine)[1], "transcript") if "Result" in line] == [
        f"- Result 1: {WHO} -> unknown",
        "- Result 1: Who: The harbour master of Quillon is Ansa Merrow.",
    ]
    # The second chain leaves the same step open, which is not fed back again.
    assert (len(plans(engine)), result.stop_reason) == (2, "repeated")


@pytest.mark.parametrize(("said", "told"), [("Ansa Merrow, harbour master", "ansa merrow"), ("Merrow", "Ansa Merrow")])
def test_answers_of_which_one_contains_the_other_agree(tell, said, told):
    tell(chain((WHO, said)), read={WHO: told})
    assert SearChain(Shelves(), reader="direct")(QUESTION).hops[0].verdict == "confirmed"


def test_the_last_chain_is_searched_for_but_not_read(tell):
    engine, shelves = tell(chain((WHO, "unknown")), KNOWN), Shelves()
    result = SearChain(shelves, max_rounds=2, reader="direct")(QUESTION)
    assert kinds(engine) == ["plan", "read", "plan", "read"]
    assert [hop.verdict for hop in result.hops] == ["completed", "unchecked", "unchecked"]
    assert (result.stop_reason, result.citations) == ("cap", ["who", "born", "sea"])
    tell(chain((WHO, "unknown")), chain((WHO, "Ansa Merrow"), content="So the answer is: Ansa Merrow."))
    assert (
        SearChain(Shelves(), max_rounds=2, reader="direct")(QUESTION).stop_reason == "finished"
    )  # there was nothing new to check


def test_steps_beyond_the_bound_are_not_searched_for_and_their_marks_cite_nothing(tell):
    tell(KNOWN)
    result = SearChain(Shelves(), max_hops=1, reader="direct")(QUESTION)
    assert [hop.question for hop in result.hops] == [WHO]
    assert "Tren [2]. It lies in the Amber Sea [3]." in result.response
    assert result.citations == ["who"]


def test_marks_are_positions_in_the_passages_whatever_the_order_of_the_steps(tell):
    again = chain((SEA, "the Amber Sea"), (WHO, "Ansa Merrow"), content="The Amber Sea [1]. She is Merrow [2][9][0].")
    tell(chain((WHO, "unknown")), again)
    result = SearChain(Shelves(), reader="direct")(QUESTION)
    assert [passage.id for passage in result.passages] == ["who", "sea"]
    assert result.response == "The Amber Sea [2]. She is Merrow [1][9][0]."
    assert result.citations == ["sea", "who"]


def test_a_mark_without_a_passage_stays_out_of_range(tell):
    tell(chain((WHO, "Ansa Merrow"), ("Why?", "fog"), content="She is Merrow [1][0]. It is fog [2]."))
    shelves = Shelves({WHO: SHELVES[WHO]})
    result = SearChain(shelves, reader="direct")(QUESTION)
    assert (result.response, result.citations) == ("She is Merrow [1][0]. It is fog [2].", ["who"])
    tell(chain(("Why?", "fog"), (WHO, "Ansa Merrow"), content="It is fog [1]. She is Merrow [2]."))
    result = SearChain(shelves, reader="direct")(QUESTION)
    assert (result.response, result.citations) == ("It is fog [2]. She is Merrow [1].", ["who"])


class Many(Shelves):
    def find(self, query, k):
        texts = ["Fog.", "More fog.", "The harbour master of Quillon is Ansa Merrow."]
        return [Passage(id=f"p{number}", text=text) for number, text in enumerate(texts)][:k]


def test_of_several_passages_the_one_that_states_the_answer_is_fed_back_and_cited(tell):
    stated = chain((WHO, "Ansa Merrow"), content="She is Ansa Merrow [1].")
    engine = tell(chain((WHO, "unknown")), stated)
    result = SearChain(Many(), k=3, reader="direct")(QUESTION)
    assert len(field(engine.prompts[1], "passages")) == 3
    assert field(plans(engine)[1], "transcript")[2] == "- Result 1: The harbour master of Quillon is Ansa Merrow."
    assert (result.response, result.citations) == ("She is Ansa Merrow [3].", ["p2"])
    assert result.hops[0].passage_ids == ["p0", "p1", "p2"]


@pytest.mark.parametrize(
    ("value", "query", "searched"),
    [
        (0.98, "At Quillon, who is the harbour master?", 1),
        (0.97, "At Quillon, who is the harbour master?", 2),  # not above the bound
        (0.98, "Who is the harbour master of Tarn?", 2),  # other words
        (0.98, "Where is the harbour master of Quillon?", 2),  # asks for something else
        (0.0, "WHO is harbour master of Quillon", 1),  # the same words
    ],
)
def test_queries_in_similar_words_are_searched_for_once(tell, value, query, searched):
    tell(chain((WHO, "unknown")), chain((query, "Ansa Merrow"), content="She is Ansa Merrow [1]."))
    shelves = Shelves({**SHELVES, query: SHELVES[WHO]})
    result = SearChain(shelves, similarity=Similar(lambda one, other: value), reader="direct")(QUESTION)
    assert len(shelves.asked) == searched
    assert result.citations == ["who"]


def test_without_a_similarity_only_the_same_words_count(tell):
    tell(chain((WHO, "unknown")), chain(("At Quillon, who is the harbour master?", "Ansa Merrow")))
    shelves = Shelves()
    SearChain(shelves, reader="direct")(QUESTION)
    assert len(shelves.asked) == 2


def test_the_ablations_feed_nothing_back(tell):
    mixed = chain((WHO, "Bert Oyle"), (BORN, "unknown"))
    engine = tell(mixed, KNOWN)
    result = SearChain(Shelves(), verification=False, reader="direct")(QUESTION)
    assert [hop.verdict for hop in result.hops[:2]] == ["unchecked", "completed"]
    engine = tell(mixed, KNOWN)
    result = SearChain(Shelves(), completion=False, reader="direct")(QUESTION)
    assert result.hops[0].verdict == "corrected"
    engine = tell(chain((BORN, "unknown"), content=CONTENT))
    result = SearChain(Shelves(), completion=False, reader="direct")(QUESTION)
    assert ([hop.verdict for hop in result.hops], result.stop_reason) == (["unchecked"], "finished")
    engine = tell(KNOWN)
    result = SearChain(Shelves(), verification=False, completion=False, reader="content")(QUESTION)
    assert (kinds(engine), result.answer, result.stop_reason) == (["plan"], "the Amber Sea", "done")
    assert (result.citations, {hop.verdict for hop in result.hops}) == (["who", "born", "sea"], {"unchecked"})
