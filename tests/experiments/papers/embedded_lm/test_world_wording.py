"""Comparisons of the world keep their truth in every wording."""

import random

import pytest

from corpora.questions import Question
from experiments.papers.embedded_lm.world_wording import reworded


def worded(question: str, answer: str) -> dict[str, str]:
    asked = Question(id="q", question=question, answers=[answer])
    made = [reworded(asked, random.Random(seed)) for seed in range(80)]
    return {one.question: one.answers[0] for one in made}


def test_earlier_and_later_have_opposite_answers():
    made = worded("Who was born first, Ann Orn or Bo Velt?", "Bo Velt")
    assert len(made) == 8
    for question, answer in made.items():
        later = any(word in question for word in ("later", "last"))
        if answer in ("yes", "no"):
            assert answer == ("no" if "before" in question else "yes")
        else:
            assert answer == ("Ann Orn" if later else "Bo Velt")


def test_chains_are_asked_for_the_earlier_one_alone():
    made = worded("Which was founded first, the maker of Tarn or the maker of Brook?", "Orn Mills")
    assert set(made.values()) == {"Orn Mills"}
    assert len(made) == 4


@pytest.mark.parametrize(
    ("question", "wordings"),
    [
        (
            "Were Ann Orn and Bo Velt born in the same town?",
            {
                "Were Ann Orn and Bo Velt born in the same town?": "yes",
                "Was Ann Orn born in the same town as Bo Velt?": "yes",
                "Is it true that Ann Orn and Bo Velt were born in the same town?": "yes",
                "Were Ann Orn and Bo Velt born in different towns?": "no",
            },
        ),
        (
            "Do The Crag and The Tarn have the same director?",
            {
                "Do The Crag and The Tarn have the same director?": "yes",
                "Does The Crag have the same director as The Tarn?": "yes",
                "Do The Crag and The Tarn have different directors?": "no",
            },
        ),
    ],
)
def test_the_same_and_different(question, wordings):
    assert worded(question, "yes") == wordings


def test_other_questions_stay_as_they_are():
    assert worded("Where was Ann Orn born?", "Brook") == {"Where was Ann Orn born?": "Brook"}
