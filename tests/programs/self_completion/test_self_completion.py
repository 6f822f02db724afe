import dspy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from programs.self_completion import SelfCompletion
from signatures.citation_marks import strip_citations
from signatures.types import Passage
from tests.programs.fakes import Fake, traced
from tests.programs.self_completion import scripted_story as story

GAP, KNOWS, REFUSAL, Shelves = story.GAP, story.KNOWS, story.REFUSAL, story.Shelves
ids, reflection, replies = story.ids, story.reflection, story.replies


def test_sufficient_references_are_answered_from_at_once(scripted, retriever):
    engine = scripted(replies([reflection()]))
    result = SelfCompletion(retriever)("Question?")
    assert (result.response, result.answer, result.citations) == (KNOWS, "Ansa Merrow", ["p0"])
    (hop,) = result.hops
    assert (hop.question, hop.answer, hop.verdict) == ("Question?", KNOWS, "answered")
    assert hop.passage_ids == ["p0", "p1", "p2", "p3", "p4"]
    assert result.details == {"turns": 0, "first_decision": "sufficient", "forced": False}
    assert len(engine.requests) == 2


def test_a_gap_is_searched_for_and_the_references_accumulate(scripted):
    engine = scripted(replies([GAP, reflection(response="She is from Quillon [6].")], ["missing"]))
    retrieve = Shelves(ids(5), missing=["a1", "b0", "b0", "b1"])
    result = SelfCompletion(retrieve)("Question?")
    assert retrieve.asked == [("Question?", 5), ("missing", 10)]
    assert [passage.id for passage in result.passages] == [*ids(5), "b0", "b1"]
    assert "[7] b1" in engine.prompts[2]
    assert result.citations == ["b0"]
    assert [(hop.question, hop.answer, hop.verdict, hop.passage_ids) for hop in result.hops] == [
        ("Question?", "", "abstained", ids(5)),
        ("missing", "She is from Quillon [6].", "answered", ["b0", "b1"]),
    ]
    assert result.details == {"turns": 1, "first_decision": "insufficient", "forced": False}


def test_the_cap_bounds_the_references_and_the_last_of_them_are_reflected_on_before_forcing(scripted):
    engine = scripted(replies([GAP, GAP, GAP], ["one", "two"]))
    retrieve = Shelves(ids(5), one=ids(3, "b"), two=ids(5, "c"))
    result = SelfCompletion(retrieve, turns=5)("Question?")
    assert [passage.id for passage in result.passages] == [*ids(5), *ids(3, "b"), *ids(2, "c")]
    assert [hop.verdict for hop in result.hops] == ["abstained", "abstained", "forced"]
    assert result.hops[-1].answer == result.response == "Forced, but said [1]."
    assert (result.abstained, result.details["forced"], result.details["turns"]) == (False, True, 2)
    assert len(engine.requests) == 3 + 2 + 1 + 1


def test_turns_bound_the_completion(scripted):
    scripted(replies([GAP, GAP], ["one", "two"]))
    result = SelfCompletion(Shelves(ids(5), one=["b"], two=["c"]), turns=1)("Question?")
    assert [hop.question for hop in result.hops] == ["Question?", "one"]
    assert result.hops[-1].verdict == "forced"


def test_without_forcing_it_abstains_at_the_end(scripted):
    scripted(replies([GAP, GAP], ["one"]))
    result = SelfCompletion(Shelves(ids(5), one=["b"]), turns=1, forced=False)("Question?")
    assert (result.answer, result.response, result.citations, result.abstained) == ("", "", [], True)
    assert (result.hops[-1].verdict, result.details["forced"]) == ("abstained", False)


def test_without_completion_it_abstains_instead_of_searching(scripted, retriever):
    engine = scripted(replies([GAP]))
    result = SelfCompletion(retriever, completion=False)("Question?")
    assert (result.abstained, len(engine.requests), len(retriever.queries)) == (True, 1, 1)


def test_the_control_reads_as_many_references_at_once_and_never_reflects(scripted, retriever):
    engine = scripted(replies())
    result = SelfCompletion(retriever, **SelfCompletion.PRESETS["control"])("Question?")
    assert len(result.passages) == 10
    assert (result.response, result.hops[0].verdict) == ("Forced, but said [1].", "answered")
    assert result.details == {"turns": 0, "first_decision": None, "forced": False}
    assert len(engine.requests) == 2


@pytest.mark.parametrize(
    "contradiction",
    [
        reflection(False, KNOWS),
        reflection(True, ""),
        reflection(True, REFUSAL),
        reflection(True, "The passages [1][2] do not say where she was born."),
        reflection(True, "[1]"),
    ],
    ids=["response beside insufficient", "empty", "refusal", "refusal in other words", "marks alone"],
)
def test_what_contradicts_itself_is_an_abstention_and_leaves_the_trace(scripted, retriever, contradiction):
    scripted(replies([contradiction]))
    result, trace = traced(SelfCompletion(retriever, completion=False), "Question?")
    assert trace == []
    assert (result.abstained, result.hops[0].verdict) == (True, "abstained")
    assert result.details["first_decision"] == "insufficient"


