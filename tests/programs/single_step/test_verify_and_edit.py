"""Verify-and-Edit: when the vote edits, what each sentence is verified by, and the answer of the edited rationale.

Samples are asked for in parallel, so that no test knows which of them gives which vote.
"""

import re

import pytest

from programs.catalog import build
from programs.single_step.verify_and_edit import VerifyAndEdit
from signatures.types import Passage
from signatures.voting import answer_key
from tests.programs.fakes import Fake, traced

QUESTION = "In which sea was the harbour master born?"
RATIONALE = "The harbour master is Bert Oyle. He was born on Fogholm."
CORPUS = {
    "master": Passage(id="m", title="Quillon", text="Fog is wet. The harbour master is Ansa Merrow. Rain is wet."),
    "born": Passage(id="b", title="Ansa Merrow", text="She was born on Quillon. She likes fog. Quillon is far."),
}
ANSWERS = {"master": "The harbour master is Ansa Merrow. [1]", "born": "Ansa Merrow was born on Quillon."}


class Corpus(Fake):
    """Finds the passages whose word is in the query."""

    def find(self, query, k):
        return [passage for word, passage in CORPUS.items() if word in query]


def fields(prompt):
    return dict(re.findall(r"\[\[ ## (\w+) ## \]\]\n(.*?)(?=\n\n\[\[|\n\nReply)", prompt, re.DOTALL))


def story(votes, *, rationale=RATIONALE, verified=ANSWERS, final="Amber Sea", asks=lambda claim: f"Is it so: {claim}"):
    """Reply as an LM whose samples give `votes`, and that answers verifying questions by a word in them."""
    numbered = iter(votes)

    def reply(system, user):
        if "Answer the question from what you know" in system:
            answer = next(numbered)
            return "?" if answer is None else {"reasoning": rationale, "answer": answer}
        given = fields(user)
        if "Write the question" in system:
            return {"sub_question": asks(given["claim"])}
        if "one full sentence" in system:
            return {"response": next(text for word, text in verified.items() if word in given["sub_question"])}
        return {"answer": final}

    return reply


def of_kind(engine, words):
    return [fields(request.messages[-1].text) for request in engine.requests if words in str(request.system)]


@pytest.mark.parametrize(
    ("votes", "edited"),
    [
        (["A Sea", "B", "a sea.", "C", "The A Sea"], False),  # 3 of 5
        (["B", "A Sea", "C", "a sea", "D"], True),  # 2 of 5
        (["A", "B", "A", "B"], False),  # 2 of 4
        (["A", "unknown", None, "", "A"], True),  # what is no answer does not vote, but counts in n
    ],
)
def test_a_rationale_is_edited_if_fewer_than_half_of_the_samples_agree(scripted, votes, edited):
    engine = scripted(story(votes))
    corpus = Corpus()
    result = VerifyAndEdit(corpus, samples=len(votes))(QUESTION)
    assert bool(result.hops) is bool(corpus.asked) is edited
    assert result.stop_reason == ("done" if edited else "finished")
    assert edited or answer_key(result.answer) in (answer_key(votes[0]), answer_key(votes[1]))
    assert (result.answer == "Amber Sea") is edited
    assert len(engine.requests) == len(votes) + (2 * 2 + 1) * edited
    assert sorted(result.details["answers"]) == sorted(vote or "" for vote in votes)
    if not edited:
        assert (result.response, result.passages) == (f"{RATIONALE}\n{result.answer}", [])


def test_the_code_edits_whatever_the_votes_are(scripted):
    scripted(story(["A"] * 5))
    result = build("verify_and_edit", Corpus(), preset="code")(QUESTION)
    assert (result.answer, result.details["count"], result.details["edited"]) == ("Amber Sea", 5, 2)


def test_samples_differ_by_rollout_at_the_temperature(scripted):
    engine = scripted(story(["A"] * 3))
    VerifyAndEdit(Corpus(), samples=3, temperature=0.9)(QUESTION)
    assert [request.config.temperature for request in engine.requests] == [0.9] * 3


def test_each_sentence_is_verified_by_the_closest_sentences_found_and_replaced(scripted):
    engine = scripted(story("ABCDE"))
    corpus = Corpus()
    result = VerifyAndEdit(corpus, k=4, sentences=2)(QUESTION)
    first, second = "Is it so: The harbour master is Bert Oyle.", "Is it so: He was born on Fogholm."
    assert corpus.asked == [(first, 4), (second, 4)]
    asked = of_kind(engine, "Write the question")
    assert sorted(each["claim"] for each in asked) == ["He was born on Fogholm.", "The harbour master is Bert Oyle."]
    assert {each["question"] for each in asked} == {QUESTION}
    shown = {each["sub_question"]: each["passages"] for each in of_kind(engine, "one full sentence")}
    assert shown[first] == "[1] Quillon: The harbour master is Ansa Merrow.\n[2] Quillon: Fog is wet."
    assert shown[second] == "[1] Ansa Merrow: She was born on Quillon.\n[2] Ansa Merrow: She likes fog."
    (last,) = of_kind(engine, "what the reasoning leads to")
    edited = "The harbour master is Ansa Merrow. Ansa Merrow was born on Quillon."
    assert last == {"question": QUESTION, "reasoning": edited}
    assert [(hop.question, hop.draft, hop.answer, hop.passage_ids, hop.verdict) for hop in result.hops] == [
        (first, "The harbour master is Bert Oyle.", "The harbour master is Ansa Merrow.", ["m"], "edited"),
        (second, "He was born on Fogholm.", "Ansa Merrow was born on Quillon.", ["b"], "edited"),
    ]
    assert (result.response, [passage.id for passage in result.passages]) == (f"{edited}\nAmber Sea", ["m", "b"])


