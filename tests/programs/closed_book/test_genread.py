"""GenRead: what is written is what is read, of the question or of one sub-question at a time."""

import dspy
import pytest

from programs.catalog import build
from programs.closed_book.genread import GenRead
from tests.programs.fakes import END, step, traced, writing


def story(*steps, document=lambda question: f"A document about {question}", **replies):
    return writing(*steps, document=document, **replies)


def test_the_answer_is_read_from_a_document_written_for_the_question(scripted):
    engine = scripted(story())
    result = GenRead()("Who is the harbour master?")
    assert len(engine.requests) == 2
    assert "[1] A document about Who is the harbour master?" in engine.prompts[1]
    assert (result.answer, result.stop_reason) == ("Ansa Merrow", "done")
    assert result.details == {"documents": [["A document about Who is the harbour master?"]]}


def test_documents_are_no_passages_of_a_corpus(scripted, retriever, passages):
    engine = scripted(story())
    result = GenRead(retriever, decompose=False)("Who?", passages=passages)
    assert (result.passages, result.citations, result.hops, retriever.queries) == ([], [], [], [])
    assert "fog" not in "".join(engine.prompts)


def test_sampled_documents_are_read_together(scripted):
    numbers = iter(range(1, 4))
    engine = scripted(story(document=lambda question: f"Document number {next(numbers)}."))
    result = GenRead(documents="sampled", size=3, temperature=0.8)("Question?")
    *written, read = engine.requests
    assert [request.config.temperature for request in written] == [0.8] * 3
    assert sorted(result.details["documents"][0]) == [f"Document number {number}." for number in (1, 2, 3)]
    assert all(f"[{n}] {text}" in read.messages[-1].text for n, text in enumerate(result.details["documents"][0], 1))


def test_what_cannot_be_parsed_is_not_read(scripted):
    texts = iter(["?", "The only document.", "unknown"])
    engine = scripted(story(document=lambda question: next(texts)))
    result = GenRead(documents="sampled", size=3)("Question?")
    assert (result.answer, result.details["documents"]) == ("Ansa Merrow", [["The only document."]])
    assert "[2]" not in engine.prompts[-1]


def test_without_a_document_the_answer_is_from_memory(scripted):
    engine = scripted(story(document=lambda question: "?"))
    result = GenRead()("Question?")
    assert (result.answer, result.details, len(engine.requests)) == ("recalled", {"documents": [[]]}, 2)


def test_an_unparseable_answer_is_an_abstention(scripted):
    scripted(lambda system, user: {"document": "A document."} if "background" in system else "?")
    result = GenRead()("Question?")
    assert (result.answer, result.abstained, result.stop_reason) == ("", True, "unparseable")


def test_each_sub_question_has_documents_of_its_own(scripted):
    engine = scripted(story(step("Who is the harbour master?"), step("Where was Ansa Merrow born?"), END))
    result = GenRead(decompose=True)("Question?")
    assert (result.answer, result.stop_reason, len(engine.requests)) == ("the end", "finished", 3 + 3 + 1)
    assert [(hop.question, hop.answer, hop.verdict, hop.passage_ids) for hop in result.hops] == [
        ("Who is the harbour master?", "Ansa Merrow", "read", []),
        ("Where was Ansa Merrow born?", "Ansa Merrow", "read", []),
    ]
    assert result.details["documents"] == [
        ["A document about Who is the harbour master?"],
        ["A document about Where was Ansa Merrow born?"],
    ]
    # A sub-question is answered alone: neither the question nor the hops before it are shown.
    for prompt in (*engine.prompts[1:3], *engine.prompts[4:6]):
        assert "Question?" not in prompt
        assert "-> Ansa Merrow" not in prompt
    assert "1. Who is the harbour master? -> Ansa Merrow" in engine.prompts[3]


def test_a_sub_question_without_an_answer_is_a_hop_nevertheless(scripted):
    tail = story(step("Who is the harbour master?"), END)
    scripted(lambda system, user: "?" if "what the passages say" in system else tail(system, user))
    (hop,) = GenRead(decompose=True)("Question?").hops
    assert (hop.answer, hop.verdict) == ("", "unparseable")


def test_chinese_questions_are_decomposed_alike(scripted):
    steps = [step("奎隆港的港务长是谁？"), step("奎隆港的港务长，是谁")]
    engine = scripted(story(*steps, document=lambda question: "安莎·梅罗是港务长。", answer="安莎·梅罗"))
    result = GenRead(decompose=True)("奎隆港的港务长出生在哪个岛上？")
    assert [(hop.question, hop.answer) for hop in result.hops] == [("奎隆港的港务长是谁？", "安莎·梅罗")]
    assert (result.answer, result.stop_reason, len(engine.requests)) == ("concluded", "repeated", 1 + 2 + 1 + 1)


@pytest.mark.parametrize(
    ("knobs", "calls"),
    [
        ({}, 2),
        ({"documents": "sampled"}, 11),
        ({"documents": "greedy", "size": 4}, 2),
        ({"decompose": True}, 7 * 3 + 1),
        ({"decompose": True, "documents": "sampled", "size": 2, "max_hops": 3}, 3 * 4 + 1),
    ],
)
@pytest.mark.parametrize("document", ["A document.", "?"])
def test_the_bound_is_reached(scripted, knobs, calls, document):
    engine = scripted(story(*(step(f"What is number {n}?") for n in range(9)), document=lambda question: document))
    program = build("genread", **knobs)
    program("Question?")
    assert len(engine.requests) == program.max_calls() == calls


def test_documents_and_readings_can_become_demonstrations(scripted):
    scripted(story())
    program = GenRead()
    _, trace = traced(program, "Question?")
    assert [predictor for predictor, _, _ in trace] == [program.writing, program.reading]


def pairs(*numbers):
    towns = {0: "Quillon harbour ships quay", 1: "chalk hills sheep wool"}
    return [
        dspy.Example(
            question=f"{towns[number % 2]} {number}?", document=f"{towns[number % 2]} are here.", augmented=True
        )
        for number in numbers
    ]


def test_each_cluster_of_demonstrations_writes_a_document_of_its_own(scripted):
    engine = scripted(story())
    program = GenRead(documents="clustered", size=2, cluster_demos=2)
    program.writing.demos = pairs(0, 1, 2, 3, 4, 5)
    result = program("Who is the harbour master?")
    *written, read = engine.requests
    shown = [" ".join(message.text for message in request.messages[:-1]) for request in written]
    assert len(written) == 2
    assert sorted(("harbour" in text, "chalk" in text) for text in shown) == [(False, True), (True, False)]
    assert [len(request.messages) for request in written] == [5, 5]  # two demonstrations of two messages each
    assert all(request.config.temperature == 0.0 or request.config.temperature is None for request in written)
    assert len(result.details["documents"][0]) == 2
    assert "[2]" in read.messages[-1].text


def test_clusters_without_demonstrations_are_samples(scripted):
    engine = scripted(story())
    program = GenRead(documents="clustered", size=3)
    assert program("Question?").answer == "Ansa Merrow"
    assert len(engine.requests) == program.max_calls() == 4
    assert [request.config.temperature for request in engine.requests[:3]] == [0.95] * 3


def test_there_are_no_more_documents_than_clusters(scripted):
    engine = scripted(story())
    program = GenRead(documents="clustered", size=10)
    program.writing.demos = pairs(0, 2)
    program("Question?")
    assert len(engine.requests) <= 3
