import pytest

from programs.parts.reasoning.thought import join_sentences, next_sentence, stated_answer


@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        ("Merrow was born on Trent. Trent lies in the sea.", "Merrow was born on Trent."),
        ("J. R. Merrow left the U.S. in 1888. She died.", "J. R. Merrow left the U.S. in 1888."),
        ("梅罗出生在特伦岛。特伦岛在琥珀海。", "梅罗出生在特伦岛。"),
        ("So the answer is:\nTrent. It is an island.", "So the answer is: Trent."),
        ("  ", ""),
        ("None", ""),
        ("...", ""),
    ],
)
def test_the_first_sentence_is_kept(reply, kept):
    assert next_sentence(reply, []) == kept


def test_sentences_that_the_thought_has_are_no_next_ones():
    thought = ["Merrow was born on Trent."]
    assert next_sentence("merrow was born on Trent! Trent lies in the sea.", thought) == "Trent lies in the sea."
    assert next_sentence("Merrow was born on Trent.", thought) == ""


def test_sentences_are_joined_as_their_script_is_written():
    assert join_sentences([]) == ""
    assert join_sentences(["One.", "Two."]) == "One. Two."
    assert join_sentences(["甲。", "乙。"]) == "甲。乙。"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("So the answer is: Trent.", "Trent"),
        ("So the answer is Trent", "Trent"),
        ("Thus, the final **answer is:** *Trent*.", "Trent"),
        ('Therefore the ANSWER IS: "Washington, D.C."', "Washington, D.C"),
        ("The first answer is A, so the answer is B.", "B"),
        ("所以答案是：特伦岛。", "特伦岛"),
        ("因此，答案應該是「特伦岛」。", "特伦岛"),
        ("So the answer is:", ""),
        ("The answer lies in the passages.", None),
        ("Answering is hard.", None),
        ("", None),
    ],
)
def test_the_answer_follows_the_last_cue(text, answer):
    assert stated_answer(text) == answer
