"""Open the index in a folder, in milliseconds: files are memory-mapped."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from corpora.encoders.openvino_encoder import PRECISIONS
from corpora.index.database import table_of
from corpora.index.info import PARTS, EmbedderInfo, IndexInfo, has_vectors
from corpora.index.manifest import is_corpus, read_info
from corpora.index.replace import complete_index, state_of
from corpora.languages import DEFAULT_LANGUAGE
from corpora.retrievers.bm25 import Bm25Engine, damaged
from corpora.retrievers.bm25s_reference import Bm25sEngine
from corpora.retrievers.dense import DenseEngine
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.engine import Engine, IndexRetriever
from corpora.retrievers.entities import VERSION as ENTITIES_VERSION
from corpora.retrievers.graph import GRAPH, GRAPH_MULTIHOP, Graph, GraphEngine, GraphMultihopEngine
from corpora.retrievers.graph import VERSION as GRAPH_VERSION
from corpora.retrievers.hybrid import HybridEngine
from corpora.retrievers.multihop import VERSION, MultihopEngine, adapter
from corpora.retrievers.settings import make_settings
from corpora.retrievers.store import PassageStore
from corpora.retrievers.triples import Facts
from signatures.common.errors import UserError, unknown

_ATTEMPTS = 20  # to open an index that another process replaces at this moment


def open_index(
    folder: Path | str,
    corpus_path: Path | str | None = None,
    *,
    retriever: str | None = None,
    embedder: Embedder | None = None,
    precision: str = "f32",
    **settings: float,
) -> IndexRetriever:
    """Return the retriever of the index in `folder`; the embedder is loaded with the first query.

    An index that is replaced or updated meanwhile is opened again, so that all its files are of one state.

    Args:
        folder: Written by `build_index`.
        corpus_path: The corpus that the index must have been built from; None skips this check. If the index was
            updated, the file must contain its passages in their order; `sentences` are not compared.
        retriever: By default the one the index was built for; a hybrid index also opens as "bm25", "dense"
            and "multihop", one by "multihop" as "hybrid", one by "graph" as all of these and
            "graph-multihop".
        embedder: The same model as that of the index; None opens it.
        precision: Of the embedder that is opened: "f32", "bf16" or "int8"; the last two are faster, and part of the
            fingerprint because they change some scores.
        settings: Query-time settings that replace those of the index (`title_boost`, `dense_weight`, `candidates`,
            `refine_factor`, `probed_share`); they are part of the fingerprint.

    Raises:
        UserError: No complete index, changed files, another corpus, or another embedder than that of the index.
    """
    if precision not in PRECISIONS:  # also where no embedder is opened: it is a mistake that would stay hidden
        raise unknown("precision", precision, PRECISIONS)
    folder = Path(folder)
    for _ in range(_ATTEMPTS):
        before = state_of(folder)
        try:
            opened = _open(complete_index(folder), corpus_path, retriever, embedder, precision, settings)
        except (UserError, OSError):
            if state_of(folder) == before:
                raise
        else:
            if state_of(folder) == before:
                opened.folder = folder.absolute()
                return opened
    raise UserError(f"{folder} keeps being replaced while it is opened: try again later.")


def _open(
    folder: Path,
    corpus_path: Path | str | None,
    retriever: str | None,
    embedder: Embedder | None,
    precision: str,
    settings: Mapping[str, float],
) -> IndexRetriever:
    """Open the index in exactly this folder; see `open_index`."""
    info = read_info(folder)
    if corpus_path is not None and not is_corpus(corpus_path, info.corpus_hash):
        raise UserError(
            f"{folder} is a {info.retriever} index of another corpus than {corpus_path}: rebuild it with overwrite."
        )
    name = retriever or info.retriever
    if name not in PARTS:
        raise unknown("retriever", name, PARTS)
    if not PARTS[name] <= PARTS[info.retriever]:
        raise UserError(f"{folder} is a {info.retriever} index and cannot serve {name}: rebuild it as a {name} index.")
    if fixed := sorted(set(settings) & {"language", "k1", "b", "title_repeats", "dense_kind"}):
        raise UserError(f"{', '.join(fixed)} is fixed when an index is built: rebuild with another value.")
    info = _as_retriever(info, name, settings)
    model = _embedder_of(info.embedder, embedder, precision) if info.embedder else Embedder()
    store = PassageStore.listed(folder, info.files)
    if len(store) != info.passages:
        raise damaged(folder, f"it has {len(store)} passages instead of {info.passages}")
    return IndexRetriever(_ENGINES[name](folder, info, model), store, _fingerprint(info, model.precision))


def fingerprints(folder: Path) -> set[str]:
    """Return the fingerprints that the index in `folder` can have: one for each retriever it serves.

    Raises:
        UserError: No complete index, or changed files.
    """
    info = read_info(folder)
    return {
        _fingerprint(_as_retriever(info, name, {}), precision)
        for name in _served(info)
        for precision in (PRECISIONS if has_vectors(name) else PRECISIONS[:1])
    }


def served(folder: Path) -> list[str]:
    """Return the retrievers that the index in `folder` opens as; none if there is none that can be opened."""
    info = _info_of(folder)
    hops = info is not None and _has_hops(info)
    return [name for name in _served(info) if hops or MultihopEngine.name not in name] if info else []


def _served(info: IndexInfo) -> list[str]:
    return [name for name, parts in PARTS.items() if parts <= PARTS[info.retriever]]


def chosen_by_default(folder: Path) -> str | None:
    """Return "multihop" for a hybrid index in English that serves it; None for others, which stay what they are."""
    info = _info_of(folder)
    if info is None or info.retriever != HybridEngine.name or info.settings.language != DEFAULT_LANGUAGE:
        return None
    return MultihopEngine.name if _has_hops(info) else None


def _info_of(folder: Path) -> IndexInfo | None:
    try:
        return read_info(complete_index(folder))
    except (UserError, OSError):  # told when it is opened
        return None


def _has_hops(info: IndexInfo) -> bool:
    return info.embedder is not None and info.embedder.weights_hash == adapter().base


def ids_among(folder: Path, names: Iterable[str]) -> set[str]:
    """Return those of the names that are ids of passages of the index in `folder`; none if there is no index.

    Raises:
        UserError: Changed files.
    """
    chosen = complete_index(folder)
    if state_of(folder)[1] is None:
        return set()
    return set(PassageStore.listed(chosen, read_info(chosen).files).rows_of(list(names)))


def _as_retriever(info: IndexInfo, name: str, settings: Mapping[str, float]) -> IndexInfo:
    """Return what describes the index if it is opened as retriever `name` with some settings replaced."""
    embedder = info.embedder if has_vectors(name) else None
    triples = info.triples if "graph" in PARTS[name] else None
    changed = make_settings(**{**info.settings.model_dump(), **settings})
    return info.model_copy(update={"retriever": name, "embedder": embedder, "settings": changed, "triples": triples})


def _fingerprint(info: IndexInfo, precision: str = "f32") -> str:
    exact = info.fingerprint()
    if info.retriever in (MultihopEngine.name, GRAPH_MULTIHOP):
        exact = f"{exact}-{VERSION}-{adapter().hash[:12]}"
    if info.retriever in (GRAPH, GRAPH_MULTIHOP):
        exact = f"{exact}-{GRAPH_VERSION}-{ENTITIES_VERSION}"
    return exact if precision == "f32" or not has_vectors(info.retriever) else f"{exact}-{precision}"


def _embedder_of(info: EmbedderInfo, embedder: Embedder | None, precision: str) -> Embedder:
    model = embedder or Embedder(info.id, precision=precision)
    if model.weights_hash != info.weights_hash:
        raise UserError(
            f"The embedder {model.id!r} is not the one the index was built with ({info.id!r} with other weights): "
            "install that one, open a hybrid index with retriever bm25, or rebuild it."
        )
    return model


def _bm25(folder: Path, info: IndexInfo, embedder: Embedder) -> Bm25Engine:
    settings = info.settings
    return Bm25Engine(
        folder / "bm25", passages=info.passages, title_boost=settings.title_boost, language=settings.language
    )


def _bm25s(folder: Path, info: IndexInfo, embedder: Embedder) -> Bm25sEngine:
    return Bm25sEngine(folder / "bm25s", passages=info.passages, language=info.settings.language)


def _dense(folder: Path, info: IndexInfo, embedder: Embedder) -> DenseEngine:
    settings = info.settings
    table = table_of(folder, info, info.dense_kind, info.passages)
    if table is not None:
        table.check()
    engine = DenseEngine(
        folder / "dense",
        embedder,
        kind=info.dense_kind or "flat",
        refine_factor=settings.refine_factor,
        probed_share=settings.probed_share,
        table=table,
    )
    if len(engine) != info.passages:
        raise damaged(folder / "dense", f"it has {len(engine)} vectors instead of {info.passages}")
    return engine


def _hybrid(folder: Path, info: IndexInfo, embedder: Embedder) -> HybridEngine:
    parts = _bm25(folder, info, embedder), _dense(folder, info, embedder)
    return HybridEngine(*parts, weight=info.settings.dense_weight, candidates=info.settings.candidates)


def _graph(folder: Path, info: IndexInfo, embedder: Embedder) -> GraphEngine:
    graph = Graph(folder / "graph", info.passages)
    facts = Facts(folder / "graph", (info.passages, len(graph)), info.dimension) if info.triples else None
    if info.retriever == GRAPH_MULTIHOP:
        return GraphMultihopEngine(_multihop(folder, info, embedder), graph, facts)
    return GraphEngine(_hybrid(folder, info, embedder), graph, facts)


def _multihop(folder: Path, info: IndexInfo, embedder: Embedder) -> MultihopEngine:
    # Of the keys of passages nothing is asked here.
    return MultihopEngine(
        _hybrid(folder, info, embedder), PassageStore(folder, keys=False), embedder.adapted(adapter())
    )


_ENGINES: dict[str, Callable[[Path, IndexInfo, Embedder], Engine]] = {
    "bm25": _bm25,
    "bm25s": _bm25s,
    "dense": _dense,
    "hybrid": _hybrid,
    "multihop": _multihop,
    GRAPH: _graph,
    GRAPH_MULTIHOP: _graph,
}
