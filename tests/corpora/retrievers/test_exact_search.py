import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.retrievers.dense import ExactSearch
from corpora.retrievers.engine import EMPTY, Ranking
from corpora.retrievers.hybrid import HybridEngine, fuse_scores

ROOT = Path(__file__).parents[3]


def test_ties_are_taken_in_corpus_order_and_not_all_of_them():
    same = np.tile(np.array([[0.6, 0.8]], dtype=np.float32), (900, 1))
    same[500:510] = [[1.0, 0.0]]
    query = np.array([[1.0, 0.0]], dtype=np.float32)
    for queries in (query, np.repeat(query, 3, axis=0)):
        for rows in ExactSearch(same)(queries, 15):
            assert sorted(rows.tolist()) == [*range(15), *range(500, 510)]


def nearest(vectors: np.ndarray, query: np.ndarray, count: int) -> list[int]:
    return sorted(np.argsort(-(vectors.astype(np.float64) @ query), kind="stable")[:count].tolist())


@pytest.mark.parametrize("count", [1, 7, 299, 300, 10**6])
def test_the_nearest_are_found_for_one_query_a_few_and_many(count):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(300, 16)).astype(np.float32)
    queries = rng.normal(size=(90, 16)).astype(np.float32)
    search = ExactSearch(vectors)
    expected = [nearest(vectors, query, count) for query in queries]
    for size in (1, 3, 90):
        found = [rows for start in range(0, 90, size) for rows in search(queries[start : start + size], count)]
        assert [sorted(rows.tolist()) for rows in found] == expected


def test_concurrent_queries_of_different_counts_get_their_own():
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(500, 8)).astype(np.float32)
    queries = rng.normal(size=(200, 8)).astype(np.float32)
    search = ExactSearch(vectors)
    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(lambda n: search(queries[n][None], 1 + n % 5)[0], range(200)))
    assert [sorted(rows.tolist()) for rows in found] == [nearest(vectors, queries[n], 1 + n % 5) for n in range(200)]


row_sets = st.lists(st.integers(0, 30), unique=True, max_size=12)


@given(row_sets, row_sets, st.integers(1, 20), st.randoms(use_true_random=False))
def test_both_rankings_are_united_row_by_row(words, near, k, random):
    """The scores are those of a plain dict, whatever rows the two rankings share."""
    cosines = {row: round(random.uniform(-1, 1), 5) for row in range(31)}
    bm25 = {row: random.uniform(0.1, 20) for row in words}
    dense = SimpleNamespace(scores=lambda _vector, rows: np.array([cosines[row] for row in rows.tolist()], dtype=float))
    hybrid = HybridEngine(SimpleNamespace(), dense)  # type: ignore[arg-type]
    ranked = Ranking(np.array(near, dtype=np.int64), np.array([cosines[row] for row in near], dtype=float))
    matched = Ranking(np.array(words, dtype=np.int64), np.array([bm25[row] for row in words])) if words else EMPTY
    found = hybrid._fuse(matched, ranked, np.zeros(1), k, 0.7)
    union = sorted({*words, *near})
    fused = fuse_scores(
        np.array([bm25.get(row, 0.0) for row in union], dtype=float), np.array([cosines[row] for row in union]), 0.7
    )
    expected = sorted(zip(union, np.round(fused, 6).tolist(), strict=True), key=lambda pair: (-pair[1], pair[0]))[:k]
    assert list(zip(found.rows.tolist(), found.scores.tolist(), strict=True)) == expected


FORKED = """
import os, sys
sys.path.insert(0, {root!r})
import numpy as np
from verihop.corpora.retrievers.dense import ExactSearch

rng = np.random.default_rng(0)
search, queries = ExactSearch(rng.normal(size=(2000, 32)).astype("f")), rng.normal(size=(200, 32)).astype("f")
expected = [sorted(rows.tolist()) for rows in search(queries, 5)]
child = os.fork()
if child == 0:
    os._exit(0 if [sorted(rows.tolist()) for rows in search(queries, 5)] == expected else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_searches_without_the_threads_of_its_parent():
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", FORKED.format(root=str(ROOT))]
    done = subprocess.run(command, capture_output=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr.decode()
