"""SearChain on any reply: its readers, its bound on calls, unparseable and empty replies, nothing found, Chinese."""

import itertools

import dspy
import pytest

from programs.lms.adapter import ChatForm, JsonForm
from programs.multi_step.searchain import SearChain
from programs.parts.meter import metered
from programs.parts.threads import sequential_calls
from signatures.types import Passage
from tests.programs.fakes import traced
from tests.programs.multi_step import searchain_story as story

QUESTION, WHO, KNOWN, Shelves, chain = story.QUESTION, story.WHO, story.KNOWN, story.Shelves, story.chain


@pytest.fixture
def tell(scripted):
    return story.teller(scripted)


class Endless(Shelves):
    def find(self, query, k):
        return [Passage(id=query, text=f"Text of {query}")]


def endless(steps, *, solved=True):
    """Reply with new queries in each chain, of which the reader confidently corrects the last alone."""
    number = itertools.count()

    def reply(system, user):
        if system.startswith("Plan the whole way"):
            return chain(*((f"What is number {next(number)}?", "fog" if solved else "unknown") for _ in range(steps)))
        if system.startswith("Decide whether the passages give this answer"):
            (asked,) = story.field(user, "question")
            last = int(asked.split()[-1].removesuffix("?")) % steps == steps - 1
            return {"probability": float(last)} if "`probability`" in user else "yes" if last else "no"
        return {"answer": "mist"}

    return reply


@pytest.mark.parametrize(
    ("knobs", "mode", "calls"),
    [
        ({}, "samples", 126),
        ({}, "logprobs", 46),
        ({"max_rounds": 2, "max_hops": 3}, "verbalised", 9),
        ({"max_rounds": 2, "max_hops": 3, "completion": False, "reader": "content"}, "verbalised", 8),
        ({"max_rounds": 3, "max_hops": 3, "reader": "extract"}, "verbalised", 16),
        ({"max_rounds": 1}, "samples", 2),
        ({"verification": False}, "samples", 10),
        ({"verification": False, "completion": False}, "samples", 2),
    ],
)
def test_the_most_calls_are_taken_where_the_last_step_of_each_chain_is_corrected(scripted, knobs, mode, calls):
    program = SearChain(Endless(), **{"reader": "direct"} | knobs)
    reply = endless(program.max_hops, solved=knobs.get("verification", True))
    shown = "verbalised" if mode == "logprobs" else mode  # the scripted engine gives no log-probabilities
    engine = scripted(reply, JsonForm(probability_mode=shown))
    result = program(QUESTION)
    if knobs.get("reader") == "extract":  # no final content: nothing to extract from
        calls, bound = calls - 1, calls
    else:
        bound = calls
    assert len(engine.requests) == calls
    with dspy.context(adapter=JsonForm(probability_mode=mode)):
        assert program.max_calls() == bound
    assert result.stop_reason == ("done" if knobs.get("verification") is knobs.get("completion") is False else "cap")


def test_samples_of_a_probability_are_one_call_in_sequence(scripted):
    program = SearChain(Endless(), reader="direct")
    scripted(endless(program.max_hops), JsonForm(probability_mode="samples"))
    with metered() as meter:
        program(QUESTION)
    assert (meter.calls, meter.rounds, sequential_calls(program)) == (126, 46, 46)


@pytest.mark.parametrize(("reader", "answer", "calls"), [("direct", "Amber Sea", 5), ("extract", "the sea", 5),
                                                         ("content", "the Amber Sea", 4)])  # fmt: skip
def test_three_readers_give_the_short_answer(scripted, reader, answer, calls):
    def reply(system, user):
        if system.startswith("Plan"):
            return KNOWN
        asked = story.field(user, "question")[0]
        alone = "[1] The harbour master is Ansa Merrow. She was born" in user
        return {"answer": "the sea" if alone else story.READ[asked]}

    engine = scripted(reply)
    result = SearChain(Shelves(), reader=reader)(QUESTION)
    assert (result.answer, len(engine.requests)) == (answer, calls)
    assert result.details["said"] == "the Amber Sea"


def test_a_chain_that_ends_with_another_answer_than_the_reader_is_no_demonstration(tell):
    tell({**KNOWN, "response": "So the answer is: the Grey Sea."})
    program = SearChain(Shelves(), reader="direct")
    result, trace = traced(program, QUESTION)
    called = [predictor for predictor, *_ in trace]
    assert result.answer == "Amber Sea"
    assert program.planning not in called
    assert called.count(program.checking) == 3


