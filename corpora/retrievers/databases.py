"""Vector databases of others in place of our exact search: Milvus, PostgreSQL with pgvector, LanceDB.

A database finds the rows nearest to a query by exact search; their scores come of the vectors in the folder of the
index, as with compressed codes, so that all rank as "flat" does. It can be filled again from them at any time.

Its address is in `VERIHOP_MILVUS`, `VERIHOP_PGVECTOR` or `VERIHOP_LANCEDB`, never in a file. Departure: of
more than `2 * count` equal vectors, a database returns any, and "flat" the first of the corpus.
"""

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from corpora.encoders.gathering import Gathering
from signatures.common.errors import UserError, needing, one_line
from signatures.common.per_process import PerProcess
from signatures.common.secrets import register, register_address, without_secrets

RowNumbers = NDArray[np.int64]
Vectors = NDArray[np.float32]
Advance = Callable[[int], object]

MILVUS, PGVECTOR, LANCEDB = "milvus", "pgvector", "lancedb"
_BLOCK = 4096  # vectors sent at a time
_MOST = 16_384  # results of a search in Milvus
_SECONDS = 10  # to reach a server


class Database(Protocol):
    """Tables of vectors, each with its row in the corpus; called by one thread at a time."""

    def count(self, table: str) -> int | None:
        """Return the number of vectors in a table; None if there is no such table."""

    def fill(self, table: str, vectors: Vectors, advance: Advance) -> None:
        """Rebuild the table with these vectors."""

    def nearest(self, table: str, vector: NDArray[np.float32], count: int) -> RowNumbers:
        """Return the rows with the highest inner products, in any order."""


