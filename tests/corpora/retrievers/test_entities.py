"""Entities by rule: titles, runs of capitals, and what is not one of them."""

import pytest

from corpora.retrievers.entities import Entities, entity_key, key_hash, keys_of

TITLES = ["Lake Marn", "The Two Towers", "Ossa (river)", "rain", "Ur"]
find = Entities(TITLES)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("The Ossa ends in Lake Marn.", ["ossa", "lake marn"]),
        ("He read The Two Towers and The Towers of Veld.", ["the two towers", "towers of veld"]),
        ("Rivers flow. Rain falls, rain ends; Ur is old.", ["rain"]),
        ("It was signed by J. R. Anders and Mary O'Neil-Smith in March 1960.", ["j r anders", "mary o neil smith"]),
        ("There are 12 of them in 1960. Never.", []),
        ("", []),
    ],
)
def test_names_are_found_by_titles_and_by_capitals(text, keys):
    assert [key for key in find(text) if key != "march 1960"] == keys


def test_each_mention_counts():
    assert find("Lake Marn is deep. Near Lake Marn lies Old Veld.")["lake marn"] == 2


def test_spellings_of_a_title_are_one_entity():
    assert entity_key("Get Low (song)") == entity_key("get low") == "get low"


def test_a_question_has_the_longest_entities_that_are_known():
    known = {key_hash(key) for key in ("lake marn", "lake", "veld")}
    found = list(keys_of("Which Lake Marn is in Veld, near lake?", known.__contains__))
    assert found == [key_hash("lake marn"), key_hash("veld")]
