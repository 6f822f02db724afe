import dspy
import pytest

from optimizers.feedback.gold import gold_of
from optimizers.feedback.metric import feedback, feedback_metric
from optimizers.feedback.prediction import compare_words, describe
from signatures.types import Candidate, Hop, Passage

BRIDGE = Passage(id="bridge", title="Old Bridge", text="The Old Bridge was built by Ansa Merrow.")
ANSA = Passage(id="ansa", title="Ansa Merrow", text="Ansa Merrow was born in Quillon in 1801.")
FOG = Passage(id="fog", title="Fog", text="Fog is a cloud.")
STEPS = [
    {"question": "Who built the Old Bridge?", "answer": "Ansa Merrow", "gold_ids": ["bridge"]},
    {"question": "Where was Ansa Merrow born?", "answer": "Quillon", "gold_ids": ["ansa"]},
]
TITLES = {"bridge": "Old Bridge", "ansa": "Ansa Merrow"}


def example(**fields):
    gold = {"question": "Where was the builder of the Old Bridge born?", "answers": ["Quillon"]}
    return dspy.Example(**{**gold, "gold_ids": ["bridge", "ansa"], **fields}).with_inputs("question")


def prediction(answer="Quillon", **fields):
    return dspy.Prediction(
        **{"answer": answer, "response": answer, "hops": [], "passages": [], "citations": [], **fields}
    )


def said(gold_example, result):
    return " ".join(describe(gold_example, result, gold_of(gold_example, result, TITLES)))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("Quillon", 'The answer "Quillon" is right.'),
        ("the city of Quillon", 'It contains the expected answer and is too long: "city", "of" should not be there.'),
        ("Marle", "They have no word in common."),
        ("", "The program gave no answer (it abstained)"),
    ],
)
def test_an_answer_is_compared_word_by_word(answer, words):
    assert words in said(example(), prediction(answer))


def test_missing_and_surplus_words_are_those_against_the_closest_accepted_answer():
    assert compare_words("Ansa of Quillon", ["Ansa Merrow", "Someone Else Entirely"]) == (
        "Ansa Merrow",
        ["merrow"],
        ["of", "quillon"],
    )
    text = said(example(answers=["Ansa Merrow"]), prediction("Ansa of Quillon"))
    assert 'Missing words: "merrow". Surplus words: "of", "quillon".' in text


def test_passages_that_were_not_retrieved_are_named_by_title():
    assert 'Needed and not retrieved: "Ansa Merrow".' in said(example(), prediction(passages=[BRIDGE, FOG]))
    everything = said(example(), prediction(passages=[BRIDGE, ANSA]))
    assert 'All passages needed were retrieved: "Old Bridge", "Ansa Merrow".' in everything


def test_a_title_that_is_known_from_nowhere_but_the_id_of_a_converted_benchmark_is_read_from_it():
    gold = example(gold_ids=["ansa-merrow-0123456789ab"])
    result = prediction(passages=[FOG])
    text = " ".join(describe(gold, result, gold_of(gold, result)))
    assert 'Needed and not retrieved: "ansa merrow".' in text


def test_a_passage_that_was_found_and_dropped_is_said_to_be_so_with_the_reason():
    piece = Candidate(text="x", passage_id="ansa", score=0.1, kept=False, reason="not among the best 2")
    hops = [Hop(question="q", answer="Quillon", candidates=[piece])]
    text = said(example(), prediction(passages=[BRIDGE], hops=hops))
    assert 'The passage "Ansa Merrow" is needed and was found, but dropped: not among the best 2.' in text
    assert "not retrieved" not in text


def test_wrong_missing_and_impossible_citations_are_named():
    response = "Ansa was born in Quillon [2][9]."
    text = said(example(), prediction(response=response, passages=[BRIDGE, FOG, ANSA]))
    assert "[9] cites no passage" in text
    assert 'Cited, but the answer does not rest on it: "Fog".' in text
    assert 'Read and needed, but not cited: "Old Bridge", "Ansa Merrow".' in text
    none = said(example(), prediction(response="Ansa was born in Quillon.", passages=[ANSA]))
    assert "The response cites no passage." in none
    right = said(example(), prediction(response="In Quillon [1][2].", passages=[BRIDGE, ANSA]))
    assert "The citations [1][2] are right." in right