class _Milvus:
    """A server, or a file of milvus-lite, which one process at a time can open."""

    def __init__(self, address: str):
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its notes on a busy machine look like errors
        with needing(MILVUS, "A search in Milvus"):
            from pymilvus import DataType, MilvusClient
        if "://" not in address:
            Path(address).parent.mkdir(parents=True, exist_ok=True)
        self._types = DataType
        self._client = MilvusClient(uri=address, token=os.environ.get("VERIHOP_MILVUS_TOKEN", ""), timeout=_SECONDS)

    def count(self, table: str) -> int | None:
        if not self._client.has_collection(table):
            return None
        self._client.load_collection(table)
        return int(self._client.query(table, filter="", output_fields=["count(*)"])[0]["count(*)"])

    def fill(self, table: str, vectors: Vectors, advance: Advance) -> None:
        self._client.drop_collection(table)
        schema = self._client.create_schema(auto_id=False)
        schema.add_field("id", self._types.INT64, is_primary=True)
        schema.add_field("vector", self._types.FLOAT_VECTOR, dim=vectors.shape[1])
        index = self._client.prepare_index_params()
        index.add_index("vector", index_type="FLAT", metric_type="IP")
        self._client.create_collection(table, schema=schema, index_params=index, consistency_level="Strong")
        for start, block in _blocks(vectors, _BLOCK // 4):  # a message to a server has at most 64 MB
            self._client.insert(table, [{"id": start + at, "vector": vector} for at, vector in enumerate(block)])
            advance(len(block))

    def nearest(self, table: str, vector: NDArray[np.float32], count: int) -> RowNumbers:
        how = {"search_params": {"metric_type": "IP"}, "output_fields": ["id"]}  # else milvus-lite sends vectors
        found = self._client.search(table, data=[vector], limit=min(count, _MOST), **how)
        return np.array([hit["id"] for hit in found[0]], dtype=np.int64)


class _Pgvector:
    """A database of PostgreSQL with the extension `vector`."""

    def __init__(self, address: str):
        with needing(PGVECTOR, "A search in PostgreSQL"):
            import psycopg
        try:
            register(str(psycopg.conninfo.conninfo_to_dict(address).get("password") or ""))
        except psycopg.Error:  # whose message may quote the password
            raise UserError(f"{variable(PGVECTOR)} is not an address of PostgreSQL: {_EXAMPLE}.") from None
        self._sql = psycopg.sql
        self._connection = psycopg.connect(address, autocommit=True, connect_timeout=_SECONDS)

    def _run(self, text: str, table: str, *values: object) -> Any:
        return self._connection.execute(self._sql.SQL(text).format(self._sql.Identifier(table)), values)

    def count(self, table: str) -> int | None:
        if self._connection.execute("SELECT to_regclass(%s)", (table,)).fetchone() == (None,):
            return None
        return int(self._run("SELECT count(*) FROM {}", table).fetchone()[0])

    def fill(self, table: str, vectors: Vectors, advance: Advance) -> None:
        with self._connection.transaction():  # the table is complete or absent
            self._connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            self._run("DROP TABLE IF EXISTS {}", table)
            self._run(f"CREATE TABLE {{}} (id bigint PRIMARY KEY, vector vector({vectors.shape[1]}))", table)
            copy = self._sql.SQL("COPY {} FROM STDIN").format(self._sql.Identifier(table))
            with self._connection.cursor().copy(copy) as rows:
                for start, block in _blocks(vectors, _BLOCK):
                    for at, vector in enumerate(block):
                        rows.write_row((start + at, _written(vector)))
                    advance(len(block))

    def nearest(self, table: str, vector: NDArray[np.float32], count: int) -> RowNumbers:
        text = "SELECT id FROM {} ORDER BY vector <#> %s::vector, id LIMIT %s"
        return np.array([row[0] for row in self._run(text, table, _written(vector), count)], dtype=np.int64)


class _Lancedb:
    """A folder of LanceDB."""

    def __init__(self, address: str):
        with needing(LANCEDB, "A search in LanceDB"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import lancedb
            import pyarrow
        self._arrow, self._database = pyarrow, lancedb.connect(address)

    def count(self, table: str) -> int | None:
        try:
            return int(self._database.open_table(table).count_rows())
        except ValueError as error:
            if "not found" in str(error):
                return None
            raise

    def fill(self, table: str, vectors: Vectors, advance: Advance) -> None:
        arrow, width = self._arrow, vectors.shape[1]
        schema = arrow.schema([("id", arrow.int64()), ("vector", arrow.list_(arrow.float32(), width))])

        def batches() -> Iterator[Any]:
            for start, block in _blocks(vectors, _BLOCK):
                rows = arrow.array(np.arange(start, start + len(block)))
                lists = arrow.FixedSizeListArray.from_arrays(arrow.array(block.ravel()), width)
                yield arrow.RecordBatch.from_arrays([rows, lists], schema=schema)
                advance(len(block))

        self._database.drop_table(table, ignore_missing=True)
        self._database.create_table(
            table, arrow.RecordBatchReader.from_batches(schema, batches())
        )  # complete or absent

    def nearest(self, table: str, vector: NDArray[np.float32], count: int) -> RowNumbers:
        search = self._database.open_table(table).search(vector).distance_type("dot").limit(count)
        rows: RowNumbers = search.select(["id", "_distance"]).to_arrow()["id"].to_numpy()
        return rows


DATABASES: dict[str, Callable[[str], Database]] = {MILVUS: _Milvus, PGVECTOR: _Pgvector, LANCEDB: _Lancedb}
_PLACES = {MILVUS: "VERIHOP_MILVUS", PGVECTOR: "VERIHOP_PGVECTOR", LANCEDB: "VERIHOP_LANCEDB"}
_EXAMPLE = "export VERIHOP_PGVECTOR=postgresql://user@localhost/database"


def variable(kind: str) -> str:
    """Return the variable of the environment that says where a database is."""
    return _PLACES[kind]


def _blocks(vectors: Vectors, size: int) -> Iterator[tuple[int, Vectors]]:
    for start in range(0, len(vectors), size):
        yield start, np.ascontiguousarray(vectors[start : start + size])


def _written(vector: NDArray[np.float32]) -> str:
    return f"[{','.join(f'{number:.9g}' for number in vector.tolist())}]"  # nine digits are any float32


class VectorTable:
    """The vectors of one index in a database: called as `ExactSearch` is. Safe under threads and after a fork.

    Args:
        kind: A key of `DATABASES`.
        name: Of the table: a new name for other vectors.
        folder: For files of the table, if no variable names another place.
        count: Its vectors.
        cure: What fills it again, for messages.
    """

    def __init__(self, kind: str, name: str, folder: Path, *, count: int, cure: str):
        self.kind, self.name, self._folder, self._count, self._cure = kind, name, folder, count, cure
        self._database = PerProcess(self._open)
        self._gathered: Gathering[tuple[NDArray[np.float32], int], list[RowNumbers]] = Gathering(self._nearest)

    def __call__(self, queries: Vectors, count: int) -> list[RowNumbers]:
        """Return for each query the rows of the `count` nearest vectors and as many more, for ties, in any order.

        Raises:
            UserError: The database does not answer.
        """
        return self._gathered([(query, min(2 * count, self._count)) for query in queries])

    def check(self) -> None:
        """Raise UserError unless the database is reached and the table complete."""
        with self._explained():
            found = self._database().count(self.name)
        if found != self._count:
            what = "no table" if found is None else f"{found:,} instead of {self._count:,} vectors in table"
            elsewhere = f", or set {variable(self.kind)} to where they are" if found is None else ""
            raise UserError(
                f"{self._shown()} has {what} {self.name}, the vectors of this index: fill it with "
                f"`{self._cure}`{elsewhere}."
            )

    def connect(self) -> None:
        """Raise UserError unless the database is reached."""
        with self._explained():
            self._database().count(self.name)

    def fill(self, vectors: Vectors, advance: Advance) -> None:
        """Rebuild the table: one of this name and size may have vectors of another embedder that is named as ours."""
        with self._explained():
            self._database().fill(self.name, vectors, advance)
        self.check()

    def _nearest(self, queries: list[tuple[NDArray[np.float32], int]]) -> list[RowNumbers]:
        with self._explained():
            found = [self._database().nearest(self.name, vector, count) for vector, count in queries]
        if any(len(rows) and not 0 <= rows.min() <= rows.max() < self._count for rows in found):
            raise UserError(
                f"{self._shown()} has rows in table {self.name} that this index lacks: fill it with `{self._cure}`."
            )
        return found

    def _address(self) -> str:
        if stated := os.environ.get(variable(self.kind), ""):
            register_address(stated)
            return stated
        if self.kind == PGVECTOR:
            raise UserError(f"{variable(PGVECTOR)} does not set the address of PostgreSQL: {_EXAMPLE}.")
        return str(self._folder / ("milvus.db" if self.kind == MILVUS else LANCEDB))

    def _open(self) -> Database:
        return DATABASES[self.kind](self._address())

    def _shown(self) -> str:
        """Name the database without what an address of PostgreSQL may contain in whatever form."""
        return "PostgreSQL" if self.kind == PGVECTOR else f"{self.kind} at {without_secrets(self._address())}"

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except UserError:
            raise
        except Exception as error:
            self._database = PerProcess(self._open)  # a lost connection is opened anew by the next call
            needed = "the extension pgvector (Debian: postgresql-NN-pgvector) must be there; " * (self.kind == PGVECTOR)
            raise UserError(
                f"{self._shown()} failed ({one_line(error, 200)}): {needed}check that it runs and that "
                f"{variable(self.kind)} is right, or do without it (`{self._cure.removesuffix(self.kind)}flat`)."
            ) from error
