"""However large the corpus: opening reads no passage, a query those it ranks, and a look-up those it is asked for."""

import json

import numpy as np
import pytest

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.retrievers import store as stores
from corpora.retrievers.engine import IndexRetriever
from corpora.retrievers.multihop import MultihopEngine
from corpora.retrievers.rerank import open_reranker
from corpora.retrievers.store import IDS_FILE, PassageStore, write_store
from signatures.common.errors import UserError
from signatures.types import Passage

SIZES = (150, 1500)
WORDS = "amber brook cedar delta ember fjord grove harbor inlet jetty knoll".split()
MOST = 140  # reads of a query: fewer than the smaller corpus has passages
FORMS = ["bm25", "dense", "hybrid", "hybrid+own", "multihop", "multihop+own"]


class Counted:
    """A mapped file that counts what is read of it."""

    def __init__(self, content, reads):
        self.content, self.reads = content, reads

    def __len__(self):
        return len(self.content)

    def __getitem__(self, place):
        self.reads.append(place)
        return self.content[place]


@pytest.fixture(scope="module")
def folders(tmp_path_factory, fake_embedder):
    root = tmp_path_factory.mktemp("reads")
    for size in SIZES:
        texts = [" ".join(WORDS[(n * step) % 11] for step in (1, 2, 5)) for n in range(size)]
        lines = [{"id": f"p{n:04d}", "title": f"t{n}", "text": text} for n, text in enumerate(texts)]
        (root / f"{size}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        build_index(root / f"{size}.jsonl", root / str(size), embedder=fake_embedder)
    return root


@pytest.fixture
def reads(monkeypatch):
    made, mapped = [], stores._mapped
    monkeypatch.setattr(stores, "_mapped", lambda path, size: Counted(mapped(path, size), made))
    return made


def opened(folder, form, embedder):
    name, _, reranker = form.partition("+")
    retrieve = open_index(folder, retriever="hybrid" if name == "multihop" else name, embedder=embedder)
    if name == "multihop":
        store = PassageStore(folder)
        retrieve = IndexRetriever(MultihopEngine(retrieve.engine, store, embedder), store, "x")
    return open_reranker(retrieve, reranker or "none")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", FORMS)
def test_a_query_reads_the_passages_that_it_ranks(folders, reads, fake_embedder, form, size):
    retrieve = opened(folders / str(size), form, fake_embedder)
    assert reads == []
    assert len(retrieve("amber delta grove", 5)) == 5
    assert 5 <= len(reads) <= MOST


@pytest.mark.parametrize("size", SIZES)
def test_a_passage_is_found_by_its_id_without_reading_the_others(folders, reads, fake_embedder, size):
    retrieve = open_index(folders / str(size), embedder=fake_embedder)
    names = [f"p{size - 1:04d}", "p0000", "nowhere"]
    assert retrieve.missing(names) == {"nowhere"}
    assert retrieve.titles(names) == {names[0]: f"t{size - 1}", "p0000": "t0"}
    assert len(reads) == 6  # two ids, twice, and two passages


def test_an_index_without_the_file_of_ids_reads_them_all(tmp_path):
    names = ["a", "bb", "ab", "alû", "x" * 30, ""]
    write_store(tmp_path, [Passage(id=name, title="bb", text="a zz") for name in names])
    asked = [*names, "zz", "lost \ud800"]
    with_file, without = PassageStore.listed(tmp_path, [IDS_FILE]), PassageStore.listed(tmp_path, [])
    assert with_file.rows_of(asked) == without.rows_of(asked) == {name: row for row, name in enumerate(names)}
    assert with_file.rows_of([]) == {}


def test_ids_with_one_hash_are_told_apart_and_damage_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "_id_hash", lambda name: -len(name))
    write_store(tmp_path, [Passage(id=name, title="", text=name) for name in ("one", "two", "three")])
    assert PassageStore(tmp_path, ids=True).rows_of(["two", "six", "three"]) == {"two": 1, "three": 2}
    table = np.load(tmp_path / IDS_FILE)
    for bad in (table[:, :2], table.T, table.astype(np.int32), np.stack([table[0], table[1] + 9]), table - [[0], [9]]):
        np.save(tmp_path / IDS_FILE, bad)
        with pytest.raises(UserError, match=r"damaged.*rebuild"):
            PassageStore(tmp_path, ids=True).rows_of(["two"])
