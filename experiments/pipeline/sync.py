"""Documents and their index are kept the same: what `verihop sync` and `verihop.sync` do."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.runs.specs import SyncSpec
from signatures.common.specs import part_of

if TYPE_CHECKING:
    from corpora.sync.sync import Synced


def sync(
    documents: Sequence[Path], out: Path, spec: SyncSpec, *, dry_run: bool = False, progress: bool = True
) -> "Synced":
    """Bring the index in `out` up to date with documents; see `corpora.sync.sync.sync_documents`."""
    from corpora.sync.sync import SyncSettings, sync_documents

    settings = part_of(spec, SyncSettings, processes=spec.at_a_time)
    return sync_documents(documents, out, settings, dry_run=dry_run, progress=progress)
