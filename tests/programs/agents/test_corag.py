import threading
from collections import Counter

import dspy
import pytest

from programs.agents.corag import CoRAG
from programs.catalog import build
from programs.lms.adapter import JsonForm
from signatures.types import Passage
from tests.programs.agents import library as story
from tests.programs.fakes import traced

field = story.field
ANSWERS, CONCLUDES, JUDGES = "and nothing else", "Answer the question from the hops", "Decide whether the hops"
WHO, WHERE = {"sub_question": "Who is the harbour master?"}, {"sub_question": "Where was Merrow born?"}


@pytest.fixture
def shelves():
    return story.Library(**{
        "Who is the harbour master?": [story.QUILLON], "Where was Merrow born?": [story.MERROW],
        "Question?": [story.MERROW, story.page("f", "Fog", "Fog is wet.")],
    })  # fmt: skip


def readers(conclusion="Tren"):
    """Reply to a sub-question by the passage that the prompt begins with, and to the rest with the conclusion."""
    return {
        ANSWERS: lambda user: {"answer": "Ansa Merrow" if "[1] Quillon" in user else "Tren"},
        CONCLUDES: {"answer": conclusion},
    }


def test_a_chain_of_pairs_is_asked_answered_and_concluded(replies, shelves):
    engine = replies(WHO, WHERE, other=readers())
    result = CoRAG(shelves, max_hops=2)("Question?")
    assert shelves.asked == [("Who is the harbour master?", 5), ("Where was Merrow born?", 5), ("Question?", 20)]
    ask, answer, ask_again, _, conclude = engine.prompts
    assert field(ask, "hops") == ["(none)"]
    assert field(answer, "question") == ["Who is the harbour master?"]
    assert "Question?" not in answer
    pairs = ["1. Who is the harbour master? -> Ansa Merrow", "2. Where was Merrow born? -> Tren"]
    assert field(ask_again, "hops") == pairs[:1]
    assert field(conclude, "hops") == pairs
    assert field(conclude, "passages") == ["[1] Ansa Merrow: Ansa Merrow was born on Tren.", "[2] Fog: Fog is wet."]
    assert (result.answer, result.stop_reason, result.citations) == ("Tren", "done", ["m", "q"])
    assert [(hop.question, hop.answer, hop.passage_ids) for hop in result.hops] == [
        ("Who is the harbour master?", "Ansa Merrow", ["q"]),
        ("Where was Merrow born?", "Tren", ["m"]),
    ]
    assert [passage.id for passage in result.passages] == ["q", "m", "f"]
    assert result.details == {"scores": [], "chosen": 0, "probability_mode": None}


def temperatures(engine, name):
    found = [request.config for request in engine.requests if f"`{name}`" in request.messages[-1].text]
    return [config.temperature for config in found]


@pytest.mark.parametrize("repeat", [{"sub_question": "who is THE harbour master"}, {"sub_question": "None"}])
def test_a_repeat_is_discarded_and_asked_for_again_at_a_higher_temperature(replies, shelves, repeat):
    engine = replies(WHO, repeat, repeat, WHERE, other=readers())
    program = CoRAG(shelves, max_hops=2)
    result, trace = traced(program, "Question?")
    kept = [output.sub_question for _, _, output in trace if "sub_question" in output]
    asked = temperatures(engine, "sub_question")
    assert asked[0] == asked[1]
    assert asked[2:] == [0.7, 0.7]
    assert kept == [hop.question for hop in result.hops] == ["Who is the harbour master?", "Where was Merrow born?"]


def test_a_chain_that_only_repeats_ends_and_takes_the_tries_it_has(replies, shelves):
    engine = replies(WHO, other=readers())
    result = CoRAG(shelves, max_hops=2)("Question?")
    assert (len(result.hops), result.stop_reason, result.answer) == (1, "repeated", "Tren")
    assert len(engine.requests) == 8 + 1 + 1


