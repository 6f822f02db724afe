"""Documents and their index are kept the same: what `verihop sync` and `verihop.sync` do."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.runs.specs import SyncSpec

if TYPE_CHECKING:
    from corpora.sync.sync import Synced


def sync(
    documents: Sequence[Path], out: Path, spec: SyncSpec, *, dry_run: bool = False, progress: bool = True
) -> "Synced":
    """Bring the index in `out` up to date with documents; see `corpora.sync.sync.sync_documents`."""
    from corpora.sync.sync import SyncSettings, sync_documents

    settings = SyncSettings(
        words=spec.words,
        headings_in_title=spec.headings_in_title,
        ocr=spec.ocr,
        reader=spec.reader,
        retriever=spec.retriever,
        embedder=spec.embedder,
        language=spec.language,
        processes=spec.at_a_time,
        memory=spec.memory,
        allow_removal=spec.allow_removal,
    )
    return sync_documents(documents, out, settings, dry_run=dry_run, progress=progress)