def test_a_similarity_ranks_the_sentences(scripted):
    engine = scripted(story("ABCDE"))

    def similarity(left, right):
        return [[float("wet" in text or "far" in text) for text in right] for _ in left]

    VerifyAndEdit(Corpus(), similarity=similarity, sentences=1)(QUESTION)
    shown = sorted(each["passages"] for each in of_kind(engine, "one full sentence"))
    assert shown == ["[1] Ansa Merrow: Quillon is far.", "[1] Quillon: Fog is wet."]


def test_a_sentence_is_kept_where_nothing_answers_it_and_no_such_reply_is_a_demonstration(scripted):
    verified = {"master": "The passages do not say who it is.", "born": ANSWERS["born"]}
    engine = scripted(story("ABCDE", verified=verified))
    program = VerifyAndEdit(Corpus())
    result, trace = traced(program, QUESTION)
    kept = [output for predictor, _, output in trace if predictor is program.verifying]
    samples = [output for predictor, _, output in trace if "reasoning" in output]
    assert [hop.verdict for hop in result.hops] == ["kept", "edited"]
    assert [output.response for output in kept] == [ANSWERS["born"]]
    assert samples == []  # the edited rationale led to another answer
    (last,) = of_kind(engine, "what the reasoning leads to")
    assert last["reasoning"] == "The harbour master is Bert Oyle. Ansa Merrow was born on Quillon."


@pytest.mark.parametrize("final", ["?", {"answer": "unknown"}])
def test_without_a_new_answer_the_majority_stands(scripted, final):
    tail = story("CBABD")
    scripted(lambda system, user: final if "reasoning leads to" in system else tail(system, user))
    assert VerifyAndEdit(Corpus())(QUESTION).answer == "B"


@pytest.mark.parametrize("asks", [lambda claim: "None", lambda claim: ""])
def test_a_sentence_without_a_question_is_neither_searched_for_nor_a_hop(scripted, asks):
    engine = scripted(story("ABCDE", asks=asks))
    corpus = Corpus()
    result = VerifyAndEdit(corpus)(QUESTION)
    assert (corpus.asked, result.hops, result.stop_reason) == ([], [], "nothing found")
    assert result.answer == result.details["answers"][0]
    assert len(engine.requests) == 5 + 2


@pytest.mark.parametrize("fixed", [[], None], ids=["given none", "found none"])
def test_with_nothing_found_the_majority_stands(scripted, fixed):
    scripted(story("ABCDE", asks=lambda claim: "Who knows?"))
    result = VerifyAndEdit(Corpus())(QUESTION, passages=fixed)
    assert (result.passages, result.stop_reason) == ([], "nothing found")
    assert result.answer == result.details["answers"][0]


def test_samples_without_an_answer_leave_the_first_rationale_to_edit(scripted):
    scripted(story([None, "unknown", "unknown", None, "unknown"]))
    result = VerifyAndEdit(Corpus())(QUESTION)
    assert (result.answer, result.details["count"], result.details["edited"]) == ("Amber Sea", 0, 2)


def test_unparseable_samples_are_an_abstention(scripted):
    engine = scripted(story([None] * 5))
    result = VerifyAndEdit(Corpus())(QUESTION)
    assert (result.abstained, result.stop_reason, len(engine.requests)) == (True, "unparseable", 5)


def test_fixed_contexts_replace_all_retrievals(scripted):
    engine = scripted(story("ABCDE"))
    corpus = Corpus()
    result = VerifyAndEdit(corpus, sentences=1)(QUESTION, passages=list(CORPUS.values()))
    assert corpus.asked == []
    assert {passage.id for passage in result.passages} <= {"m", "b"}
    assert len(of_kind(engine, "one full sentence")) == 2


def test_sentences_beyond_the_cap_stay_and_the_call_bound_is_reached_exactly(scripted):
    rationale = " ".join(f"Bert was born {number} times." for number in range(4))
    engine = scripted(story("ABCDE", rationale=rationale))
    program = VerifyAndEdit(Corpus(), max_edits=3)
    result = program(QUESTION)
    assert len(engine.requests) == program.max_calls() == 5 + 2 * 3 + 1
    assert result.response == f"{' '.join([ANSWERS['born']] * 3)} Bert was born 3 times.\nAmber Sea"


def test_a_chinese_rationale_is_edited_sentence_by_sentence(scripted):
    passages = [Passage(id="c", title="奎隆", text="雾很湿。港务长是安莎。")]
    answers = {"港务长": "港务长是安莎。"}
    engine = scripted(
        story(["甲海", "乙海", "丙海"], rationale="港务长是伯特。", verified=answers, asks=lambda _: "港务长是谁？")
    )
    result = VerifyAndEdit(samples=3, sentences=1)("港务长生在哪片海？", passages=passages)
    assert of_kind(engine, "one full sentence")[0]["passages"] == "[1] 奎隆: 港务长是安莎。"
    assert result.response == "港务长是安莎。\nAmber Sea"
