"""CoV-RAG by a scripted LM: what is searched and answered again, and what stands otherwise."""

import pytest

from programs.catalog import build
from programs.cov_rag import CoVRAG
from programs.parts.verification import SCORES, Verification

BETTER = "Who runs Quillon's harbour?"
GOOD = dict.fromkeys(SCORES, 1.0) | {"bias": 0.0, "judgement": "true", "revised_question": ""}
BAD = dict.fromkeys(SCORES, 0.1) | {"bias": 0.9, "judgement": "false", "revised_question": BETTER}
QUESTION = "Who is the harbour master?"


def test_a_missed_search_is_repaired(scripted, library, story, kinds):
    engine = scripted(story(BAD))
    result = CoVRAG(library)(QUESTION)
    assert kinds(engine) == "AVAR"
    assert library.asked == [(QUESTION, 5), (BETTER, 5)]
    assert (result.answer, result.response) == ("Ansa Merrow", "Ansa Merrow is [5].")
    assert result.citations == ["p4"]
    assert result.passages[5 - 1].id == "p4"  # marks count the passages of all rounds
    assert [passage.id for passage in result.passages] == ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"]
    first, second = result.hops
    assert (first.question, first.answer, first.verdict) == (QUESTION, "Bert Oyle is [1].", "revised")
    assert second.answer == "Ansa Merrow is [2]."  # marks count this hop's references
    assert (second.question, second.verdict) == (BETTER, "unverified")
    assert (first.passage_ids, second.passage_ids[:2]) == (["p0", "p1", "p2", "p3"], ["p3", "p4"])
    assert not result.abstained


def test_the_second_answer_is_to_the_question_as_it_was_asked_from_the_new_references_alone(scripted, library, story):
    engine = scripted(story(BAD))
    CoVRAG(library)(QUESTION)
    again = engine.prompts[2]
    assert f"[[ ## question ## ]]\n{QUESTION}\n" in again
    assert "[2] Title 4" in again
    assert "Title 0" not in again


def test_the_verification_sees_question_references_and_response_with_its_marks(scripted, library, story):
    engine = scripted(story(GOOD))
    CoVRAG(library)(QUESTION)
    prompt = engine.prompts[1]
    assert "[1] Title 0" in prompt
    assert f"[[ ## question ## ]]\n{QUESTION}\n" in prompt
    assert "[[ ## response ## ]]\nBert Oyle is [1].\n" in prompt


def test_a_good_answer_stands(scripted, library, story, kinds):
    engine = scripted(story(GOOD))
    result = CoVRAG(library)(QUESTION)
    assert kinds(engine) == "AVR"
    assert (result.answer, result.citations, [hop.verdict for hop in result.hops]) == ("Bert Oyle", ["p0"], ["kept"])
    assert result.details["decisions"] == [False]
    assert result.details["revised"] == 0


@pytest.mark.parametrize("repeated", [QUESTION, "who is THE harbour master", f" **{QUESTION}**\n"])
def test_a_revision_that_repeats_the_question_is_none(scripted, library, repeated, story, kinds):
    engine = scripted(story(BAD | {"revised_question": repeated}))
    result = CoVRAG(library)(QUESTION)
    assert kinds(engine) == "AVR"
    assert result.details["verifications"][0]["revised_question"] == ""
    assert result.hops[0].verdict == "kept"


def test_an_unparseable_verification_keeps_the_answer_and_is_counted(scripted, library, story, kinds):
    engine = scripted(story("I think it is fine."))
    result = CoVRAG(library, max_revisions=3)(QUESTION)
    assert kinds(engine) == "AVR"
    assert (result.answer, result.hops[0].verdict) == ("Bert Oyle", "unverified")
    assert result.details["verification_failures"] == 1
    assert result.details["verifications"] == result.details["decisions"] == []


def test_a_verification_without_one_of_its_scores_is_unparseable(scripted, library, story):
    scripted(story({name: value for name, value in BAD.items() if name != "bias"}))
    assert CoVRAG(library)(QUESTION).details["verification_failures"] == 1


