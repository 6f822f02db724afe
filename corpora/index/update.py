"""Add passages to an index and remove some, without embedding again what stays.

The updated index is built beside the old one and then replaces it (`corpora.index.replace`), so that at every moment
the old or the new one opens. Stored passages and vectors that stay are copied; BM25 and compressed codes are built
again, because tantivy keeps deleted passages in its statistics, and codes depend on all vectors. So the updated index
ranks as one built from the resulting corpus does, with the same scores.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from corpora.index.build import build_parts, explained, note_long_passages
from corpora.index.cluster import Cluster
from corpora.index.embedding import Kept
from corpora.index.info import CONTENT, IndexInfo, Request, UpdateInfo, canonical, has_vectors
from corpora.index.manifest import INFO_FILE, clear, exclusive, read_info, refuse_foreign, remove_leftovers
from corpora.index.progress import progress_bar
from corpora.index.replace import complete_index, finish_replacing, update_folder
from corpora.passages import corpus_hash, read_passages
from corpora.retrievers.arrays import read_npy
from corpora.retrievers.dense import VECTORS_FILE
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.engine import Rows
from corpora.retrievers.store import OFFSETS_FILE, PassageStore, Stored, content_hash, stored, write_stored
from signatures.common.errors import UserError, one_line
from signatures.common.files import sha256_text


class Updated(NamedTuple):
    """What `update_index` returns.

    Args:
        info: The content of `index.json`; its `update` counts what was kept, added, removed and embedded.
        changed: False if the same update had been made already, so that nothing was done.
    """

    info: IndexInfo
    changed: bool


def update_index(
    folder: Path | str,
    *,
    add: Sequence[Path | str] = (),
    remove: Iterable[str] = (),
    embedder: Embedder | str | None = None,
    progress: bool = False,
    cluster: Cluster | None = None,
) -> Updated:
    """Change the corpus of the index in `folder`; retriever, embedder and settings stay.

    The resulting corpus has the passages that stay, in their order, and then the added ones, in the order of the files.
    To replace a passage, remove its id and add the new passage in one call. An interrupted call is finished by the
    same call. If the last update of the index was the same, nothing is done.

    `corpus_hash` becomes a hash of the resulting passages (id, title, text and other keys, in order), because the file
    of the resulting corpus is not known, and the index does not keep `sentences`. The fingerprint changes with it.

    Args:
        folder: A complete index.
        add: Files like `passages.jsonl`.
        remove: Ids of passages of the index; repeats count once.
        embedder: That of the index, or its name or folder; None opens it.
        progress: Show progress on stderr.
        cluster: Where passages are embedded; None for this process.

    Raises:
        UserError: Nothing to change, no complete index, an id to remove that is not there, an id to add that is there
            or repeated, no passage would be left, another embedder, an unusable file, or a full disk.
    """
    folder, files, ids = Path(folder), [Path(path) for path in add], list(dict.fromkeys(remove))
    if not files and not ids:
        raise UserError("Nothing to change: give files of passages to add, or ids to remove.")
    hashes = [corpus_hash(path) for path in files]
    changes = sha256_text(canonical({"add": hashes, "remove": sorted(ids)}))
    refuse_foreign(folder)
    if not (complete_index(folder) / INFO_FILE).is_file():
        read_info(folder)  # says what is there instead
    with explained(folder, "then make the same update again"), exclusive(folder):
        remove_leftovers(folder)
        finish_replacing(folder)
        info = read_info(folder)
        refuse_triples(folder, info)
        if info.update is not None and info.update.changes == changes:
            return Updated(info, changed=False)
        model = embedder_of(folder, info, embedder, embeds=bool(files))
        old = PassageStore.listed(folder, info.files)
        rows = _kept_rows(folder, old, ids, empty=not files)
        started = {"corpus_hash": sha256_text(canonical([info.corpus_hash, changes])), "settings": info.settings}
        request = Request(retriever=info.retriever, embedder=info.embedder, **started)
        new = update_folder(folder, request)
        try:
            if not (new / OFFSETS_FILE).is_file():
                with progress_bar("Passages", None, progress) as advance:
                    write_stored(new, chain(old.stored(rows), _added(folder, files, old, rows)), advance)
            store = PassageStore(new)
            note_long_passages(store, len(rows))
            places = np.append(rows, np.full(len(store) - len(rows), -1))
            build_updated(folder, new, request, places, info, changes, model, shown=progress, cluster=cluster)
        except UserError:
            if not (new / OFFSETS_FILE).is_file():  # the passages cannot be used, so nothing can be resumed
                clear(new)
            finish_replacing(folder)
            raise
        finish_replacing(folder)
        return Updated(read_info(folder), changed=True)


def build_updated(
    folder: Path,
    new: Path,
    request: Request,
    rows: Rows,
    old: IndexInfo,
    changes: str,
    embedder: Embedder,
    *,
    shown: bool,
    cluster: Cluster | None = None,
) -> None:
    """Build the parts of an updated index from its passages, which `new` has, and write `index.json`.

    Args:
        rows: For each passage the row of the old index with the same text; -1 for one that is embedded.
        changes: As in `UpdateInfo`; the others are those of `build_parts`.
    """
    kept = None
    if has_vectors(old.retriever):
        vectors = read_npy(folder / "dense" / VECTORS_FILE, np.dtype(np.float32), columns=None, rows=old.passages)
        kept = Kept(vectors, rows)
    stay = int((rows >= 0).sum())
    update = UpdateInfo(
        changes=changes,
        corpus_before=old.corpus_hash,
        kept=stay,
        added=len(rows) - stay,
        removed=old.passages - stay,
        embedded=0 if kept is None else len(rows) - stay,
    )
    request = request.model_copy(update={"corpus_hash": content_of(new)})
    build_parts(new, request, embedder, shown=shown, cluster=cluster, kept=kept, update=update)


def content_of(folder: Path, *, keys: bool = True) -> str:
    """Return the hash of the passages that are stored in a folder, as the `corpus_hash` of an updated index."""
    store = PassageStore(folder, keys=keys)
    return CONTENT + content_hash(store.stored(np.arange(len(store))))


def refuse_triples(folder: Path, info: IndexInfo) -> None:
    """Raise UserError if the graph of an index is made of triples, which new passages would lack."""
    if info.triples is not None:
        raise UserError(
            f"{folder} has a graph of triples and is not changed: extract those of the new corpus (`verihop index "
            "triples --resume` asks for new and changed passages alone), and build it again with overwrite."
        )


def embedder_of(folder: Path, info: IndexInfo, embedder: Embedder | str | None, *, embeds: bool) -> Embedder:
    """Return the embedder of the index; where nothing is embedded, any that is not loaded."""
    if info.embedder is None or (embedder is None and not embeds):
        return embedder if isinstance(embedder, Embedder) else Embedder()
    made = info.embedder.precision
    model = embedder if isinstance(embedder, Embedder) else Embedder(embedder or info.embedder.id, precision=made)
    if model.weights_hash != info.embedder.weights_hash:
        raise UserError(
            f"{folder} was built with the embedder {info.embedder.id!r}, and vectors of {model.id!r} cannot be "
            "compared with its vectors: name no other embedder, or rebuild the index with overwrite."
        )
    if model.precision != made:
        raise UserError(f"{folder} was embedded with precision {made}, not {model.precision}: use {made}.")
    return model


def _kept_rows(folder: Path, old: PassageStore, ids: Sequence[str], *, empty: bool) -> Rows:
    """Return the rows that stay, in order.

    Args:
        folder: Of the index, for errors.
        old: Its passages.
        ids: Those to remove.
        empty: Nothing will be added.
    """
    found = old.rows_of(ids)
    if missing := [name for name in ids if name not in found]:
        raise UserError(
            f"{folder} has no passage {one_line(repr(missing[0]), 80)} to remove ({len(missing)} of "
            f"{len(ids)} ids are missing): correct the ids; nothing was changed."
        )
    keep = np.ones(len(old), dtype=bool)
    keep[list(found.values())] = False
    if empty and not keep.any():
        raise UserError(
            f"All {len(old):,} passages of {folder} would be removed, and an index needs one: add passages in the same "
            "update, or delete the folder."
        )
    return np.flatnonzero(keep)


def _added(folder: Path, files: Sequence[Path], old: PassageStore, kept: Rows) -> Iterator[Stored]:
    """Yield the passages of the files.

    Raises:
        UserError: Two of them share an id, or one has an id that stays in the index.
    """
    place_of: dict[str, Path] = {}
    for path in files:
        for passage in read_passages(path):
            if passage.id in place_of:
                raise UserError(
                    f"Two added passages have the id {passage.id!r} ({place_of[passage.id]} and {path}): give each its "
                    "own id, or add one of the files."
                )
            place_of[passage.id] = path
            yield stored(passage)
    found = old.rows_of(place_of)
    stays = np.isin(np.array(list(found.values()), dtype=np.int64), kept)
    if there := {name for name, stay in zip(found, stays.tolist(), strict=True) if stay}:
        first = next(name for name in place_of if name in there)
        raise UserError(
            f"{folder} already has a passage {first!r} ({len(there)} of {len(place_of)} added ids exist): remove "
            f"these ids in the same update to replace the passages, or leave them out of {place_of[first]}."
        )
