"""Settings of retrieval; the defaults are the values that scored best in the benchmarks."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from corpora.languages import DEFAULT_LANGUAGE, check_stemmer
from signatures.common.errors import UserError

DenseKind = Literal["auto", "flat", "rabitq", "ivf_rabitq", "milvus", "pgvector", "lancedb"]


class RetrievalSettings(BaseModel):
    """Settings of all retrievers; each uses its own.

    The language is written only if it is not English, so that English indexes keep their fingerprints.

    Args:
        language: BM25: code of the language whose stemmer is used (`corpora.languages.STEMMERS`).
        title_boost: BM25: weight of the field with the title, relative to that with title and text; 0 disables it.
        dense_weight: Hybrid: share of the dense score in the fused score, in [0, 1].
        candidates: Hybrid: passages taken from each of the two rankings before they are fused.
        k1: bm25s only: saturation of term frequency.
        b: bm25s only: strength of length normalisation, in [0, 1].
        title_repeats: bm25s only: how often the title precedes the text.
        dense_kind: How vectors are searched; "auto" decides by the number of passages; the last three are databases of
            others (`databases.py`).
        refine_factor: Compressed dense kinds: candidates per requested passage that are rescored exactly.
        probed_share: "ivf_rabitq" only: share of the cells that a query searches, in (0, 1].
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    language: Annotated[str, AfterValidator(check_stemmer)] = DEFAULT_LANGUAGE
    title_boost: float = Field(0.5, ge=0, le=100)
    dense_weight: float = Field(0.7, ge=0, le=1)
    candidates: int = Field(100, ge=1, le=10_000)
    k1: float = Field(1.2, ge=0, le=100)
    b: float = Field(0.75, ge=0, le=1)
    title_repeats: int = Field(3, ge=1, le=20)
    dense_kind: DenseKind = "auto"
    refine_factor: int = Field(30, ge=1, le=1000)
    probed_share: float = Field(0.125, gt=0, le=1)

    @model_serializer(mode="wrap")
    def _written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = handler(self)
        if content.get("language") == DEFAULT_LANGUAGE:
            del content["language"]
        return content


_BM25 = ("language", "title_boost")
_DENSE = ("dense_kind", "refine_factor", "probed_share")
_HYBRID = (*_BM25, *_DENSE, "dense_weight", "candidates")
# The settings that change what a retriever returns; only these are part of its fingerprint.
RELEVANT: dict[str, tuple[str, ...]] = {
    "bm25": _BM25,
    "bm25s": ("language", "k1", "b", "title_repeats"),
    "dense": _DENSE,
    "hybrid": _HYBRID,
    "multihop": _HYBRID,
    "graph": _HYBRID,
    "graph-multihop": _HYBRID,
}


def make_settings(**values: object) -> RetrievalSettings:
    """Return settings with `values` instead of defaults.

    Raises:
        UserError: A value is out of range or a name is unknown; the message lists all of them.
    """
    try:
        return RetrievalSettings.model_validate(values)
    except ValidationError as error:
        faults = "; ".join(f"{item['loc'][0]}={item['input']!r}: {item['msg']}" for item in error.errors())
        raise UserError(f"Invalid retrieval settings: {faults}.") from error
