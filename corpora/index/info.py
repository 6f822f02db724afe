"""What `index.json` contains, and what a build is asked for."""

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from corpora.encoders.openvino_encoder import Precision
from corpora.retrievers.dense import ExactKind
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.settings import RELEVANT, RetrievalSettings
from signatures.common.errors import UserError, unknown
from signatures.common.files import sha256_text

# The second is of vectors in another precision than f32, for which a verihop that knows only the first would take them.
SCHEMAS = (1, 2)
CONTENT = "passages:"  # begins the `corpus_hash` of an updated index

# Retriever -> the parts of an index folder that it needs.
PARTS: dict[str, frozenset[str]] = {
    "bm25": frozenset({"bm25"}),
    "bm25s": frozenset({"bm25s"}),
    "dense": frozenset({"dense"}),
    "hybrid": frozenset({"bm25", "dense"}),
    "multihop": frozenset({"bm25", "dense"}),
    "graph": frozenset({"bm25", "dense", "graph"}),
    "graph-multihop": frozenset({"bm25", "dense", "graph"}),
}
GRAPH_LM = "graph-lm"  # opens an index for `graph` that is made of triples, among which an LM chooses
OPENED_AS = frozenset({*PARTS, GRAPH_LM})  # all retrievers that indexes are opened as


def canonical(value: object) -> str:
    """Return a value as JSON that is the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def has_vectors(retriever: str) -> bool:
    """Return whether an index for this retriever contains vectors."""
    return "dense" in PARTS[retriever]


def check_retriever(retriever: str, embedder: Embedder | str | None) -> None:
    """Raise UserError unless there is such a retriever, with vectors if the embedder has another precision than f32."""
    if retriever not in PARTS:
        raise unknown("retriever", retriever, PARTS)
    precision = embedder.precision if isinstance(embedder, Embedder) else "f32"
    if precision != "f32" and not has_vectors(retriever):
        raise UserError(
            f"Precision {precision} applies to vectors, and a {retriever} index has no vectors: omit it, or choose "
            "retriever dense or hybrid."
        )


class EmbedderInfo(BaseModel):
    """The model that made the vectors, and in which precision it computed."""

    model_config = ConfigDict(frozen=True)

    id: str
    weights_hash: str
    precision: Precision = "f32"

    @classmethod
    def of(cls, embedder: Embedder) -> "EmbedderInfo":
        """Return what describes an embedder."""
        return cls(id=embedder.id, weights_hash=embedder.weights_hash, precision=embedder.precision)

    @property
    def vectors(self) -> str:
        """Name what determines the vectors: the weights, and the precision if it is not f32."""
        return self.weights_hash if self.precision == "f32" else f"{self.weights_hash}-{self.precision}"

    @model_serializer(mode="wrap")
    def _stated(self, stated: SerializerFunctionWrapHandler) -> dict[str, str]:
        """Leave f32 out: fingerprints and `index.json` of such indexes are as before there was a choice."""
        return {name: value for name, value in stated(self).items() if (name, value) != ("precision", "f32")}


def _schema_of(stated: dict[str, Any]) -> int:
    embedder = stated.get("embedder")
    return SCHEMAS[embedder is not None and embedder.precision != "f32"]


class Request(BaseModel):
    """What to build; a build is resumed only with the request that it was started with.

    Args:
        triples: SHA-256 of the file of triples that the graph is made of; None for entities by rule, or no graph.
    """

    model_config = ConfigDict(frozen=True)

    retriever: str
    corpus_hash: str
    embedder: EmbedderInfo | None = None
    schema_version: int = Field(default_factory=_schema_of)
    settings: RetrievalSettings = RetrievalSettings()
    triples: str | None = None

    def fingerprint(self) -> str:
        """Return a short string that changes with the corpus, engine, embedder and settings that affect the ranking."""
        settings = self.settings.model_dump(include=set(RELEVANT[self.retriever]))
        fixed = {"schema_version": SCHEMAS[0], "settings": settings}  # the precision is that of the embedder
        stated = set(Request.model_fields) - (set() if self.triples else {"triples"})  # others keep their fingerprints
        exact = self.model_dump(include=stated)
        return f"{self.retriever}-{sha256_text(canonical({**exact, **fixed}))[:16]}"


class FileInfo(BaseModel):
    """Size in bytes and digest (see `file_digest`) of one file of an index."""

    model_config = ConfigDict(strict=True)

    bytes: int
    digest: str


class UpdateInfo(BaseModel):
    """What the last update of an index changed; a build has none.

    Args:
        changes: Digest of what was asked for: the added files and the removed ids.
        corpus_before: `corpus_hash` before the update.
        kept: Passages that stayed.
        added: Passages that were added.
        removed: Passages that were removed.
        embedded: Passages that were embedded.
    """

    model_config = ConfigDict(strict=True)

    changes: str
    corpus_before: str
    kept: int
    added: int
    removed: int
    embedded: int


class IndexInfo(Request):
    """The content of `index.json`, which makes an index complete.

    `corpus_hash` is the SHA-256 of the corpus file; after an update, `CONTENT` and the hash of the stored passages
    (`corpora.retrievers.store.content_hash`).

    Args:
        passages: Number of passages.
        dense_kind: How vectors are searched; None if there are none.
        dimension: Of the vectors; None if there are none.
        versions: Versions of the libraries that built the index.
        files: Path inside the folder -> size and digest of the file.
        update: The last update; None if there was none.
    """

    passages: Annotated[int, Field(ge=1)]
    dense_kind: ExactKind | None = None
    dimension: int | None = None
    versions: dict[str, str] = {}
    files: dict[str, FileInfo] = {}
    update: UpdateInfo | None = None
