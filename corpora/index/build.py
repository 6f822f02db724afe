"""The steps of a build. Each leaves its result whole or absent, so a later run goes on where an earlier one stopped."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from corpora.retrievers.arrays import write_npy
from corpora.retrievers.bm25 import build_bm25
from corpora.retrievers.bm25s_reference import build_bm25s
from corpora.retrievers.dense import CODES_FILE, VECTORS_FILE, ExactKind, build_codes, passage_text
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.settings import RetrievalSettings
from corpora.retrievers.store import PassageStore
from signatures.common.errors import UserError

SHARD = 1024  # passages embedded between two files; what a kill can cost
_STEP = 256  # passages embedded between two moves of the progress bar

Advance = Callable[[int], object]


@contextlib.contextmanager
def progress_bar(what: str, total: int | None, shown: bool) -> Iterator[Advance]:
    """Show a bar on stderr with passages per second and the time left; yield what moves it by n passages."""
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TimeRemainingColumn
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.0f} passages/s")

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), Speed(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


def step_bm25(folder: Path, store: PassageStore, *, shown: bool) -> None:
    """Write `bm25/`."""
    with _whole_folder(folder / "bm25") as part, progress_bar("BM25", len(store), shown) as advance:
        if part is not None:
            build_bm25(part, store.records(), advance)


def step_bm25s(folder: Path, store: PassageStore, settings: RetrievalSettings, *, shown: bool) -> None:
    """Write `bm25s/`."""
    with _whole_folder(folder / "bm25s") as part, progress_bar("BM25 (bm25s)", len(store), shown) as advance:
        if part is not None:
            repeats = settings.title_repeats
            build_bm25s(part, store.records(), k1=settings.k1, b=settings.b, title_repeats=repeats, advance=advance)


@contextlib.contextmanager
def _whole_folder(folder: Path) -> Iterator[Path | None]:
    """Yield a path to build at, renamed to `folder` at the end; None where `folder` stands already."""
    if folder.is_dir():
        yield None
        return
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        yield part
        for lock in part.glob(".tantivy-*.lock"):
            lock.unlink()
        part.replace(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def step_dense(folder: Path, store: PassageStore, embedder: Embedder, kind: ExactKind, *, shown: bool) -> int:
    """Write `dense/`; return the number of numbers per vector."""
    dense = folder / "dense"
    dense.mkdir(exist_ok=True)
    if not (dense / VECTORS_FILE).is_file():
        _embed(dense, store, embedder, shown=shown)
        _assemble(dense, len(store))
    for shard in _shards(dense, len(store)):
        shard.unlink(missing_ok=True)
    if kind != "flat" and not (dense / CODES_FILE).is_file():
        with progress_bar("Compressing vectors", None, shown):
            build_codes(dense, kind)
    return int(np.load(dense / VECTORS_FILE, mmap_mode="r", allow_pickle=False).shape[1])


def _shards(dense: Path, count: int) -> list[Path]:
    return [dense / f"shard-{start:09d}.npy" for start in range(0, count, SHARD)]


def _embed(dense: Path, store: PassageStore, embedder: Embedder, *, shown: bool) -> None:
    with progress_bar("Embedding", len(store), shown) as advance:
        for number, shard in enumerate(_shards(dense, len(store))):
            start, stop = number * SHARD, min((number + 1) * SHARD, len(store))
            if shard.is_file():
                advance(stop - start)
                continue
            blocks = []
            for first in range(start, stop, _STEP):
                last = min(first + _STEP, stop)
                vectors = embedder([passage_text(record) for record in store.records(first, last)])
                _check(vectors, last - first, embedder)
                blocks.append(vectors)
                advance(last - first)
            write_npy(shard, (stop - start, blocks[0].shape[1]), blocks)


def _check(vectors: np.ndarray, expected: int, embedder: Embedder) -> None:
    if vectors.ndim != 2 or len(vectors) != expected or not np.isfinite(vectors).all():
        raise UserError(
            f"Embedder {embedder.id!r} gave an array of shape {vectors.shape} for {expected} texts, or numbers that "
            "are not finite: use another embedder."
        )


def _assemble(dense: Path, count: int) -> None:
    """Join the shards into one `.npy` file, one shard in memory at a time."""
    shards = _shards(dense, count)
    width = np.load(shards[0], mmap_mode="r", allow_pickle=False).shape[1]
    write_npy(dense / VECTORS_FILE, (count, width), (np.load(shard, allow_pickle=False) for shard in shards))
