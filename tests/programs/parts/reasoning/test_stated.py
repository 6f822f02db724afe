"""What the words of two passages decide about the two things that a question names."""

import pytest

from programs.parts.reasoning.stated import answer_by_words, names_two
from signatures.types import Passage

ORN = Passage(id="orn", title="Orn (plant)", text="Orn is a herb of the rose family, native to northern Varland.")
TARN = Passage(id="tarn", title="Tarn", text="Tarn is a shrub. It grows in Varland and smells of mint.")
LIND = Passage(id="lind", title="Ada Lind", text="Ada Lind was a Varish painter and poet.")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which is a herb, Orn or Tarn?", "Orn"),
        ("Which plant smells of mint, Orn or Tarn?", "Tarn"),
        ("Is Tarn or Orn a shrub?", "Tarn"),
        ("Of Tarn and Orn, which belongs to the rose family?", "Orn"),
        ("In between Tarn and Orn which is native to northern Varland?", "Orn"),
        ("Which grows in Varland, Orn or Tarn?", "Tarn"),
        ("Which is best known as a herb, Orn or Tarn?", "Orn"),
        ("Which is native to Varland, Orn or Tarn?", "Orn"),
        ("Which is from Varland, Orn or Tarn?", ""),  # both
        ("Which is a tall tree of southern Norland, where it grows wild, Orn or Tarn?", ""),  # less than half
        ("Are Orn and Tarn both found in Varland?", "yes"),
        ("Orn and Tarn, are both in Varland?", "yes"),
        ("Are both Orn and Tarn herbs?", "no"),
        ("Are Orn and Tarn both shrubs of Varland?", ""),  # one has all of it, the other half
        ("Are Orn and Tarn both orchids?", ""),  # no passage says so
    ],
)
def test_words_decide_which_and_whether_both(question, answer):
    assert names_two(question)
    assert answer_by_words(question, [ORN, TARN]) == answer
    assert answer_by_words(question, [TARN, LIND, ORN]) == answer


@pytest.mark.parametrize(
    "question",
    [
        "Which is not a herb, Orn or Tarn?",
        "Which isn't a herb, Orn or Tarn?",
        "Which is the better herb, Orn or Tarn?",
        "Which has more herb species, Orn or Tarn?",
        "Are Orn and Tarn herbs of different families?",
        "Are Orn and Tarn herbs of the same family?",
        "Are Orn and Tarn both from the U.S.?",
        "Which herb grows beside Tarn in Varland, where Orn is native?",
        "What do Orn and Tarn have that is a herb?",
        "Did Ada Lind paint and describe Tarn?",  # nothing but "and" joins two
        "Did Ada Lind paint or draw Tarn?",
        "Is one of Orn and Tarn a herb?",
        "Are any of Orn and Tarn herbs?",
        "Are Orn and Tarn herbs or shrubs?",
        "Is the border between Orn and Tarn in northern Varland?",
        "Do Orn and Tarn grow together in northern Varland?",
        "Are Orn and Tarn related herbs?",
        "Is either Orn or Tarn a herb?",
        "Which herb is nearer to northern Varland, Orn or Tarn?",
        "Which has no herb in it, Orn or Tarn?",
        "Which lacks the smell of mint, Orn or Tarn?",
        "Which is other than a herb, Orn or Tarn?",
        "Which is still a herb, Orn or Tarn?",
        "When did a herb become native to northern Varland, Orn or Tarn?",
        "What is a herb, of Orn or Tarn?",
        "Of which rose family are Orn and Tarn members?",
        "Who described the herb Orn or Tarn?",
        "Which is a herb, Zed, Orn or Tarn?",
        "Which is a herb, Zed or Orn or Tarn?",
        "Which is a herb, Orn or Tarn or Zed?",
        "Which is a herb, Great Orn or Tarn?",  # parts of longer names
        "Which is a herb, Orn Lind or Tarn?",
        "Which has a director of the rose family, Orn or Tarn?",
        "Which is a herb?",
        "奥恩和塔恩是否都是草本植物？",
    ],
)
def test_other_questions_are_left_to_the_lm(question):
    assert answer_by_words(question, [ORN, TARN]) == ""


def test_two_titles_of_passages_must_be_named_and_all_passages_of_a_title_count():
    question = "Which is a herb, Orn or Tarn?"
    assert answer_by_words(question, [ORN]) == ""
    assert answer_by_words("Which is a herb, Orn, Tarn or Ada Lind?", [ORN, TARN, LIND]) == ""
    more = Passage(id="more", title="Tarn", text="Some say that Tarn is a herb.")
    assert answer_by_words(question, [ORN, TARN, more]) == ""


def test_nothing_is_asked_of_it_without_words():
    assert answer_by_words("Are Orn and Tarn both?", [ORN, TARN]) == ""
    assert answer_by_words("", []) == ""


@pytest.mark.parametrize("question", ["Where was the director of Orn born?", "Who wrote Orn and when?", ""])
def test_questions_about_one_thing_name_no_two(question):
    assert not names_two(question)
