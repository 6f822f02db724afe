import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from programs.genground import GenGround
from programs.parts.prediction import observe_hops
from signatures.common.errors import UserError
from signatures.types import Passage
from tests.programs.fakes import traced

EVIDENCE = "The harbour master of Quillon is Ansa Merrow."


def story(deductions, *, draft_is_checked=True, conclusion="concluded", citing=False):
    """Reply as an LM that takes the deductions in order and quotes the harbour master wherever it reads of her."""
    steps = iter(deductions)

    def reply(system, user):
        if "Take the next step" in system:
            return next(steps)
        if "from the settled hops" in system:
            return {"answer": conclusion}
        if "Answer the question from what you know" in system:
            return {"answer": "from memory"}
        if "with what the passages say" in system:
            return {"answer": "read"}
        found = EVIDENCE in user and draft_is_checked
        if "to check the draft" in system:
            return {"evidence": EVIDENCE if found else ""}
        return {"evidence": EVIDENCE if found else "", "answer": "Ansa Merrow" if found else "a slip"}

    return reply


def step(sub_question="Who is the harbour master?", answer="Bert Oyle", finished=False):
    return {"finished": finished, "sub_question": sub_question, "answer": answer}


END = step("", "the end", finished=True)


def test_second_batch_corrects_a_wrong_memory(scripted, retriever):
    engine = scripted(story([step(), END]))
    result = GenGround(retriever, k=9, batch_size=3)("Question?")
    (hop,) = result.hops
    assert (hop.draft, hop.answer, hop.verdict) == ("Bert Oyle", "Ansa Merrow", "corrected")
    assert hop.evidence == EVIDENCE
    assert result.citations == hop.passage_ids == ["p4"]
    assert [passage.id for passage in result.passages] == ["p0", "p1", "p2", "p3", "p4", "p5"]
    assert result.answer == "the end"
    assert len(engine.requests) == 1 + 2 + 1


def test_a_right_memory_is_confirmed(scripted, retriever):
    scripted(story([step(answer="ansa merrow"), END]))
    assert GenGround(retriever)("Question?").hops[0].verdict == "confirmed"


def test_memory_stands_when_no_passage_helps(scripted, retriever):
    engine = scripted(story([step(), END], draft_is_checked=False))
    result = GenGround(retriever, k=9, batch_size=3)("Question?")
    assert (result.hops[0].answer, result.hops[0].verdict) == ("Bert Oyle", "kept")
    assert result.hops[0].evidence is None
    assert result.citations == []
    assert len(engine.requests) == 1 + 3 + 1


def test_evidence_that_stands_in_no_passage_is_not_believed(scripted, retriever):
    def reply(system, user):
        if "Check the draft" in system:
            return {"evidence": "Completely invented words appear nowhere", "answer": "wrong"}
        return story([step(), END])(system, user) if "next step" in system else {"answer": "end"}

    scripted(reply)
    assert GenGround(retriever, max_hops=1)("Question?").hops[0].answer == "Bert Oyle"


def test_later_hops_build_on_the_corrected_answer(scripted, retriever):
    engine = scripted(story([step(), step("Where was Ansa Merrow born?", "Quillon"), END]))
    GenGround(retriever)("Question?")
    second = [prompt for prompt in engine.prompts if "`sub_question`" in prompt][1]
    assert f'1. Who is the harbour master? (evidence: "{EVIDENCE}") -> Ansa Merrow\n' in second
    assert "Bert Oyle" not in second


def test_the_cap_forces_a_conclusion(scripted, retriever):
    scripted(story([step(f"What is number {number}?") for number in range(9)]))
    result = GenGround(retriever, max_hops=2)("Question?")
    assert (result.answer, len(result.hops)) == ("concluded", 2)


@pytest.mark.parametrize("sub_question", ["", "Who is the harbour master of Quillon?"])
def test_finished_before_any_hop_grounds_the_question_itself_and_the_loop_goes_on(scripted, retriever, sub_question):
    scripted(story([step(sub_question, "at first", finished=True), step(), END]))
    result = GenGround(retriever)("Question?")
    assert [(hop.question, hop.draft) for hop in result.hops] == [
        ("Question?", "at first"),
        ("Who is the harbour master?", "Bert Oyle"),
    ]
    assert retriever.queries == ["Question?", "Who is the harbour master?"]
    assert result.answer == "the end"


def test_a_repeated_sub_question_ends_the_loop_and_becomes_no_demonstration(scripted, retriever):
    scripted(story([step(), step(sub_question="who is THE harbour master")]))
    program = GenGround(retriever)
    result, trace = traced(program, "Question?")
    deductions = [output for predictor, _, output in trace if predictor is program.deduction]
    assert (len(result.hops), result.answer) == (1, "concluded")
    assert [reply.sub_question for reply in deductions] == ["Who is the harbour master?"]


