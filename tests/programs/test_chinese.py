"""The strategies on Chinese text, which has no spaces between words, and punctuation of its own."""

import pytest

from programs.catalog import build
from programs.cov_rag import CoVRAG
from programs.genground import GenGround
from programs.lms.tolerant import coerce
from programs.parts.passages import find_quote, new_items, passages_stating
from programs.retro_rag import RetroRAG
from programs.self_completion import SelfCompletion
from signatures.types import Passage
from signatures.voting import is_answer
from tests.conftest import ListRetriever

QUESTION = "奎隆港的港务长出生在哪个岛上？"
EVIDENCE = "奎隆港的港务长是安莎·梅罗，她于1888年上任。"
PASSAGES = [
    Passage(id="fog", title="雾", text="这一带的海面冬天多雾，船只很少出港。"),
    Passage(id="port", title="奎隆港", text=f"奎隆港建于十七世纪。{EVIDENCE}"),
    Passage(id="life", title="安莎·梅罗", text="安莎·梅罗（Ansa Merrow）出生在琥珀海中的特伦岛。"),
]


@pytest.fixture
def retriever():
    return ListRetriever(PASSAGES)


def deductions(*steps):
    """Reply with the deductions in order; ground each with the first evidence that the prompt contains."""
    remaining = iter(steps)

    def reply(system, user):
        if "Take the next step" in system:
            finished, sub_question, answer = next(remaining)
            return {"finished": finished, "sub_question": sub_question, "answer": answer}
        if "Check the draft" in system:
            return (
                {"evidence": f"“{EVIDENCE}”", "answer": "安莎·梅罗"}
                if EVIDENCE in user
                else {"evidence": "无", "answer": ""}
            )
        return {"answer": "特伦岛"}

    return reply


END = (True, QUESTION, "特伦岛")


def test_genground_searches_for_a_chinese_sub_question_and_believes_a_verbatim_quote(scripted, retriever):
    scripted(deductions((False, "谁是奎隆港的港务长？", "贝特·奥伊勒"), END))
    result = GenGround(retriever, k=3, batch_size=3)(QUESTION)
    assert retriever.queries == ["谁是奎隆港的港务长？"]
    (hop,) = result.hops
    assert (hop.answer, hop.verdict, hop.passage_ids) == ("安莎·梅罗", "corrected", ["port"])
    assert (result.answer, result.citations) == ("特伦岛", ["port"])


def test_genground_confirms_a_chinese_draft_whatever_its_punctuation(scripted, retriever):
    scripted(deductions((False, "谁是奎隆港的港务长？", "安莎・梅罗。"), END))
    assert GenGround(retriever, k=3)(QUESTION).hops[0].verdict == "confirmed"


def test_genground_knows_a_repeated_chinese_sub_question(scripted, retriever):
    scripted(deductions((False, "谁是奎隆港的港务长？", "贝特"), (False, "谁是“奎隆港”的港务长", "贝特")))
    assert len(GenGround(retriever, k=3)(QUESTION).hops) == 1


def test_genground_replaces_a_chinese_sub_question_that_asks_nothing(scripted, retriever):
    scripted(deductions((False, "答案", "特伦岛"), END))
    assert GenGround(retriever, k=3)(QUESTION).hops[0].question == QUESTION


@pytest.mark.parametrize(("said", "answer"), [("是的，她出生在岛上。", "yes"), ("否。", "no"), ("不是", "no")])
def test_genground_reads_a_chinese_verdict(scripted, retriever, said, answer):
    engine = scripted(deductions((False, "谁是奎隆港的港务长？", "贝特"), (True, QUESTION, said)))
    assert GenGround(retriever, k=3, true_false=True)("港务长出生在岛上吗？").answer == answer
    assert len(engine.requests) == 3


@pytest.mark.parametrize(
    "quote",
    [
        "梅罗",
        "安莎·梅罗，她于１８８８年上任",  # full-width digits
        "[2] 奎隆港：奎隆港建于十七世纪。",
        "奎隆港的港务长……1888年上任。",
        "奎隆港的现任港务长是安莎·梅罗",  # changed
    ],
)
def test_a_chinese_quote_is_found_verbatim_and_with_changes(quote):
    assert find_quote(quote, PASSAGES[:2]).passage.id == "port"


@pytest.mark.parametrize(
    "quote", ["无。", "没有相关证据", "文中没有提到奎隆港的港务长是谁", "特伦岛位于琥珀海的北部", "是", "不是的"]
)
def test_an_invented_chinese_quote_and_one_that_says_there_is_nothing_are_refused(quote):
    assert find_quote(quote, PASSAGES[:2]).passage is None


def test_citations_of_chinese_and_mixed_answers():
    assert passages_stating("安莎·梅罗", PASSAGES) == ["port", "life"]
    assert passages_stating("特伦岛。", PASSAGES) == ["life"]
    assert passages_stating("ansa merrow", PASSAGES) == ["life"]
    assert passages_stating("1888年", PASSAGES) == ["port"]
    assert passages_stating("雾港", PASSAGES) == []


