"""Listwise reranking: windows, replies of all kinds, small contexts, ties and threads, on LMs that are functions."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from corpora.retrievers.rerank import Reranker, asks_lm, open_reranker, without_reranking
from corpora.retrievers.rerank_features import Pool
from corpora.retrievers.rerank_listwise import LEAST, ListwiseScorer, permutation
from signatures.common.errors import UserError
from signatures.types import Passage


class Ranks:
    """Orders the passages of a window by the number in their texts; remembers how many it was shown."""

    fingerprint = "lm:1"

    def __init__(self, room=10**9, reply=None):
        self.room, self.reply, self.shown = room, reply, []

    def __call__(self, query, passages):
        self.shown.append([each.id for each in passages])
        if self.reply is not None:
            return self.reply
        order = sorted(range(len(passages)), key=lambda place: int(passages[place].text.split()[0]))
        return " > ".join(f"[{place + 1}]" for place in order)

    def fits(self, query, passages):
        return sum(len(each.title.split()) + len(each.text.split()) for each in passages) <= self.room


class Found:
    """Retrieves `count` passages, of which the last is the best."""

    fingerprint = "found"

    def __init__(self, count, text="{}"):
        self.passages = [Passage(id=f"p{n}", text=text.format(count - n)) for n in range(count)]

    def __call__(self, query, k):
        return self.many([query], k)[0]

    def many(self, queries, k):
        return [self.passages[:k] for _ in queries]


def ids(passages):
    return [each.id for each in passages]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("[2] > [3] > [1]", [1, 2, 0]),
        ("[2] > [2] > [9] > [0]", [1, 0, 2]),  # repeated, unknown and missing numbers
        ("2, 3", [1, 2, 0]),
        ("[3, 1, 2]", [2, 0, 1]),
        ("Here are the 3 passages: [ 2 ]>[1]", [1, 0, 2]),
        ("", [0, 1, 2]),
        ("none of them helps", [0, 1, 2]),
        ("9" * 5000 + " [" + "1" * 5000 + "]", [0, 1, 2]),
        ("² ③ ３", [2, 0, 1]),  # a full-width digit is a number, the others are none
    ],
)
def test_a_reply_is_read_whatever_it_says(reply, expected):
    assert permutation(reply, 3) == expected


def test_the_best_passages_move_from_the_back_to_the_front_through_overlapping_windows():
    lm = Ranks()
    retrieve = open_reranker(Found(100), "lm:100", lm=lm)
    assert ids(retrieve("q", 10)) == [f"p{n}" for n in range(99, 89, -1)]
    assert [len(shown) for shown in lm.shown] == [20] * 9
    assert lm.shown[0] == [f"p{n}" for n in range(80, 100)]
    assert [each.score for each in retrieve("q", 3)] == [1, 1 / 2, 1 / 3]


@pytest.mark.parametrize(("count", "sizes"), [(1, []), (2, [2]), (20, [20]), (21, [20, 11]), (25, [20, 15])])
def test_the_first_passage_is_in_the_last_window_whatever_the_number_is(count, sizes):
    lm = Ranks()
    found = open_reranker(Found(count), "lm:100", lm=lm)("q", 1)
    assert [len(shown) for shown in lm.shown] == sizes
    assert ids(found) == [f"p{count - 1}"]
    assert all(shown[0] == "p0" for shown in lm.shown[-1:])


def test_without_a_number_twenty_passages_are_ranked_in_one_call():
    lm = Ranks()
    found = open_reranker(Found(50), "lm", lm=lm)("q", 3)
    assert (len(lm.shown), ids(found)) == (1, ["p19", "p18", "p17"])


def test_whoever_asks_for_more_passages_than_are_ranked_gets_them_behind_without_further_calls():
    lm = Ranks()
    assert ids(open_reranker(Found(90), "lm:3", lm=lm)("q", 80)) == ["p2", "p1", "p0", *(f"p{n}" for n in range(3, 80))]
    assert [len(shown) for shown in lm.shown] == [3]


def test_what_an_lm_does_not_say_leaves_the_order_as_it_was():
    found = open_reranker(Found(30), "lm:30", lm=Ranks(reply=""))("q", 30)
    assert ids(found) == ids(Found(30).passages)


def test_small_contexts_see_fewer_passages_then_shorter_ones():
    few = Ranks(room=600)  # passages are cut to 300 words before
    ListwiseScorer(few)("q", Pool(Found(20, "{} " + "word " * 90).passages))
    assert max(len(shown) for shown in few.shown) == 6  # of 91 words
    short = Ranks(room=LEAST * 20)
    retrieve = open_reranker(Found(20, "{} " + "word " * 1000), "lm", lm=short)
    assert ids(retrieve("q", 2)) == ["p19", "p18"]
    assert {len(shown) for shown in short.shown} == {LEAST}
    none = Ranks(room=0)  # the adapter cuts the prompt, which is counted
    assert ids(open_reranker(Found(9), "lm", lm=none)("q", 1)) == ["p8"]


def test_passages_are_shown_shortened_also_without_spaces_and_returned_whole():
    class Sees(Ranks):
        def __call__(self, query, passages):
            self.shown.append(passages)
            return "[2] [1]"

    passages = [Passage(id="a", title="河" * 9000, text="河" * 9000), Passage(id="b", text="\ud800 word " * 9000)]
    lm = Sees()
    below = Found(0)
    below.passages = passages
    found = Reranker(below, ListwiseScorer(lm))
    assert [each.text for each in found("q \ud800", 2)] == [passages[1].text, passages[0].text]
    ((first, second),) = lm.shown
    assert max(len(first.title), len(first.text), len(second.text)) <= 8 * 300
    assert len(second.text.split()) == 300
    assert "\ud800" not in second.text


def test_threads_do_not_mix_their_windows():
    retrieve = open_reranker(Found(60), "lm:60", lm=Ranks())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: ids(retrieve(f"q{n}", 10)), range(40)))
    assert found == [[f"p{n}" for n in range(59, 49, -1)]] * 40


def test_empty_results_and_empty_texts_are_ranked():
    lm = Ranks(reply="[2] > [1]")
    assert open_reranker(Found(0), "lm", lm=lm)("q", 5) == []
    assert lm.shown == []
    assert ids(open_reranker(Found(2, ""), "lm", lm=lm)("", 5)) == ["p1", "p0"]


def test_the_fingerprint_names_lm_and_settings_and_the_retriever_below_is_found_in_it():
    below = Found(3)
    prints = {open_reranker(below, name, lm=Ranks()).fingerprint for name in ("lm", "lm:5")}
    other = Ranks()
    other.fingerprint = "lm:2"
    prints |= {open_reranker(below, "lm", lm=other).fingerprint, ListwiseScorer(other, window=10, step=5).fingerprint}
    assert len(prints) == 4
    assert without_reranking(open_reranker(below, "lm", lm=Ranks()).fingerprint) == "found"


def test_a_name_says_whether_the_lm_is_asked_and_how_deep(tmp_path, monkeypatch):
    assert [asks_lm(name) for name in ("lm", "lm:50", "own", "none", None, "lm/x:5")] == [True, True, *[False] * 4]
    assert open_reranker(Found(3), "lm:50", lm=Ranks()).name == "lm:50"
    with pytest.raises(UserError, match="The reranker lm needs an LM"):
        open_reranker(Found(3), "lm")
    with pytest.raises(UserError, match="lm:0"):
        open_reranker(Found(3), "lm:0", lm=Ranks())
    (tmp_path / "lm:5").mkdir()
    monkeypatch.chdir(tmp_path)
    assert open_reranker(Found(3), "lm:5").name == str(tmp_path / "lm:5")
    for name in ("own:5", "none:5", "lm:x", "lm:"):
        with pytest.raises(UserError, match="cannot be loaded"):
            open_reranker(Found(3), name, lm=Ranks())
