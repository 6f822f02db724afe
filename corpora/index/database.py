"""The vectors of an index in a database of others: which table, and how the search of an index is exchanged.

A table is named after the corpus and the embedder, so that it is never one of other vectors; the same corpus with the
same embedder shares it. Files of tables are in `.database` of the folder of the index, which stays while `.rebuild`
replaces the rest; so the old index opens until the new one is complete.
"""

import shutil
from pathlib import Path

import numpy as np

from corpora.index.info import IndexInfo, Request, canonical, has_vectors
from corpora.index.manifest import (
    DATABASE,
    FILES_FILE,
    INFO_FILE,
    REBUILD,
    exclusive,
    list_files,
    parse_info,
    read_info,
    write_info,
)
from corpora.index.progress import progress_bar
from corpora.index.replace import finish_replacing
from corpora.retrievers.arrays import read_npy
from corpora.retrievers.databases import DATABASES, VectorTable
from corpora.retrievers.dense import CODE_FILES, VECTORS_FILE, ExactKind, build_codes, choose_kind, faiss_library
from corpora.retrievers.settings import RetrievalSettings, make_settings
from signatures.common.errors import UserError
from signatures.common.files import sha256_text

_CODES = frozenset(name for names in CODE_FILES.values() for name in names)


def table_of(folder: Path, request: Request, kind: ExactKind | None, passages: int) -> VectorTable | None:
    """Return the table with the vectors of an index; None if its kind of search needs none.

    Args:
        folder: Of the index, or its `.rebuild`.
        request: What was built, or is.
        kind: How the vectors are searched.
        passages: Their number.
    """
    if kind not in DATABASES:
        return None
    root = folder.parent if folder.name == REBUILD else folder
    name = _name(request)
    cure = f"verihop index --out {root} --dense {kind}"
    return VectorTable(str(kind), name, root / DATABASE / name, count=passages, cure=cure)


def _name(request: Request) -> str:
    embedder = None if request.embedder is None else request.embedder.vectors
    return f"verihop_{sha256_text(canonical([request.corpus_hash, embedder]))[:32]}"


def remove_old_tables(folder: Path, request: Request) -> None:
    """Delete files of tables in the folder of an index, but those of the index that is there and of the new one."""
    root = folder.parent if folder.name == REBUILD else folder
    kept = {_name(request)}
    if (root / INFO_FILE).is_file():
        try:
            kept.add(_name(parse_info((root / INFO_FILE).read_bytes(), root / INFO_FILE)))
        except UserError:  # damaged, and about to be replaced
            return
    for path in (root / DATABASE).glob("verihop_*"):
        if path.name not in kept and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)


def search_with(folder: Path | str, dense_kind: str, *, progress: bool = False) -> IndexInfo:
    """Have the vectors of a complete index searched in another way, and fill the table if there is one.

    Nothing is embedded and no ranking changes, up to the errors of compressed kinds; the fingerprint does. Where it is
    killed, the index opens as it was, or as "flat" if codes of one kind were to replace those of another.

    Args:
        folder: Of the index.
        dense_kind: As in `RetrievalSettings`; that of the index fills its table again.
        progress: Show progress on stderr.

    Raises:
        UserError: No complete index, none with vectors, an unknown kind, or a database that is not reached.
    """
    folder = Path(folder)
    with exclusive(folder):
        finish_replacing(folder)
        info = read_info(folder)
        if not has_vectors(info.retriever):
            raise UserError(f"{folder} is a {info.retriever} index and has no vectors: rebuild it as a hybrid index.")
        settings = make_settings(**{**info.settings.model_dump(), "dense_kind": dense_kind})
        kind = choose_kind(info.passages, settings.dense_kind)
        if CODE_FILES[kind] and kind != info.dense_kind:  # files of the same names may be of another kind
            faiss_library()  # missed before anything is changed
            if CODE_FILES[info.dense_kind or "flat"]:
                _exchange(folder, info, make_settings(**{**settings.model_dump(), "dense_kind": "flat"}), "flat")
            _remove_codes(folder, "flat")
        store_vectors(folder, table_of(folder, info, kind, info.passages), kind, shown=progress)
        new = _exchange(folder, info, settings, kind)
        _remove_codes(folder, kind)
        remove_old_tables(folder, new)
        return new


def _exchange(folder: Path, info: IndexInfo, settings: RetrievalSettings, kind: ExactKind) -> IndexInfo:
    """Write an `index.json` that lists the codes of this kind only: others are deleted later, so a kill breaks none."""
    others = {f"dense/{name}" for name in _CODES - set(CODE_FILES[kind])}
    files = {name: file for name, file in list_files(folder).items() if name not in others}
    new = info.model_copy(update={"settings": settings, "dense_kind": kind, "files": files})
    (folder / FILES_FILE).unlink(missing_ok=True)
    write_info(folder, new)
    return new


def _remove_codes(folder: Path, kind: ExactKind) -> None:
    """Delete the codes that a kind of search does not need."""
    for name in _CODES - set(CODE_FILES[kind]):
        (folder / "dense" / name).unlink(missing_ok=True)


def store_vectors(folder: Path, table: VectorTable | None, kind: ExactKind, *, shown: bool) -> None:
    """Make what a kind of search needs in addition to the vectors in the folder of an index, unless it exists."""
    dense = folder / "dense"
    if table is not None:
        vectors = read_npy(dense / VECTORS_FILE, np.dtype(np.float32), columns=None)
        with progress_bar(f"Filling {kind}", len(vectors), shown) as advance:
            table.fill(vectors, advance)
    elif any(not (dense / name).is_file() for name in CODE_FILES[kind]):
        with progress_bar("Compressing vectors", None, shown):
            build_codes(dense, kind)