def test_an_abstention_that_holds_together_stays_in_the_trace(scripted, retriever):
    scripted(replies([reflection(False, REFUSAL)]))
    with dspy.context(trace=[]):
        assert SelfCompletion(retriever, completion=False)("Question?").response == ""
        assert len(dspy.settings.trace) == 1


def test_an_unparseable_reflection_counts_as_an_abstention(scripted):
    scripted(replies(["??", reflection()], ["one"]))
    result = SelfCompletion(Shelves(ids(5), one=["b"]))("Question?")
    assert [hop.verdict for hop in result.hops] == ["unparseable", "answered"]
    assert result.details["first_decision"] is None


@pytest.mark.parametrize("query", [None, "", [], ["", "question"]], ids=["unparseable", "empty", "none", "repeated"])
def test_a_query_that_asks_nothing_new_forces_the_answer(scripted, query):
    scripted(replies([GAP], [query]))
    retrieve = Shelves(ids(5))
    result, trace = traced(SelfCompletion(retrieve), "Question?")
    assert len(trace) == 3  # reflection, forced answer, reading
    assert len(retrieve.asked) == 1
    assert [hop.verdict for hop in result.hops] == ["forced"]
    assert result.details == {"turns": 0, "first_decision": "insufficient", "forced": True}


def test_a_query_that_finds_nothing_new_forces_the_answer_without_another_reflection(scripted):
    engine = scripted(replies([GAP], ["one"]))
    result = SelfCompletion(Shelves(ids(5)))("Question?")
    assert [(hop.question, hop.verdict, hop.passage_ids) for hop in result.hops][1:] == [("one", "forced", [])]
    assert len(engine.requests) == 4


@pytest.mark.parametrize("forced", [None, "", REFUSAL], ids=["unparseable", "empty", "refusal"])
def test_where_even_forcing_gives_nothing_it_abstains(scripted, forced):
    scripted(replies([GAP], [""], forced=forced))
    result = SelfCompletion(Shelves(ids(5)))("Question?")
    assert (result.answer, result.response, result.abstained) == ("", "", True)
    assert (result.hops[-1].verdict, result.details["forced"]) == ("abstained", True)


def test_given_passages_come_first_and_the_retriever_completes_them(scripted):
    scripted(replies([GAP, reflection()], ["Question?"]))
    retrieve = Shelves(ids(2))
    result = SelfCompletion(retrieve)("Question?", passages=[Passage(id="g", text="Given.")])
    assert [passage.id for passage in result.passages] == ["g", "a0", "a1"]
    assert retrieve.asked == [("Question?", 6)]


def test_given_passages_alone_leave_nothing_to_search(scripted):
    scripted(replies([GAP]))
    result = SelfCompletion()("Question?", passages=[Passage(id="g", text="Given.")])
    assert [hop.verdict for hop in result.hops] == ["forced"]


def test_more_given_passages_than_the_cap_are_all_read(scripted, retriever, passages):
    scripted(replies([GAP]))
    result = SelfCompletion(retriever, cap=3)("Question?", passages=passages)
    assert (len(result.passages), retriever.queries) == (10, [])


def test_nothing_to_read_from_is_refused(scripted):
    scripted(replies())
    with pytest.raises(ValueError, match="pass retrieve="):
        SelfCompletion()("Question?")


def test_without_the_short_answer_the_response_stands_alone(scripted, retriever):
    engine = scripted(replies([reflection()]))
    result = SelfCompletion(retriever, short=False)("Question?")
    assert (result.answer, result.response, result.abstained) == (strip_citations(KNOWS), KNOWS, False)
    assert len(engine.requests) == 1


def test_marks_that_point_nowhere_are_no_citations(scripted, retriever):
    scripted(replies([reflection(response="It is so [9][2].")]))
    result = SelfCompletion(retriever)("Question?")
    assert (result.response, result.citations) == ("It is so [9][2].", ["p1"])


class Drip(Fake):
    """Finds `first` passages for the question, and one new passage for every other query."""

    def __init__(self, first):
        super().__init__()
        self.first, self.found = first, 0

    def find(self, query, k):
        if query == "Question?":
            return [Passage(id=id, text="x") for id in ids(min(self.first, k))]
        self.found += 1
        return [Passage(id=f"b{self.found}", text="x")]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    k=st.integers(1, 12),
    cap=st.integers(1, 12),
    turns=st.integers(1, 5),
    switches=st.fixed_dictionaries({name: st.booleans() for name in ("reflection", "completion", "forced", "short")}),
)
def test_the_call_bound_is_tight(k, cap, turns, switches, scripted):
    """The worst LM finds the references sufficient only where it would otherwise be let off without an answer."""
    program = SelfCompletion(Drip(0), k=k, cap=cap, turns=turns, **switches)
    searches = min(turns, cap) if program.completion else 0
    last = program.completion and program.forced
    engine = scripted(replies([*[GAP] * searches, GAP if last else reflection()], map("number {}".format, range(9))))
    program("Question?")
    assert len(engine.requests) == program.max_calls()


def test_the_call_bound_is_reached_with_the_papers_knobs(scripted):
    engine = scripted(replies([GAP] * 4, ["one", "two", "three"]))
    program = SelfCompletion(Drip(5))
    program("Question?")
    assert len(engine.requests) == program.max_calls() == 9
