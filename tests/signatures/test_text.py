import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signatures import text as text_module
from signatures.text import is_chinese, normalize_answer, split_sentences


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Beatles!", "beatles"),
        ("blue-green", "bluegreen"),
        ("3.14", "314"),
        ("Plan A", "plan"),
        ("A", ""),
        ("O’Brien", "o’brien"),
        ("  an   Apple a day ", "apple day"),
        ("María", "maría"),
    ],
)
def test_normalisation_is_the_official_one(text, normal):
    assert normalize_answer(text) == normal


@given(st.text(max_size=40))
def test_normalising_never_leaves_outer_or_double_blanks(text):
    normal = normalize_answer(text)
    assert normal == " ".join(normal.split())


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("欧萨河流入马恩湖。它长九十公里！真的吗？", ["欧萨河流入马恩湖。", "它长九十公里！", "真的吗？"]),
        ("船长说：“开船！”于是出发了。", ["船长说：“开船！”", "于是出发了。"]),
        ("他写了《谁在灯塔？》一书。", ["他写了《谁在灯塔？》一书。"]),
        ("灯塔高3.14米\n没有门", ["灯塔高3.14米", "没有门"]),
        ("她得了奖。[1][2]奖很大[3]。他走了。”[4]", ["她得了奖。[1][2]", "奖很大[3]。", "他走了。”[4]"]),
        ("灯塔由 Ansa Merrow 建造。高三十米", ["灯塔由 Ansa Merrow 建造。", "高三十米"]),
    ],
)
def test_chinese_sentences_end_at_their_own_stops(text, sentences):
    assert is_chinese(text)
    assert split_sentences(text) == sentences


def test_an_english_text_with_a_chinese_name_is_split_as_english():
    text = "Dr. Li Bai (李白) wrote verse. Mr. Du followed. 3.14 is no stop!"
    assert not is_chinese(text)
    assert split_sentences(text) == ["Dr. Li Bai (李白) wrote verse.", "Mr. Du followed.", "3.14 is no stop!"]


def test_no_text_has_no_sentences():
    assert split_sentences("") == []


def test_threads_split_as_one_thread_does():
    texts = [f"Dr. No{number} came. He saw {number}.5 ships! Was it {number * 7}? Yes{number}." for number in range(99)]
    alone = [split_sentences(text) for text in texts]
    text_module._sentences.cache_clear()
    start = threading.Barrier(8)

    def split_all(offset: int) -> list[list[str]]:
        start.wait(30)
        own = texts[offset:] + texts[:offset]  # at any time the threads have different texts
        found = [list(text_module._sentences.__wrapped__(text)) for text in own]
        return found[-offset:] + found[:-offset] if offset else found

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(split_all, range(0, 96, 12)))
    finally:
        sys.setswitchinterval(interval)
    assert all(found == alone for found in results)


def test_work_grows_linearly_with_repeated_sentences():
    def calls(count: int) -> int:
        events = []
        text = "Hi! " * count
        sys.setprofile(lambda frame, event, argument: events.append(event))
        try:
            found = text_module._sentences.__wrapped__(text)
        finally:
            sys.setprofile(None)
        assert len(found) == count
        return len(events)

    calls(2)  # imports
    assert calls(400) < 2.5 * calls(200)