@pytest.mark.parametrize(
    ("knobs", "mode", "calls"),
    [({}, "samples", 31), ({"max_hops": 2}, "samples", 11), ({"max_hops": 1, "chains": 2}, "samples", 10 + 10 + 1),
     ({"max_hops": 1, "chains": 2}, "verbalised", 10 + 2 + 1),
     ({"max_hops": 1, "chains": 2, "choose": "agreement"}, "samples", 10 + 2),
     ({"max_hops": 1, "reader": "passages"}, "samples", 6)],
)  # fmt: skip
def test_the_bound_is_reached_exactly(scripted, retriever, knobs, mode, calls):
    tries = Counter()
    together = threading.Barrier(knobs.get("chains", 1))  # chains write their sub-questions in step

    def reply(system, user):
        if "Ask one simple" in system:  # three tries of each hop in vain
            tries[user] += 1
            number = tries[user]
            together.wait(60)
            return {"sub_question": "None" if number <= 3 * together.parties else f"What is {len(user)}?"}
        if "sufficient" in user or JUDGES in system:
            return {"probability": 0.5} if mode == "verbalised" else "yes"
        return {"answer": "Tren"}

    engine = scripted(reply, JsonForm(probability_mode=mode))
    with dspy.context(adapter=JsonForm(probability_mode=mode)):
        program = CoRAG(retriever, **knobs)
        program("Question?")
        assert program.max_calls() == calls
    assert len(engine.requests) == calls


def test_an_unparseable_sub_question_ends_the_chain_and_what_there_is_is_concluded(replies, shelves):
    replies(WHO, "??", other=readers())
    result = CoRAG(shelves)("Question?")
    assert (len(result.hops), result.stop_reason, result.answer) == (1, "unparseable", "Tren")


@pytest.mark.parametrize("answer", ["??", {"answer": ""}, {"answer": "Unknown."}])
def test_a_sub_question_that_the_passages_do_not_answer_is_unknown(replies, shelves, answer):
    engine = replies(WHO, other={**readers(), ANSWERS: answer})
    result = CoRAG(shelves, max_hops=1)("Question?")
    assert result.hops[0].answer == "unknown"
    assert field(engine.prompts[-1], "hops") == ["1. Who is the harbour master? -> unknown"]


@pytest.mark.parametrize("conclusion", ["??", {"answer": ""}])
def test_without_a_conclusion_the_last_known_answer_is_kept(replies, shelves, conclusion):
    replies(WHO, {"sub_question": "Where lies Fog?"}, other={**readers(), CONCLUDES: conclusion})
    result = CoRAG(shelves, max_hops=2)("Question?")  # nothing is found for the second one
    assert ([hop.answer for hop in result.hops], result.answer) == (["Ansa Merrow", "unknown"], "Ansa Merrow")


def chains(scores):
    """Reply with one sub-question per chain, the first one greedy; P(yes) of a chain as listed by its sub-question."""
    questions = iter(["Where was Merrow born?", *["Who is the harbour master?"] * 9])

    def judged(user):
        return {"probability": next(score for words, score in scores.items() if words in user)}

    return (lambda user: {"sub_question": next(questions)}), judged


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ({"born": 0.2, "master": 0.9}, "master"),
        ({"born": 0.9, "master": 0.2}, "born"),
        ({"born": 0.5, "master": 0.5}, ""),
    ],
)
def test_the_chain_of_the_highest_probability_is_concluded(replies, shelves, scores, best):
    asks, judged = chains(scores)
    said = {**readers(), "Ask one simple": asks, JUDGES: judged}
    engine = replies("??", other=said, adapter=JsonForm(probability_mode="verbalised"))
    program = CoRAG(shelves, max_hops=1, chains=3)
    result, trace = traced(program, "Question?")
    kept = [output for _, _, output in trace if "sub_question" in output]
    found = result.details["scores"]
    assert result.details["chosen"] == found.index(max(scores.values()))  # of equal ones the first
    assert best in result.hops[0].question
    assert len(result.hops) == len(kept) == 1
    assert kept[0].sub_question == result.hops[0].question
    assert result.details["probability_mode"] == "verbalised"
    assert temperatures(engine, "sub_question").count(0.7) == 2