def test_an_unparseable_second_answer_keeps_the_first(scripted, library, story, kinds):
    engine = scripted(story(BAD, responses=("Bert Oyle is [1].", "??")))
    result = CoVRAG(library)(QUESTION)
    assert kinds(engine) == "AVAR"
    assert (result.answer, result.response, result.citations) == ("Bert Oyle", "Bert Oyle is [1].", ["p0"])
    assert [hop.verdict for hop in result.hops] == ["revised", "unparseable"]
    assert "p4" in {passage.id for passage in result.passages}


@pytest.mark.parametrize("response", ["??", "", "  ", "[1][2]"])
def test_an_empty_answer_is_verified_like_any_other(scripted, library, response, story, kinds):
    engine = scripted(story(BAD, responses=(response, "Ansa Merrow is [2].")))
    result = CoVRAG(library)(QUESTION)
    assert kinds(engine) == "AVAR"
    assert "[[ ## response ## ]]\n\n" in engine.prompts[1]
    assert (result.answer, result.abstained) == ("Ansa Merrow", False)
    assert [hop.verdict for hop in result.hops] == ["revised", "unverified"]
    scripted(story(BAD, BAD | {"revised_question": "Who else?"}, responses=("Bert [1].", response, "Ansa [2].")))
    assert [hop.verdict for hop in CoVRAG(library, max_revisions=2)(QUESTION).hops][:2] == ["revised", "revised"]


@pytest.mark.parametrize("response", ["??", "", "  "])
def test_an_empty_answer_without_a_revised_question_is_an_abstention(scripted, library, response, story, kinds):
    engine = scripted(story(BAD | {"revised_question": ""}, responses=(response,)))
    result = CoVRAG(library)(QUESTION)
    assert kinds(engine) == "AV"
    assert (result.answer, result.response, result.abstained) == ("", "", True)
    assert result.hops[0].verdict == "unparseable"


def test_a_search_that_finds_nothing_keeps_the_answer(scripted, library, story, kinds):
    library.passages = library.passages[:3]
    engine = scripted(story(BAD))
    result = CoVRAG(library)(QUESTION)
    assert kinds(engine) == "AVR"
    assert (result.answer, result.hops[0].verdict, result.details["revised"]) == ("Bert Oyle", "kept", 0)
    assert result.details["decisions"] == [True]


def test_given_references_are_verified_and_without_a_retriever_never_revised(scripted, passages, story, kinds):
    engine = scripted(story(BAD))
    result = CoVRAG()(QUESTION, passages=passages[:2])
    assert kinds(engine) == "AVR"
    assert (result.answer, [passage.id for passage in result.passages]) == ("Bert Oyle", ["p0", "p1"])
    assert result.details["decisions"] == [True]


def test_given_references_replace_the_first_search_alone(scripted, library, passages, story):
    scripted(story(BAD))
    result = CoVRAG(library)(QUESTION, passages=passages[8:])
    assert library.asked == [(BETTER, 5)]
    assert result.hops[0].passage_ids == ["p8", "p9"]


def test_more_rounds_revise_again_and_leave_the_last_answer_unverified(scripted, library, story, kinds):
    engine = scripted(story(BAD, BAD | {"revised_question": "Who else?"}))
    result = CoVRAG(library, max_revisions=2)(QUESTION)
    assert kinds(engine) == "AVAVAR"
    assert [hop.verdict for hop in result.hops] == ["revised", "revised", "unverified"]
    assert [hop.question for hop in result.hops] == [QUESTION, BETTER, "Who else?"]
    assert result.details["revised"] == 2
    assert result.response == "Third [4]."  # p3


