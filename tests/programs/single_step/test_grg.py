"""GRG: passages and documents are read together, for the question or for one sub-question at a time."""

import numpy as np
import pytest

from programs.catalog import build
from programs.parts.knobs import with_knobs
from programs.single_step.grg import GRG
from tests.programs.fakes import END, Fake, step, writing

DOCUMENT = "Ansa Merrow is said to be harbour master."


def story(*steps, document=DOCUMENT, **replies):
    return writing(*steps, document=lambda question: document, **replies)


class Cosines:
    """Gives the passages, in the order asked for, the cosines listed."""

    fingerprint = "cosines"

    def __init__(self, *cosines):
        self.cosines, self.asked = cosines, []

    def __call__(self, left, right):
        self.asked.append((list(left), list(right)))
        return np.array([self.cosines[: len(right)]])

    def __deepcopy__(self, memo):
        return self


def test_passages_and_then_the_document_are_read(scripted, retriever):
    engine = scripted(story())
    result = GRG(retriever)("Who is the harbour master?")
    assert retriever.queries == ["Who is the harbour master?"]
    read = engine.prompts[1]
    places = [read.index(text) for text in ("number 0 about", "number 3 about", "Quillon is Ansa Merrow", DOCUMENT)]
    assert places == sorted(places)
    assert f"[6] {DOCUMENT}" in read
    assert (result.answer, result.stop_reason, len(engine.requests)) == ("Ansa Merrow", "done", 2)
    assert result.details == {"documents": [[DOCUMENT]], "dropped": [[]]}


def test_only_retrieved_passages_are_passages_and_citations(scripted, retriever):
    scripted(story())
    result = GRG(retriever)("Question?")
    assert [passage.id for passage in result.passages] == ["p0", "p1", "p2", "p3", "p4"]
    assert (result.citations, result.hops) == (["p4"], [])
    scripted(story(answer="said to be"))
    assert GRG(retriever)("Question?").citations == []


def test_passages_below_the_cutoff_are_not_read(scripted, retriever):
    engine = scripted(story())
    similarity = Cosines(0.69, 0.7, 0.9, 0.1, 0.71)
    result = GRG(retriever, similarity=similarity, cutoff=0.7)("Question?")
    assert [passage.id for passage in result.passages] == ["p1", "p2", "p4"]
    assert result.details["dropped"] == [["p0", "p3"]]
    assert similarity.asked[0][0] == ["Question?"]
    assert similarity.asked[0][1][4] == "Title 4: The harbour master of Quillon is Ansa Merrow."
    assert f"[4] {DOCUMENT}" in engine.prompts[1]


def test_the_cutoff_may_leave_the_document_alone(scripted, retriever):
    engine = scripted(story())
    result = GRG(retriever, similarity=Cosines(*[0.2] * 5), cutoff=0.7)("Question?")
    assert (result.answer, result.passages, result.citations) == ("Ansa Merrow", [], [])
    assert f"[1] {DOCUMENT}" in engine.prompts[1]


def test_another_knob_keeps_the_similarity(retriever):
    similarity = Cosines(1.0)
    copy = with_knobs(GRG(retriever, similarity=similarity), cutoff=0.5)
    assert (copy.similarity, copy.retrieve, copy.cutoff) == (similarity, retriever, 0.5)


def test_several_documents_are_samples(scripted, retriever):
    engine = scripted(story())
    result = GRG(retriever, size=3)("Question?")
    assert [request.config.temperature for request in engine.requests] == [0.95, 0.95, 0.95, None]
    assert result.details["documents"] == [[DOCUMENT] * 3]


@pytest.mark.parametrize("given", [[], None], ids=["given none", "found none"])
@pytest.mark.parametrize(("document", "answer"), [(DOCUMENT, "Ansa Merrow"), ("?", "recalled")])
def test_without_passages_the_document_is_read_and_without_both_memory_answers(scripted, given, document, answer):
    scripted(story(document=document))
    result = GRG(Fake(), similarity=Cosines())("Question?", passages=given)
    assert (result.answer, result.passages, result.citations) == (answer, [], [])


def test_without_a_document_the_passages_are_read(scripted, retriever):
    scripted(story(document="?"))
    result = GRG(retriever)("Question?")
    assert (result.answer, result.citations, result.details["documents"]) == ("Ansa Merrow", ["p4"], [[]])


def test_an_unparseable_answer_is_an_abstention(scripted, retriever):
    scripted(lambda system, user: {"document": DOCUMENT} if "background" in system else "?")
    result = GRG(retriever)("Question?")
    assert (result.answer, result.abstained, result.stop_reason) == ("", True, "unparseable")


def test_each_sub_question_is_searched_for_and_answered(scripted, retriever):
    engine = scripted(story(step("Who is the harbour master?"), step("Where was Ansa Merrow born?"), END))
    result = GRG(retriever, decompose=True)("Question?")
    assert retriever.queries == ["Who is the harbour master?", "Where was Ansa Merrow born?"]
    assert (result.answer, result.stop_reason, len(engine.requests)) == ("the end", "finished", 7)
    assert [(hop.answer, hop.verdict) for hop in result.hops] == [("Ansa Merrow", "read")] * 2
    assert result.hops[1].passage_ids == [passage.id for passage in result.passages] == ["p0", "p1", "p2", "p3", "p4"]
    assert (result.citations, len(result.details["documents"])) == (["p4"], 2)


def test_given_passages_replace_the_first_retrieval_only(scripted, retriever, passages):
    scripted(story(step("Who is the harbour master?"), step("Where was she born?"), END))
    result = GRG(retriever, decompose=True, k=1)("Question?", passages=[passages[4]])
    assert retriever.queries == ["Where was she born?"]
    assert [hop.passage_ids for hop in result.hops] == [["p4"], ["p0"]]


def test_given_passages_serve_every_hop_without_a_retriever(scripted, passages):
    scripted(story(step("Who is the harbour master?"), step("Where was she born?"), END))
    result = GRG(decompose=True)("Question?", passages=[passages[4]])
    assert [hop.passage_ids for hop in result.hops] == [["p4"], ["p4"]]


def test_nothing_to_retrieve_from_is_refused(scripted):
    scripted(story())
    with pytest.raises(ValueError, match="pass retrieve="):
        GRG()("Question?")


def test_chinese_answers_cite_the_passages_that_state_them(scripted, passages):
    stating = passages[0].model_copy(update={"text": "奎隆港的港务长是安莎·梅罗，她于1888年上任。"})
    scripted(story(step("奎隆港的港务长是谁？"), END, document="安莎·梅罗是港务长。", answer="安莎·梅罗"))
    result = GRG(decompose=True)("港务长出生在哪个岛上？", passages=[stating, passages[1]])
    assert (result.citations, result.hops[0].answer) == (["p0"], "安莎·梅罗")


@pytest.mark.parametrize(
    ("knobs", "calls"),
    [
        ({}, 2),
        ({"size": 4}, 5),
        ({"decompose": True}, 7 * 3 + 1),
        ({"decompose": True, "size": 2, "max_hops": 3}, 3 * 4 + 1),
    ],
)
@pytest.mark.parametrize("document", [DOCUMENT, "?"])
def test_the_bound_is_reached(scripted, retriever, knobs, calls, document):
    engine = scripted(story(*(step(f"What is number {n}?") for n in range(9)), document=document))
    program = build("grg", retriever, **knobs)
    program("Question?")
    assert len(engine.requests) == program.max_calls() == calls