@pytest.mark.parametrize("read", ["?", "unknown"])
def test_where_the_reader_gives_no_answer_it_is_what_the_content_states(tell, read):
    tell(KNOWN, read={**story.READ, QUESTION: read})
    assert SearChain(Shelves(), reader="direct")(QUESTION).answer == "the Amber Sea"


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ("It lies in the Amber Sea [1].", "It lies in the Amber Sea."),
        ("", "Ansa Merrow"),
        ("So the answer is:", "Ansa Merrow"),
        ("So the answer is: unknown.", "Ansa Merrow"),
        ("The passages do not say.", "Ansa Merrow"),
        ("(empty)", "Ansa Merrow"),
        ("None", "Ansa Merrow"),
        ("So the answer is: unknown, because step 2 is.", "Ansa Merrow"),
    ],
)
def test_content_without_an_answer(tell, content, answer):
    tell(chain((WHO, "Ansa Merrow"), content=content))
    assert SearChain(Shelves(), reader="content")(QUESTION).answer == answer


def test_an_unparseable_first_chain_leaves_the_question_to_be_searched_for(tell):
    engine = tell("?")
    shelves = Shelves({QUESTION: ("sea", "Tren lies in the Amber Sea.")})
    result = SearChain(shelves, reader="direct")(QUESTION)
    assert story.kinds(engine) == ["plan", "read"]
    assert ([hop.question for hop in result.hops], result.hops[0].verdict) == ([QUESTION], "unchecked")
    assert (result.answer, result.response, result.stop_reason) == ("Amber Sea", "Amber Sea", "unparseable")
    assert result.citations == ["sea"]


def test_an_unparseable_later_chain_leaves_the_one_before(tell):
    first = chain((WHO, "unknown"), content="She was born on Tren. So the answer is: the Amber Sea.")
    tell(first, "?")
    result = SearChain(Shelves(), reader="content")(QUESTION)
    assert (result.answer, result.stop_reason) == ("the Amber Sea", "unparseable")
    assert len(result.details["chains"]) == 1


@pytest.mark.parametrize("form", [JsonForm, ChatForm])
def test_a_chain_with_an_open_step_may_lack_the_final_content(scripted, form):
    chains = iter([{"chain": [f"{WHO} -> unknown"]}, chain((WHO, "Ansa Merrow"), content="So the answer is: Merrow.")])

    def reply(system, user):
        fields = next(chains) if system.startswith("Plan") else {"answer": "Ansa Merrow"}
        if form is JsonForm:
            return fields
        texts = {name: value if isinstance(value, str) else "\n".join(value) for name, value in fields.items()}
        return "\n\n".join(f"[[ ## {name} ## ]]\n{text}" for name, text in texts.items())

    scripted(reply, form())
    result = SearChain(Shelves(), reader="content")(QUESTION)
    assert (result.answer, result.stop_reason) == ("Merrow", "finished")
    assert [hop.verdict for hop in result.hops] == ["completed"]


@pytest.mark.parametrize("steps", [[], ["None"], ["The chain:"]])
def test_without_steps_the_question_is_the_only_query(tell, steps):
    engine = tell({"chain": steps, "response": ""}, {"chain": steps, "response": "So the answer is: fog."})
    shelves = Shelves({QUESTION: ("sea", "Tren lies in the Amber Sea.")})
    result = SearChain(shelves, reader="direct")(QUESTION)
    assert story.field(story.plans(engine)[1], "transcript")[:2] == [
        f"- Chain 1, step 1: {QUESTION} -> unknown",
        f"- Result 1: {QUESTION} -> Amber Sea",
    ]
    assert result.details["chains"][1] == [f"{QUESTION} -> fog", "So the answer is: fog."]
    assert (len(shelves.asked), result.answer) == (1, "Amber Sea")


@pytest.mark.parametrize("passages", [[], None])
def test_where_nothing_is_found_the_chain_answers_from_memory(tell, passages):
    engine = tell(KNOWN)
    result = SearChain(Shelves({}), reader="direct")(QUESTION, passages=passages)
    assert story.kinds(engine) == ["plan"]
    assert (result.answer, result.citations, result.passages) == ("the Amber Sea", [], [])
    assert {hop.verdict for hop in result.hops} == {"unchecked"}
    tell(chain((WHO, "unknown")))
    result = SearChain(Shelves({}), reader="direct")(QUESTION, passages=passages)
    assert (result.answer, result.abstained, result.stop_reason) == ("", True, "nothing found")


