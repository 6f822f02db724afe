"""RetroRAG: the replies that may become demonstrations, and the knobs."""

import dspy
import pytest

from programs.lms.adapter import JsonForm
from programs.parts.knobs import with_knobs
from programs.retro_rag import RetroRAG
from signatures.common.errors import UserError
from tests.programs.fakes import traced


def test_demonstrations_are_made_of_what_was_followed(tell, retriever):
    tell(answering=["Bert Oyle", "Ansa Merrow"], agreement=[0.0, 1.0], inferring=[["Aa is so."]], relevance=0.0)
    program = RetroRAG(retriever)
    _, trace = traced(program, "Question?")
    trace = list(trace)
    by_predictor = {name: [] for name, _ in program.named_predictors()}
    names = {id(predictor): name for name, predictor in program.named_predictors()}
    for predictor, _, reply in trace:
        by_predictor[names[id(predictor)]].append(reply)
    assert [reply.answer for reply in by_predictor["answering.predict"]] == ["Ansa Merrow"]
    assert len(by_predictor["monitoring"]) == 1
    assert by_predictor["inferring"] == []
    assert len(by_predictor["searching"]) == 1
    assert len(by_predictor["agreement"]) == 2


@pytest.mark.parametrize(("query", "left"), [("harbour of Quillon", 1), ("the question", 0), ("", 0)])
def test_a_query_that_asks_nothing_new_is_no_example_to_follow(tell, retriever, query, left):
    tell(searching=query)
    program = RetroRAG(retriever, max_rounds=2)
    _, trace = traced(program, "Question?")
    assert [predictor for predictor, *_ in trace].count(program.searching) == left


@pytest.mark.parametrize("own", [False, True])
def test_without_demonstrations_of_its_own_the_last_round_shows_those_of_the_others(scripted, script, own):
    engine = scripted(script.Story(), JsonForm(probability_mode="verbalised"))
    program = RetroRAG(script.Batches(), max_rounds=2, evaluate_answer=False)
    demo = {"passages": [], "inferences": [], "question": "q", "reasoning": "because"}
    program.answering.predict.demos = [dspy.Example(**demo, answer="of all rounds")]
    if own:
        program.concluding.predict.demos = [dspy.Example(**demo, answer="of the last")]
    program("Question?")
    texts = {}
    for request in engine.requests:
        texts[script.kind_of(str(request.system))] = " ".join(message.text for message in request.messages[:-1])
    assert "of all rounds" in texts["answering"]
    assert {name: name in texts["concluding"] for name in ("of all rounds", "of the last")} == {
        "of all rounds": not own,
        "of the last": own,
    }


def test_a_threshold_out_of_range_is_refused(retriever):
    with pytest.raises(UserError, match=r"Knob threshold must be a number from 0 to 1, got 1\.5"):
        RetroRAG(retriever, threshold=1.5)


def test_knobs_change_on_a_new_program_only(retriever):
    program = RetroRAG(retriever)
    program.naming.demos = [dspy.Example(question="q", entities=["e"])]
    changed = with_knobs(program, threshold=0.2, inferential=False)
    assert (program.threshold, changed.threshold, changed.inferential) == (0.7, 0.2, False)
    assert [dict(demo) for demo in changed.naming.demos] == [{"question": "q", "entities": ["e"]}]


@pytest.mark.parametrize(("agreement", "left"), [(1.0, 1), (0.0, 0)])
def test_a_direct_answer_is_an_example_to_follow_only_if_it_agreed(tell, retriever, agreement, left):
    tell(agreement=agreement)
    program = RetroRAG(retriever, max_rounds=1)
    _, trace = traced(program, "Question?")
    predictors = [predictor for predictor, *_ in trace]
    assert predictors.count(program.concluding.predict) == 1
    assert predictors.count(program.monitoring) == left