def test_unparseable_probabilities_rank_last(replies, shelves):
    replies(WHO, other={**readers(), JUDGES: "??"}, adapter=JsonForm(probability_mode="verbalised"))
    result = CoRAG(shelves, max_hops=1, chains=2)("Question?")
    assert (result.details["scores"], result.details["chosen"], result.answer) == ([None, None], 0, "Tren")


def test_the_answer_that_most_chains_give_wins(replies, shelves):
    asks, _ = chains({})

    def conclude(user):
        return {"answer": "The Tren" if "-> Tren" in user else "Merrow"}

    engine = replies("??", other={**readers(), "Ask one simple": asks, CONCLUDES: conclude})
    result = CoRAG(shelves, max_hops=1, chains=3, choose="agreement")("Question?")
    assert result.answer == "Merrow"
    assert sorted(result.details["scores"]) == [1.0, 2.0, 2.0]
    assert result.hops[0].question == "Who is the harbour master?"
    assert len(engine.requests) == 3 * 2 + 3


def test_the_shared_reader_reads_all_passages(replies, shelves):
    engine = replies(WHO, other={**readers(), "with what the passages say. Give": {"answer": "Tren"}})
    result = CoRAG(shelves, max_hops=1, reader="passages")("Question?")
    assert result.answer == "Tren"
    assert [line[:11] for line in field(engine.prompts[-1], "passages")] == [
        "[1] Quillon",
        "[2] Ansa Me",
        "[3] Fog: Fo",
    ]


def test_given_passages_are_the_first_ones_and_those_of_the_question(replies, shelves):
    engine = replies(WHO, WHERE, other=readers())
    given = [story.page("g", "Given", "Fog.")]
    result = CoRAG(shelves, max_hops=2)("Question?", passages=given)
    assert [hop.passage_ids for hop in result.hops] == [["g"], ["m"]]
    assert field(engine.prompts[-1], "passages") == ["[1] Given: Fog."]
    assert shelves.asked == [("Where was Merrow born?", 5)]


@pytest.mark.parametrize("passages", [[], None])
def test_nothing_to_find_is_no_error(replies, passages):
    engine = replies(WHO, other={CONCLUDES: {"answer": "from memory"}})
    result = CoRAG(story.Library(), max_hops=1)("Question?", passages=passages)
    assert (result.answer, result.passages, len(engine.requests)) == ("from memory", [], 2)


def test_the_passages_of_the_question_can_be_left_out(replies, shelves):
    replies(WHO, other=readers())
    CoRAG(shelves, max_hops=1, final_k=0)("Question?")
    assert shelves.asked == [("Who is the harbour master?", 5)]


def test_a_chinese_chain_discards_a_repeat(replies):
    found = [Passage(id="p", title="奎隆港", text="奎隆港的港务长是安莎·梅罗。")]
    library = story.Library(**{"谁是港务长？": found})
    first, repeat = {"sub_question": "谁是港务长？"}, {"sub_question": "谁是港务长"}
    said = {ANSWERS: {"answer": "安莎·梅罗"}, CONCLUDES: {"answer": "安莎·梅罗"}}
    engine = replies(first, repeat, other=said)
    result = CoRAG(library, max_hops=2)("奎隆港的港务长是谁？")
    assert (len(result.hops), result.answer, result.citations) == (1, "安莎·梅罗", ["p"])
    assert field(engine.prompts[-1], "hops") == ["1. 谁是港务长？ -> 安莎·梅罗"]


def test_best_of_four_is_a_preset():
    assert build("corag", preset="best_of_4").chains == 4
