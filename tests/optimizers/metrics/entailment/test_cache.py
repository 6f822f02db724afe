import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from optimizers.metrics.entailment.oracle import CachedOracle

PAIRS = [("a b", "a"), ("a b", "c"), ("x", "x"), ("", "x")]


def test_only_what_was_never_judged_is_judged_even_after_a_restart(overlap, tmp_path) -> None:
    path = tmp_path / "folder" / "judged.sqlite"
    assert CachedOracle(overlap, path)(PAIRS) == [1.0, 0.0, 1.0, 0.0]
    assert overlap.calls == [PAIRS[:3]]
    again = CachedOracle(overlap, path)
    assert again([*PAIRS, ("new", "new")]) == [1.0, 0.0, 1.0, 0.0, 1.0]
    assert overlap.calls[1:] == [[("new", "new")]]


def test_another_fingerprint_is_another_judgement(overlap, tmp_path) -> None:
    CachedOracle(overlap, tmp_path / "j.sqlite")(PAIRS)
    overlap.fingerprint = "overlap:2"
    CachedOracle(overlap, tmp_path / "j.sqlite")(PAIRS)
    assert len(overlap.calls) == 2


def test_the_two_sides_of_a_pair_are_not_confused(overlap, tmp_path) -> None:
    oracle = CachedOracle(overlap, tmp_path / "j.sqlite")
    assert oracle([("a b", "a"), ("a", "b a"), ("a b a", "")]) == [1.0, 0.0, 0.0]


def test_values_are_kept_to_the_last_bit_and_many_at_once(tmp_path, overlap) -> None:
    pairs = [(f"p {number}", "p") for number in range(1201)]
    overlap.__class__ = type("Third", (type(overlap),), {"__call__": lambda self, asked: [1 / 3] * len(asked)})
    path = tmp_path / "j.sqlite"
    assert CachedOracle(overlap, path)(pairs) == [1 / 3] * 1201
    overlap.__class__ = type("Broken", (type(overlap),), {"__call__": lambda self, asked: 1 / 0})
    assert CachedOracle(overlap, path)(pairs) == [1 / 3] * 1201


def test_many_threads_share_one_file(overlap, tmp_path) -> None:
    oracle = CachedOracle(overlap, tmp_path / "j.sqlite")
    work = [[(f"a {number % 7}", "a"), (f"a {number}", "b")] for number in range(60)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(oracle, work)) == [[1.0, 0.0]] * 60
    with sqlite3.connect(tmp_path / "j.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM replies").fetchone() == (67,)


@pytest.mark.parametrize("content", [b"this is no database, but long enough to be taken for one" * 20, None])
def test_an_unusable_file_gives_one_warning_and_is_ignored(overlap, tmp_path, content) -> None:
    path = tmp_path / "j.sqlite"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    oracle = CachedOracle(overlap, path)
    with pytest.warns(UserWarning, match=r"cannot be cached in .*j\.sqlite"):
        assert oracle(PAIRS) == [1.0, 0.0, 1.0, 0.0]
    assert oracle(PAIRS) == [1.0, 0.0, 1.0, 0.0]
    if content is not None:
        assert path.read_bytes() == content


def test_judgements_are_in_the_cache_folder(overlap, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("VERIHOP_CACHE_DIR", str(tmp_path))
    CachedOracle(overlap)(PAIRS)
    assert (tmp_path / "entailment.sqlite").is_file()


def test_the_wrapper_says_what_the_oracle_says(overlap) -> None:
    oracle = CachedOracle(overlap)
    for name in ("name", "fingerprint", "threshold", "agreement"):
        assert getattr(oracle, name) == getattr(overlap, name)


def test_half_a_character_can_be_kept(overlap, tmp_path) -> None:
    assert CachedOracle(overlap, tmp_path / "j.sqlite")([("\ud83d x", "x")]) == [1.0]