@pytest.mark.parametrize("answer", ["是", "是的", "不是", "对的。", "yes", ""])
def test_a_yes_or_no_cites_nothing(answer):
    told = Passage(id="told", text="是的，不是对的。 Yes or no.")
    assert passages_stating(answer, [told]) == []


@pytest.mark.parametrize("program", ["rag", "multihop"])
def test_baselines_cite_the_passage_of_a_chinese_answer(scripted, retriever, program):
    scripted(lambda system, user: {"reasoning": "", "query": "特伦岛", "answer": "特伦岛"})
    assert build(program, retriever, k=3)(QUESTION).citations == ["life", "port"]


def retro_replies(inferences, query):
    """Reply as an LM for RetroRAG, whose answers never agree."""

    def reply(system, user):
        if "one word, yes or no" in user:
            return "no" if "`agree`" in system or "both answers" in system else "yes"
        return {
            "reasoning": "港务长是安莎·梅罗。",
            "answer": "特伦岛",
            "entities": ["奎隆港"],
            "inferences": inferences,
            "query": query,
        }

    return reply


def test_retro_rag_keeps_short_chinese_inferences_once_and_cites_its_answer(scripted, retriever):
    claim = "奎隆港的港务长是安莎·梅罗。"
    scripted(retro_replies([claim, "奎隆港的港务长是安莎・梅罗", "长" * 101], "安莎·梅罗的出生地"))
    result = RetroRAG(retriever, max_rounds=2, k=3)(QUESTION)
    assert [candidate.text for candidate in result.hops[0].candidates if candidate.passage_id is None] == [claim]
    assert result.citations == ["life", "port"]
    assert retriever.queries == [QUESTION, "安莎·梅罗的出生地"]


def test_retro_rag_knows_a_chinese_query_that_repeats_the_question(scripted, retriever):
    engine = scripted(retro_replies([], "奎隆港的港务长，出生在哪个岛上"))
    RetroRAG(retriever, max_rounds=2, k=3)(QUESTION)
    assert retriever.queries == [QUESTION, QUESTION]
    assert engine.requests


def test_chinese_words_of_not_knowing_are_no_answer():
    assert not any(map(is_answer, ["未知", "未知。", "「不知道」", "Unknown。", "…", "。"]))
    assert all(map(is_answer, ["特伦岛", "未知海域", "不"]))


def test_claims_are_bounded_by_characters_in_chinese():
    assert new_items(["长" * 100, "短" * 101], [], max_words=100) == ["长" * 100]
    assert new_items(["梅罗生于特伦岛。"], ["梅罗，生于特伦岛"], max_words=100) == []


def test_self_completion_ends_at_a_repeated_chinese_query_and_keeps_chinese_marks(scripted, retriever):
    repeated = "奎隆港的港务长出生在哪个岛上"

    def reply(system, user):
        return {
            "missing": "出生地",
            "sufficient": False,
            "response": "" if "sufficient" in system else "她出生在特伦岛[3]。",
            "query": repeated,
            "queries": [repeated],
            "answer": "特伦岛",
        }

    scripted(reply)
    result = SelfCompletion(retriever, k=3)(QUESTION)
    assert retriever.queries == [QUESTION]
    assert (result.answer, result.citations) == ("特伦岛", ["life"])
    assert result.response == "她出生在特伦岛[3]。"


@pytest.mark.parametrize(
    ("revised", "searched"),
    [
        ("安莎·梅罗出生在哪个岛上？", ["安莎·梅罗出生在哪个岛上？"]),
        ("奎隆港的港务长，出生在哪个岛上?", []),  # the question again
        ("不需要修改。", []),
        ("无", []),
    ],
)
def test_cov_rag_searches_for_a_new_chinese_question_only(scripted, retriever, revised, searched):
    scores = ("reference_correctness", "correctness", "citation_accuracy", "truthfulness", "bias", "conciseness")
    verification = {**dict.fromkeys(scores, 0.5), "judgement": "false", "revised_question": revised}
    scripted(lambda system, user: {**verification, "response": "她出生在特伦岛[3]。", "answer": "特伦岛"})
    result = CoVRAG(retriever, k=3)(QUESTION)
    assert retriever.queries == [QUESTION, *searched]
    assert (result.answer, result.citations) == ("特伦岛", ["life"])


def test_a_chinese_list_is_read_without_its_numbers():
    written = "1、奎隆港\n2．安莎·梅罗\n（3）特伦岛\n4.琥珀海\n- 1.5米\n2.5米"
    assert coerce(written, list[str]) == ["奎隆港", "安莎·梅罗", "特伦岛", "琥珀海", "1.5米", "2.5米"]