def test_the_hop_that_went_astray_is_the_one_after_the_last_that_settled_a_gold_step():
    hops = [Hop(question="Who built it?", answer="Ansa Merrow"), Hop(question="When was Ansa born?", answer="1801")]
    text = said(example(sub_questions=STEPS), prediction("1801", hops=hops))
    assert "The first 1 of 2 steps were settled." in text
    assert 'Hop 2 went astray: it asked "When was Ansa born?" and answered "1801"' in text
    assert 'step 2 of 2 is "Where was Ansa Merrow born?" with the answer "Quillon"' in text


def test_hops_that_end_too_early_or_settle_everything_are_said_to():
    early = said(example(sub_questions=STEPS), prediction(hops=[Hop(question="Who?", answer="Ansa Merrow")]))
    assert "It stopped after 1 hops, too early" in early
    hops = [Hop(question="Who?", answer="Ansa Merrow"), Hop(question="Where?", answer="Quillon")]
    assert "All 2 steps of the question were settled rightly." in said(
        example(sub_questions=STEPS), prediction(hops=hops)
    )


def test_hops_without_answers_are_judged_by_the_passages_they_found():
    hops = [Hop(question="old bridge", answer="", passage_ids=["bridge"]), Hop(question="fog", answer="")]
    text = said(example(sub_questions=STEPS), prediction("", hops=hops, passages=[BRIDGE]))
    assert 'Hop 2 went astray: it asked "fog"; step 2 of 2' in text


def test_rounds_that_take_the_whole_question_again_are_judged_by_what_they_found():
    asked = example().question
    hops = [
        Hop(question=asked, answer="Unknown.", passage_ids=["bridge"]),
        Hop(question="fog", answer="A cloud.", passage_ids=["fog"]),
        Hop(question="Ansa", answer="In Quillon.", passage_ids=["ansa"]),
    ]
    text = said(example(sub_questions=STEPS), prediction(hops=hops, passages=[BRIDGE, FOG, ANSA]))
    assert 'Round 2 searched for "fog" and found nothing of what was missing.' in text
    assert "Round 3" not in text
    assert "went astray" not in text


def test_a_program_that_reads_nothing_is_not_told_what_to_retrieve():
    assert "retrieved" not in said(example(), prediction("Marle"))


def test_a_right_draft_that_the_check_made_wrong_is_pointed_out():
    hops = [Hop(question="Who built the Old Bridge?", draft="Ansa Merrow", answer="Bo Tarn", verdict="corrected")]
    text = said(example(sub_questions=STEPS), prediction("x", hops=hops))
    assert 'In hop 1 the draft "Ansa Merrow" was right; the check made it wrong.' in text


def test_replies_that_could_not_be_read_are_counted():
    result = prediction(
        details={"verification_failures": 1}, hops=[Hop(question="q", answer="", verdict="unparseable")]
    )
    assert "2 replies could not be read" in said(example(), result)


def test_without_gold_nothing_but_the_score_is_said():
    bare = dspy.Example(question="Q?").with_inputs("question")
    assert feedback(bare, prediction("x", passages=[FOG]), 0.0) == "The score of the whole program is 0.00."


def test_the_metric_is_a_float_until_a_predictor_is_named():
    metric = feedback_metric(lambda gold, result: 0.5)
    assert metric(example(), prediction()) == 0.5
    named = metric(example(), prediction(), None, "reading", [])
    assert named.score == 0.5
    assert named.feedback.startswith('The score of the whole program is 0.50. The answer "Quillon" is right.')


def test_an_undefined_score_is_zero():
    assert feedback_metric(lambda gold, result: None)(example(), prediction()) == 0.0


def test_the_text_names_no_question_but_its_own():
    other = "Pemberton"
    gold = example(sub_questions=STEPS)
    text = feedback_metric(lambda gold, result: 0.0, titles={**TITLES, "other": other})(
        gold, prediction("x", passages=[FOG]), None, "reading", []
    ).feedback
    assert other not in text
    assert "Quillon" in text