def test_a_later_verification_sees_the_original_question_and_the_new_references(scripted, library, story):
    engine = scripted(story(BAD, GOOD))
    CoVRAG(library, max_revisions=2)(QUESTION)
    prompt = engine.prompts[3]
    assert f"[[ ## question ## ]]\n{QUESTION}\n" in prompt
    assert "[2] Title 4" in prompt
    assert "Title 0" not in prompt
    assert "[[ ## response ## ]]\nAnsa Merrow is [2].\n" in prompt


def test_more_rounds_stop_when_the_answer_stands_or_a_query_comes_back(scripted, library, story, kinds):
    engine = scripted(story(BAD, GOOD))
    assert CoVRAG(library, max_revisions=3)(QUESTION).hops[-1].verdict == "kept"
    assert kinds(engine) == "AVAVR"
    engine = scripted(story(BAD, BAD))
    assert CoVRAG(library, max_revisions=3)(QUESTION).hops[-1].verdict == "kept"
    assert kinds(engine) == "AVAVR"


def test_revising_at_the_start_searches_with_the_rewriting_and_answers_the_original(scripted, library, story, kinds):
    engine = scripted(story())
    result = CoVRAG(library, revise="start")(QUESTION)
    assert kinds(engine) == "WAR"
    assert library.asked == [("Master of the harbour of Quillon?", 5)]
    assert f"[[ ## question ## ]]\n{QUESTION}\n" in engine.prompts[1]
    assert [(hop.question, hop.verdict) for hop in result.hops] == [("Master of the harbour of Quillon?", "unverified")]
    assert result.details["verifications"] == []


@pytest.mark.parametrize("rewritten", ['["a list"]', {"revised_question": ""}])
def test_revising_at_the_start_falls_back_on_the_question(scripted, library, rewritten, story):
    rest = story()
    scripted(lambda system, user: rewritten if "Rewrite" in system else rest(system, user))
    CoVRAG(library, revise="start")(QUESTION)
    assert library.asked == [(QUESTION, 5)]


def test_given_references_need_no_rewriting(scripted, passages, story, kinds):
    engine = scripted(story())
    CoVRAG(revise="start")(QUESTION, passages=passages[:2])
    assert kinds(engine) == "AR"


def test_never_revising_answers_once_and_verifies_nothing(scripted, library, story, kinds):
    engine = scripted(story())
    program = build("cov_rag", library, preset="single")
    result = program(QUESTION)
    assert kinds(engine) == "AR"
    assert (result.answer, result.hops[0].verdict) == ("Bert Oyle", "unverified")
    assert {name for name, _ in program.named_predictors()} == {"answering", "reading"}


def test_without_the_chain_the_revised_question_alone_decides(scripted, library, story, kinds):
    engine = scripted(story({"revised_question": BETTER}))
    result = CoVRAG(library, chain=False, gate="threshold", combine="all")(QUESTION)
    assert kinds(engine) == "AIAR"
    (verification,) = result.details["verifications"]
    assert verification == Verification(revised_question=BETTER)._asdict()
    engine = scripted(story({"revised_question": ""}))
    assert CoVRAG(library, chain=False)(QUESTION).hops[0].verdict == "kept"
    assert kinds(engine) == "AIR"


def test_the_threshold_gate_saves_the_search_where_no_sign_speaks_for_it(scripted, library, story, kinds):
    doubtful = GOOD | {"judgement": "unclear", "revised_question": BETTER}
    scripted(story(doubtful))
    assert CoVRAG(library)(QUESTION).details["decisions"] == [True]
    engine = scripted(story(doubtful))
    result = build("cov_rag", library, preset="thresholds")(QUESTION)
    assert (kinds(engine), result.details["decisions"], result.hops[0].verdict) == ("AVR", [False], "kept")
    scripted(story(doubtful | {"bias": 0.71}))
    assert build("cov_rag", library, preset="thresholds")(QUESTION).details["decisions"] == [True]
    scripted(story(doubtful | {"bias": 0.71}))
    assert CoVRAG(library, gate="threshold", combine="all")(QUESTION).details["decisions"] == [False]
