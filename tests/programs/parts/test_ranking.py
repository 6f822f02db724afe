import pytest

from programs.parts.passages import closest, is_no_item, new_items, passes, passing, top


def test_the_best_come_first_ties_in_order_and_the_unparseable_last():
    scores = {"a": 0.5, "b": None, "c": 0.9, "d": 0.5, "e": 0.0}
    assert top(scores, 3) == ["c", "a", "d"]
    assert top(scores, 9) == ["c", "a", "d", "e", "b"]
    assert top({}, 3) == []


@pytest.mark.parametrize(("score", "expected"), [(0.51, True), (0.5, False), (0.0, False), (None, False)])
def test_a_gate_is_passed_above_it(score, expected):
    assert passes(score, 0.5) is expected


def test_a_key_passes_if_it_passes_all_of_its_gates():
    scores = {("a", "low"): 0.4, ("a", "high"): 0.9, ("b", "low"): 0.9, ("b", "high"): 0.8, ("c", "low"): None}
    assert passing(["d", "c", "b", "a"], scores, {"low": 0.3, "high": 0.8}) == ["d", "a"]
    assert passing(["a", "b"], {}, {}) == ["a", "b"]


def test_claims_that_say_nothing_new_are_left_out():
    claims = ["The sea is calm.", " ", "A harbour lies there. ", "a sea is calm", "The"]
    assert new_items(claims, known=["Harbour lies there"], max_words=100) == ["The sea is calm."]


def test_a_claim_of_too_many_words_is_dropped():
    assert new_items(["one two three", "one two three four"], known=[], max_words=3) == ["one two three"]


NO_ITEMS = """
None | none. | (none) | N/A | n/a | "" | - | Nothing | Nothing follows. | None needed | None is needed. | No inferences
No further queries are needed. | no query | Nothing else | Not applicable
Here are the queries: | **Inferences:** | null
无 | 没有 | 不需要 | 查询：
"""
ITEMS = """
sea of Quillon | Nothing Compares 2 U singer | None but the Brave director | No Country for Old Men | Merrow: born where
No query language is older than SQL. | unknown soldier tomb city | NASA | 无极的导演
The None Such mine | emptying of the sea
"""


@pytest.mark.parametrize(
    ("item", "empty"),
    [
        (item.strip(), items is NO_ITEMS)
        for items in (NO_ITEMS, ITEMS)
        for line in items.strip().splitlines()
        for item in line.split(" | ")
    ],
)
def test_items_that_say_there_is_none_are_no_items(item, empty):
    assert is_no_item(item) is empty
    assert new_items([item], known=[], max_words=100) == ([] if empty else [item])


def test_the_closest_texts_share_most_terms_and_ties_keep_their_order():
    texts = ["Fog is wet.", "The harbours of Quillon.", "Who is wet?", "The harbour master of Quillon."]
    assert closest("Who is harbour master of Quillon?", texts, None, 3) == [3, 1, 0]
    assert closest("港务长是谁？", ["雾很湿。", "安莎是港务长。"], None, 1) == [1]
    assert closest("Who?", [], None, 3) == []


def test_a_similarity_decides_which_texts_are_closest():
    def similarity(left, right):
        assert list(left) == ["q"]
        return [[{"a": 0.1, "b": 0.9, "c": 0.9}[text] for text in right]]

    assert closest("q", ["a", "b", "c"], similarity, 2) == [1, 2]