def test_a_finish_without_an_answer_is_concluded_from_the_hops(scripted, retriever):
    engine = scripted(story([step(), step("", "", finished=True)]))
    result = GenGround(retriever)("Question?")
    assert (result.answer, len(result.hops), len(engine.requests)) == ("concluded", 1, 1 + 2 + 1 + 1)


@pytest.mark.parametrize("evidence", ["Quillon", "Ansa Merrow", "The master of the harbour at Quillon is Ansa Merrow"])
def test_a_word_a_name_and_an_inexact_sentence_are_evidence(scripted, retriever, evidence):
    def reply(system, user):
        found = EVIDENCE in user and "Check the draft" in system
        return {"evidence": evidence, "answer": "Ansa Merrow"} if found else story([step(), END])(system, user)

    scripted(reply)
    hop = GenGround(retriever, max_hops=1)("Question?").hops[0]
    assert (hop.verdict, hop.evidence, hop.passage_ids) == ("corrected", evidence, ["p4"])


def test_an_unparseable_deduction_ends_the_loop_and_an_unparseable_conclusion_leaves_the_last_hop(scripted, retriever):
    replies = iter([json.dumps(step()), json.dumps({"evidence": EVIDENCE, "answer": "Ansa Merrow"}), "??", "??"])
    scripted(lambda system, user: next(replies))
    result = GenGround(retriever, k=5, batch_size=5)("Question?")
    assert (result.answer, result.abstained) == ("Ansa Merrow", False)


def test_an_unparseable_first_deduction_grounds_the_question_itself(scripted, retriever):
    tail = story([END])
    scripted(lambda system, user: "??" if "next step" in system and "(none)" in user else tail(system, user))
    result = GenGround(retriever)("Who is the harbour master?")
    assert (result.hops[0].question, result.hops[0].draft, result.hops[0].answer) == (
        "Who is the harbour master?",
        "",
        "Ansa Merrow",
    )


@pytest.mark.parametrize("knobs", [{}, {"deduce": False}, {"early_stop": False}])
def test_no_parseable_reply_at_all_is_an_abstention_and_no_answer_that_was_kept(scripted, retriever, knobs):
    scripted(lambda system, user: "??")
    heard = []
    with observe_hops(heard.append):
        result = GenGround(retriever, **knobs)("Question?")
    assert (result.answer, result.abstained) == ("", True)
    assert [(hop.answer, hop.verdict) for hop in result.hops] == [("", "unparseable")]
    assert heard == result.hops


def test_without_deduction_the_whole_question_is_answered_and_grounded(scripted, retriever):
    scripted(story([]))
    result = GenGround(retriever, deduce=False)("Question?")
    assert retriever.queries == ["Question? from memory"]
    assert (result.answer, result.hops[0].draft) == ("Ansa Merrow", "from memory")


def test_without_grounding_sub_questions_are_read(scripted, retriever):
    scripted(story([step(), END]))
    result = GenGround(retriever, ground=False)("Question?")
    assert (result.hops[0].answer, result.hops[0].verdict) == ("read", "read")


def test_without_batches_one_prompt_shows_all(scripted, retriever):
    engine = scripted(story([step(), END]))
    GenGround(retriever, batch=False)("Question?")
    assert "[10] Title 9" in engine.prompts[1]


def test_the_public_codes_way_reads_on_and_lets_cited_passages_queue_again(scripted, retriever):
    engine = scripted(story([step(), END]))
    result = GenGround(retriever, **GenGround.PRESETS["code"])("Question?")
    assert (result.hops[0].answer, result.citations) == ("Ansa Merrow", ["p4"])
    # 9 -> 6 -> 3 and the cited one = 4 -> 1 (the cited one, cited again: 2), then one revision
    quoting = [prompt for prompt in engine.prompts if "`evidence`" in prompt and "`answer`" not in prompt]
    assert (len(quoting), len(engine.requests)) == (3, 1 + 3 + 1 + 1)


def test_the_public_codes_way_needs_batches_of_two():
    with pytest.raises(UserError, match="batch_size >= 2"):
        GenGround(early_stop=False, batch_size=1)


def test_given_passages_replace_the_first_retrieval_only(scripted, retriever, passages):
    scripted(story([step(), step("What comes second?"), END]))
    GenGround(retriever)("Question?", passages=[passages[4]])
    assert retriever.queries == ["What comes second?"]


def test_given_passages_serve_every_hop_without_a_retriever(scripted, passages):
    scripted(story([step(), step("What comes second?"), END]))
    result = GenGround()("Question?", passages=[passages[4]])
    assert [hop.passage_ids for hop in result.hops] == [["p4"], ["p4"]]


