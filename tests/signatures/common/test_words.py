"""The words that measured numbers depend on: a change of either list needs a new measurement."""

import pytest

from signatures.common.files import sha256_text
from signatures.common.words import FUNCTION_WORDS, QUERY_STOPWORDS, strip_suffix


def test_the_lists_are_those_that_recall_and_weights_were_measured_with():
    assert (len(QUERY_STOPWORDS), len(FUNCTION_WORDS)) == (110, 92)
    assert sha256_text(" ".join(sorted(QUERY_STOPWORDS)))[:16] == "cf3c2f3e125892dd"
    assert sha256_text(" ".join(sorted(FUNCTION_WORDS)))[:16] == "4e635a73ab833bab"


@pytest.mark.parametrize(
    ("word", "stem"),
    [
        ("rivers", "river"),
        ("singing", "sing"),
        ("reportedly", "report"),
        ("cities", "cit"),
        ("is", "is"),
        ("sing", "sing"),
    ],
)
def test_an_inflection_is_removed_only_from_what_stays_a_word(word: str, stem: str):
    assert strip_suffix(word) == stem
