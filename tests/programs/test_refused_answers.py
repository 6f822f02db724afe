"""What declines in any words is no answer, no query and no demonstration, in loops that think or act."""

import dspy
import pytest

from programs.agents.corag import CoRAG
from programs.agents.react import ReAct
from programs.agents.search_r1 import SearchR1
from programs.multi_step.flare import FLARE
from programs.multi_step.ircot import IRCoT
from programs.multi_step.iter_retgen import IterRetGen
from programs.multi_step.self_ask import SelfAsk
from programs.parts.passages import is_no_item
from programs.parts.reasoning.thought import next_sentence, stated_answer
from tests.programs.fakes import traced

REFUSALS = ["Not mentioned in the passages.", "Cannot be determined.", "unknown", "文中没有提到。"]


@pytest.mark.parametrize(
    "reply",
    [
        "The passages do not mention where Merrow was born.",
        "The answer is not mentioned in the passages.",
        "So the answer is: unknown.",
        "所以答案是未知。",
    ],
)
def test_a_sentence_that_declines_is_none(reply):
    assert next_sentence(reply, []) == ""
    assert next_sentence(f"{reply} Merrow is a harbour master.", []) == "Merrow is a harbour master."


def test_a_sentence_that_concedes_and_goes_on_is_one():
    said = "The passages do not name the island, but Merrow was born on Quillon."
    assert next_sentence(said, []) == said


def test_the_cue_may_name_the_question():
    assert stated_answer("So the answer to the question is: the Amber Sea.") == "the Amber Sea"


@pytest.mark.parametrize(
    "text",
    ["No follow-up question is needed.", "No further follow-up questions needed", "No sub-question needed", "无需搜索",
     "不需要再搜索"],
)  # fmt: skip
def test_no_further_question_is_no_item(text):
    assert is_no_item(text)


@pytest.mark.parametrize("refusal", REFUSALS)
def test_ircot_falls_back_on_its_thought_and_iter_retgen_on_the_generation_before(refusal, scripted, retriever):
    scripted(lambda system, user: {"sentence": "So the answer is: Quillon.", "answer": refusal})
    assert IRCoT(retriever)("Where?").answer == "Quillon"
    answers = iter(["Quillon", refusal])
    scripted(lambda system, user: {"reasoning": "Merrow was born there.", "answer": next(answers)})
    assert IterRetGen(retriever)("Where?").answer == "Quillon"


def test_a_thought_that_states_another_answer_than_the_reader_is_no_demonstration(scripted, retriever):
    scripted(lambda system, user: {"sentence": "So the answer is: Tarn.", "answer": "Quillon"})
    program = IRCoT(retriever)
    _, trace = traced(program, "Where?")
    assert [predictor for predictor, *_ in trace] == [program.reading]
    program = FLARE(retriever, reader="direct")
    _, trace = traced(program, "Where?")
    assert [predictor for predictor, *_ in trace] == [program.reading]
    answers = iter(["Tarn", "Quillon"])
    scripted(lambda system, user: {"reasoning": "so", "answer": next(answers)})
    program = IterRetGen(retriever, reader="direct")
    _, trace = traced(program, "Where?")
    assert [predictor for predictor, *_ in trace] == [program.reading]


@pytest.mark.parametrize("program", [IRCoT, FLARE])
def test_a_cue_with_no_answer_behind_it_is_no_demonstration(program, scripted, retriever):
    scripted(lambda system, user: {"sentence": 'So the answer is: "".', "answer": "Quillon"})
    asked = program(retriever)
    with dspy.context(trace=[]):
        assert asked("Where?").answer == "Quillon"
        assert [predictor for predictor, *_ in dspy.settings.trace] == [asked.reading]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_self_ask_concludes_where_the_final_answer_declines(refusal, scripted, retriever):
    asked = iter([(False, "Who is the harbour master?"), (True, "")])

    def reply(system, user):
        if "follow-up question on the way" in system:
            finished, sub_question = next(asked)
            return {"finished": finished, "sub_question": sub_question, "answer": refusal}
        return {"answer": "Quillon" if "settled hops" in system else refusal}

    scripted(reply)
    result = SelfAsk(retriever)("Where?")
    assert (result.answer, result.hops[0].answer) == ("Quillon", "")


@pytest.mark.parametrize("refusal", REFUSALS)
def test_agents_do_not_finish_with_a_refusal(refusal, scripted, retriever):
    scripted(lambda system, user: {"thought": "", "action": "finish", "argument": refusal})
    result = SearchR1(retriever, max_turns=1)("Where?")
    assert (result.answer, result.stop_reason, result.details["invalid"]) == ("", "cap", 2)
    result = ReAct(retriever)("Where?")
    assert (result.answer, result.abstained, result.stop_reason) == ("", True, "finished")


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("reader", ["own", "extract"])
def test_a_step_that_finishes_with_a_refusal_is_no_demonstration(refusal, reader, scripted, retriever):
    scripted(lambda system, user: {"thought": "", "action": "finish", "argument": refusal, "answer": ""})
    with dspy.context(trace=[]):
        program = ReAct(retriever, reader=reader)
        assert program("Where?").answer == ""
        assert program.stepping not in [predictor for predictor, *_ in dspy.settings.trace]


def test_an_answer_that_the_reader_overrules_is_no_demonstration(scripted, retriever):
    def reply(system, user):
        return {"thought": "so", "action": "finish", "argument": "Tarn", "reasoning": "so", "answer": "Quillon"}

    scripted(reply)
    program = ReAct(retriever, reader="extract")
    with dspy.context(trace=[]):
        assert program("Where?").answer == "Quillon"
        assert [predictor for predictor, *_ in dspy.settings.trace] == [program.extracting.predict]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_corag_takes_refusals_for_unknown_and_for_no_conclusion(refusal, scripted, retriever):
    numbers = iter(range(99))

    def reply(system, user):
        if "follow-up question that helps" in system:
            return {"sub_question": f"Who was number {next(numbers)}?"}
        return {"answer": refusal}

    scripted(reply)
    result = CoRAG(retriever, max_hops=2)("Where?")
    assert [hop.answer for hop in result.hops] == ["unknown", "unknown"]
    assert result.answer == ""