def test_fixed_passages_are_what_the_first_query_finds_or_all(tell, passages):
    tell(KNOWN)
    shelves = Shelves()
    result = SearChain(shelves, reader="direct")(QUESTION, passages=passages[3:5])
    assert [query for query, _ in shelves.asked] == [story.BORN, story.SEA]
    assert result.hops[0].passage_ids == ["p3", "p4"]
    assert result.citations == ["p4", "born", "sea"]
    tell(KNOWN)
    result = SearChain(reader="direct")(QUESTION, passages=passages[3:5])
    assert [hop.passage_ids for hop in result.hops] == [["p3", "p4"]] * 3
    assert [passage.id for passage in result.passages] == ["p3", "p4"]


def test_a_long_dialogue_leaves_out_what_the_oldest_searches_found(scripted):
    engine = scripted(endless(2), JsonForm(probability_mode="verbalised"))
    SearChain(Endless(), max_hops=2, transcript_words=100, reader="direct")(QUESTION)
    lines = story.field(story.plans(engine)[-1], "transcript")
    assert [line for line in lines if "left out" in line] == ["- Result 2: (left out)", "- Result 3: (left out)"]
    assert lines[-1] == "- Result 4: Text of What is number 7?"


def test_a_chain_that_is_longer_than_the_dialogue_still_shows_what_was_found(scripted):
    engine = scripted(endless(50, solved=False), JsonForm(probability_mode="verbalised"))
    SearChain(Endless(), max_rounds=2, transcript_words=100, reader="direct")(QUESTION)
    assert story.field(story.plans(engine)[-1], "transcript")[-2:] == [
        "- Result 1: What is number 0? -> mist",
        "- Result 1: Text of What is number 0?",
    ]


def test_a_chinese_chain_is_read_searched_for_and_cited(scripted):
    who, born = "谁是奎隆港的港务长？", "安莎·梅罗出生在哪里？"
    content = "港务长是安莎·梅罗[1]。她出生在特伦岛[2]。所以答案是：特伦岛。"
    shelves = Shelves({who: ("port", "奎隆港的港务长是安莎·梅罗。"), born: ("life", "安莎·梅罗出生在特伦岛。")})
    chains = iter([f"1、{who} -> 安莎·梅罗\n2、{born} → 未知", f"{who} -> 安莎·梅罗\n{born} -> 特伦岛"])

    def reply(system, user):
        if system.startswith("Plan"):
            return f"[[ ## chain ## ]]\n{next(chains)}\n\n[[ ## response ## ]]\n{content}"
        asked = story.field(user, "question")[0]
        return f"[[ ## answer ## ]]\n{'安莎·梅罗' if asked == who else '特伦岛'}"

    engine = scripted(reply, ChatForm())
    result = SearChain(shelves, reader="direct")("奎隆港的港务长出生在哪里？")
    assert f"- Result 1: {born} -> 特伦岛" in engine.prompts[3]
    assert [(hop.question, hop.verdict) for hop in result.hops] == [(who, "confirmed"), (born, "completed")]
    assert (result.answer, result.details["said"], result.stop_reason) == ("特伦岛", "特伦岛", "finished")
    assert (result.response, result.citations) == (content, ["port", "life"])


def numbered(answers):
    """Return a chain of queries by number, with these answers."""
    return chain(*((f"What is number {number}?", answer) for number, answer in enumerate(answers)))


def test_a_chain_that_is_longer_than_the_bound_is_searched_for_bit_by_bit(tell):
    read = {f"What is number {number}?": "fog" for number in range(50)}
    chains = [numbered([*["fog"] * done, *["unknown"] * (50 - done)]) for done in (4, 5, 6)]
    tell(*chains, numbered(["fog"] * 50), read=read)
    shelves = Endless()
    result = SearChain(shelves, max_hops=5, reader="direct")(QUESTION)
    assert [query for query, _ in shelves.asked] == [f"What is number {number}?" for number in range(7 + 5)]
    assert [hop.verdict for hop in result.hops[4:7]] == ["completed"] * 3
    assert result.stop_reason == "finished"


def test_steps_that_the_bound_left_open_are_a_cap(tell):
    tell(numbered(["fog", "fog", "unknown"]), read={f"What is number {number}?": "fog" for number in range(3)})
    assert SearChain(Endless(), max_hops=2, reader="direct")(QUESTION).stop_reason == "cap"


def test_a_query_that_found_nothing_is_not_searched_for_again(tell):
    wrong = chain(("Why?", "unknown"), (WHO, "Bert Oyle"))
    right = chain(("Why?", "unknown"), (WHO, "Ansa Merrow"), (story.BORN, "Tren"))
    tell(wrong, right)
    shelves = Shelves()
    result = SearChain(shelves, reader="direct")(QUESTION)
    assert [query for query, _ in shelves.asked] == ["Why?", WHO, story.BORN]
    assert result.stop_reason == "nothing found"  # for the step that is still open, though others were found