def test_nothing_to_read_from_is_refused(scripted):
    scripted(story([step()]))
    with pytest.raises(ValueError, match="pass retrieve="):
        GenGround()("Question?")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    k=st.integers(1, 12),
    batch_size=st.integers(2, 5),
    max_hops=st.integers(1, 4),
    switches=st.fixed_dictionaries(
        {name: st.booleans() for name in ("deduce", "ground", "batch", "early_stop", "true_false")}
    ),
)
def test_the_call_bound_is_tight(k, batch_size, max_hops, switches, scripted):
    """The worst LM never finishes; without early stop it cites in every batch, with early stop in none."""
    counter = iter(range(10**6))

    def worst(system, user):
        if "to check the draft" in system:
            return {"evidence": "common words"}
        return step(f"What is number {next(counter)}?") | {"evidence": "", "answer": "x"}

    engine = scripted(worst)
    pool = [Passage(id=str(number), text="common words") for number in range(12)]

    def retrieve(query, number):
        return pool[:number]

    program = GenGround(retrieve, k=k, batch_size=batch_size, max_hops=max_hops, **switches)
    program("Question?")
    assert len(engine.requests) == program.max_calls()


def test_a_sub_question_of_one_word_asks_nothing_so_the_question_is_grounded(scripted, retriever):
    scripted(story([step("answer", "Bert Oyle"), END]))
    result = GenGround(retriever)("Who is the harbour master?")
    assert (result.hops[0].question, result.hops[0].answer) == ("Who is the harbour master?", "Ansa Merrow")


def truthful(deductions, truth="yes"):
    """Reply as `story` does, and with one word where the hops are to decide."""
    tail = story(deductions)
    return lambda system, user: truth if "whether the answer to the question is yes" in system else tail(system, user)


@pytest.mark.parametrize(
    ("said", "answer"), [("No, it is not", "no"), ("True.", "yes"), ("**Yes**", "yes"), ("是的，她是。", "yes")]
)
def test_the_verdict_of_the_deduction_counts_without_another_call(scripted, retriever, said, answer):
    scripted(truthful([step(), step("", said, finished=True)], {"yes": "no", "no": "yes"}[answer]))
    assert GenGround(retriever, true_false=True)("Is it so?").answer == answer


@pytest.mark.parametrize("truth", ["yes", "no"])
def test_a_deduction_that_says_neither_yes_nor_no_is_decided_and_no_demonstration(scripted, retriever, truth):
    engine = scripted(truthful([step(), step("", "rather the opposite", finished=True)], truth))
    program = GenGround(retriever, true_false=True)
    result, trace = traced(program, "Was Ansa Merrow born on land?")
    outputs = [output for _, _, output in trace]
    assert (result.answer, len(result.hops)) == (truth, 1)
    assert "Who is the harbour master?" in engine.prompts[-1]
    assert "rather the opposite" not in [output.answer for output in outputs]


def test_a_verdict_without_deduction_is_that_of_the_grounded_answer(scripted, retriever):
    def reply(system, user):
        return {"evidence": EVIDENCE, "answer": "Yes, she is"} if "Check the draft" in system else {"answer": "no"}

    engine = scripted(reply)
    assert GenGround(retriever, true_false=True, deduce=False)("Is it so?").answer == "yes"
    assert len(engine.requests) == 1 + 2


def test_a_true_false_question_is_decided_when_hops_run_out_and_without_deduction(scripted, retriever):
    for knobs in ({"max_hops": 2}, {"deduce": False}):
        scripted(truthful([step(f"What is number {number}?") for number in range(9)], "no"))
        assert GenGround(retriever, true_false=True, **knobs)("Is it so?").answer == "no"


def test_a_finish_without_an_answer_is_a_finish_where_a_decision_follows(scripted, retriever):
    engine = scripted(truthful([step(), step("", "", finished=True)]))
    assert GenGround(retriever, true_false=True)("Is it so?").answer == "yes"
    assert "whether the answer to the question is yes" in str(engine.requests[-1].system)


@pytest.mark.parametrize(("said", "answer"), [("No, it is not", "no"), ("Not at all", ""), ("", "")], ids=str)
def test_an_unparseable_decision_leaves_the_yes_or_no_of_the_last_hop(scripted, retriever, said, answer):
    tail = story([step("Is the harbour master a man?", said)], draft_is_checked=False)
    scripted(lambda system, user: "perhaps" if "is yes" in system else tail(system, user))
    result = GenGround(retriever, true_false=True, max_hops=1)("Is it so?")
    assert (result.answer, result.abstained) == (answer, not answer)
